"""Functions that are learned anew at every point, from the functionals near it.

Let q be the functionals of the neighborhood of a functional L, with targets b, weights w and d = 1/(2w), and U the
values on q of the basis functions, u those on L.  The value L(f) of the minimizer f of the problem of q alone is

    L(f) = a'b,        [G_qq + diag(d), U; U', 0] [a; c] = [G_qL; u]

and its variance, in units of tau^2, is <L, L> - a'G_qL - c'u.  It is a saddle-point system of the size of the
neighborhood, solved for many L at once by LAPACK.  Errors of two such predictions have the covariances of the
functionals L - a'q, which `LocalFunction.covariance` uses.

The basis is made orthonormal on each neighborhood.  Combinations that are zero there, such as the slope across a
straight track, are omitted; the variance of functionals that depend on them is infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from rkhs import Term, gram, stack
from rkhs.extend import (
    Approximation,
    Array,
    Atoms,
    FiniteSpace,
    Functional,
    FunctionalTable,
    FunctionSpace,
    Kernel,
    Matrix,
    Vector,
    check_count,
    double,
    entries,
    like,
    map_in_threads,
    on_basis,
    report_progress,
    to_numpy,
    unique_rows,
)
from rkhs.functionals import Evaluation
from rkhs.maps._search import NeighborSearch, spatial_sample
from rkhs.results import Posterior, Solution

ENTRIES = 2**17  # pairs of atoms whose inner products are computed at once, which fit into the cache
DEPENDENT = 1e-7  # basis functions whose norm on a neighborhood is below this share of the largest are omitted there
SAMPLE = 2000  # functionals that are left out to determine the amplitude


@dataclass(frozen=True, eq=False)
class LocalFunction:
    """A function that is learned at each point from the functionals near it (`rkhs.Neighbors`).

    It has the interface of `rkhs.results.Function` except for the norm and inner products, which it refuses.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    functionals : Functional
        The functionals of all terms, a flat family.
    targets : ndarray of shape (N,) or (N, outputs)
        Their targets.
    noise : ndarray of shape (N,)
        The variances 1 / (2 weight) of their noise, in units of tau^2.
    basis : FunctionSpace or None
        The functions that are not penalized, with the null space of the kernel.
    neighbors : Neighbors
        The size of neighborhoods.
    """

    kernel: Kernel
    functionals: Functional
    targets: Matrix
    noise: Vector
    basis: FunctionSpace | None
    neighbors: Neighbors

    def __getstate__(self) -> dict[str, Any]:
        names = ("kernel", "functionals", "targets", "noise", "basis", "neighbors")
        return {name: getattr(self, name) for name in names}  # without trees

    @cached_property
    def _distinct(self) -> tuple[Functional, Matrix, Vector, Vector]:
        """Distinct functionals, their targets and noise, and the index of the one that each functional equals.

        Values, or slopes, at equal points are one with their weighted mean, which leaves the rest of the neighborhood
        to others.
        """
        L, rows = self.functionals, np.arange(self.functionals.size)
        equal = rows.copy()
        for part in L.parts:
            if part.matrix is None and part.atoms.blur is None:
                _, first, inverse = unique_rows(_rows_of_atoms(part.atoms))
                equal[part.rows] = part.start + first[inverse]
        first, which = np.unique(equal, return_inverse=True)
        if len(first) == L.size:
            return L, self.targets, self.noise, rows
        # 1 / d = sum_i 1 / d_i,  b = d sum_i b_i / d_i  over equal functionals
        sums = scipy.sparse.csr_array((1 / self.noise, (which, rows)))
        noise = 1 / sums.sum(axis=1)
        return L.take(first), (noise * (sums @ self.targets).T).T, noise, which

    @cached_property
    def _table(self) -> FunctionalTable:
        return FunctionalTable(self._distinct[0])

    @cached_property
    def _trend(self) -> Matrix:
        return on_basis(self._distinct[0], self.basis)

    @cached_property
    def _search(self) -> NeighborSearch:
        near = self.neighbors
        return NeighborSearch(self._in_units(self._table.locations), near.count, near.far, near.continuous)

    def _in_units(self, points: Matrix) -> Matrix:
        """Return points in the metric of the kernel, in which neighbors are the nearest ones."""
        form = self.kernel.summands()[0][1].form(points.shape[1])
        return points if form is None else form.difference(points, np.zeros(points.shape[1]))

    @property
    def outputs(self) -> int | None:
        """The number of outputs, or None for a scalar function."""
        return int(self.targets.shape[1]) if self.targets.ndim == 2 else None

    @property
    def degrees_of_freedom(self) -> int:
        """The number of functionals minus that of basis functions."""
        return self.functionals.size - self._trend.shape[1]

    @property
    def size(self) -> int:
        """The number of functionals of a neighborhood."""
        return self._search.size

    def __call__(self, X: Array) -> Array:
        """Return the values (t,) or (t, outputs) of f at the rows of X."""
        return self.apply(Evaluation(X))

    def apply(self, functional: Functional) -> Array:
        """Return L(f) for a family L."""
        return self.with_variance(functional)[0]

    def with_variance(self, functional: Functional) -> tuple[Array, Vector]:
        """Return L(f), of the shape of L and with a last axis for several outputs, and the variances (size,)."""
        given = functional.prototype
        functional = functional.like(np.zeros((0, functional.dimension)))
        values, variance = self._predicted(functional, np.arange(functional.size), None)
        return like(values.reshape(*functional.shape, *self.targets.shape[1:]), given), variance

    def left_out(self, rows: Vector) -> tuple[Matrix, Vector]:
        """Return predictions of functionals with the given indices, each from all that differ, and their variances.

        The predictions are of shape (m,) or (m, outputs); the variances (m,) are without the noise of the functional.
        """
        return self._predicted(self.functionals.take(rows), rows, self._distinct[3][rows])

    def variance(self, M: Functional) -> Vector:
        """Return the variances (m,) in units of tau^2, infinite where neighbors do not determine the basis."""
        return self.with_variance(M)[1]

    def covariance(self, L: Functional, M: Functional | None = None) -> Matrix:
        """Return the covariances in units of tau^2 (l, m), those of the errors of the predictions; of L without M."""
        left, errors, used = self._errors(L)
        right, errors_M, used_M = (left, errors, used) if M is None else self._errors(M)
        K = to_numpy(gram(self.kernel, left, right).dense())
        noisy, i, j = np.intersect1d(used, used_M, return_indices=True)
        # cov(L - a'q, M - b'q) has a' diag(d) b for the noise of common functionals
        K[L.size + i, (L if M is None else M).size + j] += self._distinct[2][noisy]
        return np.asarray(errors_M @ (errors @ K).T).T

    def _errors(self, M: Functional) -> tuple[Functional, scipy.sparse.csr_array, Vector]:
        """Return the functionals of M and its neighbors, the errors M - a'q in terms of them, and the neighbors."""
        M = M.like(np.zeros((0, M.dimension)))
        rows, columns, data = [], [], []
        for part, index, a, _ in self._weights(M, None):
            rows.append(np.repeat(part, index.shape[1]))
            columns.append(index.ravel())
            data.append(a.ravel())
        used, place = np.unique(np.concatenate(columns), return_inverse=True)
        A = scipy.sparse.csr_array((np.concatenate(data), (np.concatenate(rows), place)), (M.size, len(used)))
        errors = scipy.sparse.hstack([scipy.sparse.eye_array(M.size), -A], format="csr")
        return stack([M, self._distinct[0].take(used)]), errors, used

    def inner(self, other: Any) -> Any:
        """Raise an error: the values belong to different functions, which have no common inner product or norm."""
        raise ValueError(
            f"A function that is learned by {self.neighbors!r} has no norm and no inner products in the RKHS of "
            f"{self.kernel!r}, because each of its values is that of another function: use rkhs.Landmarks(p)."
        )

    def norm(self) -> Any:
        """Raise the error of `inner`."""
        return self.inner(self)

    def output(self, which: int) -> LocalFunction:
        """Return one output of a function with several outputs."""
        return replace(self, targets=self.targets[:, which])

    def without(self, rows: Vector) -> LocalFunction:
        """Return the function that is learned from all functionals except for those with the given indices."""
        kept = np.delete(np.arange(self.functionals.size), rows)
        return replace(
            self, functionals=self.functionals.take(kept), targets=self.targets[kept], noise=self.noise[kept]
        )

    @cached_property
    def amplitude(self) -> Any:
        """The tau for which left-out targets have the predicted mean square, for each output."""
        size = self.functionals.size
        rows = np.sort(np.random.default_rng(0).permutation(size)[:SAMPLE])
        values, variance = self.left_out(rows)
        known = np.isfinite(variance)
        squares = (self.targets[rows] - values)[known] ** 2
        # tau^2 is the mean of (b_i - L_i(f))^2 / (variance_i + d_i)
        spread = (variance + self.noise[rows])[known]
        tau = np.sqrt(np.mean(squares.reshape(len(spread), -1) / spread[:, None], axis=0)) if known.any() else None
        if tau is None:
            raise ValueError(f"{self.neighbors!r} determines the basis {self.basis!r} nowhere: use more neighbors.")
        return float(tau[0]) if self.outputs is None else tau

    @property
    def spread(self) -> LocalFunction:
        """The posterior covariance of f, in units of tau^2."""
        return self

    def posterior(self, solution: Solution) -> Posterior:
        """Return the posterior; its amplitude is the one for which left-out targets have the predicted spread."""
        return Posterior(solution.function, self, self.amplitude)

    def _predicted(self, L: Functional, rows: Vector, omitted: Vector | None) -> tuple[Matrix, Vector]:
        values, variance = np.zeros((len(rows), *self.targets.shape[1:])), np.zeros(len(rows))
        for part, index, a, spread in self._weights(L, omitted):
            values[part] = np.einsum("tm,tm...->t...", a, self._distinct[1][index])
            variance[part] = spread
        return values, variance

    def _weights(self, L: Functional, omitted: Vector | None) -> Iterator[tuple[Vector, Matrix, Matrix, Vector]]:
        """Yield, for portions of L, their rows, and the neighbors, weights a and variances of their functionals."""
        table, size = self._table, self.size
        each = table.atoms_per_functional
        step = max(1, int(ENTRIES / (size * each) ** 2))
        starts = range(0, L.size, step)
        _ = self._trend  # computed before threads share it

        def solve(start: int) -> tuple[Vector, Matrix, Matrix, Vector]:
            rows = np.arange(start, min(start + step, L.size))
            return rows, *self._solved(L.take(rows), None if omitted is None else omitted[rows])

        for number, solved in enumerate(map_in_threads(solve, starts)):
            report_progress((number + 1) / len(starts))
            yield solved

    def _solved(self, L: Functional, omitted: Vector | None) -> tuple[Matrix, Matrix, Vector]:
        """Return the neighbors (t, m), weights a (t, m) and variances (t,) of functionals."""
        left, table = FunctionalTable(L), self._table
        index, share = self._search(self._in_units(left.locations), omitted)
        t, m = index.shape
        K = entries(self.kernel, table, index[:, :, None], table, index[:, None, :])
        k = entries(self.kernel, left, np.arange(t)[:, None], table, index)
        norms, diagonal = to_numpy(gram(self.kernel, L).diagonal()), np.arange(m)
        noise = self._distinct[2][index]
        if self.neighbors.continuous:  # in units of the mean square of differences to neighbors
            spread = np.abs(norms[:, None] + K[:, diagonal, diagonal] - 2 * k)
            mean = np.sum(share * spread, axis=1) / np.maximum(np.sum(share, axis=1), 1e-300)
            # d_i + mean (1 / share_i - 1): infinite noise where a functional leaves the neighborhood
            noise = noise + mean[:, None] * (1 / np.maximum(share, 1e-12) - 1)
        U, u, undetermined = _orthonormal(self._trend[index] * (share > 0)[:, :, None], on_basis(L, self.basis))
        missing = share == 0
        if missing.any():
            K[np.repeat(missing[:, :, None], m, axis=2) | missing[:, None, :]] = 0.0
            k = np.where(missing, 0.0, k)
        size = np.abs(K).max(axis=(1, 2))[:, None]
        K[:, diagonal, diagonal] += np.where(missing, np.where(size > 0, size, 1.0), noise)
        S, right = np.zeros((t, m + U.shape[2], m + U.shape[2])), np.concatenate([k, size * u], axis=1)
        # [K + diag(d), s U; s U', 0] [a; c] = [k; s u], with s = max |K|, so that both blocks are of one size
        # (Vecchia 1988 for the mean given near data; Chiles and Delfiner 2012, 3.4, for the basis)
        S[:, :m, :m] = K
        S[:, :m, m:] = size[:, :, None] * U
        S[:, m:, :m] = S[:, :m, m:].transpose(0, 2, 1)
        empty = np.all(U == 0, axis=1)  # of basis functions that are omitted
        S[:, m + np.arange(U.shape[2]), m + np.arange(U.shape[2])] = np.where(empty, size, 0.0)
        weights = _solutions(S, right)
        # <L, L> - a'k - c's u
        variance = np.clip(norms - np.sum(weights * right, axis=1), 0.0, None)
        return index, weights[:, :m], np.where(undetermined, np.inf, variance)


def _rows_of_atoms(atoms: Atoms) -> Matrix:
    """Return rows of numbers (size, m) that are equal for equal atoms of a block without blur."""
    points, directions = to_numpy(atoms.points), to_numpy(atoms.directions)
    each = np.broadcast_to(directions, (len(points), *directions.shape[-3:])).reshape(atoms.size, -1)
    return np.column_stack([np.repeat(points, atoms.per_point, axis=0), each])


def _orthonormal(P: Matrix, p: Matrix) -> tuple[Matrix, Matrix, Vector]:
    """Return a basis that is orthonormal on each neighborhood, from its values P (t, m, r) there and p (t, r) on L.

    Returns the values U (t, m, r) and u (t, r) in the new basis, zero for combinations that are omitted, and the mask
    (t,) of functionals that depend on these.
    """
    if not P.shape[2]:
        return P, p, np.zeros(len(p), dtype=bool)
    first = p[:, :1]  # subtracting multiples of the constant moves the origin to L, where polynomials are small
    centered = np.where(first != 0, p / np.where(first != 0, first, 1.0), 0.0)
    centered[:, 0] = 0.0
    P, p = P - P[:, :, :1] * centered[:, None, :], p - first * centered
    sizes = np.sqrt(np.sum(P**2, axis=1))
    scale = np.where(sizes > 0, sizes, 1.0)
    P, p = P / scale[:, None, :], p / scale
    # U = P V / sqrt(values), where P'P = V diag(values) V'
    values, V = np.linalg.eigh(P.transpose(0, 2, 1) @ P)
    kept = values > DEPENDENT**2 * values[:, -1:].clip(1e-300)
    T = V * np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)[:, None, :]
    lost = np.einsum("trs,tr->ts", V, p) * ~kept
    return P @ T, np.einsum("trs,tr->ts", T, p), np.abs(lost).max(axis=1) > 1e-9 * np.abs(p).max(axis=1)


def _solutions(S: Matrix, right: Matrix) -> Matrix:
    """Return the solutions (t, m) of linear systems, with the smallest norm for singular ones."""
    solve: Callable[[Matrix, Matrix], Matrix] = np.linalg.solve
    try:
        return solve(S, right[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:
        return np.stack([np.linalg.lstsq(A, b, rcond=None)[0] for A, b in zip(S, right, strict=True)])


@dataclass(frozen=True)
class Neighbors(Approximation):
    """Learn f at each point from the functionals near it, by a small problem of its own.

    f(x), or another functional of f, is that of the minimizer of the problem of the nearest functionals alone, which is
    computed exactly; all losses have to be squared.  This is kriging with a moving neighborhood.  It takes any kernel,
    conditionally positive definite ones too (`rkhs.kernels.ThinPlate`, `rkhs.kernels.Polyharmonic`), any functionals
    and any basis.  Nothing is learned for the whole: time is that of one small linear system for each evaluation.
    Slopes of f are predicted from the neighborhood of their point.

    f is not continuous where the neighborhood changes, unless it is `continuous`.  The steps are small compared with
    the error bars.

    Parameters
    ----------
    count : int, default=50
        The number of nearest functionals.
    far : int, default=0
        The number of functionals of each of several subsets that are spread evenly and ever more widely, in addition.
        A few make predictions in gaps between tracks better and cost little.
    continuous : bool, default=False
        Whether the noise that is assumed for functionals increases to infinity towards the end of the neighborhood, so
        that f is continuous.  It uses only about half of the functionals in full.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.random.default_rng(0).uniform(size=(10_000, 2))
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(6 * X[:, 0]), weight=1e6)
    >>> problem = rkhs.Problem(rkhs.kernels.ThinPlate(), [term], approximation=rkhs.Neighbors(30))
    >>> problem.solve().function(np.array([[0.5, 0.5]])).round(3)
    array([0.141])
    """

    count: int = 50
    far: int = 0
    continuous: bool = False
    stored = False

    def __post_init__(self) -> None:
        check_count(self.count, "The number of functionals of Neighbors")
        check_count(self.far, "far of Neighbors", 0)

    def choose(self, kernel: Kernel, families: Sequence[Functional], pilot: Any) -> FiniteSpace:
        raise NotImplementedError(
            f"{self!r} solves a small problem at each point, and has no space of functions for all of them: use "
            "Problem.solve, or rkhs.Landmarks."
        )

    def tuning_sample(self, terms: Sequence[Term], most: int, random: np.random.Generator) -> list[Term]:
        return spatial_sample(terms, most, random)

    def solutions(self, problem: Any, weightings: Sequence[Sequence[Any]]) -> list[Solution]:
        """Return the solution for each weighting: its values are those of exactly solved problems.

        They belong to different functions, so that J of the whole and its gap are not known.
        """
        if problem.device not in (None, "cpu") or (problem.null_space == "dropped" and problem.kernel.order):
            raise ValueError(
                'Neighbors works on the CPU, and with null_space="kept": leave `device` and `null_space` out.'
            )
        for term in problem.terms:
            if not term.loss.quadratic:
                raise ValueError(
                    f"Neighbors needs squared losses, got {term.loss!r}: use rkhs.FourierGrid() or rkhs.Landmarks(p) "
                    "for others, or leave outliers out."
                )
            if term.functional.sparse:
                raise TypeError("Neighbors searches for near points and needs dense ones: pass X.toarray().")
        return [self._solution(problem, factors) for factors in weightings]

    def _solution(self, problem: Any, factors: Sequence[Any]) -> Solution:
        """Return the solution for factors on the weights of terms or of their rows."""
        families, targets, weights = [], [], []
        outputs = max(term.outputs or 0 for term in problem.terms) or None
        for term, factor in zip(problem.terms, factors, strict=True):
            weight = double(term.weights())[:, 0] * np.asarray(factor)
            used = np.flatnonzero(weight > 0)
            target = double(term.target).reshape(term.size, -1)[used] if len(used) else np.zeros((0, 1))
            families.append(term.functional.take(used))
            targets.append(np.broadcast_to(target, (len(used), outputs or 1)))
            weights.append(weight[used])
        functionals, target = stack(families), np.concatenate(targets)
        if not functionals.size:
            raise ValueError("All weights are zero, so that there are no functionals to learn from.")
        function = LocalFunction(
            problem.kernel,
            functionals.like(np.zeros((0, functionals.dimension))),
            target[:, 0] if outputs is None else target,
            1 / (2 * np.concatenate(weights)),
            problem.full_basis,
            self,
        )
        span = f"Neighbors: each value from {function.size} functionals near it"
        return Solution.local(function, "Neighbors", outputs or 1, span, function)
