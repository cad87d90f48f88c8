"""Classifiers: classes, one against the rest, and the support vector machine with invariances of Zhang et al. 2013."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from rkhs._backend.arrays import Array, like, to_numpy
from rkhs._estimators.base import BaseKernelEstimator, home, transactional
from rkhs._estimators.calibration import Calibration, HeldOutLabels, bound, class_scores, per_class
from rkhs._estimators.cross_validation import user_marks
from rkhs._estimators.data import Sample, check_classes, predicted_codes
from rkhs._estimators.problem import keeps_rows
from rkhs._estimators.scoring import Discriminant
from rkhs._estimators.streamed import InvariantEstimator, approximated
from rkhs._problem import Problem


class Classifier(ClassifierMixin, BaseKernelEstimator):
    """An estimator that predicts classes by the sign of f, or by the largest of several f, one for each class."""

    discriminant_: Discriminant | None = None  # where the class is not that of the largest score

    def _scores(self, X: Any, method: str) -> tuple[Array, Array]:
        """Return the scores whose largest is the class, and X as it was given."""
        values, given = self._values(X, method)
        if self.discriminant_ is None:
            return values, given
        return like(self.discriminant_(to_numpy(values)), values), given

    def _sample(self, X: Any, y: Any, sample_weight: Any) -> Sample:
        """Return the merged training points; y is the index of the class, -1 where there is none."""
        points, given, y, missing = self._validated(X, y)
        classes, known_codes = np.unique(y[~missing], return_inverse=True)
        codes = np.full(len(y), -1)
        codes[~missing] = known_codes.reshape(-1)
        marks = user_marks(getattr(self, "cv", None), codes, ~missing, classifier=True)
        merge = not keeps_rows(getattr(self, "invariance", None))
        sample = Sample.of(points, sample_weight, codes, ~missing, marks, merge=merge)
        known = sample.labeled
        left, own = np.unique(sample.y[known], return_inverse=True)
        weights, others = np.bincount(own, sample.weight[known]), float(sample.weight[~known].sum())
        check_classes(classes[left], weights, others, getattr(self, "unlabeled", None), type(self).__name__)
        self.classes_ = classes
        self.labeled_ = home(~missing, given)
        return sample

    def _learn(self, problem: Problem, sample: Sample, variance: float = 1.0, copies: int = 1) -> None:
        """Solve the problem, whose first term is that of the labels, and keep what probabilities and sets need."""
        self._solve(problem, variance)
        own = sample.take(sample.labeled)
        self._held_out = HeldOutLabels(type(self).__name__, self.problem_, own.count, copies)
        points = self.problem_.terms[0].functional
        self._calibration = Calibration(self.function_, points, own.y, own.weight, self._held_out)

    def decision_function(self, X: Any) -> Array:
        """Return f(x): positive for the second of two classes; (t, classes) for more, the largest being predicted.

        Where a search found that classes lie between others, these are the scores of its `discriminant_`.
        """
        values, given = self._scores(X, "decision_function")
        return home(values, given)

    def predict(self, X: Any) -> Array:
        """Predict the classes of the rows of X."""
        values, given = self._scores(X, "predict")
        chosen = self.classes_[predicted_codes(to_numpy(values))]
        return chosen if chosen.dtype.kind in "OUS" else home(chosen, given)

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities (t, classes): a sigmoid of f, fitted to cross-validated values of f.

        The first call trains the models of the folds, all together.  With a `discriminant_` they are its own.
        """
        values, given = self._scores(X, "predict_proba")
        scores = own = to_numpy(values)
        if self.discriminant_ is None:
            own = self._calibration.slope * per_class(scores)
        return home(np.asarray(softmax(own, axis=1), dtype=scores.dtype), given)

    def predict_set(self, X: Any, coverage: float = 0.9) -> Array:
        """Return a mask (t, classes) of the sets that hold the right class with the given probability.

        Each label is left out (`rkhs._estimators.calibration` tells when that holds), which the first call does: one by
        one for smooth losses, a tenth at a time for others.

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
        left_out = self._held_out.labels
        predicted, target = left_out.predicted, left_out.target
        predicted = predicted if self.discriminant_ is None else self.discriminant_(predicted)
        codes = predicted_codes(target)
        limit = bound(class_scores(predicted)[np.arange(len(codes)), codes], coverage, left_out.times)
        return np.asarray(class_scores(to_numpy(values)) <= limit)


@dataclass(eq=False, repr=False, kw_only=True)
class InvariantClassifier(Classifier, InvariantEstimator):
    """Classifier that learns from labels at some points and from what is known about f at all of them (InvSVM).

        min 1/2 |f|^2 + C sum_i loss(f(x_i); y_i) + nu mean_i sum_j invariance_loss(L_ij(f) / s): InvSVM

    The sum of losses is over the labeled points, the mean over all points, labeled or not, of what is said of f
    there and known to be small: its gradient, or whatever `invariance` says.  C and nu have no units: s is how large
    L_ij(f) is for a typical f with values of size one, 1 / scale for gradients and a Gaussian, and a kernel is taken
    in units of its mean k(x, x).  So nu = 1 means the same in all units and for any number of points
    (`rkhs._estimators.problem`); lambda and nu of Zhang et al. 2013, formula (2), are the weights of a `Problem`.
    Several classes are learned one against the rest, in one problem.

    Parameters
    ----------
    kernel : "gaussian", "laplace", "matern", "rational_quadratic", "polynomial", "linear", or an rkhs kernel
    scale : the length scale of a kernel given by name, a number or one per feature; "median": the median distance
        between training points; "evidence" or "loo": one per feature, learned from the labels as by `Problem.tune`;
        "cv": the best of some multiples of the median, of features as they are or in units of their deviations, by the
        loss of labels that are left out.  With an approximation, and with blocks, they are learned from a sample
    metric : None, or "agop" or "agop-diagonal": directions, or features, count by how much f changes along them, learned
        in a few rounds of fits, each kept where it lowers the loss of labels that are held out; see `metric_`.  Of
        blocks it is learned from a sample
    loss : "hinge", "squared_hinge", "logistic", "squared", or an rkhs loss
    C : weight of the loss of each labeled point: twice the labels are twice the evidence
    invariance : "gradient", "local_average", "laplacian", "graph" (of neighbors), a callable X -> rkhs.extend.Functional, an
        `rkhs.Invariance`, a list of these, or None
    nu : weight of the invariances; 0 leaves them out.  For gradients a tenth of C is mild, C strong, and much more for
        two labels and all the rest by the points; with C = 10 mild are 30 for "laplacian" and 100 for graphs
    invariance_loss : "squared", "absolute", "huber", "epsilon_insensitive", .., or an rkhs loss
    epsilon : the width of losses that are given by name and have one, in units of f
    fit_intercept : whether f has a constant that is not penalized
    class_weight : None, a dict, or "balanced": each class counts the same (as in Zhang et al. 2013, section 6.3)
    class_prior : the proportions of the classes where predictions are made, a dict or an array in the order of
        `classes_`, if they are known to be others than among the labels, which are few and may be unbalanced
    shape : what f, the decision function of two classes, does everywhere on the box of the training points, such as
        {"age": "increasing", 3: "convex", "f": (-1, 1)}; see `InvariantRegressor`.  It is proved, see
        `shape_certificate_`
    shape_box : another box, the lowest and the highest value of each feature, (2, n)
    shape_time_limit : seconds for a fit with a shape, to about one second: the fit without it first, then constraints
        and proofs.  What is not proved by then is open in `shape_certificate_`, with a warning.  None for no limit
    unlabeled : the y of points without a label, which take part in the invariances only; None if all have one.  A
        warning says so where -1 may have been meant as a class: beside other negative classes, or beside 0 and 1 where
        it is about as frequent as the larger of them, or less
    approximation : None, or rkhs.Landmarks(p) or rkhs.FourierFeatures(p): f in the span of p functions, in time linear
        in the number of points.  X may then also be `rkhs.streams.blocks`, a dask array or a dask data frame
    solver : "auto" or an rkhs solver
    tol : the relative duality gap to reach
    device : such as "cuda", to learn there with PyTorch; predictions come back as the kind of array that X is
    precision : of Gram products, "float64", "float32", "tf32x3" or "tf32"; see `rkhs.Problem`.  An approximation has
        sums in float64 in their place
    random_state : not used by the training itself, which has no randomness
    verbose : whether to print progress to standard error

    Attributes
    ----------
    metric_ : (n, n), the matrix M of the learned metric (x - y)'M(x - y), with `metric`
    function_ : the learned rkhs.Function; with several outputs, one for each class, if there are more than two
    solution_ : the rkhs.Solution, with its certificate
    problem_ : the rkhs.Problem that was solved; None with an approximation
    classes_ : the classes
    labeled_ : a mask of the rows of the training X that have a label
    n_features_in_, feature_names_in_ : as in scikit-learn

    Notes
    -----
    A sample weight multiplies the label and is a share in the mean of the invariances.  If all sample weights are
    integers, they are numbers of rows: a point of weight 3 is three equal rows, of which folds and leave-one-out errors
    leave out one at a time.  Callables get the training points in the order given, unless points repeat or have
    weights: then each comes once.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.08, random_state=0)
    >>> few = np.full(200, -1)  # no label
    >>> few[[3, 4]] = y[[3, 4]]
    >>> model = rkhs.InvariantClassifier(scale=0.25, loss="logistic", nu=3e3, fit_intercept=False).fit(X, few)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    loss: Any = "hinge"
    class_weight: Any = None
    unlabeled: Any = -1

    @transactional
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> InvariantClassifier:
        """Learn f from points X (t, n) and their classes y, `unlabeled` where there is none."""
        if self._is_streamed(X):
            self._fit_blocks(X, y, sample_weight)
        else:
            self._fit_sample(self._sample(X, y, sample_weight))
        return self

    @available_if(approximated)
    @transactional
    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> InvariantClassifier:
        """Learn from one more block of rows; needs an `approximation`.

        The first block fixes the kernel's scale, the metric and the functions of the span, and `classes` all classes
        there will be.  With those fixed the result is that of all rows at once: rows of squared losses are added to
        sums and forgotten, of others p numbers each are kept, as long as they fit in memory.  A block that cannot be
        used changes nothing.
        """
        self._fit_more(X, y, sample_weight, classes)
        return self
