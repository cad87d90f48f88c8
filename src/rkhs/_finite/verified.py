"""Verified products: certificates from images that a solver has at hand, and one Gram product that checks them all.

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
_VERIFIED = object()  # known to this file alone: a solver cannot make a certificate of its own


class VerifiedIterate(Iterate):
    """An iterate whose certificate rests on verified images; only `VerifiedProducts` can make one."""

    certificate: Certificate

    def __init__(self, iterate: Iterate, certificate: Certificate, seal: Any) -> None:
        if seal is not _VERIFIED:
            raise TypeError("Verified iterates come from VerifiedProducts whose images are right: return an Iterate.")
        super().__init__(iterate.a, iterate.basis, iterate.alpha)
        object.__setattr__(self, "certificate", certificate)


def joined(outputs: Sequence[Iterate]) -> Iterate:
    """Join iterates of one output each; the result is verified if all of them are."""
    together = Iterate.joined(outputs)
    certificates = [one.certificate for one in outputs if isinstance(one, VerifiedIterate)]
    if len(certificates) < len(outputs):
        return together
    return VerifiedIterate(together, Certificate.joined(certificates), _VERIFIED)


@dataclass(frozen=True, eq=False)
class Entry:
    """An iterate whose gap is small enough, if the images that say so are right."""

    iterate: Iterate
    certificate: Certificate


class VerifiedProducts:
    """Points a (N, c) with their images Ga, each with the factor by which an error of the image matters.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs._finite.verified import VerifiedProducts
    >>> X = np.linspace(0, 1, 5)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), target=np.ones(5))
    >>> system = rkhs.Problem(rkhs.Gaussian(1.0), [term]).system
    >>> products = VerifiedProducts(system.geometry)
    >>> a = np.eye(5)[:, :2]
    >>> products.add(a, system.gram @ a, np.ones(2))
    >>> products.right(1e-6)
    True
    >>> products.add(a, system.gram @ a + 1e-8, np.ones(2))
    >>> products.right(1e-6)
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
        """Add the columns of a and what is believed to be Ga, with a factor (c,) each."""
        r = like((factor * self.random.standard_normal(len(factor)))[:, None], a)
        before = (0.0, 0.0) if self.points is None else (self.points, self.images)
        self.points, self.images = before[0] + a @ r, before[1] + image @ r
        self.closed = False

    def enter(
        self, system: FiniteProblem, iterate: Iterate, image: Array, alpha_image: Array, tol: float
    ) -> Entry | None:
        """Enter an iterate of one output with an alpha, if its gap is within tol by the images of both."""
        assert iterate.alpha is not None
        energy = inner(iterate.a - iterate.alpha, image - alpha_image, axis=0)
        certificate = certificate_of(system, iterate, image, tol, energy)
        if not certificate.within(tol):
            return None
        xp = namespace(image)
        size = max(float(certificate.primal[0]), system.rounding[0])
        length = float(xp.linalg.vector_norm(iterate.a) + xp.linalg.vector_norm(iterate.alpha))
        factor = np.full(1, length / size if size else 0.0)
        self.add(iterate.a, image, factor)
        self.add(iterate.alpha, alpha_image, factor)
        self.entries.append(Entry(iterate, certificate))
        return self.entries[-1]

    def right(self, tol: float) -> bool:
        """Return whether errors of images, times their factors, are small beside `tol`; takes one product."""
        if self.points is None:
            return True
        xp = namespace(self.points)
        error = float(xp.linalg.vector_norm(self.exact @ self.points - self.images))
        # A product itself is right to 64 units of rounding.
        self.closed = error <= max(SHARE * tol, 64 * float(xp.finfo(self.points.dtype).eps))
        return self.closed

    def verified(self, entry: Entry) -> VerifiedIterate:
        """Return the iterate of an entry, once all images were found right."""
        if not self.closed:
            raise RuntimeError("The images were not found right, or not checked since the last entry.")
        if not any(entry is own for own in self.entries):
            raise RuntimeError("This entry is not of these products: its images were not checked.")
        return VerifiedIterate(entry.iterate, entry.certificate, _VERIFIED)
