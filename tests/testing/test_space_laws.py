"""The laws of spaces, broken by spaces that are wrong on purpose; spaces/test_spaces.py states them of ours."""

from dataclasses import dataclass

import numpy as np
import pytest

import rkhs
from rkhs.spaces import LandmarkSpace
from rkhs.testing import check_space

RNG = np.random.default_rng(0)
C, V = RNG.standard_normal((6, 2)), RNG.standard_normal((3, 2))
MIXED = rkhs.stack([rkhs.Evaluation(C), 2.0 * rkhs.functionals.DirectionalDerivative(C[:3], V)])


def test_what_landmarks_represent_is_inside():
    for kernel in (rkhs.Gaussian(1.0), rkhs.kernels.Polyharmonic(3)):
        outside = LandmarkSpace(kernel, MIXED).outside(rkhs.stack([MIXED, rkhs.Evaluation(C + 0.5)]))
        assert np.all(outside[: MIXED.size] < 1e-10)
        assert np.all(outside[MIXED.size :] > 1e-6)


@dataclass(frozen=True, eq=False)
class Wrong(LandmarkSpace):
    """Landmarks that break one law."""

    law: str = ""

    @property
    def gram(self):
        K = np.array(super().gram)
        return {"norm": 2 * K, "indefinite": K - 2 * np.eye(self.size), "skew": K + np.eye(self.size, k=1)}.get(
            self.law, K
        )

    def rows(self, functional):
        E = super().rows(functional)
        return {"linear": E**2, "derivatives": E * (1 + functional.order), "shape": E[:, 1:]}.get(self.law, E)

    def summed(self, functional, weight, known):
        E = self.rows(functional)
        return 2 * E.T @ (weight[:, None] * E) if self.law == "normal" else None

    def normal_of(self, summed):
        return sum(summed)

    def apply(self, functional, tau):
        return (2 if self.law == "apply" else 1) * super().apply(functional, tau)

    def adjoint(self, functional, alpha):
        return (2 if self.law == "adjoint" else 1) * super().adjoint(functional, alpha)

    def outside(self, functional):
        return super().outside(functional) - (1.0 if self.law == "outside" else 0.0)

    def gradient_normal(self, products):
        return (2 if self.law == "closed" else 1) * super().gradient_normal(products)

    def like(self, prototype):
        space = super().like(prototype)
        return LandmarkSpace(rkhs.Gaussian(9.0), space.functionals) if self.law == "device" else space


BROKEN = {
    "shape": "has rows",
    "linear": r"rows\(2 L - M / 2\)",
    "derivatives": "rows of derivatives",
    "norm": r"tau'K tau = |f|\^2",
    "indefinite": "tau'K tau >= 0",
    "skew": "K is symmetric",
    "apply": "E tau",
    "adjoint": "E'alpha",
    "normal": "E'WE tau",
    "outside": r"outside\(L\) >= 0",
    "closed": "closed form",
    "device": "in PyTorch",
}


@pytest.mark.every
@pytest.mark.parametrize(("law", "message"), BROKEN.items())
def test_broken_laws_are_named(law, message):
    with pytest.raises(AssertionError, match=message):
        check_space(Wrong(rkhs.Gaussian(1.0), rkhs.Evaluation(C), law=law))
