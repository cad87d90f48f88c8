"""Iterates with the images that a solver has at hand, and one Gram product that shows whether all of these are right.

With independent normal numbers r_k, the vector

    G (sum_k r_k a_k)  -  sum_k r_k (Ga)_k  =  sum_k r_k e_k

is as long as the errors e_k of the images are together, up to a normal number: it is shorter than a thousandth of
that with a probability below one in a thousand (Freivalds' check of a matrix product).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, inner, like, namespace
from rkhs._finite.certificate import Certificate, certificate_of
from rkhs._finite.monitor import plain
from rkhs._finite.problem import FiniteProblem, Geometry, Iterate

SHARE = 1e-4  # of a tolerance that may come from errors of images
ROUNDED = 64  # units of rounding, which a product has itself
_SEAL = object()  # of this file


class Checked(Iterate):
    """An iterate whose certificate rests on images that were checked; only a `Ledger` can make one."""

    certificate: Certificate

    def __init__(self, iterate: Iterate, certificate: Certificate, seal: Any) -> None:
        if seal is not _SEAL:
            raise TypeError("Checked iterates come from a Ledger whose images were found right: return an Iterate.")
        super().__init__(iterate.a, iterate.basis, iterate.alpha)
        object.__setattr__(self, "certificate", certificate)


def joined(outputs: Sequence[Iterate]) -> Iterate:
    """One iterate of several outputs, checked if all of them are."""
    together = Iterate.joined(outputs)
    certificates = [one.certificate for one in outputs if isinstance(one, Checked)]
    return Checked(together, Certificate.joined(certificates), _SEAL) if len(certificates) == len(outputs) else together


@dataclass(frozen=True, eq=False)
class Candidate:
    """An iterate of one output of a system with its image, and that of its alpha if it is known."""

    system: FiniteProblem
    iterate: Iterate
    image: Array
    alpha_image: Array | None = None


@dataclass(frozen=True, eq=False)
class Entry:
    """A candidate whose gap is small enough, if its images are right."""

    iterate: Iterate
    certificate: Certificate


class Ledger:
    """Points a (N, c) with their images Ga, each with the factor by which an error of the image matters.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs._finite.ledger import Ledger
    >>> X = np.linspace(0, 1, 5)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), target=np.ones(5))
    >>> system = rkhs.Problem(rkhs.Gaussian(1.0), [term]).system
    >>> ledger = Ledger(system.geometry)
    >>> a = np.eye(5)[:, :2]
    >>> ledger.add(a, system.gram @ a, np.ones(2))
    >>> ledger.right(1e-6)
    True
    >>> ledger.add(a, system.gram @ a + 1e-8, np.ones(2))
    >>> ledger.right(1e-6)
    False
    """

    def __init__(self, geometry: Geometry) -> None:
        self.exact = plain(geometry.exact)  # the last look is taken in any case
        self.random = np.random.default_rng(0)
        self.points: Array = None
        self.images: Array = None
        self.closed = False
        self.entries: list[Entry] = []

    def add(self, a: Array, image: Array, factor: Array) -> None:
        """Enter the columns of a and what is believed to be Ga, with a factor (c,) each."""
        r = like((factor * self.random.standard_normal(len(factor)))[:, None], a)
        before = (0.0, 0.0) if self.points is None else (self.points, self.images)
        self.points, self.images = before[0] + a @ r, before[1] + image @ r
        self.closed = False

    def enter(self, candidates: Sequence[Candidate], tol: float) -> list[Entry | None]:
        """Enter those whose gap is within tol with the images at hand; None for the others.

        Where the image of an alpha is not known, the norm of a - alpha is computed: v'Gv, for all of them together.
        """
        gradients = [one.iterate.a - one.iterate.alpha for one in candidates]
        unknown = [k for k, one in enumerate(candidates) if one.alpha_image is None]
        energies = {}
        if unknown:
            together = namespace(gradients[0]).concat([gradients[k] for k in unknown], axis=1)
            found = inner(together, self.exact @ together, axis=0)
            energies = {k: found[place : place + 1] for place, k in enumerate(unknown)}
        entries: list[Entry | None] = []
        for k, one in enumerate(candidates):
            energy = energies.get(k)
            if energy is None:
                energy = inner(gradients[k], one.image - one.alpha_image, axis=0)
            entries.append(self._enter(one, certificate_of(one.system, one.iterate, one.image, tol, energy), tol))
        return entries

    def _enter(self, one: Candidate, certificate: Certificate, tol: float) -> Entry | None:
        if not certificate.within(tol):
            return None
        xp, iterate = namespace(one.image), one.iterate
        size = max(float(certificate.primal[0]), one.system.rounding[0])
        length = float(xp.linalg.vector_norm(iterate.a) + xp.linalg.vector_norm(iterate.alpha))
        factor = np.full(1, length / size if size else 0.0)
        self.add(iterate.a, one.image, factor)
        if one.alpha_image is not None:
            self.add(iterate.alpha, one.alpha_image, factor)
        self.entries.append(Entry(iterate, certificate))
        return self.entries[-1]

    def right(self, tol: float) -> bool:
        """Whether errors of images, times their factors, are small beside `tol`; one product."""
        if self.points is None:
            return True
        xp = namespace(self.points)
        error = float(xp.linalg.vector_norm(self.exact @ self.points - self.images))
        self.closed = error <= max(SHARE * tol, ROUNDED * float(xp.finfo(self.points.dtype).eps))
        return self.closed

    def checked(self, entry: Entry) -> Checked:
        """The iterate of an entry, once all images were found right."""
        if not self.closed:
            raise RuntimeError("The images of this ledger were not found right, or not looked at since the last entry.")
        if not any(entry is own for own in self.entries):
            raise RuntimeError("This entry is not of this ledger: its images were not looked at.")
        return Checked(entry.iterate, entry.certificate, _SEAL)
