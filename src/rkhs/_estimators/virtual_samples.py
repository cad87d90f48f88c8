"""Support vector machines trained on transformed copies of the labeled points (virtual samples)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from rkhs._backend.arrays import Array, as_points, like, namespace, to_numpy
from rkhs._estimators.base import transactional
from rkhs._estimators.classifier import Classifier
from rkhs._estimators.data import Sample
from rkhs._estimators.length_scales import as_kernel
from rkhs._estimators.problem import WeightNormalization
from rkhs._problem import Problem
from rkhs.functionals import Evaluation, Functional


@dataclass(eq=False, repr=False)
class VirtualSampleSVC(Classifier):
    """SVM trained on moved copies of the labeled points (VirSVM).

        min 1/2 |f|^2 + C sum_i sum_k loss(f(T_k x_i); y_i), over transformed copies T_k x_i of the points: VirSVM

    With `features`, f is a function of what these say of a point: moved images may have their edges compared.

    Parameters
    ----------
    transforms : callables X -> transformed X of the same shape, each of which adds a copy of every point, such as
        those of `rkhs.invariances.copies` and `rkhs.invariances.RandomMotion`
    features : transformer (`fit`, `transform`) of points and copies, such as `rkhs.preprocessing.EdgeDirections`; None:
        the kernel sees points as they are
    kernel, scale, loss, C, fit_intercept, class_weight, solver, tol, verbose : as in
        `InvariantClassifier`

    Attributes
    ----------
    function_, solution_, problem_, classes_, n_features_in_, feature_names_in_ : as in `InvariantClassifier`
    features_ : the fitted transformer, or None

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X, y = np.array([[1.0, 1.0], [2.0, -1.0]]), [0, 1]
    >>> model = rkhs.VirtualSampleSVC([np.negative], scale=1.0, C=10.0).fit(X, y)  # x and -x are of one class
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
        """Learn f from points X (t, n), their classes y and all copies of the points."""
        sample = self._sample(X, y, sample_weight)
        copies = [sample.X]
        for transform in self.transforms:
            copy = like(as_points(transform(sample.X), "a transformed X"), sample.X)
            if copy.shape != sample.X.shape:
                raise ValueError(
                    f"{transform!r} made points of shape {tuple(copy.shape)} from {tuple(sample.X.shape)}: a virtual "
                    "sample is a point like the others."
                )
            copies.append(copy)
        rest = (sample.weight, sample.y, sample.labeled, sample.marks, sample.count)
        tiled = (np.tile(one, (len(copies), *[1] * (one.ndim - 1))) for one in rest)
        larger = Sample(namespace(sample.X).concat(copies), *tiled)  # the points followed by all copies of them
        self.features_ = None if self.features is None else clone(self.features).fit(to_numpy(larger.X))
        larger = replace(larger, X=self._seen(larger.X))
        config = self._config()
        kernel = as_kernel(self.kernel, self.scale, larger.X[: sample.size])
        norms = WeightNormalization.at(kernel, larger.X, larger.weight)
        terms = [norms.observed(config.label_term(larger))]
        options = config.options
        problem = Problem(kernel, terms, config.basis, device=options.device, precision=options.precision)
        self._learn(problem, larger, norms.variance, copies=len(copies))
        return self

    def _seen(self, points: Array) -> Array:
        """Return what the kernel sees of points."""
        if self.features_ is None:
            return points
        seen = as_points(self.features_.transform(to_numpy(points)), "features")
        if len(seen) != len(points):
            raise ValueError(f"{self.features_!r} made {len(seen)} rows of {len(points)} points: one each is needed.")
        return like(seen, points)

    def _values(self, X: Any, method: str, family: Callable[[Array], Functional] = Evaluation) -> tuple[Array, Array]:
        return super()._values(X, method, lambda points: family(self._seen(points)))
