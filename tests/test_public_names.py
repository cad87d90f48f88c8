"""The public names: those of modules are found, estimators have few parameters, and other modules are private."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import all_estimators

import rkhs
from rkhs.extend import BaseKernelEstimator

MOST_NAMES = 65  # what few need lives in its module
MOST_PARAMETERS = 15  # InvariantClassifierCV has those of a search and all priors, the shape among them
ROOT = Path(rkhs.__file__).parent
MODULES = {name for name, home in rkhs._HOME.items() if home == "rkhs"}
HOMES = (rkhs, rkhs.counts, rkhs.geometry, rkhs.preprocessing)
PUBLIC = [getattr(home, name) for home in HOMES for name in home.__all__]
ESTIMATORS = [one for one in PUBLIC if isinstance(one, type) and issubclass(one, BaseEstimator)]
KERNEL_ESTIMATORS = [one for one in ESTIMATORS if issubclass(one, BaseKernelEstimator)]


def test_few_names_at_the_top():
    assert len(rkhs.__all__) <= MOST_NAMES


@pytest.mark.every
@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_name_of_a_module_says_where_it_is(module):
    home = getattr(rkhs, module)
    for name in set(home.__all__) - set(rkhs.__all__):
        with pytest.raises(AttributeError, match=rf"no attribute '{name}': use rkhs\.\w+\.{name}$") as caught:
            getattr(rkhs, name)
        assert eval(str(caught.value).rpartition("use ")[2]) is getattr(home, name)
        assert not hasattr(rkhs, name)


def test_of_two_modules_with_a_name_the_one_for_users_of_it_is_said():
    for name, home in (("Kernel", "extend"), ("Functional", "extend"), ("NotApplicableError", "exceptions")):
        with pytest.raises(AttributeError, match=f"use rkhs.{home}.{name}$"):
            getattr(rkhs, name)


def test_a_parameter_that_never_was_has_no_remedy():
    with pytest.raises(TypeError, match="unexpected keyword argument 'bandwidth'"):
        rkhs.InvariantClassifier(bandwidth=1.0)


def test_all_estimators_are_looked_at():
    names = "FunctionalRegressor InvariantClassifier InvariantClassifierCV InvariantRegressor InvariantRegressorCV"
    names += " QuantileRegressor ThinPlateClassifier ThinPlateRegressor VirtualSampleSVC EdgeDirections"
    assert {one.__name__ for one in ESTIMATORS} >= set(names.split())


@pytest.mark.every
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: one.__name__)
def test_few_parameters(estimator):
    assert len(estimator._get_param_names()) <= MOST_PARAMETERS


ROOMS = {"estimators", "molecules", "shapes", "spaces", "surfaces"}  # names in `rkhs` and elsewhere


def test_modules_are_listed_or_private():
    for file in sorted(ROOT.rglob("*.py")):
        first, *inner = file.relative_to(ROOT).with_suffix("").parts
        assert first in {*MODULES, *ROOMS} or first.startswith("_"), file
        private = first.startswith("_") or inner == [] or inner[-1].startswith("_")
        assert private, f"{file} is in a public package, and no name of it is public: put an underscore in front"
    for name in MODULES:
        assert (ROOT / f"{name}.py").exists() or (ROOT / name / "__init__.py").exists()


# `import rkhs` is light: what takes long to import is imported when it is first asked for.

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

for first in ("kernels", "_core.gram.blocks", "losses", "solvers._base", "estimators", "streams"):
    forget()
    import_module(f"rkhs.{first}")
    import rkhs
    print(*rkhs.gram(rkhs.Gaussian(), rkhs.Evaluation([[0.0]])).shape)
forget()
from rkhs import InvariantClassifier, invariances, save
print(InvariantClassifier.__module__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == [*["1 1"] * 6, "rkhs.estimators._classifier", ""]


def test_every_name_is_there_and_known_to_dir():
    for name in rkhs.__all__:
        assert getattr(rkhs, name) is not None
    assert set(rkhs.__all__) <= set(dir(rkhs))


@pytest.mark.slow
def test_saving_imports_neither_torch_nor_dask_and_trusts_the_same_types():
    """skops walks over all packages of scikit-learn, those for other array libraries included, unless they are shut."""
    code = (
        "import sys; from rkhs.export._model_files import _UNASKED, _import_skops; _import_skops();"
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


@pytest.mark.every
@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: rkhs.InvariantRegressor(gamma=0.5), "scale = 1 / sqrt(2 gamma), here scale=1. Without scale"),
        (lambda: rkhs.InvariantClassifierCV().set_params(gamma=2), "here scales=[0.5]"),
        (lambda: rkhs.InvariantClassifierCV(gamma="auto"), "1 / sqrt(2 gamma). Without scales the"),
        (lambda: rkhs.InvariantRegressorCV(increasing=[0]), "use shape={column: 'increasing'}, with columns by name"),
        (lambda: rkhs.InvariantRegressor(monotonic_cst=[1]), "use shape={column: 'increasing'}"),
        (lambda: rkhs.InvariantClassifier(decreasing=["age"]), "use shape={column: 'decreasing'}"),
    ],
)
def test_names_of_others_are_translated(call, sentence):
    with pytest.raises(TypeError, match=re.escape(sentence)):
        call()


@pytest.mark.every
@pytest.mark.parametrize("Estimator", [one for one in KERNEL_ESTIMATORS if "kernel" in one._get_param_names()])
def test_kernels_of_scikit_learn_are_translated(Estimator):
    if Estimator is rkhs.geometry.ForceFieldRegressor or Estimator is rkhs.FunctionalRegressor:
        return  # they take geometries and functionals
    X = np.arange(8.0).reshape(4, 2)
    with pytest.raises(ValueError, match=re.escape('is kernel="gaussian" with scale = 1 / sqrt(2 gamma)')):
        Estimator(kernel="rbf").fit(X, [0, 1, 2, 3] if "Regressor" in Estimator.__name__ else [0, 1, 0, 1])


def test_the_translation_of_gamma():
    X = np.random.default_rng(0).standard_normal((9, 2))
    np.testing.assert_allclose(rkhs.Gaussian(1 / np.sqrt(2 * 0.3))(X), rbf_kernel(X, gamma=0.3), rtol=1e-12)
