"""Small random problems, and the same problems given to cvxpy with Clarabel as dense matrices.

`case(seed)` runs through all 78 pairs of the twelve losses, and through the bases beside each pair; kernels,
functionals, targets and weights are drawn.  Problems without a minimizer (a basis that separates the classes, for
example) are drawn again.
"""

import warnings
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations_with_replacement

import cvxpy
import numpy as np
import scipy.linalg
import scipy.optimize

import rkhs
from rkhs._core.gram.matrix import GramMatrix
from rkhs.extend import to_numpy

LOSSES = (
    rkhs.Squared(),
    rkhs.losses.Absolute(),
    rkhs.losses.EpsilonInsensitive(0.2),
    rkhs.losses.SquaredEpsilonInsensitive(0.2),
    rkhs.Huber(0.5),
    rkhs.Quantile(0.8),
    rkhs.losses.OneSided(),
    rkhs.losses.SquaredOneSided(),
    rkhs.Logistic(),
    rkhs.Hinge(),
    rkhs.SquaredHinge(),
    rkhs.losses.SmoothedHinge(0.5),
)
PAIRS = tuple(combinations_with_replacement(LOSSES, 2))
BASES = (None, rkhs.Constant(), rkhs.Polynomials(1))
KERNELS = (
    rkhs.Gaussian(0.9),
    rkhs.Matern(2.5, 1.2),
    rkhs.Matern(3.5, 1.2),
    rkhs.kernels.Polynomial(3, 1.0),
    rkhs.kernels.Polyharmonic(2),
    rkhs.kernels.Polyharmonic(3),
    rkhs.kernels.Polyharmonic(5),
    rkhs.kernels.ThinPlate(2),
    rkhs.kernels.ThinPlate(3),
    rkhs.Gaussian(0.7) + 0.5 * rkhs.Matern(2.5, 2.0) + 0.1 * rkhs.kernels.Linear(),
    rkhs.Gaussian(1.5) * rkhs.kernels.Polynomial(2) + rkhs.Matern(3.5),
    rkhs.kernels.Polyharmonic(3) + 0.5 * rkhs.Gaussian(0.5),
)
COUNT = 4 * len(PAIRS)  # each pair with each basis, and once more with any


@dataclass(frozen=True, eq=False)
class Case:
    """A problem, functionals to compare solutions by, and whether it determines the basis part of f."""

    problem: rkhs.Problem
    probes: rkhs.extend.Functional
    identified: bool

    @cached_property
    def bend(self):
        """The largest eigenvalue of W^1/2 G W^1/2 (on Q'a = 0): losses of curvature 1 bend J by so much."""
        system = self.problem.system
        G, Q = np.asarray(system.gram.dense()), np.asarray(system.Q)
        if not system.definite:
            inside = np.eye(len(G)) - Q @ Q.T
            G = inside @ G @ inside
        root = np.sqrt(np.concatenate([np.asarray(t.weight)[:, 0] for t in system.terms]))
        return np.linalg.eigvalsh(root[:, None] * G * root)[-1]


@dataclass(frozen=True)
class Reference:
    """What cvxpy found: the minimum, L(f) of the probes without the basis, and what the basis adds to it."""

    value: float
    penalized: np.ndarray
    free: np.ndarray


def losses(seed):
    """The two losses of a seed's problem, in some order: known before it is drawn, which takes 0.1 s."""
    return PAIRS[seed % len(PAIRS)]


@cache
def case(seed):
    """The random problem of a seed."""
    for attempt in range(100):
        drawn = _draw(seed, np.random.default_rng([seed, attempt]))
        if drawn is not None:
            return drawn
    raise AssertionError(f"no problem with a minimizer found for seed {seed}")


def _draw(seed, rng):
    """A problem, or None if it has no minimizer."""
    basis = BASES[seed // len(PAIRS)] if seed // len(PAIRS) < len(BASES) else BASES[rng.integers(len(BASES))]
    d = int(rng.integers(1, 4))
    kernel = KERNELS[rng.integers(len(KERNELS))]
    if isinstance(kernel, rkhs.kernels.ThinPlate) and 2 * kernel.order <= d:
        kernel = rkhs.kernels.ThinPlate(d // 2 + 1)
    pair = losses(seed)
    if rng.random() < 0.5:
        pair = pair[::-1]
    terms = [_term(rng, d, kernel, loss, first=k == 0) for k, loss in enumerate(pair)]
    if rng.random() < 0.3:  # few values, weakly: a third term, which fixes the basis too
        values = rkhs.Evaluation(rng.normal(size=(6, d)))
        terms.append(rkhs.Term(values, rkhs.Squared(), rng.normal(size=6), _weight(rng)))
    problem = rkhs.Problem(kernel, terms, basis)
    with_gram(problem, GramMatrix(problem.system.gram.dense()))  # solvers are on trial here, not products
    probes = rkhs.stack([_family(rng, d, kernel, 3), rkhs.Evaluation(rng.normal(size=(5, d)))])
    return Case(problem, probes, _identified(problem)) if has_minimizer(problem) else None


def with_gram(problem, gram):
    """Put another Gram operator into the finite problem of a problem."""
    represented = problem.represented
    system, back = represented._finite
    represented.__dict__["_finite"] = system.with_geometry(gram=gram, exact=gram), back


def _term(rng, d, kernel, loss, first):
    if first or loss.classification:
        family = rkhs.Evaluation(rng.normal(size=(int(rng.integers(10, 25)), d)))
    else:
        family = _family(rng, d, kernel, int(rng.integers(10, 25)))
    noise = rng.normal(size=family.shape)
    target = np.where(noise > 0, 1.0, -1.0) if loss.classification else noise
    weight = _weight(rng) if rng.random() < 0.7 else 10 ** rng.uniform(-2, 2, size=family.shape)
    return rkhs.Term(family, loss, target, weight)


def _weight(rng):
    return float(10 ** rng.uniform(-2, 2))


def _family(rng, d, kernel, size):
    """Functionals of one kind, about as many as asked for, all of them bounded under the kernel."""
    X, Y = rng.normal(size=(size, d)), rng.normal(size=(size, d))
    few = X[: max(1, size // d)]
    kinds = [
        lambda: rkhs.Evaluation(X),
        lambda: rkhs.functionals.LocalAverage(X, 0.4),
        lambda: rkhs.functionals.LocalDeviation(X, 0.4),
        lambda: rkhs.Difference(X, Y),
        lambda: rng.normal(size=(size, size + 3)) @ rkhs.Evaluation(rng.normal(size=(size + 3, d))) / size,
    ]
    if kernel.smoothness(d) > 1:
        kinds += [
            lambda: rkhs.Gradient(few),
            lambda: rkhs.functionals.DirectionalDerivative(X, Y),
            lambda: rng.normal(size=(size, few.size)) @ rkhs.Gradient(few) / size,
        ]
    if kernel.smoothness(d) > 2:
        kinds += [lambda: rkhs.functionals.Laplacian(X)]
    return kinds[rng.integers(len(kinds))]()


def has_minimizer(problem):
    """Whether J grows along every function of the basis, well enough to be compared in floating point."""
    Q = np.asarray(problem.system.Q)
    if Q.shape[1] == 0 or _rank_of(problem, lambda loss: not _one_sided(loss)):
        return True
    return recession(problem) > 1e-2


def recession(problem):
    """The slowest linear growth of the losses along the functions Qc with |c|_max = 1: 0 if J has no minimizer."""
    Q = np.asarray(problem.system.Q)
    N, r = Q.shape
    signs = np.concatenate(
        [_sign(t.loss, np.asarray(t.target)[:, 0]) for t in problem.system.terms]
    )  # the side on which the loss grows: u -> -inf for +1, +inf for -1, both for 0
    rows = [np.hstack([-s[:, None] * Q, -np.eye(N)])[keep] for s, keep in _sides(signs)]
    A = np.vstack(rows)  # -s u <= t
    cost = np.concatenate([np.zeros(r), np.ones(N)])
    slowest = np.inf
    for j in range(r):
        for sign in (-1.0, 1.0):
            bounds = [(-1, 1)] * r + [(0, None)] * N
            bounds[j] = (sign, sign)
            slowest = min(slowest, scipy.optimize.linprog(cost, A, np.zeros(len(A)), bounds=bounds).fun)
    return slowest


def _sides(signs):
    ones = np.ones_like(signs)
    return [(ones, signs >= 0), (-ones, signs <= 0)]


def _one_sided(loss):
    return loss.classification or isinstance(loss, (rkhs.losses.OneSided, rkhs.losses.SquaredOneSided))


def _sign(loss, target):
    if loss.classification:
        return target
    return np.ones_like(target) if _one_sided(loss) else np.zeros_like(target)


def _identified(problem):
    """Strictly convex losses on functionals that tell the functions of the basis apart: all of f is unique."""
    return _rank_of(problem, lambda loss: isinstance(loss, (rkhs.Squared, rkhs.Logistic)))


def _rank_of(problem, which):
    """Whether the terms with these losses see every function of the basis."""
    Q = np.asarray(problem.system.Q)
    rows = [Q[t.rows] for t in problem.system.terms if which(t.loss)]
    return Q.shape[1] == 0 or (bool(rows) and np.linalg.svd(np.vstack(rows))[1].min(initial=1.0) > 0.05)


# The same in cvxpy.


def cvxpy_loss(loss, u, b):
    """The loss of each functional, or of each vector of functionals, in cvxpy, from its definition on paper."""
    if isinstance(loss, rkhs.extend.BlockLoss):
        V, B = cvxpy.reshape(u, (len(b) // loss.size, loss.size), order="C"), b.reshape(-1, loss.size)
        if isinstance(loss, rkhs.losses.RobustHinge):
            return cvxpy.pos(1 - cvxpy.multiply(B[:, 0], V[:, 0]) + loss.radius * cvxpy.norm(V[:, 1:], axis=1))
        return cvxpy_loss(loss.loss, cvxpy.norm(V - B, axis=1), np.zeros(len(B)))
    pos, square = cvxpy.pos, cvxpy.square
    match loss:
        case rkhs.Squared():
            return square(u - b)
        case rkhs.losses.EpsilonInsensitive():  # Absolute among them
            return pos(cvxpy.abs(u - b) - loss.epsilon)
        case rkhs.losses.SquaredEpsilonInsensitive():
            return square(pos(cvxpy.abs(u - b) - loss.epsilon))
        case rkhs.Huber():
            return cvxpy.huber(u - b, loss.delta)
        case rkhs.Quantile():
            return loss.tau * pos(b - u) + (1 - loss.tau) * pos(u - b)
        case rkhs.losses.OneSided():
            return pos(b - u)
        case rkhs.losses.SquaredOneSided():
            return square(pos(b - u))
        case rkhs.Logistic():
            return cvxpy.logistic(-cvxpy.multiply(b, u))
        case rkhs.Hinge():
            return pos(1 - cvxpy.multiply(b, u))
        case rkhs.SquaredHinge():
            return square(pos(1 - cvxpy.multiply(b, u)))
        case rkhs.losses.SmoothedHinge():
            return cvxpy.huber(pos(1 - cvxpy.multiply(b, u)), loss.width) / (2 * loss.width)
        case rkhs.losses.Poisson():
            return cvxpy.exp(u) - cvxpy.multiply(b, u) + np.where(b > 0, b * np.log(np.where(b > 0, b, 1)) - b, 0)
    raise NotImplementedError(loss)


def cvxpy_risk(loss, u, b, weight):
    """The weighted sum of losses; functionals of one vector have the same weight."""
    return cvxpy.sum(cvxpy.multiply(weight[:: getattr(loss, "size", 1)], cvxpy_loss(loss, u, b)))


def cvxpy_constraint(loss, u, b):
    """The values where a loss vanishes, in cvxpy."""
    if loss.classification:
        return cvxpy.multiply(b, u) >= 1
    if isinstance(loss, rkhs.losses.OneSided | rkhs.losses.SquaredOneSided):
        return u >= b
    return cvxpy.abs(u - b) <= loss.epsilon if getattr(loss, "epsilon", 0) else u == b


def cvxpy_solution(problem, probes, output=0):
    """The minimum of a problem and its minimizer on the probes, by Clarabel on dense matrices."""
    kernel, space = problem.kernel, problem.represented.basis.space
    family = rkhs.stack([term.functional for term in problem.terms])
    G = np.asarray(rkhs.gram(kernel, family).dense())
    P = np.zeros((family.size, 0)) if space is None else np.asarray(family.assemble(space.on))
    P_probes = np.zeros((probes.size, 0)) if space is None else np.asarray(probes.assemble(space.on))
    keep = _independent(P)
    Z = scipy.linalg.null_space(P[:, keep].T) if keep.size else np.eye(family.size)
    size, vectors = np.linalg.eigh(Z.T @ G @ Z) if Z.shape[1] else (np.zeros(0), np.zeros((0, 0)))
    good = size > 1e-13 * size.max(initial=0.0)
    B = Z @ (vectors[:, good] / np.sqrt(size[good]))  # coefficients of an orthonormal basis of H
    v, c = cvxpy.Variable(max(B.shape[1], 1)), cvxpy.Variable(max(keep.size, 1))
    F = G @ B if B.shape[1] else np.zeros((family.size, 1))
    basis = P[:, keep] if keep.size else np.zeros((family.size, 1))
    u = F @ v + basis @ c
    objective, start, constraints = cvxpy.sum_squares(v) / 2, 0, []
    for term in problem.terms:
        rows = slice(start, start + term.size)
        b = np.asarray(term.target) if term.target.ndim == 1 else np.asarray(term.target)[:, output]
        if term.loss.hard:
            constraints.append(cvxpy_constraint(term.loss.loss, u[rows], b))
        else:
            objective += cvxpy_risk(term.loss, u[rows], b, term.weights()[:, 0])
        start += term.size
    model = cvxpy.Problem(cvxpy.Minimize(objective), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.solve(cvxpy.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11, max_iter=500)
    assert model.status in (cvxpy.OPTIMAL, cvxpy.OPTIMAL_INACCURATE), model.status
    a = B @ v.value[: B.shape[1]]
    penalized = np.asarray(rkhs.gram(kernel, probes, family) @ a)
    free = P_probes[:, keep] @ c.value[: keep.size]
    return Reference(float(model.value), penalized, free)


def _independent(P):
    """Indices of independent columns that span all."""
    if P.shape[1] == 0:
        return np.zeros(0, dtype=int)
    _, R, pivots = scipy.linalg.qr(P, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(R))
    return pivots[: int(np.sum(diagonal > 1e-10 * diagonal.max(initial=0.0)))]


@cache
def reference(seed):
    """cvxpy's solution of the random problem of a seed."""
    return cvxpy_solution(case(seed).problem, case(seed).probes)


def cell_problem(whole, weights, held_out, index):
    """The problem of one cell of a grid: factors on the weights of terms, and on the rows of its fold."""
    factors = dict.fromkeys(range(len(whole.terms)), 1.0)
    for (axis, values), place in zip(weights.items(), index, strict=False):
        for k in axis if isinstance(axis, tuple) else (axis,):
            factors[k] = factors[k] * values[place]
    for k, folds in (held_out or {}).items():
        fold = np.asarray(folds[index[-1]])
        rows = fold if fold.dtype.kind == "f" else np.where(np.isin(np.arange(whole.terms[k].size), fold), 0.0, 1.0)
        factors[k] = factors[k] * rows
    terms = [t.changed(weight=factors[k] * to_numpy(t.weights())[:, 0]) for k, t in enumerate(whole.terms)]
    return replace(whole, terms=terms)


def check_cells(whole, weights, held_out=None, rel=1e-7, tol=1e-8, exact=1e-9, found=None, at=None, atol=0.0):
    """Check that each cell of a grid is the solution of its own problem; return the grid, or the one that was found."""
    found = np.asarray(whole.grid(weights, held_out, tol=tol) if found is None else found, dtype=object)
    for index, own in np.ndenumerate(found):
        alone = cell_problem(whole, weights, held_out, index).solve(tol=exact)
        assert own.status == "converged"
        np.testing.assert_allclose(to_numpy(own.certificate.primal), to_numpy(alone.certificate.primal), rtol=rel)
        assert own.span == alone.span
        if at is not None:
            np.testing.assert_allclose(own.function(at), alone.function(at), atol=atol)
    return found
