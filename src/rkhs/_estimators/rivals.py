"""Rivals of the invariant classifier: manifold regularization, and virtual samples."""

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
from rkhs._estimators.problem import WeightNormalization, formulate
from rkhs._problem import Problem
from rkhs.functionals import Evaluation, Functional
from rkhs.invariances._graph import Graph


@dataclass(eq=False, repr=False)
class LaplacianSVC(Classifier):
    """SVM that also wants neighbors in a graph to have similar values (LapSVM).

        min 1/2 |f|^2 + C sum_i loss(f(x_i); y_i) + nu f'L^p f / tr(L^p): LapSVM

    Two points, labeled or not, are joined by an edge if one is among the nearest neighbors of the other; L is the
    Laplacian of that graph, see `rkhs.invariances.Graph`.  Divided by its trace, the sum of squares means the same in
    all units and for any number of points, and so does nu.  `InvariantClassifierCV` finds out whether a graph helps.

    Parameters
    ----------
    n_neighbors : the number of neighbors
    power : p; above one it also asks that f is smooth along the graph
    C : weight of the loss of each labeled point
    nu : weight of the graph: 100 is mild, 10,000 (images) follows it wherever some 50 labels leave it open, a million
        wherever two do.  In the usual terms C = 1 / (2 gamma_A l) and, for p = 1, nu = gamma_I tr(L) / (2 gamma_A t^2),
        for l labels of t points
    kernel, scale, loss, fit_intercept, class_weight, class_prior, unlabeled, solver, tol, verbose : as in
        `InvariantClassifier`

    Attributes
    ----------
    function_, solution_, problem_, classes_, labeled_, n_features_in_, feature_names_in_ : as in
        `InvariantClassifier`

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.05, random_state=0)
    >>> few = np.full(200, -1)  # no label
    >>> few[[3, 4]] = y[[3, 4]]
    >>> rkhs.LaplacianSVC(scale=0.2, nu=1e6).fit(X, few).score(X, y)
    1.0
    """

    n_neighbors: int = 10
    _: KW_ONLY
    power: int = 2
    C: float = 100.0
    nu: float = 1000.0
    kernel: Any = "gaussian"
    scale: Any = "median"
    loss: Any = "hinge"
    fit_intercept: bool = True
    class_weight: Any = None
    class_prior: Any = None
    unlabeled: Any = -1
    solver: Any = "auto"
    tol: float = 1e-3
    verbose: bool = False

    @transactional
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LaplacianSVC:
        """Learn f from points X (t, n) and their classes y, `unlabeled` where there is none."""
        sample = self._sample(X, y, sample_weight)
        kernel = as_kernel(self.kernel, self.scale, sample.X)
        found = formulate(self._config(kernel=kernel, invariance=Graph(self.n_neighbors, self.power)), sample)
        self._learn(found.problem, sample, found.variance)
        return self


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
    device: str | None = None
    precision: str | None = None

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
        problem = Problem(kernel, terms, config.basis, device=self.device, precision=self.precision)
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
