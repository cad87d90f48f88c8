"""Support vector machines trained on transformed copies of the labeled points (virtual samples)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from rkhs._backend.arrays import Array, Matrix, Vector, as_points, like, namespace, to_numpy
from rkhs._estimators.base import transactional
from rkhs._estimators.classifier import Classifier
from rkhs._estimators.data import Sample
from rkhs._estimators.formulation import WeightNormalization
from rkhs._estimators.length_scales import as_kernel
from rkhs._problem import Problem
from rkhs.functionals import Evaluation, Functional


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
    scale: Any = "median"
    loss: Any = "hinge"
    C: float = 1.0
    fit_intercept: bool = True
    class_weight: Any = None
    solver: Any = "auto"
    tol: float = 1e-4
    verbose: bool = False

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
            Factors on the losses; integers are numbers of rows.

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
        arrays = (sample.weight, sample.y, sample.labeled, sample.marks, sample.count)
        tiled = (np.tile(array, (len(copies), *[1] * (array.ndim - 1))) for array in arrays)
        augmented = Sample(namespace(sample.X).concat(copies), *tiled)  # the points, followed by their copies
        self.features_ = None if self.features is None else clone(self.features).fit(to_numpy(augmented.X))
        augmented = replace(augmented, X=self._features_of(augmented.X))
        config = self._config()
        kernel = as_kernel(self.kernel, self.scale, augmented.X[: sample.size])
        norms = WeightNormalization.at(kernel, augmented.X, augmented.weight)
        terms = [norms.observed(config.label_term(augmented))]
        options = config.options
        problem = Problem(kernel, terms, config.basis, device=options.device, precision=options.precision)
        self._learn(problem, augmented, norms.variance, copies=len(copies))
        return self

    def _features_of(self, points: Array) -> Array:
        if self.features_ is None:
            return points
        features = as_points(self.features_.transform(to_numpy(points)), "features")
        if len(features) != len(points):
            raise ValueError(
                f"{self.features_!r} made {len(features)} rows of {len(points)} points: it must make one row per point."
            )
        return like(features, points)

    def _values(self, X: Any, method: str, family: Callable[[Array], Functional] = Evaluation) -> tuple[Array, Array]:
        return super()._values(X, method, lambda points: family(self._features_of(points)))

    def _compared_scores(self, X: Any, method: str) -> tuple[Any, Array, Matrix, Vector]:
        if self.features_ is not None:
            raise ValueError(f"{method} needs a function of X, but this one is a function of {self.features_!r} of X.")
        return super()._compared_scores(X, method)
