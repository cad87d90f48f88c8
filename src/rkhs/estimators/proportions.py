"""In which proportions classes come among unlabelled rows, from a classifier that learnt from labels in others.

If rows of a class look alike everywhere and only the proportions differ, the likelihood of the rows is largest for the
p that is a fixed point of

    P(c | x)  in proportion to  (p_c / q_c) P_trained(c | x),        p_c = mean over the rows of P(c | x),

q being the proportions of the labels (Saerens, Latinne and Decaestecker, Adjusting the outputs of a classifier to new a
priori probabilities, 2002: expectation maximisation).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rkhs._backend.arrays import to_numpy

STEPS, STILL = 10_000, 1e-9


def class_proportions(model: Any, X: Any, y: Any) -> dict[Any, float]:
    """The proportions of the classes among the rows of X, for `class_prior`.

    Parameters
    ----------
    model : a fitted classifier with `predict_proba`, of this library or another
    X : (t, n) rows whose proportions are asked for, labelled or not
    y : the labels that the model learnt from; what is none of its classes counts as no label

    Returns
    -------
    The share of each class.  Estimates are as good as the probabilities: with few labels expect some hundredths.

    Examples
    --------
    Labels came as often from each class, and rows do not:

    >>> import numpy as np, rkhs
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-1.5, 1, (900, 1)), rng.normal(1.5, 1, (100, 1))])
    >>> y = np.full(1000, -1)
    >>> y[:40], y[900:940] = 0, 1
    >>> model = rkhs.InvariantClassifier(loss="logistic", invariance=None, scale=2.0).fit(X, y)
    >>> shares = rkhs.class_proportions(model, X, y)
    >>> 0.85 < shares[0] < 0.95
    True
    >>> model = model.set_params(class_prior=shares).fit(X, y)
    """
    if not hasattr(model, "predict_proba"):
        raise TypeError(f"Proportions are estimated from probabilities, and {model!r} has no predict_proba.")
    classes, labels = np.asarray(model.classes_), to_numpy(y).ravel()
    trained = np.array([np.count_nonzero(labels == c) for c in classes], dtype=float)
    if np.any(trained == 0):
        raise ValueError(
            f"y has no label of {classes[trained == 0].tolist()}, which {type(model).__name__} learnt from."
        )
    chances = np.asarray(to_numpy(model.predict_proba(X)), dtype=float)
    if len(chances) == 0:
        raise ValueError("X has no rows: proportions of nothing are not known.")
    trained /= trained.sum()
    shares = trained
    for _ in range(STEPS):
        own = chances * (shares / trained)
        new = np.mean(own / np.maximum(own.sum(axis=1, keepdims=True), np.finfo(float).tiny), axis=0)
        moved, shares = float(np.abs(new - shares).max()), new
        if moved <= STILL:
            break
    return dict(zip(classes.tolist(), shares.tolist(), strict=True))
