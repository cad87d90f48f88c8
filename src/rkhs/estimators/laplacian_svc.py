"""Manifold regularisation: labels spread along the graph of nearest neighbours."""

from __future__ import annotations

from functools import partial
from typing import Any

from rkhs.calculus.polynomials import Constant
from rkhs.estimators.atomic import all_or_nothing
from rkhs.estimators.classifier import Classifier
from rkhs.estimators.options import as_kernel, check_number
from rkhs.estimators.terms import invariance_terms
from rkhs.invariances import Invariance
from rkhs.invariances.named import laplacian
from rkhs.problem import Problem


class LaplacianSVC(Classifier):
    """SVM that also wants neighbours in a graph to have similar values (LapSVM).

        min 1/2 |f|^2 + C sum_i loss(f(x_i); y_i) + nu sum over edges of (f(x_i) - f(x_j))^2: LapSVM

    Two points, labelled or not, are joined by an edge if one is among the nearest neighbours of the other.

    Parameters
    ----------
    n_neighbors : the number of neighbours
    C : weight of the loss of each labelled point
    nu : weight of the edges; in the usual terms C = 1 / (2 gamma_A l) and nu = gamma_I / (2 gamma_A t^2), for l labels
        of t points
    kernel, scale, loss, fit_intercept, class_weight, unlabeled, solver, tol, verbose : as in `InvariantClassifier`

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
    >>> rkhs.LaplacianSVC(scale=0.2).fit(X, few).score(X, y)
    1.0
    """

    def __init__(
        self,
        n_neighbors: int = 6,
        *,
        C: float = 100.0,
        nu: float = 10.0,
        kernel: Any = "gaussian",
        scale: Any = "median",
        loss: Any = "hinge",
        fit_intercept: bool = True,
        class_weight: Any = None,
        unlabeled: Any = -1,
        solver: Any = "auto",
        tol: float = 1e-3,
        verbose: bool = False,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.C = C
        self.nu = nu
        self.kernel = kernel
        self.scale = scale
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.unlabeled = unlabeled
        self.solver = solver
        self.tol = tol
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LaplacianSVC:
        """Learn f from points X (t, n) and their classes y, `unlabeled` where there is none."""
        sample = self._sample(X, y, sample_weight)
        edges = Invariance(partial(laplacian, neighbours=self.n_neighbors))
        nu = check_number(self.nu, "nu", or_zero=True)
        terms = [self._label_term(sample, self.C), *invariance_terms([edges] if nu else [], sample, nu, "squared", 0.1)]
        kernel = as_kernel(self.kernel, self.scale, sample.X)
        self._learn(Problem(kernel, terms, Constant() if self.fit_intercept else None), sample)
        return self
