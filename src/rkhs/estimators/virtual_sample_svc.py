"""Virtual samples: the oldest way to teach a machine an invariance, and the rival in Zhang et al. 2013."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from rkhs._backend.arrays import Array, as_points, like, namespace, to_numpy
from rkhs._calculus.polynomials import Constant
from rkhs.estimators.atomic import all_or_nothing
from rkhs.estimators.classifier import Classifier
from rkhs.estimators.options import as_kernel
from rkhs.estimators.sample import Sample
from rkhs.estimators.units import Units
from rkhs.functionals import Evaluation, Functional
from rkhs.problem import Problem


class VirtualSampleSVC(Classifier):
    """SVM trained on moved copies of the labelled points (VirSVM).

        min 1/2 |f|^2 + C sum_i sum_k loss(f(T_k x_i); y_i), over transformed copies T_k x_i of the points: VirSVM

    With `features`, f is a function of what these say of a point: moved images may have their edges compared.

    Parameters
    ----------
    transforms : callables X -> transformed X of the same shape, each of which adds a copy of every point, such as
        those of `rkhs.invariances.copies` and `rkhs.invariances.RandomMotion`
    features : transformer (`fit`, `transform`) of points and copies, such as `rkhs.preprocessing.EdgeDirections`; None:
        the kernel sees points as they are
    kernel, scale, loss, C, fit_intercept, class_weight, solver, tol, verbose, device, precision : as in
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

    def __init__(
        self,
        transforms: Sequence[Callable[[Array], Array]] = (),
        *,
        features: Any = None,
        kernel: Any = "gaussian",
        scale: Any = "median",
        loss: Any = "hinge",
        C: float = 1.0,
        fit_intercept: bool = True,
        class_weight: Any = None,
        solver: Any = "auto",
        tol: float = 1e-4,
        verbose: bool = False,
        device: str | None = None,
        precision: str | None = None,
    ) -> None:
        self.transforms = transforms
        self.features = features
        self.kernel = kernel
        self.scale = scale
        self.loss = loss
        self.C = C
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.verbose = verbose
        self.device = device
        self.precision = precision

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> VirtualSampleSVC:
        """Learn f from points X (t, n), their classes y and all copies of the points."""
        sample = self._sample(X, y, sample_weight)
        larger = self._with_copies(sample)
        self.features_ = None if self.features is None else clone(self.features).fit(to_numpy(larger.X))
        larger = replace(larger, X=self._seen(larger.X))
        kernel = as_kernel(self.kernel, self.scale, larger.X[: sample.size])
        basis = Constant() if self.fit_intercept else None
        terms = [Units.of(kernel, larger).data(self._label_term(larger, self.C))]
        problem = Problem(kernel, terms, basis, device=self.device, precision=self.precision)
        self._learn(problem, larger, copies=1 + len(self.transforms))
        return self

    def _seen(self, points: Array) -> Array:
        """What the kernel sees of points."""
        if self.features_ is None:
            return points
        seen = as_points(self.features_.transform(to_numpy(points)), "features")
        if len(seen) != len(points):
            raise ValueError(
                f"{self.features_!r} made {len(seen)} rows of {len(points)} points: it needs one for each."
            )
        return like(seen, points)

    def _values(self, X: Any, method: str, family: Callable[[Array], Functional] = Evaluation) -> tuple[Array, Array]:
        return super()._values(X, method, lambda points: family(self._seen(points)))

    def _with_copies(self, sample: Sample) -> Sample:
        """The sample with all copies."""
        copies = [sample.X]
        for transform in self.transforms:
            copy = like(as_points(transform(sample.X), "a transformed X"), sample.X)
            if copy.shape != sample.X.shape:
                raise ValueError(
                    f"{transform!r} made points of shape {tuple(copy.shape)} from {tuple(sample.X.shape)}: a virtual "
                    "sample is a point like the others."
                )
            copies.append(copy)
        times = len(copies)
        return Sample(
            namespace(sample.X).concat(copies),
            np.tile(sample.weight, times),
            np.tile(sample.y, times),
            np.tile(sample.labelled, times),
            np.tile(sample.marks, (times, 1)),
            np.tile(sample.count, times),
        )
