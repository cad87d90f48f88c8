"""Manifold regularisation: labels spread along the graph of nearest neighbours."""

from __future__ import annotations

from typing import Any

from rkhs._calculus.polynomials import Constant
from rkhs.estimators.atomic import all_or_nothing
from rkhs.estimators.classifier import Classifier
from rkhs.estimators.options import as_kernel, check_number
from rkhs.estimators.terms import invariance_terms
from rkhs.estimators.units import Units
from rkhs.invariances.base import as_invariances
from rkhs.invariances.graph import Graph
from rkhs.problem import Problem


class LaplacianSVC(Classifier):
    """SVM that also wants neighbours in a graph to have similar values (LapSVM).

        min 1/2 |f|^2 + C sum_i loss(f(x_i); y_i) + nu f'L^p f / tr(L^p): LapSVM

    Two points, labelled or not, are joined by an edge if one is among the nearest neighbours of the other; L is the
    Laplacian of that graph, see `rkhs.invariances.Graph`.  Divided by its trace, the sum of squares means the same in
    all units and for any number of points, and so does nu.  `InvariantClassifierCV` finds out whether a graph helps.

    Parameters
    ----------
    n_neighbors : the number of neighbours
    power : p; above one it also asks that f is smooth along the graph
    C : weight of the loss of each labelled point
    nu : weight of the graph: 100 is mild, 10,000 (images) follows it wherever some 50 labels leave it open, a million
        wherever two do.  In the usual terms C = 1 / (2 gamma_A l) and, for p = 1, nu = gamma_I tr(L) / (2 gamma_A t^2),
        for l labels of t points
    kernel, scale, loss, fit_intercept, class_weight, class_prior, unlabeled, solver, tol, verbose : as in
        `InvariantClassifier`

    Attributes
    ----------
    function_, solution_, problem_, classes_, labelled_, n_features_in_, feature_names_in_ : as in
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

    def __init__(
        self,
        n_neighbors: int = 10,
        *,
        power: int = 2,
        C: float = 100.0,
        nu: float = 1000.0,
        kernel: Any = "gaussian",
        scale: Any = "median",
        loss: Any = "hinge",
        fit_intercept: bool = True,
        class_weight: Any = None,
        class_prior: Any = None,
        unlabeled: Any = -1,
        solver: Any = "auto",
        tol: float = 1e-3,
        verbose: bool = False,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.power = power
        self.C = C
        self.nu = nu
        self.kernel = kernel
        self.scale = scale
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.class_prior = class_prior
        self.unlabeled = unlabeled
        self.solver = solver
        self.tol = tol
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LaplacianSVC:
        """Learn f from points X (t, n) and their classes y, `unlabeled` where there is none."""
        sample = self._sample(X, y, sample_weight)
        graph = as_invariances(Graph(self.n_neighbors, self.power))
        nu = check_number(self.nu, "nu", or_zero=True)
        kernel = as_kernel(self.kernel, self.scale, sample.X)
        units = Units.of(kernel, sample)
        known = invariance_terms(graph if nu else (), sample, units, nu, "squared", 0.1)
        terms = [units.data(self._label_term(sample, self.C)), *known]
        self._learn(Problem(kernel, terms, Constant() if self.fit_intercept else None), sample)
        return self
