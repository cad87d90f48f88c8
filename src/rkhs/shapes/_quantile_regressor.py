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

from rkhs import Constant, Evaluation, Gaussian, InvariantRegressor, Problem, Quantile, Term, stack
from rkhs.estimators._length_scales import EvidenceScorer, deviations
from rkhs.estimators.search._scorers import C_for_loss, ScoringTargets
from rkhs.extend import (
    Array,
    BaseKernelEstimator,
    Matrix,
    Offsets,
    Sample,
    WeightNormalization,
    as_input_type,
    as_kernel,
    check_finite,
    check_number,
    choose,
    documented_by,
    double,
    to_numpy,
    transactional,
    warn,
)
from rkhs.kernels import Kernel, Multiple, Sum, Tunable, components
from rkhs.results import Function, Solution
from rkhs.shapes._bounds import lower_bounds
from rkhs.shapes._claims import Claim
from rkhs.shapes._fitting import Constraint, Rounds, ShapeCertificate
from rkhs.solvers import BoxDual

MOST = 1000  # targets by whose left-out residuals C is learned
DENSE = 4000  # functionals up to which rounds continue from the active set of the one before, in a dense matrix
LONG = 10.0  # length scale, in deviations of a feature, of a Gaussian kernel that is nearly a constant plus a line


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
        kernel, self.C_ = self._settings(sample, levels)
        joint = JointQuantiles.of(kernel, sample, levels, self.C_)
        median = float(np.median(sample.y))  # subtracted, since offsets are free and y - median rounds less
        rounds = joint.rounds(sample.y - median, self.tol, self.verbose)
        rounds.run()
        F = rounds.solution.function
        F = replace(F, basis_coefficients=F.basis_coefficients + median)
        certificate = ShapeCertificate(rounds.proofs, joint.box, rounds.points)
        constraints = rounds.constrained.terms[len(levels) :]
        problem = replace(rounds.constrained, terms=[*joint.terms(sample.y), *constraints])
        self._keep(problem, replace(rounds.solution, function=F), certificate=certificate)
        self.functions_, self.crossing_certificate_ = joint.outputs(F, np.eye(len(levels))), certificate
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
        best = choose([lambda scorer, found: [kernels]], scorer).best
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
        points = Evaluation(double(self._as_points(validated)))
        values = np.stack([to_numpy(points(f)) for f in self.functions_], axis=1)
        return as_input_type(check_finite(values), validated)


@dataclass(frozen=True, eq=False)
class JointQuantiles:
    """The problem of all quantiles of a sample, as outputs of one function F(x, e) = sum_k e_k f_k(x)."""

    kernel: Kernel  # of x
    X: Matrix  # (t, n)
    box: Matrix  # (2, n)
    levels: Sequence[float]
    weights: Matrix  # (quantiles, t)

    @classmethod
    def of(cls, kernel: Kernel, sample: Sample, levels: Sequence[float], Cs: Sequence[float]) -> JointQuantiles:
        """Return the problem with the weights C_k, which have no units, for each target."""
        X = to_numpy(sample.X)
        weights = np.outer(Cs, sample.weight) / WeightNormalization.at(kernel, X, sample.weight).variance
        return cls(kernel, X, np.stack([X.min(axis=0), X.max(axis=0)]), levels, weights)

    def terms(self, y: Matrix) -> list[Term]:
        """Return C_k sum_i pinball_k(F(x_i, e_k); y_i) for each quantile."""
        return [self._term(k, self._at(e), y) for k, e in enumerate(np.eye(len(self.levels)))]

    def rounds(self, y: Matrix, tol: float, verbose: bool) -> Rounds:
        """Return the rounds of solving and proving that f_(k+1) - f_k = F(., e_(k+1) - e_k) is nowhere negative."""
        n, m = self.X.shape[1], len(self.levels)
        steps = np.diff(np.eye(m), axis=0)
        claims = [
            Claim(f"quantile {above:g} is at least quantile {below:g}", output=tuple(step.tolist()))
            for (below, above), step in zip(pairwise(self.levels), steps, strict=True)
        ]
        bounds = lower_bounds(claims, Function(self.kernel, Evaluation(self.X[:1]), [1.0]))
        problem = Problem(components(self.kernel, n, np.eye(m)), self.terms(y), Offsets(n, m))
        size = float(np.ptp(y))
        constraints = [Constraint.of(lower, problem, self.box, size, slope=2.0) for lower in bounds]

        def solve(instance: Problem, start: Function) -> Solution:
            dense = instance.represented.functionals.size <= DENSE
            return instance.solve(BoxDual() if dense else "auto", tol=tol, verbose=verbose, start=start)

        alone = [
            Problem(self.kernel, [self._term(k, Evaluation(self.X), y)], Constant()).solve(tol=tol).function
            for k in range(m)
        ]
        a, offsets = (
            np.concatenate([to_numpy(getattr(f, name)) for f in alone])
            for name in ("coefficients", "basis_coefficients")
        )
        start = Function(problem.kernel, stack([self._at(e) for e in np.eye(m)]), a, problem.basis, offsets)
        return Rounds(problem, constraints, None, solve, lambda F: self.outputs(F, steps), start, verbose)

    def outputs(self, F: Function, directions: Matrix) -> list[Function]:
        """Return x -> F(x, e) for each direction e, as functions with the kernel of x."""
        n = self.X.shape[1]
        points = np.concatenate([to_numpy(part.atoms.points) for part in F.functionals.parts])
        a, offsets = to_numpy(F.coefficients), to_numpy(F.basis_coefficients)
        return [
            Function(
                self.kernel, Evaluation(points[:, :n]), a * (points[:, n:] @ e), Constant(), [offsets @ e]
            ).compress()
            for e in directions
        ]

    def _term(self, k: int, L: Evaluation, y: Matrix) -> Term:
        return Term(L, Quantile(self.levels[k]), y, self.weights[k])

    def _at(self, e: Matrix) -> Evaluation:
        """Return the functionals F -> F(x_i, e)."""
        return Evaluation(np.hstack([self.X, np.broadcast_to(e, (len(self.X), len(e)))]))
