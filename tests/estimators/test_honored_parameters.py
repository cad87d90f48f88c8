"""Every parameter is honored or refused: another value than the default changes the result, or an error says why not.

The law is stated for each estimator beside each of some other settings, because a parameter that has an effect alone
may have none beside others.  `ELSEWHERE` has parameters of another purpose, and where their effect is tested.
"""

from functools import cache
from itertools import product

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold

import rkhs
from estimators.test_equal_problems import MODELS, NEW, ROWS, VALUES, X

SLOPES = np.column_stack([np.ones(ROWS), 2 * np.cos(2 * X[:, 1]), np.zeros(ROWS)]) + 0.1
MISSING = np.arange(ROWS) % 3 == 0

FEW, SHAPE = rkhs.Landmarks(2), {0: "increasing"}
# What each parameter is set to, if it is not that anyway.
VALUES_OF = {
    "kernel": ["laplace", "linear", rkhs.Gaussian(3.0)],
    "scale": [0.3, "median", "evidence", "loo", "cv", "agop", [0.3, 0.4, 0.5]],
    "scales": [[0.3], "median", [0.3, 0.31]],
    "loss": ["hinge", "huber", "logistic", ["squared", "absolute"]],
    "C": [0.03],
    "Cs": [[0.02], 2],
    "nu": [1e3],
    "nus": [[0.5], 3],
    "invariance": ["graph", "gradient"],
    "shape": [SHAPE],
    "fit_intercept": [False],
    "unlabeled": [None],
    "approximation": [FEW, rkhs.FourierFeatures(10)],
    "cv": [3, KFold(4, shuffle=True, random_state=1)],
    "solver": [rkhs.solvers.NonlinearCG(), rkhs.SolverOptions(precision="tf32")],
    "class_weight": [{0: 0.01}, rkhs.ClassPrior({0: 0.001, 1: 0.999})],
    "coordinates": ["lonlat"],
    "gradient_weight": [2.0],
    "criterion": ["loo"],
    "quantiles": [[0.3, 0.6]],
    "transforms": [[lambda rows: rows + 0.1]],
    "features": [PCA(2)],
    "classes": [[2, 1, 0]],
    "pairs_per_row": [2],
    "null_space": ["dropped", "kept"],
    "power": [3.0],
}
ELSEWHERE = {  # parameters with another purpose than the result
    "tol": "an upper bound of the gap: tests/test_certificates.py",
    "verbose": "tests/core/finite/test_progress.py",
    "time_limit": "tests/test_time_limits.py",
    "random_state": "the starts of a search, which may find the same maximum",
}
NAMED = {  # what the default is there
    "evidence": ("slopes", rkhs.QuantileRegressor),
    "gradient": ("unlabeled",),
    "dropped": (rkhs.geometry.ThinPlateClassifier,),
    "kept": (rkhs.geometry.ThinPlateRegressor,),
}
LEARNERS = {type(model): y for model, y in MODELS.values()} | {rkhs.FunctionalRegressor: VALUES}
BESIDE = {
    "defaults": {},
    "linear": {"kernel": "linear"},
    "kernel": {"kernel": rkhs.Gaussian(3.0)},
    "precomputed": {"kernel": "precomputed"},
    "rough": {"kernel": "laplace"},
    "thin plate": {"kernel": rkhs.kernels.ThinPlate(2)},
    "one scale": {"scale": 0.5},
    "one of scales": {"scales": 0.5},
    "learned scales": {"scale": "evidence"},
    "no prior": {"invariance": None},
    "gradient": {"invariance": "gradient"},
    "graph": {"invariance": "graph"},
    "landmarks": {"approximation": FEW},
    "shape": {"shape": SHAPE},
    "C": {"C": 3.0},
    "Cs": {"Cs": [3.0]},
}


def cases():
    """Yield estimators, what is set beside, kinds of data, the parameter that changes, and the index of its value."""
    for cls in LEARNERS:
        defaults = cls().get_params(deep=False)
        for beside, options in BESIDE.items():
            slopes = cls in (rkhs.InvariantRegressor, rkhs.InvariantRegressorCV)
            kinds = ["labeled"] + ["unlabeled"] * ("unlabeled" in defaults) + ["slopes"] * slopes
            for kind, name in product(kinds if set(options) <= set(defaults) else [], defaults):
                if name in ELSEWHERE or name in options or (name == "unlabeled" and kind != "unlabeled"):
                    continue
                for k, value in enumerate(map(repr, VALUES_OF[name])):
                    if value != repr(defaults[name]) and not {kind, cls} & set(NAMED.get(value[1:-1], ())):
                        yield pytest.param(cls, beside, kind, name, k, id=f"{cls.__name__}-{beside}-{kind}-{name}-{k}")


def learned(cls, kind, options):
    """Return a model that has learned, and the rows at which it is compared."""
    y, options = LEARNERS[cls], dict(options)
    if kind == "unlabeled":
        mark = options.setdefault("unlabeled", -1 if is_classifier(cls()) else np.nan)
        y = np.where(MISSING, -1 if mark is None else mark, y)
    matrices = [np.exp(-((A[:, None] - X) ** 2).sum(axis=2)) for A in (X, NEW)]
    rows, new = matrices if options.get("kernel") == "precomputed" else (X, NEW)
    if cls is rkhs.FunctionalRegressor:
        return cls(**options).fit(rkhs.Measurement(rkhs.Evaluation(rows), y)), new
    return cls(**options).fit(rows, y, **({"gradients": SLOPES} if kind == "slopes" else {})), new


@cache
def outcome(cls, beside, kind, name=None, k=0):
    """Return what a model predicts, and what it was chosen among and found by, or the error."""
    try:
        model, new = learned(cls, kind, BESIDE[beside] | ({} if name is None else {name: VALUES_OF[name][k]}))
        values = model.decision_function(new) if is_classifier(model) else model.predict(new)
    except (ValueError, TypeError) as error:  # and those of the package are of these kinds, too
        return error
    search, proved = getattr(model, "cv_results_", {}), hasattr(model, "shape_certificate_")
    scores = [repr(search.get(key)) for key in ("params", "mean_test_score")]
    return np.nan_to_num(np.asarray(values, dtype=float)), (*scores, proved, model.solution_.solver)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.every("name")
@pytest.mark.parametrize(("cls", "beside", "kind", "name", "k"), list(cases()))
def test_a_parameter_changes_the_result_or_is_refused(cls, beside, kind, name, k):
    before, after = outcome(cls, beside, kind), outcome(cls, beside, kind, name, k)
    if not isinstance(before, Exception) and not isinstance(after, Exception):
        same = before[0].shape == after[0].shape and np.allclose(before[0], after[0], 0, 1e-9 * np.ptp(before[0]))
        assert not (same and before[1] == after[1]), f"{name}={VALUES_OF[name][k]!r} changes nothing"
