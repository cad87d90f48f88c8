"""The estimators over which laws are stated, by name; tests clone them and may set parameters."""

from sklearn.base import is_classifier

import rkhs

GRID = {"Cs": [1, 10]}
EXACT = {
    "InvariantClassifier": rkhs.InvariantClassifier(loss="squared_hinge"),
    "InvariantClassifier, graph": rkhs.InvariantClassifier(
        loss="squared_hinge", invariance="graph", C=100.0, nu=1000.0
    ),
    "InvariantClassifierCV": rkhs.InvariantClassifierCV(**GRID),
    "VirtualSampleSVC": rkhs.VirtualSampleSVC([lambda X: X + 0.1], loss="squared_hinge"),
    "ThinPlateClassifier": rkhs.geometry.ThinPlateClassifier(),
    "InvariantRegressor": rkhs.InvariantRegressor(),
    "InvariantRegressorCV": rkhs.InvariantRegressorCV(**GRID),
    "ThinPlateRegressor": rkhs.geometry.ThinPlateRegressor(),
}
SPANNED = {
    "InvariantClassifier, landmarks": rkhs.InvariantClassifier(
        loss="squared", scale=1.0, approximation=rkhs.Landmarks(8)
    ),
    "InvariantRegressor, landmarks": rkhs.InvariantRegressor(scale=1.0, approximation=rkhs.Landmarks(8)),
    "InvariantClassifierCV, landmarks": rkhs.InvariantClassifierCV(
        loss="squared", approximation=rkhs.Landmarks(8), **GRID
    ),
    "InvariantRegressorCV, landmarks": rkhs.InvariantRegressorCV(approximation=rkhs.Landmarks(8), **GRID),
}
MODELS = EXACT | SPANNED
QUANTILES = {"QuantileRegressor": rkhs.QuantileRegressor([0.3, 0.7], C=1.0)}
ORDERED = {  # learn from counts, or from the order of targets
    "KernelPoissonRegressor": rkhs.counts.KernelPoissonRegressor("gaussian", scale="median", C=1.0),
    "PreferenceRegressor": rkhs.counts.PreferenceRegressor(),
    "SurvivalRanker": rkhs.counts.SurvivalRanker(),
    "OrdinalClassifier": rkhs.counts.OrdinalClassifier(),
}


def values(model, rows):
    """What a fitted model says of rows, before it is rounded to classes."""
    return model.decision_function(rows) if is_classifier(model) else model.predict(rows)
