"""Every kernel obeys the laws, and each law catches a kernel that breaks it."""

from dataclasses import dataclass

import numpy as np
import pytest
from array_api_compat import is_torch_array

import rkhs
from registry import DIMENSIONS, KERNELS
from rkhs._core.gram import operator
from rkhs.extend import Form, FormKernel, Kernel, ScaledKernel, namespace
from rkhs.testing import check_kernel

WIDE = {
    "Gaussian, short": rkhs.Gaussian(0.05),
    "Gaussian, long": rkhs.Gaussian(100.0),
    "Matern, short": rkhs.Matern(1.5, 0.05),
    "Matern, long": rkhs.Matern(3.5, 100.0),
    "Polyharmonic, rough": rkhs.kernels.Polyharmonic(0.5),
    "Polyharmonic, barely differentiable": rkhs.kernels.Polyharmonic(2.2),
    "Polyharmonic, log of high power": rkhs.kernels.Polyharmonic(8),
    "large multiple": 1e8 * rkhs.kernels.RationalQuadratic(0.3, 2.0),
}


# Their values in all these spaces are compared with the oracle's in gram/test_accuracy.py.
SPACES = [d if d == 2 else pytest.param(d, marks=pytest.mark.slow) for d in DIMENSIONS]


# The quick run takes one of the kernels whose names begin with the same word, such as Matern.
@pytest.mark.every("kind")
@pytest.mark.parametrize("dimension", SPACES)
@pytest.mark.parametrize(("kind", "name"), [(name.split()[0].strip(","), name) for name in KERNELS])
def test_every_kernel_obeys(kind, name, dimension):
    check_kernel(KERNELS[name].make(dimension), dimension)


@pytest.mark.parametrize("name", WIDE)
def test_at_any_length_scale(name):
    check_kernel(WIDE[name], dimension=2, random_state=1)


# Kernels that are positive definite in R^n only if n is small.


@dataclass(frozen=True)
class Wendland(ScaledKernel):
    """(1 - r)^4 (4 r + 1) for r < 1, positive definite up to R^3."""

    scale: float = 1.0
    smooth = False

    def smoothness(self, dimension):
        return 1.5

    def radial_derivatives(self, q, orders):
        xp = namespace(q)
        r = xp.sqrt(-2 * q)
        rest = xp.clip(1 - r, 0.0, None)
        phi = {0: rest**4 * (4 * r + 1), 1: 20 * rest**3, 2: 60 * rest**2 / xp.clip(r, 1e-30, None)}
        return {k: phi[k] for k in orders}


@dataclass(frozen=True)
class Hat(Wendland):
    """1 - r for r < 1, positive definite in R^1."""

    def smoothness(self, dimension):
        return 0.5

    def radial_derivatives(self, q, orders):
        xp = namespace(q)
        return {0: xp.clip(1 - xp.sqrt(-2 * q), 0.0, None)}


@dataclass(frozen=True)
class Hidden(Kernel):
    """A kernel without a form."""

    kernel: Kernel

    def smoothness(self, dimension):
        return self.kernel.smoothness(dimension)

    def pair(self, pairing):
        return self.kernel.pair(pairing)


@pytest.mark.parametrize("scale", [0.3, 1.0])
@pytest.mark.parametrize(("kernel", "good", "bad"), [(Wendland, 3, 5), (Hat, 1, 2)])
def test_the_dimension_in_which_a_kernel_is_not_positive_definite_is_named(kernel, good, bad, scale):
    check_kernel(kernel(scale), good)
    with pytest.raises(AssertionError, match=rf">= 0 in R\^{bad} "):
        check_kernel(kernel(scale), bad)


def test_negative_eigenvalues_of_a_kernel_without_a_form():
    check_kernel(Hidden(Hat()), 1)
    with pytest.raises(AssertionError, match=r"c'Gc >= 0 in R\^2"):
        check_kernel(Hidden(Hat()), 2)


# Kernels that break one law each.


@dataclass(frozen=True)
class Radial(FormKernel):
    """exp(q); `broken` makes one thing of it wrong."""

    def smoothness(self, dimension):
        return np.inf

    def form(self, dimension):
        return Form(1, self.radial_derivatives, smooth=True)

    def radial_derivatives(self, q, orders):
        return {k: self.single(q, k) for k in orders}

    def single(self, q, k):
        return exp(q)


def exp(q):
    return np.exp(q) if isinstance(q, np.ndarray) else q.exp()


def broken(base=Radial, name="Broken", **wrong):
    return dataclass(frozen=True)(type(name, (base,), wrong))


def times(factor):
    """exp(q) times a factor that depends on q and the order of the derivative."""
    return broken(single=lambda self, q, k: factor(q, k) * exp(q))()


def not_finite(self, q, orders):
    """Derivatives without a floor: 0/0 where points coincide."""
    with np.errstate(all="ignore"):
        single = rkhs.Matern.radial_derivatives(self, q.copy(), orders)
        return {k: value * (q / q) for k, value in single.items()}


def widths_add(self, covariance):
    """As the papers print it; it still tends to k."""
    s, th = self.scale, float(covariance[0]) ** 0.5
    return (s**2 / (s + th) ** 2) ** (len(covariance) / 2) * rkhs.Gaussian(s + th)


# Not positive definite in the plane.
INDEFINITE = {"smoothness": lambda self, n: 1.0, "single": lambda self, q, k: np.cos(np.sqrt(np.maximum(-2 * q, 0)))}
TOO_SMOOTH = broken(rkhs.Matern, smoothness=lambda self, n: self.nu + 1)
TOO_SMOOTH_POWER = broken(rkhs.kernels.Polyharmonic, smoothness=lambda self, n: self.power / 2 + 1)
ASYMMETRIC = {"pair": lambda self, pairing: Radial.pair(self, pairing) * (1 + 1e-6 * pairing.left.points[0, 0])}
WRONG_SIGN = {k: times(lambda q, order, k=k: -1.0 if order == k else 1.0) for k in (1, 2, 4)}
WRONG_AVERAGE = {"blurred": lambda self, covariance: 1.001 * rkhs.Gaussian.blurred(self, covariance)}
RADIAL = {name: value for name, value in vars(Radial).items() if callable(value) and not name.startswith("__")}
NO_VALUE = type("NoValue", (FormKernel,), {**RADIAL, "__repr__": lambda self: "NoValue()"})
NOT_FROZEN = type("NotFrozen", (NO_VALUE,), {"__eq__": lambda self, other: True, "__hash__": lambda self: 1})
NO_REPR = type("NoRepr", (NOT_FROZEN,), {"__repr__": object.__repr__})

BROKEN = [
    (WRONG_SIGN[1], r"D k = lim of difference quotients at points apart, for Gradient x Evaluation"),
    (WRONG_SIGN[2], r"D k = lim of difference quotients at points apart, for Gradient x Gradient"),
    (WRONG_SIGN[4], r"D k = lim of difference quotients at points apart, for Hessian x Hessian"),
    (times(lambda q, k: 1 + 1e-6 * (k == 2)), r"D k = lim of difference quotients"),
    (broken(**ASYMMETRIC)(), r"k\(x, y\) = k\(y, x\)"),
    (broken(**INDEFINITE)(), r"c'Gc >= 0"),
    (broken(rkhs.kernels.Polyharmonic, order=1)(power=3), r"c'Gc >= 0 for all c with P'c = 0"),
    (broken(rkhs.Matern, radial_derivatives=not_finite)(nu=2.5), r"G_ij is finite"),
    (TOO_SMOOTH(nu=0.5), r"D k = lim of difference quotients at coincident points"),
    (TOO_SMOOTH(nu=1.5), r"D k = lim of difference quotients at coincident points"),
    (TOO_SMOOTH_POWER(power=2), r"D k = lim of difference quotients at coincident points"),
    (TOO_SMOOTH_POWER(power=1), r"D k = lim of difference quotients at coincident points"),
    (broken(smoothness=lambda self, dimension: 0.0)(), r"smoothness > 0"),
    (broken(summands=lambda self: ((1.0, rkhs.Gaussian()), (1e-6, rkhs.Gaussian())))(), r"`summands` add up to `pair`"),
    (broken(pair=lambda self, pairing: (1 + 1e-6) * Radial.pair(self, pairing))(), r"`form` equals `pair`"),
    (times(lambda q, k: 1 + 1e-6 * is_torch_array(q)), r"PyTorch = NumPy"),
    (times(lambda q, k: 1 + 0.01 * ("32" in str(q.dtype))), r"float32 = float64"),
    (broken(rkhs.Gaussian, blurred=widths_add)(), r"d/d\(w\^2/2\) E k\(x \+ w z, y\) = Laplacian"),
    (broken(rkhs.Gaussian, **WRONG_AVERAGE)(), r"E k\(x \+ w z, y\) -> k\(x, y\)"),
    (NOT_FROZEN(), r"make NotFrozen a frozen dataclass"),
    (NO_VALUE(), r"not equal to its copy"),
    (NO_REPR(), r"give NoRepr a __repr__"),
]


@pytest.mark.every
@pytest.mark.parametrize(("kernel", "law"), BROKEN, ids=[law for _, law in BROKEN])
def test_a_broken_kernel_is_caught(kernel, law):
    with pytest.raises(AssertionError, match=law):
        check_kernel(kernel)


def test_the_sentence_names_the_kernel_and_both_numbers():
    with pytest.raises(AssertionError, match=r"^Broken\(\) breaks the law .*: measured \S+, allowed \S+\.$"):
        check_kernel(WRONG_SIGN[1])


def test_a_wrong_product_is_caught(monkeypatch):
    monkeypatch.setattr(rkhs.results.Gram, "__matmul__", lambda self, v: (1 + 1e-9) * (self.dense() @ v))
    with pytest.raises(AssertionError, match=r"\(structured G\) v = \(dense G\) v"):
        check_kernel(rkhs.Gaussian())


def test_a_missing_refusal_is_caught(monkeypatch):
    monkeypatch.setattr(operator, "check_bounded", lambda kernel, L: None)
    with pytest.raises(AssertionError, match="order 1 was not refused"):
        check_kernel(rkhs.Matern(0.5))


def test_the_points_depend_on_the_seed_alone():
    """A law that holds for one draw of points may fail for another: the draw is an argument."""

    @dataclass(frozen=True)
    class Remembering(Radial):
        seen: tuple = ()

        def pair(self, pairing):
            calls.append(float(pairing.left.points[0, 0]))
            return super().pair(pairing)

    draws = []
    for seed in (0, 0, 1):
        calls = []
        check_kernel(Remembering(), random_state=seed)
        draws.append(calls)
    assert draws[0] == draws[1] != draws[2]
