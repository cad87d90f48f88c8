"""Fits with shape constraints that hold everywhere: rounds of constraints at points, proofs, and more points.

    minimize  J(f) + sum over claims and points of weight * max(0, bound + room - L_x f)

At first there are no points.  Each round adds those where the claims fail: among candidates that fill the box, as long
as there are such, and then where a proof fails.  Between two points f may fall below the bound by less than the margin
`room`, which is why a proof can succeed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import scipy  # imports scipy.optimize lazily
from sklearn.exceptions import ConvergenceWarning

from rkhs import Constant, Evaluation, Polynomials, Problem, Term, gram, stack
from rkhs.extend import (
    Array,
    Iterate,
    Matrix,
    Monitor,
    Saddle,
    Solver,
    Stopped,
    double,
    limits,
    multi_indices,
    seconds_left,
    to_numpy,
    warn,
    with_extended_deadline,
    with_time_limit,
)
from rkhs.losses import OneSided
from rkhs.results import Function, Solution
from rkhs.shapes._bounds import EPS, LowerBound, along, check_provable, lower_bounds
from rkhs.shapes._claims import Claim, parse_shape
from rkhs.shapes._proofs import PROVED, ClaimProof, prove

LOOKS = 8  # maximal number of rounds that look for violations at candidate points before a proof
LOOKED = 200  # candidate points; as many again are on the faces of the box
MARGIN = 2e-3  # margin by which constraints at points exceed the claim, relative to the typical size of the derivative
APART = 0.03  # minimal distance between points that are added together, relative to the sides of the box
TILT = 0.02  # maximal correction of f by linear and quadratic functions, relative to the size of f
TIME_LIMIT = "time limit"  # the status of a solution that a limit has ended


@dataclass(frozen=True, eq=False)
class ShapeCertificate:
    """The proof that a learned function has a shape everywhere on a box.

    Attributes
    ----------
    proofs : tuple of ClaimProof
        One proof for each claim of the shape: its status ("proved", "fails" or "open"), its margin, the share of the
        box on which it is proved, and the point with the least value.
    box : ndarray of shape (2, n)
        The lowest and the highest value of each feature.
    points : int
        The number of points with constraints.
    tilted : dict
        The slopes that were added to f to correct small violations, by feature.
    bent : dict
        The second derivatives that were added to f to correct small violations, by feature.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = rkhs.InvariantRegressor(scale=1.0, shape={0: "increasing"}).fit(X, np.tanh(X[:, 0] - 3))
    >>> certificate = model.shape_certificate_
    >>> certificate.proved, certificate.proofs[0].status
    (True, 'proved')
    """

    proofs: tuple[ClaimProof, ...]
    box: Matrix
    points: int
    tilted: dict[int, float] = field(default_factory=dict)
    bent: dict[int, float] = field(default_factory=dict)

    @property
    def proved(self) -> bool:
        """Whether all claims are proved."""
        return bool(self.proofs) and all(proof.status == PROVED for proof in self.proofs)

    def __repr__(self) -> str:
        added = (("slopes", self.tilted), ("second derivatives", self.bent))
        corrected = "".join(f", corrected by {what} {numbers}" for what, numbers in added if numbers)
        return f"ShapeCertificate({'; '.join(map(repr, self.proofs))}; constraints at {self.points} points{corrected})"


@dataclass(frozen=True, eq=False)
class ShapedSolution:
    """A function that has a shape, with the proof; returned by `Shape.solve`.

    Attributes
    ----------
    function : Function
        The function with the shape: that of the solution, possibly with a small correction.
    certificate : ShapeCertificate
        What is proved about it.
    problem : Problem
        The problem with its constraints at points.
    solution : Solution
        The solution of that problem.

    Examples
    --------
    >>> import rkhs
    >>> values = rkhs.Term(rkhs.Evaluation([[0.0], [1.0], [2.0]]), rkhs.Squared(), target=[0.0, 1.0, 0.9])
    >>> shaped = rkhs.Shape({0: "increasing"}).solve(rkhs.Problem(rkhs.Gaussian(scale=1.0), [values]))
    >>> shaped.certificate.proved, shaped.solution.status
    (True, 'converged')
    """

    function: Function
    certificate: ShapeCertificate
    problem: Problem
    solution: Solution


@dataclass(frozen=True, eq=False)
class Shape:
    """The shape that a learned function must have everywhere on a box, for the parameter `shape` of estimators.

    Parameters
    ----------
    constraints : dict
        For a feature, by its index or the name of its column, "increasing", "decreasing", "convex", "concave" or a
        list of these; for several features together, such as (0, 1), "convex" or "concave"; for "f" itself a pair of
        bounds, either of which may be None.
    box : array-like of shape (2, n), optional
        The lowest and the highest value of each feature; by default those of the training points.
    time_limit : float, optional
        The time limit of a fit in seconds, accurate to about one second: first for the fit without the shape, then for
        constraints and proofs.  Claims that are not proved by then are "open" in `shape_certificate_`, and a warning is
        issued.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> shape = rkhs.Shape({0: "increasing", "f": (-1, 1.2)}, box=[[0.0], [7.0]])
    >>> rkhs.InvariantRegressor(scale=1.0, shape=shape).fit(X, np.tanh(X[:, 0] - 3)).shape_certificate_.proved
    True
    """

    constraints: Mapping[Any, Any]
    box: Any = None
    time_limit: float | None = None

    @classmethod
    def of(cls, shape: Any) -> Shape:
        """Convert a dictionary of constraints to a shape.

        Parameters
        ----------
        shape : Shape or dict
            A shape, or its constraints.

        Returns
        -------
        Shape
            The shape.
        """
        return shape if isinstance(shape, Shape) else cls(shape)

    def solve(
        self,
        problem: Problem,
        solver: Solver | str = "auto",
        *,
        names: Sequence[str] | None = None,
        tol: float = 1e-6,
        atol: float = 0.0,
        verbose: bool = False,
    ) -> ShapedSolution:
        """Solve a problem such that its minimizer has the shape everywhere on the box.

        Rounds of solving the problem with constraints at points, and of attempting a proof, share the time limit.  What
        is left of small violations is corrected by adding linear and quadratic functions.

        Parameters
        ----------
        problem : Problem
            The problem, whose points the box contains by default.
        solver, tol, atol, verbose : object
            As in `Problem.solve`.
        names : sequence of str, optional
            The names of the features.

        Returns
        -------
        ShapedSolution
            The function and the certificate of its shape; the problem with constraints, and its solution.

        Examples
        --------
        >>> import numpy as np, rkhs
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> y = np.tanh(X[:, 0] - 3) + 0.3 * np.sin(9 * X[:, 0])
        >>> values = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=y)
        >>> shaped = rkhs.Shape({0: "increasing"}).solve(rkhs.Problem(rkhs.Gaussian(scale=1.0), [values]))
        >>> shaped.certificate.proved, bool(np.all(np.diff(shaped.function(X)) >= 0))
        (True, True)
        """
        seconds = self.time_limit
        if seconds is not None and not (isinstance(seconds, Real) and 0 < float(seconds) < np.inf):
            raise ValueError(f"time_limit of a Shape must be a positive number of seconds, or None, got {seconds!r}.")
        parts = [part for term in problem.terms for part in term.functional.parts]
        points = np.concatenate([double(part.atoms.points) for part in parts])
        claims, box = self._claims_and_box(points, names)
        size, any_f = size_of(problem, claims), problem.terms[0].functional.take([0])
        bounds = lower_bounds(claims, Function(problem.kernel, any_f, np.zeros(1)))
        warn_of_cost(bounds, box)
        constraints = [Constraint.of(lower, problem, box, size, 2 * size) for lower in bounds]
        solve = partial(Problem.solve, solver=solver, tol=tol, atol=atol, verbose=verbose)
        with with_time_limit(None if seconds is None else float(seconds)):
            rounds = Rounds(problem, *seeded(problem, constraints), solve, verbose=verbose)
            rounds.run()
            check_provable(claims[0], rounds.solution.function)
            f, s, c = corrected(rounds.solution.function, () if rounds.stopped else rounds.proofs, box, size)
            proofs = rounds.proofs
            if np.any(s) or np.any(c) or not proofs or not (rounds.stopped or rounds.proved):
                proofs = prove(lower_bounds(claims, f), box, verbose=verbose)
        tilted, bent = ({j: float(value) for j, value in enumerate(added) if value} for added in (s, c))
        certificate = ShapeCertificate(proofs, box, rounds.points, tilted, bent)
        if not certificate.proved:
            warn(
                f"The shape is not proved on the whole box: {certificate}. {remedy(certificate, rounds.stopped)}",
                ConvergenceWarning,
            )
        return ShapedSolution(f, certificate, rounds.constrained, rounds.solution)

    def prove(
        self, function: Function, *, names: Sequence[str] | None = None, verbose: bool = False
    ) -> ShapeCertificate:
        """Prove that a function has the shape everywhere on the box, or find points where it has not.

        Parameters
        ----------
        function : Function
            A function such as that of a solution.
        names : sequence of str, optional
            The names of the features.
        verbose : bool, default=False
            Whether to display progress.

        Returns
        -------
        ShapeCertificate
            The proof of each claim; by default on the bounding box of the points of the function.

        Examples
        --------
        >>> import numpy as np, rkhs
        >>> f = rkhs.results.Function(rkhs.Gaussian(scale=1.0), rkhs.Evaluation([[0.0]]), [1.0])
        >>> [rkhs.Shape({0: "increasing"}, box).prove(f).proved for box in ([[-1.0], [-0.1]], [[-1.0], [0.1]])]
        [True, False]
        """
        points = np.concatenate([double(part.atoms.points) for part in function.functionals.parts])
        claims, box = self._claims_and_box(points, names)
        with with_time_limit(self.time_limit):
            return ShapeCertificate(prove(lower_bounds(claims, function), box, verbose=verbose), box, 0)

    def _claims_and_box(self, points: Matrix, names: Sequence[str] | None) -> tuple[list[Claim], Matrix]:
        """Return the claims about a function of points (t, n), and the box (2, n)."""
        claims, n, given = parse_shape(self.constraints, names, points.shape[1]), points.shape[1], self.box
        box = np.array([points.min(axis=0), points.max(axis=0)] if given is None else given, dtype=np.float64)
        if box.shape != (2, n) or not np.all(box[1] >= box[0]) or not np.all(np.isfinite(box)):
            raise ValueError(
                f"box of a Shape must have the lowest and the highest value of each feature, (2, {n}), got {given!r}."
            )
        return claims, box


@dataclass(eq=False)
class Rounds:
    """Solutions of a problem with constraints at points, to which each round adds points where the claims fail.

    `solve` solves a problem from a function to start with, which `quick` computes if it can, and otherwise is that of
    the last round.  `functions` maps the function of a solution to those that the claims are about.
    """

    problem: Problem
    constraints: list[Constraint]
    quick: ConstrainedLeastSquares | None
    solve: Callable[..., Solution]
    functions: Callable[[Function], Any] = lambda f: f
    start: Function | None = None
    verbose: bool = False
    constrained: Problem = field(init=False)
    solution: Solution = field(init=False)
    keys: list[bytes] = field(init=False)  # of the constraints at the start of the next round
    proofs: tuple[ClaimProof, ...] = ()
    stopped: bool = False  # whether the time limit ended the last round
    work: float = 0.0  # terms that were added up in proofs

    def run(self) -> None:
        """Solve, and refine the constraints, until the claims are proved or no refinement helps."""
        self.keys = [key for constraint in self.constraints for key in constraint.keys]
        for k in range(limits().shape_rounds):
            with with_extended_deadline(0.0 if k else 0.5):  # any time limit leaves a function
                self._solve(k)
            if self.stopped:
                break
            before, self.constraints = self.constraints, self._refined(k)
            if self.constraints == before:
                break

    @property
    def claims(self) -> list[Claim]:
        """The claims of the constraints."""
        return [constraint.claim for constraint in self.constraints]

    @property
    def proved(self) -> bool:
        """Whether all claims are proved."""
        return bool(self.proofs) and all(proof.status == PROVED for proof in self.proofs)

    @property
    def points(self) -> int:
        """The number of points with constraints."""
        return sum(term.size for term in self.constrained.terms[len(self.problem.terms) :])

    def _solve(self, k: int) -> None:
        """Solve the problem with the constraints so far; after the first round, not if a limit ends the solver."""
        terms = [c.term(self.problem.terms[0].functional.prototype) for c in self.constraints if len(c.points)]
        candidate = replace(self.problem, terms=[*self.problem.terms, *terms])
        result = self.solve(candidate, start=self._start(candidate))
        self.stopped = seconds_left() <= 0 or result.status == TIME_LIMIT
        if k == 0 or result.status != TIME_LIMIT:
            self.constrained, self.solution, self.proofs = candidate, result, ()
            self.start = result.function
            self.keys = [key for constraint in self.constraints for key in constraint.keys]

    def _start(self, candidate: Problem) -> Function | None:
        """Return the minimizer if it is quick, else the last function, with zero for new constraints; None without."""
        if self.quick is not None:
            return self.quick.start(self.constraints)
        if self.start is None or candidate.approximation is not None or candidate.null_space != "kept":
            return None
        L, a = candidate.represented.functionals, to_numpy(self.start.coefficients)
        keys = [key for constraint in self.constraints for key in constraint.keys]
        data = L.size - len(keys)
        known = dict(zip(self.keys, a[data:], strict=True))
        added = np.array([known.get(key, 0.0) for key in keys])
        return replace(self.start, functionals=L, coefficients=np.concatenate([a[:data], added]))

    def _refined(self, k: int) -> list[Constraint]:
        """Return the constraints of the next round; the same ones if there is nothing to do."""
        constraints, bounds = self.constraints, lower_bounds(self.claims, self.functions(self.solution.function))
        pairs = list(zip(constraints, bounds, strict=True))
        # weight <- 100 weight if f violates constraints at their own points: the penalty is not exact
        violated = [bool(np.any(c.values(lower) < c.claim.bound)) for c, lower in pairs]
        if any(violated):
            return [replace(c, weight=100 * c.weight) if v else c for c, v in zip(constraints, violated, strict=True)]
        if k < min(LOOKS, limits().shape_rounds - 1):
            added = with_violations(constraints, bounds, k)
            if added is not constraints:
                return added
        self.proofs = prove(bounds, constraints[0].box, skip_failing=True, verbose=self.verbose)
        self.stopped = any(proof.stopped for proof in self.proofs)
        self.work += sum(proof.work for proof in self.proofs)
        if self.stopped or self.proved or self.work > limits().proof_work:
            return constraints
        return [c.refined(lower, proof) for (c, lower), proof in zip(pairs, self.proofs, strict=True)]


def with_violations(constraints: list[Constraint], bounds: Sequence[LowerBound], k: int) -> list[Constraint]:
    """Return constraints also at candidate points where the claims fail, in round k; the same ones if they do nowhere.

    They are the same, too, if it would take more work to look than a proof may take.
    """
    if 2 * LOOKED * LOOKS * sum(lower.work_at for lower in bounds) > limits().proof_work:
        return constraints
    found = [c.violations(lower) for c, lower in zip(constraints, bounds, strict=True)]
    if not any(len(points) for points, _ in found):
        return constraints
    apart = max(APART, 0.1 / 2**k)
    triples = zip(constraints, bounds, found, strict=True)
    return [c.active_at(lower).with_points(*new, apart) for c, lower, new in triples]


def seeded(problem: Problem, constraints: list[Constraint]) -> tuple[list[Constraint], ConstrainedLeastSquares | None]:
    """Return constraints at points where squared losses need them, and what computes the minimizer with them quickly.

    It ends early, with the points so far, at the time limit or if the minimizer cannot be computed: seeding only saves
    rounds of the solver.
    """
    quadratic = all(term.loss.quadratic for term in problem.terms)
    exact = problem.approximation is None and problem.null_space == "kept"
    in_numpy = quadratic and exact and isinstance(problem.represented.functionals.prototype, np.ndarray)
    if not in_numpy or problem.system.size > limits().shape_dense:
        return constraints, None
    quick = None
    try:
        with with_time_limit(0.3 * seconds_left()), closing(Monitor(0.0)) as monitor, monitor.showing("seeding"):
            quick = ConstrainedLeastSquares(problem)
            for k in range(LOOKS):
                monitor.check()
                before, bounds = constraints, lower_bounds([c.claim for c in constraints], quick(constraints))
                constraints = with_violations(constraints, bounds, k)
                if constraints is before:
                    return [c.active_at(lower) for c, lower in zip(constraints, bounds, strict=True)], quick
    except (Stopped, RuntimeError, np.linalg.LinAlgError):
        pass
    return constraints, quick


class ConstrainedLeastSquares:
    """The minimizer of squared losses with constraints L f >= b, with the equations of the data factorized once.

        f = f_0 + sum_m x_m z~_m,        x >= 0 the minimizer of 1/2 x'G~x - x'(b - L f_0)

    Here z~_m and G~ are the representers of L and their Gram matrix, conditioned on the data.
    """

    def __init__(self, problem: Problem) -> None:
        self.represented, system = problem.represented, problem.system
        # S [a; c] = [y; 0],  S = [G + diag(1 / 2w), Q; Q', 0]
        self.saddle = Saddle(system.gram.in_double, 1 / (2 * system.weight[:, 0]), system.Q)
        self.a, self.c = self.saddle.solve(system.target)

    def start(self, constraints: Sequence[Constraint]) -> Function | None:
        """Return the minimizer as a start for a solver; None if it cannot be computed, or not in this precision."""
        try:
            return self(constraints) if self.represented.functionals.prototype.dtype == np.float64 else None
        except (RuntimeError, np.linalg.LinAlgError):
            return None

    def __call__(self, constraints: Sequence[Constraint]) -> Function:
        """Return the minimizer with the constraints at their points."""
        terms = [c.term(self.represented.functionals.prototype) for c in constraints if len(c.points)]
        if not terms:
            return self.represented.function(Iterate(self.a, self.c))
        L, kernel, basis = stack([term.functional for term in terms]), self.represented.kernel, self.represented.basis
        b = np.concatenate([np.broadcast_to(term.target, term.size) for term in terms])
        # [A; C] = S^-1 [K; B'],  G~ = G_L - K'A - B C,  r = b - K'a - B c
        K = double(gram(kernel, self.represented.functionals, L).in_double())
        B = np.zeros((L.size, 0)) if basis.space is None else L(basis.space) @ basis.back
        A, C = self.saddle.solve(K, B.T)
        parts = double(gram(kernel, L).in_double()), K.T @ A, B @ C
        sizes = np.max([np.abs(np.diag(part)) for part in parts], axis=0)
        x = nonnegative(parts[0] - parts[1] - parts[2], b - (K.T @ self.a + B @ self.c)[:, 0], sizes)[:, None]
        data = self.represented.function(Iterate(self.a - A @ x, self.c - C @ x))
        return data + Function(kernel, L, x[:, 0])


def nonnegative(G: Matrix, r: Matrix, sizes: Matrix) -> Matrix:
    """Return the minimizer of 1/2 x'Gx - x'r over x >= 0, for G positive semidefinite up to rounding.

    `sizes` are the magnitudes of the terms whose differences are the diagonal of G: eigenvalues below their rounding
    errors are raised to that level, so that G has a square root in spite of cancellation.  The problem is scaled such
    that `sizes` and the largest entry of r are one, because `scipy.optimize.nnls` has absolute tolerances.

    Examples
    --------
    >>> nonnegative(np.eye(2), np.array([1.0, -1.0]), np.ones(2))
    array([1., 0.])
    """
    unit = np.sqrt(np.where(sizes > 0, sizes, 1.0))
    right = r / unit
    largest = float(np.abs(right).max(initial=0.0)) or 1.0
    # G = V diag(values) V' = R'R,  |R x - R'^-1 r|^2 / 2 = 1/2 x'Gx - x'r + constant
    values, V = np.linalg.eigh((G + G.T) / 2 / (unit[:, None] * unit))
    roots = np.sqrt(np.maximum(values, len(G) * EPS))
    R, target = roots[:, None] * V.T, V.T @ (right / largest) / roots
    steps = 30 * len(G)  # ten times the default of the active-set method
    return largest * scipy.optimize.nnls(R, target, maxiter=steps)[0] / unit


@dataclass(frozen=True, eq=False)
class Constraint:
    """A claim at points, as an exact penalty weight * max(0, bound + room - L_x f) with a sufficiently large weight.

    In the term, L_x and the bound are multiplied by `unit`, so that slopes are in units of the kernel's length scales,
    and the problem does not depend on the units of the features.
    """

    claim: Claim
    active: tuple[int, ...]  # features on which L_x f depends; the others are fixed at the center of the box
    points: Matrix  # (t, n)
    directions: Matrix  # (t, n), in which the Hessian is constrained
    room: float  # the margin, in units of L_x f
    max_room: float  # the upper limit of the margin
    unit: float
    weight: float
    box: Matrix  # (2, n)

    @classmethod
    def of(cls, lower: LowerBound, problem: Problem, box: Matrix, size: float, slope: float) -> Constraint:
        """Return the constraint without points for a claim, whose `lower` bound need not be that of the minimizer.

        `size` is that of f (`size_of`), and `slope` bounds the derivative of the losses.  The margin is relative to the
        size of L_x f that `size` implies: a slope is about `size` divided by the side of the box, or by the length
        scale of the kernel if the side is zero.
        """
        claim, none = lower.claim, np.zeros((0, box.shape[1]))
        joint, axes = list(claim.jointly), list(claim.axes)
        scales = 1 / np.where(lower.part.rates > 0, lower.part.rates, 1.0)
        sides = np.where(box[1] > box[0], box[1] - box[0], scales)
        spread = float(np.max(sides[joint] / lower.units) ** 2 if joint else np.prod(sides[axes]))
        unit = float(np.prod(scales[axes]))
        # The multiplier of a constraint is at most sum_i w_i |loss'| |L_i| / |L_x|.
        v = np.zeros_like(box[:1])
        v[:, joint] = lower.units / np.sqrt(max(len(joint), 1))
        families = [one.at(box[:1], v, claim.output) for one in (Claim("", output=claim.output), claim)]
        norms = [float(np.sqrt(gram(problem.kernel, family).diagonal()[0])) for family in families]
        total = sum(float(np.sum(to_numpy(term.weights()))) for term in problem.terms)
        weight, room = slope * total * norms[0] / (unit * norms[1]), MARGIN * size / spread
        return cls(claim, lower.active, none, none, room, 16 * room, unit, weight, box)

    def term(self, prototype: Array) -> Term:
        """Return the term of the points, in the namespace and on the device of the prototype."""
        L = self.unit * self.claim.at(self.points, self.directions, self.claim.output)
        L = L if isinstance(prototype, np.ndarray) else L.like(prototype)
        return Term(L, OneSided(), self.unit * (self.claim.bound + self.room), self.weight)

    @property
    def keys(self) -> list[bytes]:
        """A name of each row of the term."""
        pairs = zip(self.points, self.directions, strict=True)
        return [self.claim.name.encode() + x.tobytes() + v.tobytes() for x, v in pairs]

    def values(self, lower: LowerBound) -> Matrix:
        """Return L_x f at the points, from the summands of the kernel on which it depends."""
        return to_numpy(self.claim.at(self.points, self.directions)(lower.part.f)) if len(self.points) else np.zeros(0)

    def active_at(self, lower: LowerBound) -> Constraint:
        """Return the constraint at the points where it is nearly active: L_x f is within 20 margins of the bound."""
        kept = self.values(lower) < self.claim.bound + 20 * self.room
        return replace(self, points=self.points[kept], directions=self.directions[kept])

    def with_points(self, points: Matrix, directions: Matrix, apart: float = APART) -> Constraint:
        """Add up to 40 of the points, at a distance of at least `apart` (relative to the box) from each other."""
        active = list(self.active)
        points = np.where(np.isin(np.arange(points.shape[1]), active), points, self.box.mean(axis=0))
        scaled = points[:, active] / np.where(self.box[1] > self.box[0], self.box[1] - self.box[0], 1.0)[active]
        chosen: list[int] = []
        for k, point in enumerate(scaled):
            distances = np.abs(scaled[chosen] - point).max(axis=1, initial=0.0)
            if len(chosen) < 40 and np.all(distances > apart):
                chosen.append(k)
        pairs = zip((self.points, self.directions), (points, directions), strict=True)
        points, directions = (np.concatenate([old, new[chosen]]) for old, new in pairs)
        return replace(self, points=points, directions=directions)

    def refined(self, lower: LowerBound, proof: ClaimProof) -> Constraint:
        """Return the constraint of the next round, given a proof about f; itself if no refinement can help.

        Points are added where the claim fails or is hardest to prove, and the margin grows by the deficit of f there,
        up to a limit: with a short length scale f decreases between the points for any margin, which would grow without
        end.  If rounding hides the claim, only the margin grows, unless the limit is below the rounding error.
        """
        hidden = proof.rounding * float(lower.units.max()) ** 2  # in units of L_x f
        if proof.status == PROVED or (proof.hidden and hidden > self.max_room):
            return self
        result = self
        if not proof.hidden or hidden <= self.room:  # if f is at its bound, it is not by rounding
            result = self.active_at(lower).with_points(proof.candidates, proof.directions)
        deficit = hidden - float(lower.at(proof.worst[None])[0][0])
        room = min(self.room + deficit, 4 * self.room, self.max_room)
        return replace(result, room=room) if room > self.room else result

    def violations(self, lower: LowerBound) -> tuple[Matrix, Matrix]:
        """Return points where the claim fails, in the order of the violation, and the directions of Hessians there.

        The candidates fill the box evenly; if the claim holds at all of them, the lowest ones are moved downhill.
        """
        X = space_filling_points(LOOKED, self.box, self.active, np.random.default_rng(0))
        values, directions = lower.at(X)
        if np.all(values >= 0):
            low = X[np.argsort(values, kind="stable")[:64]]
            step = 0.5 * (self.box[1] - self.box[0]) * len(X) ** (-1 / max(len(self.active), 1))
            X = np.clip(lower.descend(low, step), *self.box)
            values, directions = lower.at(X)
        worst = np.argsort(values, kind="stable")[: int(np.sum(values < 0))]
        return X[worst], directions[worst]


def corrected(f: Function, proofs: Sequence[ClaimProof], box: Matrix, size: float) -> tuple[Function, Matrix, Matrix]:
    """Return f(x) + sum_j s_j t_j + c_j t_j^2 / 2, t = x - center, that satisfies the claims, and s and c (n,).

    They are not zero only where the deficit that the proofs leave is small.
    """
    n, sides = box.shape[1], box[1] - box[0]
    s, c = np.zeros(n), np.zeros(n)
    for proof in proofs:
        claim, deficit = proof.claim, -proof.margin * (1 + 1e-9)  # in units of the features
        if proof.status == PROVED or not 0 < deficit < np.inf or claim.order == 0:
            continue
        if claim.order == 1 and deficit * sides[claim.axes[0]] <= TILT * size:
            s[claim.axes[0]] = claim.sign * deficit
        if claim.order == 2:
            features = list(claim.jointly or claim.axes[:1])
            units = lower_bounds([claim], f)[0].units
            curvature = deficit * (units.min() / units) ** 2  # the same for every feature in length scales
            if np.sum(curvature * sides[features] ** 2) / 8 <= TILT * size:
                c[features] = claim.sign * curvature
    if not np.any(s) and not np.any(c):
        return f, s, c
    basis = Polynomials(2 if np.any(c) else 1, center=(box[0] + box[1]) / 2)
    added = {along([j], n): s[j] for j in range(n)} | {along([j, j], n): c[j] / 2 for j in range(n)}
    coefficients = np.array([added.get(index, 0.0) for index in multi_indices(basis.degree, range(n), n)])
    zero = f.functionals.take([0])
    return f + Function(f.kernel, zero, np.zeros(1), basis, coefficients), s, c


def warn_of_cost(bounds: Sequence[LowerBound], box: Matrix) -> None:
    """Warn, before anything is computed, if the proof of a claim is expected to take more cells than are tried."""
    cells, most = [lower.expected_cells(box) for lower in bounds], limits().proof_cells
    hardest = bounds[int(np.argmax(cells))]
    if max(cells) <= most:
        return
    one_each = (
        "Bounds of f itself involve all features of any kernel: leave them out."
        if hardest.claim.order == 0
        else "A sum of kernels of one feature each, such as kernel=rkhs.kernels.additive(rkhs.Gaussian(scale=1.0), "
        f"{box.shape[1]}) for standardized features, is proved feature by feature in seconds."
    )
    warn(
        f"The shape will probably not be proved, after minutes: that {hardest.claim.name} is a claim about "
        f"{len(hardest.active)} interacting features, whose box needs about {max(cells):.0e} cells, and {most:,} "
        f"are tried. {one_each} rkhs.Shape(.., time_limit=60) limits the time, and verbose=True shows the progress."
    )


def remedy(certificate: ShapeCertificate, stopped: bool) -> str:
    """Return advice for a shape that is not proved."""
    if stopped:
        return "A time limit stopped the proof: increase the time limit."
    if any(proof.hidden for proof in certificate.proofs):
        return "f is a difference of numbers so large that rounding hides its shape: a smaller C makes them smaller."
    return (
        "A smaller C or a larger scale makes the claims between points easier to prove. Many interacting features need "
        "too many cells; a sum of kernels of few features each (rkhs.kernels.additive) is proved feature by feature."
    )


def size_of(problem: Problem, claims: Sequence[Claim] = ()) -> float:
    """Return the typical size of f that the data and the bounds of claims imply, in the unit of f.

    It is the largest of the range of targets that are values or averages of f (L_i(1) = 1), of twice |b_i| |delta_x| /
    |L_i| for other targets b_i, such as slopes, and of the distances of values from a bound that they violate.  It is
    at least so large that the margin of constraints exceeds the rounding errors of values and bounds.
    """
    bounds = [claim for claim in claims if claim.order == 0]
    smallest = float(np.cbrt(EPS))  # relative to the largest number
    sizes = [smallest * abs(claim.bound) for claim in bounds]
    for term in problem.terms:
        L, targets = term.functional, double(term.observed_target).reshape(-1)
        known, mean = np.isfinite(targets), np.isclose(to_numpy(L(Constant())).reshape(-1), 1.0)
        values, others = targets[known & mean], known & ~mean
        if len(values):
            sizes += [float(np.ptp(values)), smallest * float(np.abs(values).max())]
            sizes += [claim.bound - float(np.min(claim.sign * values)) for claim in bounds]
        if np.any(targets[others]):
            point = Evaluation(to_numpy(L.parts[0].atoms.points)[:1].astype(np.float64))
            norms = [np.sqrt(to_numpy(gram(problem.kernel, family).diagonal())) for family in (point, L)]
            sizes.append(2 * float(np.max(np.abs(targets[others]) * norms[0][0] / norms[1].reshape(-1)[others])))
    return max(sizes, default=0.0)


def space_filling_points(count: int, box: Matrix, active: Sequence[int], random: np.random.Generator) -> Matrix:
    """Return points that fill a box (2, n) evenly in the active features; the others are at the center.

    With two or more active features, as many points again are on the faces of the box.
    """
    features, n = list(active), len(active)
    filled = np.linspace(0, 1, count)[:, None] if n == 1 else evenly(2 * count if n else 1, n)
    if n > 1:
        filled[np.arange(count), random.integers(n, size=count)] = random.integers(2, size=count)
    points = np.repeat(box.mean(axis=0, keepdims=True), len(filled), axis=0)
    points[:, features] = box[0, features] + filled * (box[1] - box[0])[features]
    return points


def evenly(count: int, n: int) -> Matrix:
    """Return a low-discrepancy sequence in the unit cube, the R-sequence (Roberts 2018).

    The points are multiples of powers of the inverse root of x^(n+1) = x + 1, modulo one.

    Examples
    --------
    >>> evenly(3, 1)[:, 0].round(2)  # multiples of the golden ratio
    array([0.12, 0.74, 0.35])
    """
    root = 2.0
    for _ in range(50):
        root = (1 + root) ** (1 / (n + 1))
    return (0.5 + np.outer(np.arange(1, count + 1), root ** -np.arange(1.0, n + 1))) % 1
