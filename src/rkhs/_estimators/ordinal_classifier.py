"""Ordered classes: one function and a threshold between neighboring classes.

A point has one more coordinate for each threshold, which the kernel ignores and which multiplies the threshold: the
functional f(x) - b_k is the value of F(x, e) = f(x) + sum_k e_k b_k at e = -e_k, and the thresholds are an unpenalized
basis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_expit
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from rkhs._backend.arrays import Array, Matrix, Vector, double, to_numpy
from rkhs._estimators.base import as_input_type, dense, transactional
from rkhs._estimators.comparisons import LOSSES
from rkhs._estimators.data import Sample, category_order, check_classes, class_codes
from rkhs._estimators.observations import ObservationEstimator, ObservationSet
from rkhs._estimators.options import as_loss
from rkhs._estimators.quantile_regressor import Offsets
from rkhs._finite.function import Function
from rkhs.functionals import Evaluation
from rkhs.kernels import LinearTransform
from rkhs.losses import Logistic

HALVINGS = 100  # of an interval that contains all boundaries, so that neighboring floats are left


def _has_probabilities(model: OrdinalClassifier) -> bool:
    if model.loss != "logistic" and not isinstance(model.loss, Logistic):
        raise AttributeError(f'predict_proba needs loss="logistic", got {model.loss!r}.')
    return True


@dataclass(eq=False, repr=False, kw_only=True)
class OrdinalClassifier(ClassifierMixin, ObservationEstimator):
    """Classifier for ordered classes, such as grades: one function and a threshold between neighboring classes.

    It minimizes

        1/2 |f|^2 + C sum_i sum_k loss(f(x_i) - b_k; +1 if y_i is above the k-th class, else -1)

    over f and unpenalized thresholds b_1 <= b_2 <= .. (all-threshold loss, Rennie and Srebro 2005).  The predicted
    class is the most probable one with the logistic loss, otherwise the one whose thresholds enclose f(x).  A class
    that is two thresholds away costs two losses, so the classifier aims at a small absolute difference of classes.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        As in `InvariantClassifier`.
    scale : float, array-like of shape (n,) or str, default="median"
        The length scale of a kernel given by name: a number, or one per feature; "median", the median distance of the
        training points; "cv", the best of some multiples of the median, of raw or standardized features, by the loss
        of held-out points in five folds.
    loss : str or Loss, default="logistic"
        "logistic", "hinge", "squared_hinge", or a loss object of classification.
    C : float or "cv", default=1.0
        Weight of the losses of each point; "cv" chooses a power of ten between 0.001 and 1000 by the loss of held-out
        points in five folds.
    approximation : Landmarks or None, default=None
        With `rkhs.Landmarks(p)` f is a combination of the kernel at p points.  Up to 1,000 points all are used by
        default, which is exact, and 1,000 of more, with a warning.
    tol : float, default=1e-4
        The relative duality gap to reach.
    verbose : bool, default=False
        Whether to print progress to standard error.

    Attributes
    ----------
    function_ : Function
        The learned function, without the thresholds.
    thresholds_ : ndarray of shape (classes - 1,)
        The thresholds, in increasing order.
    classes_ : ndarray
        The classes that y has, in the order of its categories or of `numpy.unique`.
    C_ : float
        C as given, or as chosen.
    solution_, problem_ : Solution, Problem
        The solution with its certificate, and the problem, in which a point has one more coordinate for each threshold.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (200, 2))
    >>> y = np.digitize(np.sum(X**2, axis=1), [1.0, 2.0, 4.0])  # classes 0 to 3
    >>> model = rkhs.OrdinalClassifier(C=100.0).fit(X, y)
    >>> model.predict([[0.0, 0.0], [1.0, 0.7], [2.0, 2.0]])
    array([0, 1, 3])
    >>> bool(np.all(np.diff(model.thresholds_) > 0))
    True
    """

    loss: Any = "logistic"

    @transactional
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> OrdinalClassifier:
        """Learn the function and the thresholds from points and their classes.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        y : array-like of shape (t,)
            The classes: numbers, an ordered pandas Categorical or a polars Enum, which state their order, or names
            whose alphabetical order is that of the classes.
        sample_weight : array-like of shape (t,), optional
            Factors on the losses.

        Returns
        -------
        OrdinalClassifier
            The fitted estimator.
        """
        order = category_order(y)
        points, y = self._checked_points(X, y)
        classes = np.unique(y) if order is None else order
        sample = Sample.of(points, sample_weight, class_codes(y, classes), np.ones(len(y), dtype=bool))
        present, index = np.unique(sample.y, return_inverse=True)
        check_classes(classes[present], np.bincount(index, sample.weight), 0.0, None, type(self).__name__)
        classes, codes, count = classes[present], index.reshape(-1), len(present) - 1
        loss = as_loss(self.loss, LOSSES, "loss")
        n = points.shape[1]
        basis = Offsets(n, count)

        def observe(rows: Vector) -> ObservationSet:
            some, of_rows = sample.take(rows), codes[rows]
            row, threshold = np.repeat(np.arange(some.size), count), np.tile(np.arange(count), some.size)
            lifted = np.hstack([some.X, np.zeros((some.size, count))])
            return ObservationSet(
                X=some.X,
                points=lifted,
                functional=Evaluation(np.hstack([some.X[row], -np.eye(count)[threshold]])),
                loss=loss,
                target=np.where(of_rows[row] > threshold, 1.0, -1.0),
                weight=some.weight[row],
                rows=row[:, None],
                basis=basis,
                classes=of_rows,
            )

        self._fit_observations(observe, sample.size)
        lifted = self.solution_.function
        assert isinstance(lifted, Function)
        assert isinstance(lifted.kernel, LinearTransform)
        landmarks = np.concatenate([to_numpy(part.atoms.points) for part in lifted.functionals.parts])[:, :n]
        self.function_ = Function(lifted.kernel.kernel, Evaluation(landmarks), to_numpy(lifted.coefficients))
        self.thresholds_ = np.maximum.accumulate(to_numpy(lifted.basis_coefficients))  # ordered up to `tol`
        self.classes_ = classes
        return self

    def decision_function(self, X: Any) -> Array:
        """Return f minus the threshold for two classes, and scores of the classes for more.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        ndarray of shape (t,) or (t, classes)
            For two classes f minus the threshold.  For more the logarithms of the probabilities with the logistic loss,
            and otherwise how far f is inside of the thresholds of each class, negative outside.
        """
        values, validated = self._utilities(X, "decision_function")
        scores = values - self.thresholds_[0] if len(self.classes_) == 2 else self._scores(values)
        return as_input_type(scores, validated)

    def _scores(self, values: Vector) -> Matrix:
        """Return scores (t, classes), the largest of which is that of the predicted class."""
        ends = np.concatenate([[-np.inf], self.thresholds_, [np.inf]])
        above, below = values[:, None] - ends[:-1], ends[1:] - values[:, None]
        if not isinstance(as_loss(self.loss, LOSSES, "loss"), Logistic):
            return np.minimum(above, below)
        with np.errstate(divide="ignore"):  # a class between equal thresholds has the probability 0
            gaps = np.log(-np.expm1(-np.diff(ends)))
        return np.asarray(log_expit(above) + log_expit(below) + gaps)  # log of the difference of two sigmoids

    def _boundaries(self) -> Vector:
        """Return the values of f (classes - 1,), in increasing order, between which each class is predicted.

        They are the thresholds, except with the logistic loss.  There the ratio of the probabilities of a class and of
        a lower one increases with f, so the most probable class never decreases, and bisection finds where it changes.
        """
        if not isinstance(as_loss(self.loss, LOSSES, "loss"), Logistic):
            return self.thresholds_
        count = len(self.thresholds_)
        below, above = np.full(count, self.thresholds_[0] - 1), np.full(count, self.thresholds_[-1] + 1)
        while np.argmax(self._scores(below[:1]), axis=1)[0] > 0:
            below = below - 2 * (above - below)
        while np.argmax(self._scores(above[:1]), axis=1)[0] < count:
            above = above + 2 * (above - below)
        for _ in range(HALVINGS):
            middle = (below + above) / 2
            higher = np.argmax(self._scores(middle), axis=1) > np.arange(count)
            below, above = np.where(higher, below, middle), np.where(higher, middle, above)
        return np.maximum.accumulate(below)

    def _compared_scores(self, X: Any, method: str) -> tuple[Any, Array, Matrix, Vector]:
        """Return f, the validated points, and A and a of the scores A f + a, whose largest one is predicted.

        The scores c f - sum of the first c boundaries are those of predictions by intervals: two neighbors differ by f
        minus the boundary between them.
        """
        points = double(dense(self._validated_input(X, method)))
        offset = -np.cumsum(np.concatenate([[0.0], self._boundaries()]))
        return self.function_, points, np.arange(len(offset), dtype=np.float64)[:, None], offset

    def predict(self, X: Any) -> Array:
        """Predict the classes of the rows of X.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        ndarray of shape (t,)
            The predicted classes.
        """
        values, validated = self._utilities(X, "predict")
        predicted = self.classes_[np.searchsorted(self._boundaries(), values)]
        return predicted if predicted.dtype.kind in "OUS" else as_input_type(predicted, validated)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Predict the probabilities of the classes: differences of the logistic function of f minus the thresholds.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        ndarray of shape (t, classes)
            The probabilities, in the order of `classes_`.
        """
        values, validated = self._utilities(X, "predict_proba")
        return as_input_type(np.exp(self._scores(values)), validated)
