"""What all classifiers share: classes, one against the rest, and probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from rkhs._backend.arrays import Array, Vector, like, to_numpy
from rkhs._finite.term import Term
from rkhs.estimators.calibration import Calibration
from rkhs.estimators.conformal import bound, class_scores
from rkhs.estimators.discriminant import Discriminant
from rkhs.estimators.folds import user_marks
from rkhs.estimators.held_out import left_out_labels
from rkhs.estimators.labels import Labels, check_classes, class_weights, one_vs_rest, told
from rkhs.estimators.machine import Machine, home
from rkhs.estimators.options import CLASSIFICATION, as_loss, check_number
from rkhs.estimators.sample import Sample
from rkhs.estimators.terms import keeps_rows
from rkhs.functionals import Evaluation
from rkhs.problem import Problem


class Classifier(ClassifierMixin, Machine):
    """A machine that predicts classes by the sign of f, or by the largest of several f, one for each class."""

    classes_: Vector
    discriminant_: Discriminant | None = None  # where classes are not told by the largest score

    def _scores(self, X: Any, method: str) -> tuple[Array, Array]:
        """What classes are told by, and X as it was given."""
        values, given = self._values(X, method)
        if self.discriminant_ is None:
            return values, given
        return like(self.discriminant_(to_numpy(values)), values), given

    def _told(self, y: Any) -> tuple[Vector, Vector]:
        return told(y, getattr(self, "unlabeled", None), classes=True)

    def _validated(self, X: Any, y: Any, own: bool = True) -> tuple[Array, Array, Vector, Vector]:
        points, given, y, missing = super()._validated(X, y, own)
        check_classification_targets(y)
        return points, given, y, missing

    def _sample(self, X: Any, y: Any, sample_weight: Any) -> Sample:
        """The merged training points; y is the index of the class."""
        points, given, y, missing = self._validated(X, y)
        labels = Labels.of(y, missing)
        marks = user_marks(self, labels.codes, labels.labelled)
        given_labels = labels.codes, labels.labelled, marks
        sample = Sample.of(points, sample_weight, *given_labels, merge=not keeps_rows(self))
        known = sample.labelled
        codes, own = np.unique(sample.y[known], return_inverse=True)
        weights, others = np.bincount(own, sample.weight[known]), float(sample.weight[~known].sum())
        marker = getattr(self, "unlabeled", None)
        check_classes(labels.classes[codes], weights, others, marker, type(self).__name__)
        self.classes_ = labels.classes
        self.labelled_ = home(labels.labelled, given)
        return sample

    def _label_term(self, sample: Sample, C: float) -> Term:
        """C * sum over the labelled points of class and sample weight * loss(f(x_i); y_i)."""
        labelled = sample.take(sample.labelled)
        given, prior = (getattr(self, name, None) for name in ("class_weight", "class_prior"))
        factors = class_weights(given, self.classes_, labelled.y, labelled.weight, prior)
        return Term(
            Evaluation(labelled.X),
            as_loss(self.loss, CLASSIFICATION, "loss"),
            target=one_vs_rest(labelled.y, len(self.classes_)),
            weight=check_number(C, "C") * factors * labelled.weight,
        )

    def _learn(self, problem: Problem, sample: Sample, copies: int = 1) -> None:
        """Solve the problem, whose first term is that of the labels, and keep what probabilities need."""
        self._solve(problem)
        own = sample.take(sample.labelled)
        self._count_rows(own)
        self._calibration = Calibration(self.problem_, self.function_, own.y, own.weight, own.count, copies)

    def decision_function(self, X: Any) -> Array:
        """f(x): positive for the second of two classes; (t, classes) for more, the largest being predicted.

        Where a search found that classes lie between others, these are the scores of its `discriminant_`.
        """
        values, given = self._scores(X, "decision_function")
        return home(values, given)

    def predict(self, X: Any) -> Array:
        """The classes of the rows of X."""
        values, given = self._scores(X, "predict")
        values = to_numpy(values)
        chosen = self.classes_[(values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)]
        return chosen if chosen.dtype.kind in "OUS" else home(chosen, given)

    def predict_proba(self, X: Any) -> Array:
        """(t, classes) probabilities: a sigmoid of f, fitted to cross-validated values of f.

        The first call trains the models of the folds, all together.  With a `discriminant_` they are its own.
        """
        values, given = self._scores(X, "predict_proba")
        scores = to_numpy(values)
        chances = self._calibration.probabilities(scores) if self.discriminant_ is None else softmax(scores, axis=1)
        return home(np.asarray(chances, dtype=scores.dtype), given)

    def predict_set(self, X: Any, coverage: float = 0.9) -> Array:
        """(t, classes), true where a class is in the set that holds the right one with the given probability.

        By leaving labels out (`rkhs.estimators.conformal` on when it holds), which the first call does: one by one for
        smooth losses, a tenth at a time for others.

        Examples
        --------
        >>> import rkhs
        >>> from sklearn.datasets import make_moons
        >>> X, y = make_moons(100, noise=0.3, random_state=0)
        >>> sets = rkhs.InvariantClassifierCV().fit(X, y).predict_set(X, coverage=0.95)
        >>> bool(sets[range(100), y].mean() > 0.9)
        True
        """
        values, _ = self._scores(X, "predict_set")
        judged = left_out_labels(self)
        predicted, target = judged.predicted, judged.target
        predicted = predicted if self.discriminant_ is None else self.discriminant_(predicted)
        codes = (target > 0).astype(int) if target.ndim == 1 else target.argmax(axis=1)
        limit = bound(class_scores(predicted)[np.arange(len(codes)), codes], coverage, judged.times)
        return np.asarray(class_scores(to_numpy(values)) <= limit)
