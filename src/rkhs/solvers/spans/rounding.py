"""What rounding does to a problem on a span: the errors of a force and of J, for the certificate to state.

With theta = (c, tau), tau on orthonormal functions psi D t, t = V tau / sqrt(values), three things are not what they
are called.  To the first order, and at worst (Higham, Accuracy and Stability of Numerical Algorithms, ch. 2 and 3; of
eigenvectors: Golub and Van Loan, Matrix Computations, 8.1):

* *the norm*: DKD is right to units of its largest eigenvalue, in its entries and in the residual of its eigenvectors.
  Functions that are called orthonormal have the Gram matrix I + dM, |tau'dM tau| <= e largest |t|^2;
* *sums*: moments of psi D are right to units of their norm;
* *rows* that were turned into orthonormal functions, to be kept or summed up after that: u_i is right to e s_i |t|, s_i
  the size of the numbers that row i is computed from.  An alpha feels sum_i alpha_i s_i e |t| of it, and where alpha
  is small the square remains, sum_i w_i (e s_i |t|)^2.

|t| is the length of coefficients in the functions that the errors were made in: those of the span (`spread`) for norms
and rows, those that were summed up (`summed`) for sums, which differ where rows were turned first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs.solvers.spans.orthonormal import EPS, UNITS

UNIT = UNITS * EPS


@dataclass(frozen=True, eq=False)
class Sizes:
    """The sizes of the numbers behind a cell, by which its rounding is judged."""

    spread: Matrix  # (m - r,): |t| of each variable of tau, in the functions psi D of the span
    summed: Matrix  # (m - r,): the same in the functions that were summed up
    moments: Matrix  # (2, 3): norms of the moments of (c, t) with (c, t, targets)
    strong: float  # the largest weight times s_i^2, of rows that were turned and then summed up
    count: int  # of rows that were summed up
    largest: float  # eigenvalue of DKD

    def errors(self, theta: Matrix, squared: float, felt: float) -> Errors:
        """At theta, where the losses that were summed up are `squared`, and `felt` the norm of s alpha of kept rows."""
        c, tau = np.split(theta, [len(theta) - len(self.spread)])
        basis = float(np.linalg.norm(c))
        long, summed = (float(np.linalg.norm(lengths * tau)) for lengths in (self.spread, self.summed))
        of_sums = UNIT * self.moments @ [basis, summed, 1.0]
        turned = 2 * (self.strong * squared) ** 0.5  # at least the norm of s alpha of the rows that were turned
        force = of_sums[1] * self.summed + UNIT * (felt + turned + self.largest * long) * self.spread
        excess = self.count * self.strong * (UNIT * long) ** 2
        value = of_sums @ [basis, summed] + UNIT * (turned + self.largest * long) * long
        rest = float(of_sums[0]) * basis + excess
        return Errors(float(np.linalg.norm(force)), rest, float(value) + excess, UNIT * long)


@dataclass(frozen=True)
class Errors:
    """How wrong numbers may be."""

    force: float  # the length of h
    rest: float  # what else of the gap would be zero: w_i excess_i of rows that were summed up, alpha on the basis
    value: float  # J, without the rows that were kept
    image: float  # u_i / s_i of these
