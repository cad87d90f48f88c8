"""Functionals that were observed with Gaussian noise: all of a problem that does not change with its settings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._finite.basis import Basis
from rkhs._finite.representers import RepresenterProblem
from rkhs._gram.operator import gram
from rkhs._linalg.saddle import Saddle
from rkhs._progress import subtask
from rkhs.functionals.base import Functional
from rkhs.functionals.points import places, repeats
from rkhs.kernels.base import Kernel
from rkhs.solvers.dense import double

EXPLAINED = 256 * float(np.finfo(np.float64).eps)  # of targets, below which what a basis leaves of them is rounding


@dataclass(frozen=True, eq=False)
class Observations:
    """Functionals with the values (N, r) of the basis, targets b (N, c) and weights (N,), in NumPy and float64.

    `amplitude` is tau where it is known; None where the best one is meant.
    """

    functionals: Functional
    basis: Basis
    target: Matrix
    weight: Matrix
    term: Matrix  # (N,), the number of each functional's term
    amplitude: float | None = None

    @classmethod
    def of(cls, represented: RepresenterProblem) -> Observations:
        """From the finite problem, without functionals of weight zero."""
        functionals = represented.functionals.like(np.zeros(0))
        basis = represented.basis
        if functionals is not represented.functionals:
            basis = Basis.of(functionals, basis.space)
        rows = represented.rows
        term = np.concatenate([np.full(t.rows.stop - t.rows.start, k) for k, t in enumerate(rows)])
        target = np.concatenate([double(t.target) for t in rows])
        weight = np.concatenate([double(t.weight)[:, 0] for t in rows])
        return cls(functionals, basis, target, weight, term)

    @property
    def Q(self) -> Matrix:
        return np.asarray(self.basis.Q)

    @property
    def size(self) -> int:
        return len(self.target)

    @cached_property
    def places(self) -> Matrix:
        """(N,): the same number for all functionals of a point; what a term has there again has another one.

        Measurements that are repeated are left out one by one, as those at points next to each other are.
        """
        both = np.stack([places(self.functionals), repeats(self.functionals, self.term)], axis=1)
        return np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)

    @cached_property
    def given(self) -> Matrix:
        """The rows of terms whose targets are all zero: knowledge, given before anything is observed."""
        data = np.unique(self.term[np.any(self.target != 0, axis=1)])
        return np.flatnonzero(~np.isin(self.term, data))

    @cached_property
    def free(self) -> int:
        """N - r: the number of targets that neither the basis nor what is given explains by itself."""
        explained = [np.linalg.matrix_rank(Q) if Q.size else 0 for Q in (self.Q, self.Q[self.given])]
        return self.size - len(self.given) - int(explained[0]) + int(explained[1])

    @cached_property
    def informative(self) -> Matrix:
        """The outputs (c,) of which the basis leaves more than rounding: only these say anything about settings."""
        left = self.target - self.Q @ (self.Q.T @ self.target)
        return np.flatnonzero(np.abs(left).max(axis=0) > EXPLAINED * np.abs(self.target).max(axis=0))

    def take(self, rows: Matrix) -> Observations:
        """Some of them."""
        functionals = self.functionals.take(rows)
        basis = Basis.of(functionals, self.basis.space)
        return Observations(functionals, basis, self.target[rows], self.weight[rows], self.term[rows], self.amplitude)

    def equations(self, kernel: Kernel, weight: Matrix) -> Equations:
        """Return what a kernel and weights make of them."""
        with subtask(0, 2):
            G = gram(kernel, self.functionals).in_double()
        with subtask(1, 2):
            return Equations(G, 1 / (2 * weight), self.Q, self.target, self.given)


class Equations:
    """S = G + diag(1/(2w)), factorised on the complement of the basis: a = P b, P = Z(Z'SZ)^-1 Z'.

    `prior` are those of the rows that are given, alone; None where there are none.
    """

    def __init__(self, G: Matrix, d: Matrix, Q: Matrix, b: Matrix, given: Matrix) -> None:
        self.b, self.given, self.noise = b, given, d
        self.saddle = Saddle(G, d, Q)
        self.prior = Saddle(G[np.ix_(given, given)], d[given], Q[given]) if len(given) else None

    @property
    def log_det(self) -> float:
        """Of Z'SZ, less that of what is given."""
        return self.saddle.log_det() - (0.0 if self.prior is None else self.prior.log_det())

    @cached_property
    def a(self) -> Matrix:
        """(N, c)."""
        return self.saddle.solve(self.b)[0]

    def inverse(self) -> Matrix:
        """P, computed when it is asked for: it takes longer than all the rest."""
        return self.saddle.inverse()
