"""Joint quantile regression with quantiles that do not cross.

All quantiles are learned in one problem, as one function F(x, e) = sum_k e_k f_k(x) of a point and a direction
(`rkhs.kernels.components`).  Their differences are values of F: f_(k+1)(x) - f_k(x) = F(x, e_(k+1) - e_k).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from rkhs._core.backend.arrays import Array, Matrix, check_number, double, to_numpy
from rkhs._core.calculus.atoms import Atoms
from rkhs._core.calculus.function_spaces import Constant, FunctionSpace, Polynomials
from rkhs._core.finite.function import Function
from rkhs._core.finite.term import Term
from rkhs._core.problem import Problem
from rkhs.estimators._base import BaseKernelEstimator, as_input_type, check_finite, dense, documented_by, transactional
from rkhs.estimators._data import Sample
from rkhs.estimators._formulation import WeightNormalization
from rkhs.estimators._length_scales import EvidenceScorer, as_kernel, deviations
from rkhs.estimators._regressor import InvariantRegressor
from rkhs.estimators.search._search import best_of, search
from rkhs.estimators.search._selection import C_for_loss, ScoringTargets
from rkhs.exceptions import warn
from rkhs.functionals import Evaluation
from rkhs.functionals._base import Functional, stack
from rkhs.kernels import Gaussian, Multiple, Sum, Tunable, components
from rkhs.kernels._base import Kernel
from rkhs.losses import OneSided, Quantile
from rkhs.shapes._bounds import check_provable
from rkhs.shapes._claims import Claim
from rkhs.shapes._fitting import LOOKS, MARGIN, ROUNDS, Constraint, ShapeCertificate
from rkhs.shapes._proofs import PROVED, WORK, prove
from rkhs.solvers import BoxDual

MOST = 1000  # targets by whose left-out residuals C is learned
DENSE = 4000  # functionals up to which rounds continue from the active set of the one before, in a dense matrix
LONG = 10.0  # length scale, in deviations of a feature, of a Gaussian kernel that is nearly a constant plus a line


@dataclass(frozen=True)
class Offsets(FunctionSpace):
    """The span of the coordinates e_1 .. e_m at points (x, e) with x in R^n: a constant for each output."""

    dimension: int
    outputs: int

    def size(self, dimension: int) -> int:
        return self.outputs

    def on(self, atoms: Atoms) -> Array:
        linear = Polynomials(1, linear=np.eye(self.dimension + self.outputs)[self.dimension :])  # 1, e_1 .. e_m
        return linear.on(atoms)[:, 1:]


@documented_by(InvariantRegressor)
@dataclass(eq=False, repr=False)
class QuantileRegressor(BaseKernelEstimator):
    """Quantile regressor whose quantiles are learned together and do not cross.

    It minimizes

        1/2 sum_k |f_k|^2 + sum_k C_k sum_i pinball_k(f_k(x_i); y_i)

    subject to f_(k+1) >= f_k on the whole box of the training points, which is proved as for `rkhs.Shape`; see
    `crossing_certificate_`.

    Parameters
    ----------
    quantiles : sequence of float, default=(0.1, 0.5, 0.9)
        The levels of the quantiles, at least two, increasing, between 0 and 1.
    kernel : str or Kernel, default="auto"
        "auto" compares the Gaussian kernel and its sum with one of so large a length scale that it is a linear trend;
        others as in `InvariantRegressor`, smooth enough for the proof, as "gaussian" is.
    scale, tol, verbose : object
        As in `InvariantRegressor`.
    C : float, optional
        The weight of each target.  By default it is learned, one value for each quantile, and so are the kernel and a
        length scale for each feature, unless these are given: by the evidence of the squared loss, and the left-out
        residuals.

    Attributes
    ----------
    C_ : list of float
        The value of C for each quantile.
    functions_ : list of Function
        The learned function of each quantile.
    crossing_certificate_ : ShapeCertificate
        What is proved about the differences of the functions.
    solution_, problem_ : Solution, Problem
        The solution and the joint problem of all quantiles.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 3, (60, 1))
    >>> y = np.sin(X[:, 0]) + 0.3 * X[:, 0] * rng.standard_normal(60)
    >>> model = rkhs.QuantileRegressor([0.25, 0.5, 0.75], scale=1.0).fit(X, y)
    >>> model.predict([[2.5]]).shape, model.crossing_certificate_.proved
    ((1, 3), True)
    """

    quantiles: Sequence[float] = (0.1, 0.5, 0.9)
    kernel: Any = "auto"
    _: KW_ONLY
    scale: Any = "median"
    C: float | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = None
        return tags

    @transactional
    def fit(self, X: Any, y: Any) -> QuantileRegressor:
        """Learn the quantiles from points and their targets.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        y : array-like of shape (t,)
            The targets.

        Returns
        -------
        QuantileRegressor
            The fitted estimator.
        """
        levels = [float(q) for q in np.atleast_1d(np.asarray(self.quantiles, dtype=np.float64))]
        if len(levels) < 2 or not all(0 < q < 1 for q in levels) or any(b <= a for a, b in pairwise(levels)):
            raise ValueError(
                f"quantiles must be at least two increasing levels between 0 and 1, got {self.quantiles!r}."
            )
        points, _, y, _ = self._validated(X, y, own=False)  # astype makes the copy
        sample = Sample.of(double(points), None, np.asarray(y, dtype=np.float64), np.ones(len(y), dtype=bool))
        X, y, times = to_numpy(sample.X), sample.y, sample.weight
        n, m = X.shape[1], len(levels)
        kernel, self.C_ = self._settings(sample, levels)
        box = np.stack([X.min(axis=0), X.max(axis=0)])
        claims = [Claim(f"quantile {above:g} is at least quantile {below:g}", ()) for below, above in pairwise(levels)]
        for claim in claims:
            check_provable(claim, Function(kernel, Evaluation(X[:1]), [1.0]))
        joint = components(kernel, n, np.eye(m))
        norms = WeightNormalization.at(kernel, X, times)
        median = float(np.median(y))  # subtracted, since offsets are free and y - median rounds less
        room, weight = MARGIN * float(np.ptp(y)), 2 * max(self.C_) * float(times.sum())

        def observed(L: Functional, k: int, targets: Matrix) -> Term:
            return norms.observed(Term(L, Quantile(levels[k]), targets, self.C_[k] * times))

        def data(targets: Matrix) -> list[Term]:
            return [observed(at(X, e), k, targets) for k, e in enumerate(np.eye(m))]

        def constrained() -> list[Term]:
            pairs = [(at(c.points, e), c) for c, e in zip(constraints, steps, strict=True) if len(c.points)]
            return [norms.observed(Term(L, OneSided(), c.bound, c.weight)) for L, c in pairs]

        steps = np.diff(np.eye(m), axis=0)  # e_(k+1) - e_k
        constraints = [
            Constraint(claim, tuple(range(n)), X[:0], X[:0], room, 16 * room, 1.0, weight, box) for claim in claims
        ]
        alone = [
            Problem(kernel, [observed(Evaluation(X), k, y - median)], Constant()).solve(tol=self.tol).function
            for k in range(m)
        ]
        a = np.concatenate([to_numpy(f.coefficients) for f in alone])
        offsets = np.concatenate([to_numpy(f.basis_coefficients) for f in alone])
        F, work = Function(joint, stack([at(X, e) for e in np.eye(m)]), a, Offsets(n, m), offsets), 0.0
        for k in range(LOOKS + ROUNDS):
            centered = Problem(joint, [*data(y - median), *constrained()], Offsets(n, m))
            L = centered.represented.functionals
            start = with_functionals(F, L, m * len(X))
            method = BoxDual() if L.size <= DENSE else "auto"
            solution = centered.solve(method, tol=self.tol, verbose=self.verbose, start=start)
            F = solution.function
            gaps = outputs_of(F, kernel, n, steps)
            if k < LOOKS:
                near = [replace(c, claim=replace(c.claim, bound=c.room / 2)) for c in constraints]  # or about to touch
                violations = [c.violations(gap) for c, gap in zip(near, gaps, strict=True)]
                if any(len(points) for points, _ in violations):
                    constraints = [c.with_points(*new) for c, new in zip(constraints, violations, strict=True)]
                    continue
            share = WORK / len(claims)
            proofs = [prove([claim], gap, box, work=share)[0] for claim, gap in zip(claims, gaps, strict=True)]
            work += sum(proof.work for proof in proofs)
            if work > WORK or any(proof.stopped for proof in proofs) or all(proof.status == PROVED for proof in proofs):
                break
            constraints = [c.refined(gap, proof) for c, gap, proof in zip(constraints, gaps, proofs, strict=True)]
        F = solution.function
        F = replace(F, basis_coefficients=F.basis_coefficients + median)
        certificate = ShapeCertificate(tuple(proofs), box, sum(term.size for term in centered.terms[m:]))
        problem = replace(centered, terms=[*data(y), *centered.terms[m:]])
        self._keep(problem, replace(solution, function=F), certificate=certificate)
        self.functions_, self.crossing_certificate_ = outputs_of(F, kernel, n, np.eye(m)), certificate
        if not certificate.proved:
            warn(
                f"It is not proved on the whole box that the quantiles do not cross: {certificate}.",
                ConvergenceWarning,
            )
        return self

    def _settings(self, sample: Sample, levels: Sequence[float]) -> tuple[Kernel, list[float]]:
        """Return the kernel, and C for each quantile."""
        X = to_numpy(sample.X)
        automatic = isinstance(self.kernel, str) and self.kernel == "auto"
        name = "gaussian" if automatic else self.kernel
        if self.C is not None:
            return as_kernel(name, self.scale, X), [check_number(self.C, "C")] * len(levels)
        is_open = isinstance(self.scale, str) and self.scale in ("auto", "median", "evidence")
        scale = Tunable(each=True) if is_open else self.scale
        kernels = [as_kernel(name, scale, X)]
        if automatic:
            trend = Gaussian(tuple((LONG * deviations(X)).tolist()))
            kernels.append(Sum((Multiple(Tunable(), trend), kernels[0])))
        scorer = EvidenceScorer(self._config(C=1.0, kernel=name), sample, {"verbose": self.verbose})
        best = best_of(search(lambda _: iter([kernels]), scorer)[0])
        kernel, some = best.params["kernel"], sample.drawn(MOST)
        labeled = ScoringTargets.of(np.arange(some.size), some.y[:, None], some.weight, some.groups)
        K = kernel(to_numpy(some.X)[labeled.rows]) / WeightNormalization.at(kernel, X, sample.weight).variance
        mean = float(some.weight.sum()) / len(labeled.rows)
        return kernel, [C_for_loss(Quantile(level), mean * best.params["C"], K, labeled) / mean for level in levels]

    def predict(self, X: Any) -> Array:
        """Predict the quantiles at the rows of X.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        ndarray of shape (t, quantiles)
            The quantiles, in increasing order.
        """
        validated = self._validated_input(X, "predict")
        points = Evaluation(double(dense(validated)))
        values = np.stack([to_numpy(points(f)) for f in self.functions_], axis=1)
        return as_input_type(check_finite(values), validated)


def at(X: Matrix, direction: Matrix) -> Evaluation:
    """Return the functionals F -> F(x_i, direction)."""
    return Evaluation(np.hstack([X, np.broadcast_to(direction, (len(X), len(direction)))]))


def with_functionals(F: Function, L: Functional, kept: int) -> Function:
    """Return F with the representers of other functionals, of which the first `kept` are the same, as a start."""
    (before, a), after = ((points_of(F.functionals), F.coefficients), points_of(L))
    known = {point.tobytes(): c for point, c in zip(before[kept:], a[kept:], strict=True)}
    new = [known.get(point.tobytes(), 0.0) for point in after[kept:]]
    return replace(F, functionals=L, coefficients=np.concatenate([a[:kept], np.array(new)]))


def outputs_of(F: Function, kernel: Kernel, n: int, directions: Matrix) -> list[Function]:
    """Return x -> F(x, e) for each direction e, as functions with the kernel of x."""
    points = points_of(F.functionals)
    a, evaluations = to_numpy(F.coefficients), Evaluation(points[:, :n])
    offsets = to_numpy(F.basis_coefficients)
    return [
        Function(kernel, evaluations, a * (points[:, n:] @ e), Constant(), np.array([offsets @ e])).compress()
        for e in directions
    ]


def points_of(L: Functional) -> Matrix:
    """Return the points (t, n + m) of values."""
    return np.concatenate([to_numpy(part.atoms.points) for part in L.parts])
