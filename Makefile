# Each target does everything on a fresh machine: `make demo`, `make test`, `make docs`.
PYTHON ?= python3.11
BIN := .venv/bin
# The oracles need PyTorch; this build is pinned so that tests mean the same thing everywhere.
TORCH := torch==2.13.0

.PHONY: demo test check docs bench scale few-labels format clean

demo: .venv/.installed
	$(BIN)/rkhs demo --out build/demo --force

# Two processes of one thread each are faster than one of two: most tests are small.
test: .venv/.tested
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

check: .venv/.checked
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/.documented
	rm -rf docs/generated
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/sphinx-build -W --keep-going docs build/docs
	@echo "Open build/docs/index.html"

bench: .venv/.tested
	$(BIN)/python -m benchmarks.products --out build/bench
	$(BIN)/python -m benchmarks.race --out build/bench
	$(BIN)/python -m benchmarks.estimators --out build/bench
	$(BIN)/python -m benchmarks.approximation --out build/bench

# A million points beside scikit-learn, which needs 16 GiB for them; a quarter of an hour
scale: .venv/.tested
	$(BIN)/python -m benchmarks.landmarks --out build/bench

# InvSVM beside SVC on real data with few labels; takes long
few-labels: .venv/.tested
	$(BIN)/python -m benchmarks.few_labels --out build/bench

format: .venv/.checked
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build

.venv/bin/pip:
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

.venv/.checked: .venv/.tested
	$(BIN)/pip install --quiet --editable '.[test,check]'
	touch $@
