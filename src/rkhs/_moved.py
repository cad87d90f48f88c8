"""What the names of earlier versions are called now, for errors that name the remedy."""

from collections.abc import Callable, Collection, Mapping
from math import inf, sqrt
from numbers import Real
from typing import Any, NoReturn

SINCE = "0.3.0"

# Attributes of `rkhs` that have other names now; names that only moved to a module are found there
NAMES = {
    "LaplacianSVC": 'InvariantClassifier(loss="hinge", invariance=rkhs.invariances.Graph(), C=100, nu=1000)',
    "Observed": "Measurement",
    "learn": "Tunable",
    "surface": "geometry.reconstruct_surface",
    "integration_error": "geometry.quadrature_error",
    "enough_nodes": "geometry.quadrature_nodes",
    "class_proportions": "ClassPrior.estimate",
    "LeftOut": "results.LeaveOneOut",
    "Symmetrised": "kernels.Symmetrized",
    "errors": "exceptions",
    "parquet": "streams.read_parquet",
}

# Attributes of `rkhs.invariances`, `rkhs.kernels` and `rkhs.streams`
INVARIANCES = {
    "Jitter": "InputNoise",
    "Sampled": "RandomSubset",
    "RandomMotion": "RandomImageTransform",
    "Moved": "TangentStep",
    "copies": "transformed_copies",
}
KERNELS = {"Pullback": "LinearTransform", "Symmetrised": "Symmetrized", "learn": "Tunable"}
STREAMS = {"parquet": "read_parquet"}

# Attributes of `rkhs.extend`
EXTEND = {"DenseSpace": "FiniteSpace"}

# Attributes of `rkhs.solvers`
SOLVERS = {"Absorption": "SchurComplement", "Descent": "NonlinearCG", "Growth": "GreedyCoordinate", "Splitting": "ADMM"}

# Classes in model files that have other names now
CLASSES = {
    "FeatureBlocks": "FeatureSums",
    "RepresenterProblem": "RepresenterTerms",
    "SubspaceCovariance": "FeatureCovariance",
}

# Parameters of estimators
PARAMETERS = {
    "metric": 'use scale="agop" or "agop-diagonal"; of the CV estimators scales="auto" or "median"',
    "epsilon": "use a loss with its width, such as loss=rkhs.Huber(0.5)",
    "epsilons": "use a list of losses, such as loss=[rkhs.Huber(0.1), rkhs.Huber(1.0)]",
    "quantile": "use loss=rkhs.Quantile(level)",
    "invariance_loss": 'use invariance=rkhs.Invariance("gradient", loss=..)',
    "gradient_loss": "use rkhs.FunctionalRegressor with rkhs.Measurement(rkhs.Gradient(X), slopes, loss=..)",
    "shape_box": "use shape=rkhs.Shape(constraints, box=..)",
    "shape_time_limit": "use shape=rkhs.Shape(constraints, time_limit=..)",
    "class_prior": "use class_weight=rkhs.ClassPrior(shares)",
    "device": "use solver=rkhs.SolverOptions(device=..)",
    "precision": "use solver=rkhs.SolverOptions(precision=..)",
    "random_state": "leave it out, because results do not depend on a seed; for other folds use cv=StratifiedKFold(..)",
    "cv_tol": "use tol: models of the grid are solved to 100 times it",
    "fit_intercept": "use GridSearchCV with the plain estimator: the CV estimators always have an intercept",
}

# Kernels by the names of scikit-learn
FOREIGN_KERNELS = {
    "rbf": 'exp(-gamma |x - y|^2) is kernel="gaussian" with scale = 1 / sqrt(2 gamma)',
    "poly": "(gamma <x, y> + coef0)^degree is kernel=rkhs.kernels.Polynomial(degree, coef0 / gamma) times gamma^degree",
}

SHAPES = ("increasing", "decreasing", "monotonic_cst")  # parameters of the command and of scikit-learn


def check_parameters(given: Mapping[str, Any], known: Collection[str], owner: str) -> None:
    """Raise a TypeError that names the remedy for parameters of earlier versions, and of scikit-learn."""
    for name, value in given.items():
        if name == "gamma" and name not in known and {"scale", "scales"} & set(known):
            raise TypeError(f"{owner} has no parameter 'gamma': {_without_gamma(value, 'scales' in known)}")
        if name in SHAPES and name not in known and "shape" in known:
            word = "decreasing" if name == "decreasing" else "increasing"
            raise TypeError(
                f"{owner} has no parameter {name!r}: use shape={{column: {word!r}}}, with columns by name or number."
            )
        if name in PARAMETERS and name not in known:
            raise TypeError(f"{owner} has no parameter {name!r} since rkhs {SINCE}: {PARAMETERS[name]}.")


def _without_gamma(value: Any, several: bool) -> str:
    """Return what to write instead of the parameter gamma of scikit-learn."""
    which, here = "scales" if several else "scale", ""
    if isinstance(value, Real) and 0 < float(value) < inf:
        scale = f"{1 / sqrt(2 * float(value)):.6g}"
        here = f", here {which}=[{scale}]" if several else f", here {which}={scale}"
    return f"scikit-learn's kernel {FOREIGN_KERNELS['rbf']}{here}. Without {which} the length scale is chosen."


def missing(module: str, name: str, moved: Mapping[str, str]) -> AttributeError:
    """Return the error for an attribute that a module does not have, with its new name if it had one."""
    hint = f" since rkhs {SINCE}: use {module}.{moved[name]}" if name in moved else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


def refuse_old_names(module: str, moved: Mapping[str, str]) -> Callable[[str], NoReturn]:
    """Return the `__getattr__` of a module that raises the error of `missing`."""

    def refuse(name: str) -> NoReturn:
        raise missing(module, name, moved)

    return refuse
