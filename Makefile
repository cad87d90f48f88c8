# Each target does everything on a fresh computer: `make demo`, `make test`, `make docs`.
# Any Python from 3.11 on will do; `make PYTHON=python3.12 test` names one.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
# The oracles need PyTorch; this build is pinned so that tests mean the same thing everywhere.
TORCH := torch==2.13.0

.PHONY: demo test test-all check docs site-test dist bench scale few-labels format clean

demo: .venv/.installed
	$(BIN)/rkhs demo --out build/demo --force

# Two processes of one thread each are faster than one of two: most tests are small.  Each starts with half of the files,
# whose fixtures it computes once, and takes over tests of the other when it is done.  Some tests start processes, which
# should not compile the package again.
PYTEST := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

# Two cases of each law, all entries of the registries
test: .venv/.tested
	$(PYTEST)

# All cases, all pages, and what takes long
test-all: .venv/.tested
	$(PYTEST) -m ""

check: .venv/.checked
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/structure.py --check

docs: .venv/.documented
	rm -rf docs/generated build/docs
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/sphinx-build -W --keep-going docs build/docs
	@echo "Open build/docs/index.html"

# Every page of the built site in Chromium, at 1,280 and 390 px
site-test: .venv/.browsed
	$(BIN)/python -m pytest tests/docs/test_site.py -rs

# Wheel and sdist; the wheel in an empty environment, where README is run, and with the oldest dependencies; conda package
dist: .venv/.built
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python tools/check_dist.py dist

bench: .venv/.tested
	$(BIN)/python -m benchmarks.products --out build/bench
	$(BIN)/python -m benchmarks.race --out build/bench
	$(BIN)/python -m benchmarks.estimators --out build/bench
	$(BIN)/python -m benchmarks.approximation --out build/bench

# A million points, compared with scikit-learn, which needs 16 GiB for them; a quarter of an hour
scale: .venv/.tested
	$(BIN)/python -m benchmarks.landmarks --out build/bench

# InvSVM and SVC on real data with few labels; takes long
few-labels: .venv/.tested
	$(BIN)/python -m benchmarks.few_labels --out build/bench

format: .venv/.checked
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build

.venv/bin/pip:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer was found: make PYTHON=/path/to/python .."; exit 1; }
	$(PYTHON) -m venv .venv

.venv/.installed: pyproject.toml | .venv/bin/pip
	$(BIN)/pip install --quiet --editable '.[cli]'
	touch $@

.venv/.tested: pyproject.toml | .venv/bin/pip
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet --editable '.[test]'
	touch $@

.venv/.documented: pyproject.toml | .venv/bin/pip
	$(BIN)/pip install --quiet --editable '.[docs]'
	touch $@

.venv/.browsed: pyproject.toml | .venv/bin/pip
	$(BIN)/pip install --quiet --editable '.[site]'
	touch $@

.venv/.built: pyproject.toml | .venv/bin/pip
	$(BIN)/pip install --quiet --editable '.[dist]'
	touch $@

.venv/.checked: .venv/.tested
	$(BIN)/pip install --quiet --editable '.[test,check]'
	touch $@
