"""Verified products: certificates from images Ga that a solver has computed, checked by a single Gram product.

With independent standard normal numbers r_k, the vector

    G (sum_k r_k a_k)  -  sum_k r_k (Ga)_k  =  sum_k r_k e_k

is normally distributed, and as large as the errors e_k of the images: its norm is below a thousandth of theirs with a
probability of less than one in a thousand (Freivalds' check of a matrix product).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, inner, like, namespace
from rkhs._finite.certificate import Certificate, certificate_of
from rkhs._finite.monitor import plain
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs._finite.representers import GramGeometry

SHARE = 1e-4  # the fraction of a tolerance that errors of images may contribute
_VERIFIED = object()  # private to this module, so that solvers cannot construct certificates


class VerifiedIterate(Iterate):
    """An iterate whose certificate is based on verified images; only `VerifiedProducts` can create one."""

    certificate: Certificate

    def __init__(self, iterate: Iterate, certificate: Certificate, seal: Any) -> None:
        if seal is not _VERIFIED:
            raise TypeError("Only VerifiedProducts can create a VerifiedIterate: return an Iterate.")
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
    """An iterate whose gap is within the tolerance, provided that its images are correct."""

    iterate: Iterate
    certificate: Certificate


class VerifiedProducts:
    """Random combinations of points a (N, c) and their images Ga, weighted by the effect of an error of the image.

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

    def __init__(self, geometry: GramGeometry) -> None:
        self.exact = plain(geometry.exact)  # without a monitor: the check is not subject to the time limit
        self.random = np.random.default_rng(0)
        self.points: Array = None
        self.images: Array = None
        self.closed = False
        self.entries: list[Entry] = []

    def add(self, a: Array, image: Array, factor: Array) -> None:
        """Add the columns of a and their claimed images Ga, with the weights `factor` (c,)."""
        r = like((factor * self.random.standard_normal(len(factor)))[:, None], a)
        before = (0.0, 0.0) if self.points is None else (self.points, self.images)
        self.points, self.images = before[0] + a @ r, before[1] + image @ r
        self.closed = False

    def enter(
        self, system: FiniteProblem, iterate: Iterate, image: Array, alpha_image: Array, tol: float
    ) -> Entry | None:
        """Add an iterate of one output with an alpha if, by the images of both, its gap is within tol; else None."""
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
        """Return whether the weighted errors of all images are small compared with `tol`; takes one product."""
        if self.points is None:
            return True
        xp = namespace(self.points)
        error = float(xp.linalg.vector_norm(self.exact @ self.points - self.images))
        # The product that checks has itself a rounding error of up to 64 eps.
        self.closed = error <= max(SHARE * tol, 64 * float(xp.finfo(self.points.dtype).eps))
        return self.closed

    def verified(self, entry: Entry) -> VerifiedIterate:
        """Return the iterate of an entry after a successful check of all images."""
        if not self.closed:
            raise RuntimeError("The images failed the check, or were not checked since the last entry: call `right`.")
        if not any(entry is known for known in self.entries):
            raise RuntimeError("This entry belongs to other products: its images were not checked.")
        return VerifiedIterate(entry.iterate, entry.certificate, _VERIFIED)
