"""Leave-one-out and leave-group-out predictions without solving again.

For squared losses, with a = P b (`observations`), the leave-out residuals of a group g are

    e_g  =  (P_gg)^-1 a_g

exactly, with a basis as well.  For other smooth losses J is replaced by its quadratic model at the minimum: with
gradients l = w loss', Hessians h = w loss'' and the posterior covariance V of the model, leaving out g changes u_g by

    V_gg (1 - diag(h_g) V_gg)^-1 l_g

which is one Newton step from the solution.  For squared losses both agree: P = diag(h) - diag(h) V diag(h), so that a
single functional has e = (b - u) / (1 - h V_ii).  The first formula is more accurate for large weights, and the second
does not need h > 0.

*The criterion* sum over terms of n/2 log(mean of e^2) is, up to a constant, the negative log likelihood of residuals
that are normal with one variance for each term, so terms need no common unit.  Terms whose targets are all equal
(invariances) do not count.  With f_i = e_i n / sum e^2, R_g = (P_gg)^-1 and h_g = R_g f_g, its derivative is the sum
of entries of dS times

    P (blockdiag of e_g h_g') P - (P h) a'
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, Matrix, double, indices, like, to_numpy
from rkhs._core.finite.basis import on_basis
from rkhs._core.finite.features import FeatureCovariance, FeatureTerms
from rkhs._core.finite.function import Function
from rkhs._core.finite.monitor import FACTOR, Monitor
from rkhs._core.finite.representers import RepresenterTerms, block_in_double, outputs_of
from rkhs._core.finite.solution import Solution
from rkhs._core.finite.sums import FeatureSums
from rkhs._core.finite.term import Term
from rkhs._core.learning.evidence import ConvexProblem, Hyperparameter, Observations, check_null_space, check_squared
from rkhs._core.linalg.saddle import Curvature, Saddle, with_ridge_on
from rkhs._core.progress import interrupts_raised
from rkhs.functionals._base import point_groups, stack
from rkhs.kernels._base import Kernel
from rkhs.spaces._base import FiniteSpace


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Leave-one-out predictions and residuals of all functionals; returned by `Problem.leave_out`.

    Parameters
    ----------
    predictions : tuple of ndarray
        For each term L(f) of an f that was learned without the functional, in the shape of the targets.
    residuals : tuple of ndarray
        The targets minus the predictions.
    exact : bool
        Whether the predictions are exactly those of solving again; otherwise they are one Newton step from the
        solution.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(9 * X[:, 0]), weight=100.0)
    >>> left = rkhs.Problem(rkhs.Gaussian(scale=0.3), [term]).leave_out()
    >>> left.exact, left.residuals[0].shape, bool(np.abs(left.residuals[0][1:-1]).max() < 0.1)
    (True, (20,), True)
    """

    predictions: tuple[Array, ...]
    residuals: tuple[Array, ...]
    exact: bool


def left_out_of(problem: ConvexProblem, groups: Any) -> LeaveOneOut:
    """Return the leave-out predictions of `Problem.leave_out`."""
    check_null_space(problem, "Leaving out")
    space = problem.space
    if space is not None:
        space.require_stored(
            f"Leaving out is not implemented with approximation={problem.approximation!r}: drop the approximation, or "
            "use problem.grid(.., held_out=..)."
        )
    for term in problem.terms:
        if not (term.loss.smooth and term.loss.separable):  # the curvature of losses of vectors is only a bound
            raise ValueError(
                f"Leaving out needs smooth losses of single functionals, and one is {term.loss!r}: use "
                "problem.grid(.., held_out=..), or a smooth loss such as Squared, SquaredHinge or Logistic."
            )
    outputs, exact = outputs_of(problem.terms), all(term.loss.quadratic for term in problem.terms)
    kept = np.concatenate([to_numpy(term.weights())[:, 0] > 0 for term in problem.terms])
    members = _groups(_labels(problem.terms, groups)[kept])
    solution: Any = None if exact and space is None and np.all(kept) else _converged(problem)
    if space is not None:
        left_out = _predictions_in_space(problem, space, solution, kept, members)
    elif exact:
        observations = Observations.of(problem.represented)
        with closing(Monitor(0.0)) as monitor, monitor.showing(FACTOR):
            _, saddle, a = observations.equations(problem.kernel, observations.weight)
        # L_g(f without g) = b_g - (P_gg)^-1 a_g, with a = P b
        left_out = observations.target - _solve_blocks(saddle.inverse(), saddle.scale, members, a)
    else:
        left_out = _newton_predictions(problem.represented, solution.function, members)
    padded = np.empty((len(kept), left_out.shape[1]))
    padded[kept] = left_out
    predictions, residuals, ends = [], [], np.cumsum([term.size for term in problem.terms])[:-1]
    for term, rows, columns in zip(problem.terms, np.split(kept, ends), np.split(padded, ends), strict=True):
        if solution is not None:  # for rows of weight zero
            columns[~rows] = double(term.functional(solution.function)).reshape(columns.shape)[~rows]
        values = columns.reshape(term.functional.shape + (() if outputs is None else (outputs,)))
        predictions.append(like(values, term.functional.prototype))
        target = to_numpy(term.observed_target)
        if outputs is not None and term.target.ndim == 1:
            target = target[..., None]
        residuals.append(like(target - values, term.functional.prototype))
    return LeaveOneOut(tuple(predictions), tuple(residuals), exact)


def _converged(problem: ConvexProblem) -> Solution:
    """Return the solution, with a warning if it has not converged."""
    with interrupts_raised():
        solution = problem.solve(tol=1e-9)
    if solution.relative_gap > 1e-4:
        warnings.warn(
            f"Leave-out predictions are inaccurate, because the solution has not converged: {solution}.", stacklevel=4
        )
    return solution


def left_out_in_subspace(solution: Solution, term: Term) -> Matrix:
    """Return leave-one-out predictions for the targets of a term, for squared losses in a subspace.

    They follow from the posterior covariance of the solution, so the term may be a sample of the rows.
    """
    target, h = to_numpy(term.target), 2 * to_numpy(term.weights())[:, 0]
    assert solution.source is not None
    covariance = solution.source.spread
    assert isinstance(covariance, FeatureCovariance)
    # b_i - f_i without i = (b_i - f_i) / (1 - h_i v_i), with the variance v_i = E_i (S + diag(0, I))^-1 E_i'
    share = 1 - h * covariance.within(term.functional)  # one minus the leverage of each target
    if np.any(share < 1e-8):
        raise ValueError(
            "Some targets have leverage one, that is, only they determine f there, so they cannot be left out: use a "
            "smaller C, or fewer functions."
        )
    residual = target - to_numpy(term.functional(solution.function))
    return target - residual / (share if target.ndim == 1 else share[:, None])


def left_out_amplitude(problem: ConvexProblem, groups: Matrix) -> float | Matrix:
    """Return the amplitude tau for which the left-out targets of the only term have their predicted covariance.

    Targets with equal `groups` (N,) are left out together.  Their residuals e_g have the covariance tau^2 (P_gg)^-1, so
    tau^2 is the mean of e_i a_i over all targets, with a_g = P_gg e_g.  If the kernel is misspecified, this is more
    robust than the amplitude of maximum likelihood (Bachoc 2013, Cross validation and maximum likelihood estimations of
    hyper-parameters of Gaussian processes with model misspecification).
    """
    check_squared(problem, "An amplitude")
    observations = Observations.of(problem.represented)
    kept = to_numpy(problem.terms[0].weights())[:, 0] > 0
    _, saddle, a = observations.equations(problem.kernel, observations.weight)
    # tau^2 = mean of e_i a_i, e_g = (P_gg)^-1 a_g
    e = _solve_blocks(saddle.inverse(), saddle.scale, _groups(groups[kept]), a)
    tau = np.sqrt(np.clip(np.mean(e * a, axis=0), 0, None))
    return float(tau[0]) if problem.represented.outputs is None else tau


def informative_rows(observations: Observations) -> list[Matrix]:
    """Return the rows of each term whose targets are not all equal."""
    terms = [np.flatnonzero(observations.term == k) for k in np.unique(observations.term)]
    return [rows for rows in terms if np.any(np.ptp(observations.target[rows], axis=0) > 0)]


def log_left_out(
    observations: Observations, kernel: Kernel, weight: Matrix, hyperparameters: Sequence[Hyperparameter] | None
) -> tuple[float, Matrix]:
    """Return the negative of the criterion in the module's docstring, by leaving out points, and its derivatives.

    The derivatives are in the logarithms of the hyperparameters, if any are given.
    """
    _, saddle, a = observations.equations(kernel, weight)
    P, groups = to_numpy(saddle.inverse()), _groups(observations.point_labels)
    e = _solve_blocks(P, saddle.scale, groups, a)
    value, f = 0.0, np.zeros_like(e)
    for rows in informative_rows(observations):
        # n/2 log(mean of e^2), and f = e n / sum e^2, its derivative in e
        square, count = max(float(np.sum(e[rows] ** 2)), np.finfo(np.float64).tiny), e[rows].size
        value -= count / 2 * float(np.log(square / count))
        f[rows] = count / square * e[rows]
    if hyperparameters is None:
        return value, np.zeros(0)
    # h_g = (P_gg)^-1 f_g;  dS: P (blockdiag of e_g h_g') P - (P h) a'
    h, inner = _solve_blocks(P, saddle.scale, groups, f), np.empty_like(P)
    for g in groups:
        outer = e[g] @ h[g].swapaxes(1, 2)
        inner[g] = ((outer + outer.swapaxes(1, 2)) / 2) @ P[g]
    B = P @ inner - (P @ h) @ a.T
    return value, observations.gradient(kernel, weight, -(B + B.T) / 2, hyperparameters)


def _groups(labels: Matrix) -> list[Matrix]:
    """Return the indices of equal labels, as one array (groups, size) for each size of groups."""
    counts = np.unique(labels, return_counts=True)[1]
    order, starts = np.argsort(labels, kind="stable"), np.cumsum(counts) - counts
    return [order[starts[counts == size][:, None] + np.arange(size)] for size in np.unique(counts)]


def _check_determined(shares: Matrix) -> None:
    """Raise an error if eigenvalues of P_gg are zero up to rounding: then the others do not determine the basis."""
    if not np.all(shares > 1e-10):
        raise ValueError(
            "If one of the groups is left out, the others do not determine the basis: use smaller groups, more "
            "functionals, or no basis."
        )


def _solve_blocks(P: Array, scale: Array, groups: list[Matrix], right: Matrix) -> Matrix:
    """Return (P_gg)^-1 right_g for all groups, (N, c); `scale` (N,) equilibrates the rows of P."""
    solution, scale = np.empty_like(right), to_numpy(scale)
    for g in groups:
        s, i = scale[g][:, :, None], indices(g, P)
        blocks = to_numpy(P[i[:, :, None], i[:, None, :]])
        values, vectors = np.linalg.eigh(blocks / (s * s.swapaxes(1, 2)))
        _check_determined(values)
        solution[g] = vectors @ ((vectors.swapaxes(1, 2) @ (right[g] / s)) / values[:, :, None]) / s
    return solution


def _newton_predictions(represented: RepresenterTerms, function: Function, groups: list[Matrix]) -> Matrix:
    """Return the predictions u (N, c) after the Newton step that leaves out each group."""
    system, iterate = represented.system, represented.iterate(function)
    u = system.exact @ iterate.a + system.Q @ iterate.basis
    G, Q = double(system.exact.in_double()), double(system.Q)
    gradient, hessian, moved = double(system.gradient(u)), double(system.hessian_diagonal(u)), double(u)
    for c in range(moved.shape[1]):
        h = hessian[:, c]
        seen = np.flatnonzero(h > 0)
        saddle = Saddle(G[np.ix_(seen, seen)], 1 / h[seen], Q[seen])
        _check_determined(np.array(float(saddle.rank == Q.shape[1])))
        coefficients, basis = saddle.solve(G[seen], Q.T)
        # V = G - [G, Q] [G + 1/h, Q; Q', 0]^-1 [G; Q']: the posterior covariance of the functionals at the solution
        V = G - G[:, seen] @ coefficients - Q @ basis
        for g in groups:
            # u_g + V_gg (1 - diag(h_g) V_gg)^-1 l'(u_g): one Newton step without the losses of g
            block = V[g[:, :, None], g[:, None, :]]
            moved[g, c] += _newton_steps(block, h[g], gradient[:, c][g])
    return moved


def _newton_steps(V: Matrix, h: Matrix, slope: Matrix) -> Matrix:
    """Return V (1 - diag(h) V)^-1 slope (G, k) for groups of k functionals, with V (G, k, k) and h, slope (G, k)."""
    root = np.sqrt(h)[:, :, None]
    values, vectors = np.linalg.eigh(np.eye(h.shape[1]) - root * V * root.swapaxes(1, 2))
    _check_determined(values)
    # V (1 - hV)^-1 l = V l + V root (1 - root V root)^-1 root V l
    step = V @ slope[:, :, None]
    inner = vectors @ ((vectors.swapaxes(1, 2) @ (root * step)) / values[:, :, None])
    return np.asarray((step + V @ (root * inner))[:, :, 0])


def _predictions_in_space(
    problem: ConvexProblem, space: FiniteSpace, solution: Solution, kept: Matrix, groups: list[Matrix]
) -> Matrix:
    """Return the same in a space of stored features, where V = E S^-1 E' with the curvature S at the solution."""
    outputs = outputs_of(problem.terms)
    found = FeatureTerms(FeatureSums.of(space, problem.full_basis, problem.terms, outputs))
    features, rows = found.weighted().geometry, np.flatnonzero(kept)
    functionals = stack([term.functional for term in problem.terms])
    blocks = [block_in_double(term, outputs) for term in problem.terms]
    u = double(functionals(solution.function)).reshape(len(kept), -1)
    ends = np.cumsum([0, *(term.size for term in problem.terms)])
    pairs = [(t, u[start:stop]) for t, start, stop in zip(blocks, ends[:-1], ends[1:], strict=True)]
    gradient, hessian = (
        np.concatenate([t.weight * getattr(t.loss, name)(v, t.target) for t, v in pairs])[rows]
        for name in ("gradient", "curvature")
    )
    kept_losses = np.concatenate([np.full(t.target.shape[0], not t.loss.quadratic) for t in blocks])[rows]
    moved, r, m = u[rows].copy(), found.rank, features.resolved
    R = found.functions.map[:, : m - r]

    def on_features(some: Matrix) -> Matrix:
        L = functionals.take(rows[some])
        return np.concatenate([on_basis(L, problem.full_basis), to_numpy(space.rows(L)) @ R], axis=1)

    for c in range(moved.shape[1]):
        h, square = hessian[:, c], features.square[:m, :m].copy()
        for part in space.tiles(int(kept_losses.sum())):
            some = np.flatnonzero(kept_losses)[part]
            E = on_features(some)
            square += E.T @ (h[some, None] * E)
        # S = E'diag(h) E + diag(0, I), V_gg = E_g S^-1 E_g'
        curvature = Curvature.of(with_ridge_on(square, r), r)
        for g in groups:
            for part in space.tiles(len(g), max(space.tile_rows // g.shape[1], 1)):
                some = g[part]
                roots = curvature.roots(on_features(some.ravel())).reshape(*some.shape, -1)
                V = roots @ roots.swapaxes(1, 2)
                moved[some, c] += _newton_steps(V, h[some], gradient[:, c][some])
    return moved


def _labels(terms: Sequence[Term], groups: Any) -> Matrix:
    """Return labels (N,) of the functionals of all terms, equal for those that are left out together."""
    if groups is None:
        return np.arange(sum(term.size for term in terms))
    if isinstance(groups, str):
        if groups != "points":
            raise ValueError(f'groups must be None, "points", or labels for each term, got {groups!r}.')
        return point_groups(stack([term.functional for term in terms]))
    by_term = [groups] if len(terms) == 1 and len(groups) != 1 else list(groups)
    if len(by_term) != len(terms):
        raise ValueError(f"groups needs an array of labels for each of {len(terms)} terms, got {len(by_term)}.")
    for term, labels in zip(terms, by_term, strict=True):
        if np.size(labels) != term.size:
            raise ValueError(f"groups has {np.size(labels)} labels for {term!r}, which has {term.size} functionals.")
    return np.concatenate([np.asarray(labels).reshape(-1) for labels in by_term])
