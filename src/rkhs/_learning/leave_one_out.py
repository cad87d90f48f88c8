"""Leave-one-out, or leave-group-out, without solving again (theory, section 9).

For squared losses, with a = P b (`_observations`), the targets of a group g minus what all others predict there are

    e_g  =  (P_gg)^-1 a_g

exactly, basis included.  For other smooth losses the quadratic model of J at its minimum stands in: with gradients
l = w loss', Hessians h = w loss'' and V the covariance that the model leaves, leaving g out moves u_g by

    V_gg (1 - diag(h_g) V_gg)^-1 l_g

one step of Newton's method from the solution.  For squared losses both are the same: P = diag(h) - diag(h) V diag(h),
so that a functional alone has e = (b - u) / (1 - h V_ii).  The first keeps more digits where weights are large, and the
second needs no h > 0.

*Equal observations* may stand as one functional i of the sum w of their weights.  Leaving one of c of them out takes
w / c away, so that l and h are divided by c in the formula above, and

    e_i  =  c a_i / (P_ii + 2 w (c - 1))

with the variance tau^2 c^2 / (P_ii + 2 w (c - 1)).

*A criterion.*  sum over terms of n/2 log(mean of e^2) is, up to a constant, minus the log likelihood of residuals that
are normal with one variance for each term: so terms need no common unit.  Terms whose targets are all the same (an
invariance) do not count.  With f_i = e_i n / sum e^2, R_g = (P_gg)^-1 and h_g = R_g f_g, its derivative is the sum of
entries of dS times

    P (blockdiag of e_g h_g') P - (P h) a'
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rkhs._backend.arrays import Array, Matrix, like, to_numpy
from rkhs._finite.function import Function
from rkhs._finite.monitor import FACTOR, Monitor
from rkhs._finite.representers import RepresenterProblem
from rkhs._finite.solution import Solution
from rkhs._finite.term import Term
from rkhs._learning.observations import Hyperparameter, Observations, check_null_space, check_squared
from rkhs._linalg.saddle import Saddle
from rkhs._progress import interrupts_raised
from rkhs.functionals._base import stack
from rkhs.functionals._points import places
from rkhs.kernels._base import Kernel
from rkhs.solvers._base import double
from rkhs.solvers._conditioned import SubspaceCovariance

if TYPE_CHECKING:
    from rkhs._problem.problem import Problem


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Predictions for what was left out, and their errors.

    Predictions for all functionals of each term by an f that has not seen them, and targets minus these.

    Arrays have the shapes of the terms' targets, one for each term.  `exact` says that they are what solving again
    would give; else each is one step of Newton's method away from the solution.

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


def left_out_of(problem: Problem, groups: Any, count: Matrix | None = None) -> LeaveOneOut:
    """Leave out groups as `Problem.leave_out` does.

    With `count`, each functional of the first term stands for so many equal ones, of which one is left out.
    """
    check_null_space(problem, "Leaving out")
    if problem.approximation is not None:
        raise ValueError(
            f"Leaving out is about the whole space, and the problem has approximation={problem.approximation!r}: leave "
            "that out, or use problem.grid(.., held_out=..)."
        )
    for term in problem.terms:
        if not term.loss.smooth:
            raise ValueError(
                f"Leaving out needs smooth losses, and one is {term.loss!r}: use problem.grid(.., held_out=..), or a "
                "smooth loss such as Squared, SquaredHinge or Logistic."
            )
    represented, exact = problem.represented, all(term.loss.quadratic for term in problem.terms)
    kept, times = _kept(problem.terms, count)
    members = _groups(_labels(problem.terms, groups)[kept])
    with interrupts_raised():
        solution = problem.solve(tol=1e-9)
    if solution.relative_gap > 1e-4:
        warnings.warn(f"What is left out is left out of a solution that is not exact: {solution}.", stacklevel=3)
    if exact:
        observations = Observations.of(represented)
        with closing(Monitor(0.0)) as monitor, monitor.showing(FACTOR):
            saddle = observations.equations(problem.kernel, observations.weight)[1]
        a = saddle.solve(observations.target)[0]
        away = observations.target - _residuals(saddle, a, observations.weight, members, times)
    else:
        away = _newton_predictions(represented, solution.function, members, times)
    whole = np.empty((len(kept), away.shape[1]))
    whole[kept] = away
    predictions, left, ends = [], [], np.cumsum([term.size for term in problem.terms])[:-1]
    for term, rows, own in zip(problem.terms, np.split(kept, ends), np.split(whole, ends), strict=True):
        found = to_numpy(term.functional(solution.function)).astype(np.float64)  # of rows of weight zero: as it is
        found.reshape(term.size, -1)[rows] = own[rows]
        predictions.append(like(found, term.functional.prototype))
        target = to_numpy(term.told)
        if represented.outputs is not None and term.target.ndim == 1:
            target = target[..., None]
        left.append(like(target - found, term.functional.prototype))
    return LeaveOneOut(tuple(predictions), tuple(left), exact)


def left_out_in_subspace(solution: Solution, term: Term) -> Matrix:
    """Return predictions for targets of squared losses, each by an f of the same subspace that has not seen it.

    They follow from the posterior of a solution in a subspace, so that the term may be a sample of its rows.
    """
    target, h = to_numpy(term.target), 2 * to_numpy(term.weights())[:, 0]
    assert solution.source is not None
    covariance = solution.source.spread
    assert isinstance(covariance, SubspaceCovariance)
    left = 1 - h * covariance.within(term.functional)  # of a target, what the others do not explain
    if np.any(left < 1e-8):
        raise ValueError(
            "Some targets are predicted by themselves alone, so they cannot be left out: take a smaller weight C, or "
            "fewer functions."
        )
    residual = target - to_numpy(term.functional(solution.function))
    return target - residual / (left if target.ndim == 1 else left[:, None])


def left_out_amplitude(problem: Problem, count: Matrix) -> float | Matrix:
    """Return the amplitude tau for which left-out targets of the first term have the predicted variance.

    Without itself target i has the variance tau^2 / P_ii, so tau^2 is the mean of e_i^2 P_ii = e_i a_i; where each
    stands for `count` (N,) equal ones, the sum of e_i a_i over the number of all.  Where f varies more in some places
    than the kernel says, this is nearer to the truth than the most likely amplitude (Bachoc 2013, Cross validation and
    maximum likelihood estimations of hyper-parameters of Gaussian processes with model misspecification).
    """
    check_squared(problem, "An amplitude")
    observations, times = Observations.of(problem.represented), _kept(problem.terms, count)[1]
    saddle = observations.equations(problem.kernel, observations.weight)[1]
    a = saddle.solve(observations.target)[0]
    e = _residuals(saddle, a, observations.weight, _groups(np.arange(len(a))), times)
    first = observations.term == 0
    tau = np.sqrt(np.clip(np.sum(e[first] * a[first], axis=0) / np.sum(times[first]), 0, None))
    return float(tau[0]) if problem.represented.outputs is None else tau


def informative_rows(observations: Observations) -> list[Matrix]:
    """Return the rows of each term whose targets are not all the same."""
    rows = [np.flatnonzero(observations.term == k) for k in np.unique(observations.term)]
    return [own for own in rows if np.any(np.ptp(observations.target[own], axis=0) > 0)]


def log_left_out(
    observations: Observations,
    kernel: Kernel,
    weight: Matrix,
    hyperparameters: Sequence[Hyperparameter] | None,
) -> tuple[float, Matrix]:
    """Return minus the criterion above, leaving out one point at a time, and its derivatives in hyperparameters."""
    saddle, groups = observations.equations(kernel, weight)[1], _groups(observations.places)
    a, P = saddle.solve(observations.target)[0], saddle.inverse()
    e = _solve_blocks(P, saddle.scale, groups, a)
    value, f = 0.0, np.zeros_like(e)
    for rows in informative_rows(observations):
        square, count = max(float(np.sum(e[rows] ** 2)), np.finfo(np.float64).tiny), e[rows].size
        value -= count / 2 * float(np.log(square / count))
        f[rows] = count / square * e[rows]
    if hyperparameters is None:
        return value, np.zeros(0)
    h, inner = _solve_blocks(P, saddle.scale, groups, f), np.empty_like(P)
    for g in groups:
        own = e[g] @ h[g].swapaxes(1, 2)
        inner[g] = ((own + own.swapaxes(1, 2)) / 2) @ P[g]
    B = P @ inner - (P @ h) @ a.T
    return value, observations.gradient(kernel, weight, -(B + B.T) / 2, hyperparameters)


def _groups(labels: Matrix) -> list[Matrix]:
    """Return the members of all groups of equal labels, an array (groups, size) for each size."""
    counts = np.unique(labels, return_counts=True)[1]
    order, starts = np.argsort(labels, kind="stable"), np.cumsum(counts) - counts
    return [order[starts[counts == size][:, None] + np.arange(size)] for size in np.unique(counts)]


def _check_determined(shares: Matrix) -> None:
    if not np.all(shares > 1e-10):  # of the size of a group, what the others leave undetermined
        raise ValueError(
            "Without one of the groups the others do not determine the basis: take smaller groups, more functionals, "
            "or leave the basis out."
        )


def _solve_blocks(P: Matrix, scale: Matrix, groups: list[Matrix], right: Matrix) -> Matrix:
    """Return (P_gg)^-1 right_g for all groups, (N, c); `scale` (N,) makes the rows of P comparable."""
    found = np.empty_like(right)
    for g in groups:
        s = scale[g][:, :, None]
        values, vectors = np.linalg.eigh(P[g[:, :, None], g[:, None, :]] / (s * s.swapaxes(1, 2)))
        _check_determined(values)
        found[g] = vectors @ ((vectors.swapaxes(1, 2) @ (right[g] / s)) / values[:, :, None]) / s
    return found


def _residuals(saddle: Saddle, a: Matrix, weight: Matrix, groups: list[Matrix], count: Matrix) -> Matrix:
    """Return b - u of an f that has not seen the group, (N, c); of each functional alone, one of its `count` (N,)."""
    P = saddle.inverse()
    if np.all(count == 1):
        return _solve_blocks(P, saddle.scale, groups, a)
    diagonal = (np.diag(P) + 2 * weight * (count - 1)) / count
    _check_determined(diagonal / saddle.scale**2)
    return a / diagonal[:, None]


def _newton_predictions(
    represented: RepresenterProblem, function: Function, groups: list[Matrix], count: Matrix
) -> Matrix:
    """Return u (N, c) after the step of Newton's method that leaves out each group; `count` as in `_residuals`."""
    system, iterate = represented.system, represented.iterate(function)
    u = system.exact @ iterate.a + system.Q @ iterate.basis
    G, Q = system.exact.in_double(), double(system.Q)
    gradient, hessian, moved = double(system.gradient(u)), double(system.hessian_diagonal(u)), double(u)
    for c in range(moved.shape[1]):
        h = hessian[:, c]
        seen = np.flatnonzero(h > 0)
        saddle = Saddle(G[np.ix_(seen, seen)], 1 / h[seen], Q[seen])
        _check_determined(np.array(float(saddle.rank == Q.shape[1])))
        coefficients, basis = saddle.solve(G[seen], Q.T)
        V = G - G[:, seen] @ coefficients - Q @ basis
        for g in groups:
            block, root = V[g[:, :, None], g[:, None, :]], np.sqrt(h / count)[g][:, :, None]
            values, vectors = np.linalg.eigh(np.eye(g.shape[1]) - root * block * root.swapaxes(1, 2))
            _check_determined(values)
            step = (
                block @ (gradient[:, c] / count)[g][:, :, None]
            )  # V (1 - hV)^-1 l = V l + V root (1 - root V root)^-1 root V l
            inner = vectors @ ((vectors.swapaxes(1, 2) @ (root * step)) / values[:, :, None])
            moved[g, c] += (step + block @ (root * inner))[:, :, 0]
    return moved


def _kept(terms: Sequence[Term], count: Matrix | None) -> tuple[Matrix, Matrix]:
    """Return which rows of all terms have a weight, and how many equal observations each of these stands for."""
    kept = np.concatenate([to_numpy(term.weights())[:, 0] > 0 for term in terms])
    times = np.ones(len(kept))
    if count is not None:
        times[: len(count)] = count
    return kept, times[kept]


def _labels(terms: Sequence[Term], groups: Any) -> Matrix:
    """Return labels of the functionals of all terms, equal for those that are left out together."""
    if groups is None:
        return np.arange(sum(term.size for term in terms))
    if isinstance(groups, str):
        if groups != "points":
            raise ValueError(f'groups must be None, "points", or labels for each term, got {groups!r}.')
        return places(stack([term.functional for term in terms]))
    given = [groups] if len(terms) == 1 and len(groups) != 1 else list(groups)
    if len(given) != len(terms):
        raise ValueError(f"groups needs an array of labels for each of {len(terms)} terms, got {len(given)}.")
    for term, own in zip(terms, given, strict=True):
        if np.size(own) != term.size:
            raise ValueError(f"groups has {np.size(own)} labels for {term!r}, which has {term.size} functionals.")
    return np.concatenate([np.asarray(own).reshape(-1) for own in given])
