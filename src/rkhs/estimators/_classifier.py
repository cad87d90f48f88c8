"""Classifiers: several classes one against the rest, the SVM with invariances (Zhang et al. 2013), virtual samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if

from rkhs._core.backend.arrays import Array, Matrix, Vector, as_column, as_points, like, namespace, to_numpy
from rkhs._core.calculus.maps import Map
from rkhs._core.problem import Problem
from rkhs.estimators._base import BaseKernelEstimator, as_input_type, documented_by, limited, transactional
from rkhs.estimators._calibration import Calibration
from rkhs.estimators._data import Sample, check_classes, class_codes, of_one_kind, predicted_codes
from rkhs.estimators._folds import HeldOutLabels, bound, class_scores, user_marks
from rkhs.estimators._formulation import Formulation
from rkhs.estimators._invariant_estimator import InvariantEstimator, fit_block, updatable
from rkhs.estimators._length_scales import as_kernel
from rkhs.estimators._robustness import scores_of_outputs
from rkhs.estimators.search._decide import Discriminant
from rkhs.maps import Transformed


class Classifier(ClassifierMixin, BaseKernelEstimator):
    """An estimator that predicts classes by the sign of f, or by the largest of several f, one for each class.

    `fit` of a subclass, for example that of the second base, calls ``self._sample(X, y, sample_weight)`` for the
    distinct points with the indices of their classes, and ``self._learn(problem, sample)``.

    Examples
    --------
    >>> import rkhs
    >>> issubclass(rkhs.InvariantClassifier, rkhs.extend.Classifier)
    True
    """

    discriminant_: Discriminant | None = None  # if None, the class of the largest score is predicted

    def _scores(self, X: Any, method: str) -> tuple[Array, Array]:
        """Return the scores, the largest of which belongs to the predicted class, and the validated X."""
        values, validated = self._values(X, method)
        if self.discriminant_ is None:
            return values, validated
        return like(self.discriminant_(to_numpy(values)), values), validated

    def _compared_scores(self, X: Any, method: str) -> tuple[Any, Array, Matrix, Vector]:
        """Return f, the validated points, and A and a of the scores A f + a, whose largest one is predicted."""
        points = self._as_points(self._validated_input(X, method))
        if self.discriminant_ is not None:
            return self.function_, points, self.discriminant_.matrix, self.discriminant_.offset
        count = len(self.classes_)
        return self.function_, points, *scores_of_outputs(1 if count == 2 else count)

    def _rows(
        self, X: Any, y: Any, sample_weight: Any, classes: Any = None, earlier: Sample | None = None, least: int = 2
    ) -> Sample:
        """Validate X and y; return a point for each row, whose y is the class index, or -1 without a label.

        The classes are those given, or those of the labels; those of `earlier` rows stay.
        """
        points, validated, y, missing = self._validated(X, y, earlier=earlier, least=least)
        if earlier is None:
            given = y[~missing] if classes is None else of_one_kind(as_column(classes))
            self.classes_ = np.unique(given)
            self.labeled_: Array = as_input_type(~missing, validated)
        codes = np.full(len(y), -1)
        codes[~missing] = class_codes(y[~missing], self.classes_, "all rows to fit")
        marks = user_marks(getattr(self, "cv", None), codes, ~missing, classifier=True)
        rows = Sample.of_rows(points, sample_weight, codes, ~missing, marks)
        if earlier is None:
            labeled, name = rows.labeled, type(self).__name__
            weights = np.bincount(rows.y[labeled], rows.weight[labeled], minlength=len(self.classes_))
            present = np.flatnonzero(weights > 0) if classes is None else np.arange(len(self.classes_))
            unlabeled = float(rows.weight[~labeled].sum())
            marker = getattr(self, "unlabeled", None)
            check_classes(self.classes_[present], weights[present], unlabeled, marker, name)
        return rows

    def _learn(self, problem: Problem, sample: Sample, variance: float = 1.0, copies: int = 1, **options: Any) -> None:
        """Solve the problem, whose first term holds the labels, and prepare probabilities and prediction sets."""
        self._solve(problem, variance, **options)
        labeled = sample.take(sample.labeled)
        groups = np.tile(labeled.groups[: labeled.size // copies], copies)
        self._held_out = HeldOutLabels(
            type(self).__name__, self.problem_, labeled.weight, groups, copies, self.solution_
        )
        points = self.problem_.terms[0].functional
        data = points, labeled.y, labeled.weight, self._held_out
        self._calibration = Calibration(self.function_, *data, self.discriminant_)
        self._refer_to_columns()

    def _decide_by(self, discriminant: Discriminant | None) -> None:
        """Predict the class of the largest score of a discriminant, if there is one, in place of that of f."""
        self.discriminant_ = discriminant
        self._calibration = replace(self._calibration, discriminant=discriminant)

    @limited
    def decision_function(self, X: Any) -> Array:
        """Return the values of f: positive for the second of two classes, one column per class for more.

        If the search of `InvariantClassifierCV` found a `discriminant_`, these are its scores.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        ndarray of shape (t,) or (t, classes)
            The decision values.
        """
        values, validated = self._scores(X, "decision_function")
        return as_input_type(values, validated)

    @limited
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
        values, validated = self._scores(X, "predict")
        predicted = self.classes_[predicted_codes(to_numpy(values))]
        return predicted if predicted.dtype.kind in "OUS" else as_input_type(predicted, validated)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on the rows that have a label.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        y : array-like of shape (t,)
            Their classes, `unlabeled` where there is none.
        sample_weight : array-like of shape (t,), optional
            The weights of the rows in the mean.

        Returns
        -------
        float
            The share of labeled rows whose class is predicted.
        """
        return float(super().score(*self._labeled_rows(X, y, sample_weight)))

    @limited
    def predict_proba(self, X: Any) -> Array:
        """Predict the probabilities of the classes by a sigmoid of the scores, fitted to cross-validated values of f.

        The first call trains the models of the folds, all together.  No probability is below 1 / (10 l) for l labels.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        ndarray of shape (t, classes)
            The probabilities, in the order of `classes_`.
        """
        values, validated = self._scores(X, "predict_proba")
        scores = to_numpy(values)
        return as_input_type(self._calibration(scores).astype(scores.dtype), validated)

    @limited
    def predict_set(self, X: Any, coverage: float = 0.9) -> Array:
        """Predict sets of classes that contain the right class with the given probability.

        The sets are conformal: the first call calibrates them by leaving labels out, one by one for smooth losses and a
        tenth at a time for others.  `rkhs.estimators._folds` states the assumptions.

        A set is empty if no class has as high a score as the right classes of the share `coverage` of left-out labels.
        If the model is right more often than `coverage`, some sets must be empty: their rows are those at which it is
        most likely to be wrong, or that are unlike the labeled ones.  Ask for a larger coverage, or add the predicted
        class to empty sets, which contain the right class more often then.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        coverage : float, default=0.9
            The probability with which a set contains the right class.

        Returns
        -------
        ndarray of bool of shape (t, classes)
            The members of each set, in the order of `classes_`; rows without one are empty sets.

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
        limit = bound(class_scores(predicted)[np.arange(len(codes)), codes], coverage, left_out.weight)
        return np.asarray(class_scores(to_numpy(values)) <= limit)


@dataclass(eq=False, repr=False, kw_only=True)
class InvariantClassifier(Classifier, InvariantEstimator):
    """Kernel classifier that learns from labels and from priors on f at labeled and unlabeled points (InvSVM).

    It minimizes

        1/2 |f|^2 + C sum_i loss(f(x_i); y_i) + nu mean_i sum_j loss(L_ij(f) / s)

    The first sum is over the labeled points, the mean over all points.  L_ij(f) are linear functionals of f that are
    known to be small, such as its partial derivatives.  C and nu have no units: s is the size of L_ij(f) for a typical
    f with values of size one (1 / scale for gradients and a Gaussian kernel), and the kernel is divided by its mean
    k(x, x).  So nu = 1 means the same in all units and for any number of points (`rkhs.estimators._formulation`).  The
    lambda and nu of Zhang et al. 2013, formula (2), are the weights of a `Problem`.  Several classes are learned one
    against the rest, in one problem.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        "gaussian", "laplace", "matern", "rational_quadratic", "polynomial", "linear", or a kernel object.  With
        "precomputed", X is a kernel matrix: (t, t) in `fit`, and (s, t) of new and training objects in `predict`.
    scale : float, array-like of shape (n,) or str, default="auto"
        The length scale of a kernel given by name: a number, or one per feature; "median", the median distance between
        training points; "auto", the median distance in units of each feature (the geometric mean of its standard
        deviation and its range), or "median" for sparse points, and if an invariance of images or signals is stated;
        "evidence" or "loo", one per feature, learned from the labels as by `Problem.tune`; "cv", the best of some
        multiples of the median, of raw or standardized features, by the loss of held-out labels; "agop", directions
        weighted by how much f changes along them (the average gradient outer product), learned in a few rounds of
        fits; see `metric_`.  With an approximation, and with blocks, scales are learned from a sample of the rows.
    loss : str or Loss, default="hinge"
        "hinge", "squared_hinge", "logistic", "squared", or a loss object.
    C : float, default=10.0
        Weight of the loss of each labeled point: twice the labels are twice the evidence.
    invariance : str, callable, Invariance, list of these, or None, default="auto"
        The functionals that should be small: "gradient", "local_average", "graph" (of nearest neighbors), a callable
        X -> functionals, or an `rkhs.Invariance`, which adds a weight, a loss and a target.  "auto" is "gradient", with
        slopes in units of the length scales, if there are unlabeled points, and None otherwise.
    nu : float, default=0.03
        Weight of the invariances; 0 leaves them out.  For gradients a tenth of C is mild and C is strong; for graphs
        with C = 10, 100 is mild.
    shape : Shape or dict, optional
        The shape of f, the decision function of two classes, on the whole box of the training points, such as
        {"age": "increasing", 3: "convex", "f": (-1, 1)}; see `rkhs.Shape`.  It is proved; see `shape_certificate_`.
    fit_intercept : bool, default=True
        Whether f has a constant that is not penalized.
    class_weight : dict, "balanced", ClassPrior or None, default=None
        Factors on the losses of the classes; "balanced" gives all classes the same total weight (as in Zhang et al.
        2013, section 6.3), and an `rkhs.ClassPrior` the proportions that are expected where predictions are made.
    unlabeled : object, default=-1
        The y of points without a label, which take part in the invariances only; None if all have one.  A warning is
        given where -1 may have been meant as a class: together with other negative classes, or with 0 and 1 if it is
        no more frequent than the larger of them.
    approximation : Landmarks, FourierFeatures, FourierGrid or None, default=None
        With `rkhs.Landmarks(p)` or `rkhs.FourierFeatures(p)` f is a combination of p functions, learned in time linear
        in the number of points.  X may then also be `rkhs.streams.blocks`, a dask array or a dask data frame.
    solver : "auto", Solver or SolverOptions, default="auto"
        The algorithm, and with `rkhs.SolverOptions` the device and the precision.
    tol : float, default=1e-4
        The relative duality gap to reach.
    verbose : bool, default=False
        Whether to print progress to standard error.

    Attributes
    ----------
    function_ : Function
        The learned function; with more than two classes it has one output for each.
    solution_ : Solution
        The solution with its certificate.
    problem_ : Problem or None
        The problem that was solved; None with an approximation.
    classes_ : ndarray
        The classes.
    labeled_ : ndarray of bool
        A mask of the training rows that have a label.
    metric_ : ndarray of shape (n, n)
        The matrix M of the learned distance (x - y)'M(x - y); only with `scale="agop"`.
    shape_certificate_ : ShapeCertificate
        What is proved about the `shape`.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    Notes
    -----
    A sample weight multiplies the loss of the label and is a share in the mean of the invariances.  Integer sample
    weights are numbers of rows: a point of weight 3 is three equal rows, of which folds and leave-one-out errors leave
    out one at a time.  Callables get the training points in the order given, unless points repeat or have weights: then
    each distinct point comes once.

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
        """Learn f from points and their classes.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        y : array-like of shape (t,)
            The classes, `unlabeled` where there is none.
        sample_weight : array-like of shape (t,), optional
            Factors on the losses of rows.

        Returns
        -------
        InvariantClassifier
            The fitted estimator.
        """
        self._fit(X, y, sample_weight)
        return self

    @available_if(updatable)
    @transactional
    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> InvariantClassifier:
        """Learn from more rows, in addition to those of `fit` and of earlier calls.

        The first call, of this method or of `fit`, fixes all settings that are learned from the rows: the length scale,
        the variance v, the sizes s of invariances, and the functions of an approximation.  Given those, the result is
        that of all rows at once.  A call that raises an error changes nothing.

        Without an approximation all rows are kept.  If all losses are squared, the second call factorizes the
        equations of N functionals, and each later one updates the factor in O(N^2) operations per row.  Other losses
        are solved from the present f.  Either way the certificate is computed anew.

        With an approximation the rows of `fit` are forgotten.  Rows of squared losses are added to sums and forgotten,
        too; of other rows p numbers each are kept, as long as they fit in memory.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points of the block.
        y : array-like of shape (t,)
            Their classes, `unlabeled` where there is none.
        classes : array-like, optional
            All classes that any block will have; needed at the first call unless the first block has all of them.
        sample_weight : array-like of shape (t,), optional
            Factors on the losses.

        Returns
        -------
        InvariantClassifier
            The estimator, which has learned from all rows so far.

        Examples
        --------
        >>> import numpy as np, rkhs
        >>> model = rkhs.InvariantClassifier(loss="squared", scale=1.0).fit([[0.0], [3.0]], [0, 1])
        >>> model.partial_fit([[1.5], [4.0]], [0, 1]).predict([[1.6]])
        array([0])
        >>> model.forget([2]).labeled_.size
        3
        """
        if self.approximation is None:
            self._add_rows((X, y, sample_weight), classes)
        else:
            fit_block(self, self._config(), X, y, sample_weight, classes)
        return self


@documented_by(InvariantClassifier)
@dataclass(eq=False, repr=False)
class VirtualSampleSVC(Classifier):
    """SVM trained on transformed copies of the labeled points (VirSVM).

    It minimizes

        1/2 |f|^2 + C sum_i sum_k loss(f(T_k x_i); y_i)

    over the points and their transformed copies T_k x_i.  With `features`, f is a function of features that are
    computed from the points and copies, such as the edges of shifted images.

    Parameters
    ----------
    transforms : sequence of callables, default=()
        Maps from X to a transformed X of the same shape, each of which adds a copy of every point, such as those of
        `rkhs.invariances.transformed_copies` and `rkhs.invariances.RandomImageTransform`.
    features : transformer, optional
        A scikit-learn transformer of points and copies, such as `rkhs.preprocessing.EdgeDirections`; without one the
        kernel acts on the points themselves.
    kernel, scale, loss, C, fit_intercept, class_weight, solver, tol, verbose : object
        As in `InvariantClassifier`.

    Attributes
    ----------
    features_ : transformer or None
        The fitted transformer.
    function_, solution_, problem_, classes_, labeled_, n_features_in_, feature_names_in_ : object
        As in `InvariantClassifier`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X, y = np.array([[1.0, 1.0], [2.0, -1.0]]), [0, 1]
    >>> model = rkhs.VirtualSampleSVC([np.negative], scale=1.0, C=10.0).fit(X, y)  # x and -x have the same class
    >>> model.predict([[-1.0, -1.0], [-2.0, 1.0]])
    array([0, 1])
    """

    transforms: Sequence[Callable[[Array], Array]] = ()
    _: KW_ONLY
    features: Any = None
    kernel: Any = "gaussian"
    scale: Any = "auto"
    loss: Any = "hinge"
    C: float = 1.0
    fit_intercept: bool = True
    class_weight: Any = None
    solver: Any = "auto"

    @transactional
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> VirtualSampleSVC:
        """Learn f from points, their classes, and transformed copies of the points.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        y : array-like of shape (t,)
            The classes.
        sample_weight : array-like of shape (t,), optional
            Factors on the losses.

        Returns
        -------
        VirtualSampleSVC
            The fitted estimator.
        """
        sample = self._sample(X, y, sample_weight)
        copies = [sample.X]
        for transform in self.transforms:
            copy = like(as_points(transform(sample.X), "a transformed X"), sample.X)
            if copy.shape != sample.X.shape:
                raise ValueError(
                    f"{transform!r} made points of shape {tuple(copy.shape)} from {tuple(sample.X.shape)}: transforms "
                    "must keep the shape of X."
                )
            copies.append(copy)
        arrays = (sample.weight, sample.y, sample.labeled, sample.marks)
        tiled = (np.tile(array, (len(copies), *[1] * (array.ndim - 1))) for array in arrays)
        augmented = Sample(namespace(sample.X).concat(copies), *tiled)  # the points, followed by their copies
        self.features_ = None if self.features is None else clone(self.features).fit(to_numpy(augmented.X))
        features = self._input_map()
        if features is not None:
            augmented = replace(augmented, X=features.values(augmented.X))
        common = [getattr(getattr(one, "tangents", one), "common_unit", False) for one in self.transforms]
        of_one_unit = self.features is not None or any(common)  # as in `ModelConfig.length_scale`
        scale = "median" if of_one_unit and isinstance(self.scale, str) and self.scale == "auto" else self.scale
        kernel = as_kernel(self.kernel, scale, augmented.X[: sample.size])
        formulated = Formulation.at(self._config(), augmented, kernel)
        self._learn(formulated.problem(augmented)[0], augmented, formulated.norms.variance, copies=len(copies))
        return self

    def _input_map(self) -> Map | None:
        return None if self.features_ is None else Transformed(self.features_)

    def _compared_scores(self, X: Any, method: str) -> tuple[Any, Array, Matrix, Vector]:
        if self.features_ is not None:
            raise ValueError(f"{method} needs a function of X, but this one is a function of {self.features_!r} of X.")
        return super()._compared_scores(X, method)
