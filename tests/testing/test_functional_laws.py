"""Every family of functionals obeys the laws, and each law catches a family that breaks it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

import rkhs
from registry import DIMENSIONS, FAMILIES
from rkhs._calculus import function_spaces
from rkhs.functionals._base import Functional, Part
from rkhs.testing import check_functional


def points(d, t=4, dtype=np.float64):
    return np.random.default_rng(d).standard_normal((t, d)).astype(dtype)


AVERAGES = {
    "LocalAverage": lambda X: rkhs.LocalAverage(X, width=0.3),
    "LocalAverage, widths": lambda X: rkhs.LocalAverage(X, width=np.linspace(0.2, 0.7, X.shape[1])),
    "LocalDeviation": lambda X: rkhs.LocalDeviation(X, width=0.3),
    "averages and slopes": lambda X: rkhs.stack([rkhs.LocalAverage(X, width=0.2), rkhs.Gradient(X)]).take([5, 0, 2]),
}
ALL = {**{name: case.make for name, case in FAMILIES.items()}, **AVERAGES}


@pytest.mark.every("name")
@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("name", ALL)
def test_every_family_obeys(name, dimension):
    check_functional(ALL[name](points(dimension)))


@pytest.mark.every("name")
@pytest.mark.parametrize("library", [np.asarray, torch.tensor], ids=["NumPy", "PyTorch"])
@pytest.mark.parametrize("name", ALL)
def test_every_family_obeys_in_single_precision(name, library):
    check_functional(ALL[name](library(points(2, dtype=np.float32))))


PLACES = {"one": points(2, t=1), "coincident": np.zeros((3, 2)), "far": 1e6 + points(2), "close": 1e-6 * points(2)}


@pytest.mark.parametrize("place", PLACES)
def test_wherever_the_points_are(place):
    check_functional(rkhs.Gradient(PLACES[place]))


def test_no_functional_at_all():
    check_functional(rkhs.Evaluation(np.zeros((0, 2))))


# What the families mean, on ordinary functions.

X = points(2)
Y = points(2, t=5)[1:]
V = np.random.default_rng(0).standard_normal((4, 3, 2))
H = 0.1


def along(f, v):
    """The derivative at X along v, exact for quadratic f."""
    return (f(X + H * v) - f(X - H * v)) / (2 * H)


def second(f, u, v):
    """The second derivative at X along u and v."""
    corners = f(X + H * (u + v)) - f(X + H * (u - v)) - f(X - H * (u - v)) + f(X - H * (u + v))
    return corners / (4 * H**2)


def cubature(f, widths):
    """The local average at X, exact for quadratic f."""
    steps = np.concatenate([np.diag(widths), -np.diag(widths)]) * 2**0.5
    return np.mean([f(X + step) for step in steps], axis=0)


def laplacian(f):
    return sum(second(f, e, e) for e in E)


def shifted(f):
    """f seen from X as from Y."""
    return lambda points: f(points - X + Y)


E = np.eye(2)
W = np.array([[0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.0, 1.0]])
MEANT = [
    (rkhs.Evaluation(X), lambda f: f(X)),
    (rkhs.Difference(X, Y), lambda f: f(X) - f(Y)),
    (
        rkhs.functionals.GraphDifference(X, [[0, 3], [2, 1]], [4.0, 9.0]),
        lambda f: np.array([2, 3]) * (f(X[[0, 2]]) - f(X[[3, 1]])),
    ),
    (rkhs.Average(np.stack([X, X]), weights=7 * W), lambda f: W @ f(X)),
    (rkhs.LocalAverage(X, 0.3), lambda f: cubature(f, [0.3, 0.3])),
    (rkhs.LocalAverage(X, (0.3, 0.8)), lambda f: cubature(f, [0.3, 0.8])),
    (rkhs.LocalDeviation(X, 0.3), lambda f: cubature(f, [0.3, 0.3]) - f(X)),
    (rkhs.Derivative(X, axes=[1]), lambda f: along(f, E[1])),
    (rkhs.Derivative(X, axes=[[0, 1], [1, 1]]), lambda f: np.stack([second(f, E[0], E[1]), second(f, E[1], E[1])], 1)),
    (rkhs.Gradient(X), lambda f: np.stack([along(f, e) for e in E], axis=1)),
    (rkhs.DirectionalDerivative(X, V[:, 0]), lambda f: along(f, V[:, 0])),
    (rkhs.DirectionalDerivative(X, V), lambda f: np.stack([along(f, V[:, k]) for k in range(3)], axis=1)),
    (rkhs.Hessian(X), lambda f: np.stack([[second(f, u, v) for v in E] for u in E]).transpose(2, 0, 1)),
    (rkhs.Laplacian(X), laplacian),
    (2 * rkhs.Evaluation(X) - rkhs.Laplacian(Y) / 4, lambda f: 2 * f(X) - laplacian(shifted(f)) / 4),
    (W @ rkhs.Evaluation(X), lambda f: W @ f(X)),
    (rkhs.Evaluation(X).take([3, 3, 0]), lambda f: f(X)[[3, 3, 0]]),
]


@pytest.mark.every
@pytest.mark.parametrize(("family", "meaning"), MEANT, ids=[repr(L) for L, _ in MEANT])
def test_every_family_means_what_it_says(family, meaning):
    check_functional(family, reference=meaning)


@pytest.mark.parametrize("h", [1e-1, 1e-3, 1e-6])
def test_differences_of_near_values(h):
    """Rounding errors are those of the values, which are 1 / h^2 times their second difference."""
    step = np.array([h, 0.0])

    def second(f, middle=-2.0):
        return f(X + step) + middle * f(X) + f(X - step)

    check_functional(second(rkhs.Evaluation), second)
    if h > 1e-3:
        with pytest.raises(AssertionError, match="reference"):
            check_functional(second(rkhs.Evaluation), lambda f: second(f, -2.0 + 1e-7))


# Families that break one law each.


@dataclass(frozen=True, eq=False)
class Slopes(Functional):
    """The gradient; each subclass has one thing wrong."""

    X: Any

    @property
    def shape(self):
        return self.X.shape

    @property
    def parts(self):
        return rkhs.Gradient(self.X).parts


class TooLarge(Slopes):
    @property
    def shape(self):
        return (len(self.X) + 1, self.X.shape[1])


class TooSmall(Slopes):
    @property
    def shape(self):
        return (len(self.X) - 1, self.X.shape[1])


class WrongSize(Slopes):
    @property
    def size(self):
        return len(self.X)


class FortranOrder(Slopes):
    """Rows and columns of L(f) exchanged: only its meaning tells."""

    @property
    def shape(self):
        return self.X.shape[::-1]


class WrongWeight(Slopes):
    @property
    def parts(self):
        return tuple(replace(part, weight=1 + 1e-6) for part in super().parts)


class WrongPoint(Slopes):
    @property
    def parts(self):
        return rkhs.Gradient(self.X + 1e-6).parts


class NotLinear(Slopes):
    def __call__(self, f):
        return super().__call__(f) ** 2


class WrongTake(Slopes):
    def take(self, rows):
        return super().take(rows) * (1 + 1e-6)


class WrongAssembly(Slopes):
    def assemble(self, values):
        return super().assemble(values) * (1 + 1e-6)


class Forgetful(Slopes):
    """A part that maps back other coefficients than it maps forth."""

    @property
    def parts(self):
        class Askew(Part):
            def adjoint(self, coefficients):
                return (1 + 1e-6) * super().adjoint(coefficients)

        return tuple(Askew(part.atoms) for part in super().parts)


BROKEN = [
    (TooLarge(X), "each functional of shape .* has a part"),
    (TooSmall(X), "a part of it writes to the rows 0 to 7"),
    (WrongSize(X), "size = the product of the shape"),
    (NotLinear(X), r"L\(f\) has the shape of L|L\(2 f - 3 g\)"),
    (WrongTake(X), r"\(2 L - M / 2\)\(f\)|L.take"),
    (WrongAssembly(X), r"L\(p\) = its difference quotients"),
    (Forgetful(X), r"<sum c_i z_i, f> = sum c_i L_i\(f\)|G v = dense v"),
]


@pytest.mark.every
@pytest.mark.parametrize(("family", "law"), BROKEN, ids=[type(L).__name__ for L, _ in BROKEN])
def test_a_broken_family_is_caught(family, law):
    with pytest.raises(AssertionError, match=law):
        check_functional(family)


@pytest.mark.parametrize("broken", [FortranOrder, WrongWeight, WrongPoint])
def test_a_family_that_means_something_else_is_caught(broken):
    check_functional(Slopes(X), reference=lambda f: np.stack([along(f, e) for e in E], axis=1))
    with pytest.raises(AssertionError, match=r"reference"):
        check_functional(broken(X), reference=lambda f: np.stack([along(f, e) for e in E], axis=1))


WRONG_GRAMS = {
    "G v = dense v": ("__matmul__", lambda G, v: (1 + 1e-9) * (G.dense() @ v)),
    "diagonal of G": ("diagonal", lambda G: G.dense().diagonal() + 1e-9),
    "blocks of G": ("block", lambda G, rows, columns: G.dense()[rows][:, columns] + 1e-9),
    "G' = dense'": ("T", property(lambda G: rkhs.gram(1.001 * G.kernel, G.M, G.L))),
}


@pytest.mark.every
@pytest.mark.parametrize("law", WRONG_GRAMS)
def test_a_wrong_operator_is_caught(law, monkeypatch):
    name, wrong = WRONG_GRAMS[law]
    monkeypatch.setattr(rkhs.results.Gram, name, wrong)
    with pytest.raises(AssertionError, match=law):
        check_functional(rkhs.Evaluation(X))


def test_wrong_derivatives_of_polynomials_are_caught(monkeypatch):
    right = function_spaces._moment
    monkeypatch.setattr(
        function_spaces, "_moment", lambda a, order, *rest: (1 + 1e-9 * (order > 0)) * right(a, order, *rest)
    )
    with pytest.raises(AssertionError, match=r"L\(p\) = its difference quotients"):
        check_functional(rkhs.Gradient(X))


def test_a_family_that_is_not_positive_is_caught(monkeypatch):
    dense = rkhs.results.Gram.dense
    monkeypatch.setattr(rkhs.results.Gram, "dense", lambda G: -dense(G))
    monkeypatch.setattr(rkhs.results.Gram, "__matmul__", lambda G, v: G.dense() @ v)
    monkeypatch.setattr(rkhs.results.Gram, "diagonal", lambda G: G.dense().diagonal())
    monkeypatch.setattr(rkhs.results.Gram, "block", lambda G, rows, columns: G.dense()[rows, columns])
    with pytest.raises(AssertionError, match="c'Gc >= 0"):
        check_functional(rkhs.Evaluation(X))


def test_other_numbers_in_pytorch_are_caught(monkeypatch):
    dense = rkhs.results.Gram.dense
    monkeypatch.setattr(
        rkhs.results.Gram, "dense", lambda G: dense(G) * (1 + 1e-9 * isinstance(G.L.prototype, torch.Tensor))
    )
    with pytest.raises(AssertionError, match="PyTorch = NumPy"):
        check_functional(rkhs.Evaluation(X))
