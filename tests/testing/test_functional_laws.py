"""Every family of functionals obeys the laws and means what the registry says; each law catches one that does not."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

import rkhs
from registry import DIMENSIONS, FAMILIES
from rkhs.extend import Functional, Part
from rkhs.results import Gram
from rkhs.testing import check_functional


def points(d, t=4, dtype=np.float64):
    return np.random.default_rng(d).standard_normal((t, d)).astype(dtype)


AVERAGES = {
    "LocalAverage": lambda X: rkhs.functionals.LocalAverage(X, width=0.3),
    "LocalAverage, widths": lambda X: rkhs.functionals.LocalAverage(X, width=np.linspace(0.2, 0.7, X.shape[1])),
    "LocalDeviation": lambda X: rkhs.functionals.LocalDeviation(X, width=0.3),
    "averages and slopes": lambda X: rkhs.stack([rkhs.functionals.LocalAverage(X, width=0.2), rkhs.Gradient(X)]).take(
        [5, 0, 2]
    ),
}
ALL = {**{name: case.make for name, case in FAMILIES.items()}, **AVERAGES}


def meaning(name, X):
    """The definition of a family in the registry, with difference quotients, which are exact for quadratic f."""

    def derivative(f, x, axes, h=0.1):
        if not axes:
            return f(x[None])[0]
        step = h * np.eye(len(x))[axes[-1]]
        return (derivative(f, x + step, axes[:-1]) - derivative(f, x - step, axes[:-1])) / (2 * h)

    rows, shape = FAMILIES[name].define(*X.shape), FAMILIES[name].make(X).shape
    return lambda f: np.reshape([sum(c * derivative(f, X[i], axes) for c, i, axes in row) for row in rows], shape)


@pytest.mark.every("name")
@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("name", ALL)
def test_every_family_obeys(name, dimension):
    X = points(dimension)
    check_functional(ALL[name](X), reference=meaning(name, X) if name in FAMILIES else None)


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


X = points(2)


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
    """The gradient; `broken` makes one thing of it wrong."""

    X: Any
    shape = property(lambda self: self.X.shape)
    parts = property(lambda self: rkhs.Gradient(self.X).parts)


class Askew(Part):
    """A part that maps back other coefficients than it maps forth."""

    def adjoint(self, coefficients):
        return (1 + 1e-6) * super().adjoint(coefficients)


def broken(**wrong):
    return type("Broken", (Slopes,), wrong)(X)


NEARLY = 1 + 1e-6
BROKEN = [
    ({"shape": property(lambda self: (5, 2))}, "each functional of shape .* has a part"),
    ({"shape": property(lambda self: (3, 2))}, "a part of it writes to the rows 0 to 7"),
    ({"size": property(lambda self: 4)}, "size = the product of the shape"),
    ({"__call__": lambda self, f: Functional.__call__(self, f) ** 2}, r"L\(f\) has the shape of L|L\(2 f - 3 g\)"),
    ({"take": lambda self, rows: Functional.take(self, rows) * NEARLY}, r"\(2 L - M / 2\)\(f\)|L.take\(rows\)"),
    ({"assemble": lambda self, on: Functional.assemble(self, on) * NEARLY}, r"L\(p\) = its difference quotients"),
    (
        {"parts": property(lambda self: tuple(Askew(part.atoms) for part in rkhs.Gradient(X).parts))},
        r"<sum c_i z_i, f> = sum c_i L_i\(f\)|G v = dense v",
    ),
]


@pytest.mark.every
@pytest.mark.parametrize(("wrong", "law"), BROKEN, ids=[law for _, law in BROKEN])
def test_a_broken_family_is_caught(wrong, law):
    with pytest.raises(AssertionError, match=law):
        check_functional(broken(**wrong))


@pytest.mark.parametrize(
    "wrong",
    [
        {"shape": property(lambda self: X.shape[::-1])},  # rows and columns of L(f) exchanged: only its meaning tells
        {"parts": property(lambda self: tuple(replace(part, weight=NEARLY) for part in rkhs.Gradient(X).parts))},
        {"parts": property(lambda self: rkhs.Gradient(X + 1e-6).parts)},
    ],
    ids=["order", "weight", "points"],
)
def test_a_family_that_means_something_else_is_caught(wrong):
    check_functional(Slopes(X), reference=meaning("Gradient", X))
    with pytest.raises(AssertionError, match=r"reference"):
        check_functional(broken(**wrong), reference=meaning("Gradient", X))


DENSE = Gram.dense
NEGATIVE = {
    "dense": lambda G: -DENSE(G),
    "__matmul__": lambda G, v: G.dense() @ v,
    "diagonal": lambda G: G.dense().diagonal(),
    "block": lambda G, rows, columns: G.dense()[rows, columns],
}
WRONG_GRAMS = {
    "G v = dense v": {"__matmul__": lambda G, v: (1 + 1e-9) * (G.dense() @ v)},
    "diagonal of G": {"diagonal": lambda G: G.dense().diagonal() + 1e-9},
    "blocks of G": {"block": lambda G, rows, columns: G.dense()[rows][:, columns] + 1e-9},
    "G' = dense'": {"T": property(lambda G: rkhs.gram(1.001 * G.kernel, G.M, G.L))},
    "c'Gc >= 0": NEGATIVE,
    "PyTorch = NumPy": {"dense": lambda G: DENSE(G) * (1 + 1e-9 * isinstance(G.L.prototype, torch.Tensor))},
}


@pytest.mark.every
@pytest.mark.parametrize("law", WRONG_GRAMS)
def test_a_wrong_operator_is_caught(law, monkeypatch):
    for name, wrong in WRONG_GRAMS[law].items():
        monkeypatch.setattr(Gram, name, wrong)
    with pytest.raises(AssertionError, match=law):
        check_functional(rkhs.Evaluation(X))
