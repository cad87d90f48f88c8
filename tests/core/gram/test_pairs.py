"""Single entries of Gram matrices against the dense matrix."""

import numpy as np
import pytest

import rkhs
from rkhs.extend import FunctionalTable, entries

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.standard_normal((6, 2)), RANDOM.standard_normal((4, 2))
FAMILIES = {
    "values": rkhs.Evaluation(X),
    "multiples": 2.0 * rkhs.Evaluation(X),
    "slopes": rkhs.Gradient(X),
    "differences": rkhs.Difference(X[:3], X[3:]),
    "averages": rkhs.functionals.LocalAverage(X, width=0.3),
    "combinations": RANDOM.standard_normal((3, 6)) @ rkhs.Evaluation(X),
    "stacked": rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(Y)]),
}
KERNELS = {
    "Matern": rkhs.Matern(2.5, scale=(1.0, 2.0)),
    "sum": rkhs.Gaussian(0.7) + 0.3 * rkhs.Matern(1.5, 2.0),
    "cubic": rkhs.kernels.Polyharmonic(3.0),
    "linear": rkhs.kernels.Linear(),
    "rotated": rkhs.Matern(2.5) @ np.array([[1.0, 0.5], [0.0, 1.0]]),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_entries_are_those_of_the_gram_matrix(kernel, family):
    other = rkhs.stack([rkhs.Evaluation(Y), rkhs.Gradient(X)])
    i, j = np.arange(family.size)[:, None], RANDOM.permutation(other.size)[None, :]
    found = entries(kernel, FunctionalTable(family), i, FunctionalTable(other), j)
    dense = rkhs.gram(kernel, family, other).dense()
    np.testing.assert_allclose(found, dense[i, j], atol=1e-12 * np.abs(dense).max())


def test_functionals_are_where_their_points_are():
    np.testing.assert_allclose(FunctionalTable(rkhs.Evaluation(X)).locations, X)
    np.testing.assert_allclose(FunctionalTable(rkhs.Gradient(X)).locations, np.repeat(X, 2, axis=0))
    middle = FunctionalTable(rkhs.Difference(X[:3], X[3:])).locations
    np.testing.assert_allclose(middle, (X[:3] + X[3:]) / 2)
