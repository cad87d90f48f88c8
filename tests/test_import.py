"""`import rkhs` is light: what takes long to import is imported when it is first asked for."""

import subprocess
import sys

import pytest
from sklearn.utils import all_estimators

import rkhs

HEAVY = (
    "dask",
    "matplotlib",
    "pandas",
    "rich",
    "skops",
    "sklearn",
    "torch",
    "typer",
    "scipy.optimize",
    "scipy.spatial",
)


@pytest.mark.parametrize(
    ("use", "heavy"), [("rkhs", ("numpy", "scipy", *HEAVY)), ("rkhs.Problem, rkhs.gram, rkhs.streams.blocks", HEAVY)]
)
def test_nothing_heavy_is_imported(use, heavy):
    code = f"import rkhs, sys; {use}; print(*sorted(set(sys.modules) & set({heavy!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.slow
def test_whatever_is_imported_first():
    """Nothing depends on an order, and `rkhs.gram` is the function, not the package of that name."""
    code = """
import sys
from importlib import import_module

def forget():
    for name in [name for name in sys.modules if name.partition(".")[0] == "rkhs"]:
        del sys.modules[name]

for first in ("kernels", "_gram.blocks", "losses", "solvers._base", "_estimators", "streams"):
    forget()
    import_module(f"rkhs.{first}")
    import rkhs
    print(*rkhs.gram(rkhs.Gaussian(), rkhs.Evaluation([[0.0]])).shape)
forget()
from rkhs import InvariantClassifier, invariances, save
print(InvariantClassifier.__module__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == [*["1 1"] * 6, "rkhs._estimators.classifier", ""]


def test_every_name_is_there_and_known_to_dir():
    for name in rkhs.__all__:
        assert getattr(rkhs, name) is not None
    assert set(rkhs.__all__) <= set(dir(rkhs))


@pytest.mark.slow
def test_saving_imports_neither_torch_nor_dask_and_trusts_the_same_types():
    """skops walks over all packages of scikit-learn, those for other array libraries included, unless they are shut."""
    code = (
        "import sys; from rkhs._io import _UNASKED, _import_skops; _import_skops();"
        "print(*{'torch', 'dask', *_UNASKED} & set(sys.modules));"  # none of them, and no door is left shut
        "from skops.io._trusted_types import SKLEARN_ESTIMATOR_TYPE_NAMES as found; print(*found)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported, found = done.stdout.splitlines()
    ours = {f"{e.__module__}.{e.__name__}" for _, e in all_estimators() if e.__module__.startswith("sklearn.")}
    enabled = {name for name in ours if "Halving" in name or name.endswith("IterativeImputer")}  # by who asks for them
    assert imported == ""
    assert set(found.split()) == ours - enabled


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'rkhs' has no attribute 'InvariantClassifer'"):
        _ = rkhs.InvariantClassifer
    with pytest.raises(ImportError, match="cannot import name 'Gausian'"):
        exec("from rkhs import Gausian")


def test_names_that_have_moved_say_where():
    for name, home in (("CurlFree", "kernels"), ("Sum", "kernels"), ("Newton", "solvers")):
        with pytest.raises(AttributeError, match=f"use rkhs.{home}.{name}"):
            getattr(rkhs, name)
