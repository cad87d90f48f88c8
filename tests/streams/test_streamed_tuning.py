"""Settings of streams: of few rows, which are all in the sample, as those of the same rows in memory."""

import numpy as np
import pytest

import rkhs
from refusals import refused

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(100, 2))
Y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(100)
WEIGHT = np.linspace(0.5, 2.0, 100)
SPAN = rkhs.Landmarks(rkhs.Evaluation(X[:25]))
KERNEL = rkhs.Gaussian(scale=rkhs.Tunable(each=True))


def terms(block):
    """Values with shares of an open weight, and what is known besides, whose weight is given."""
    return [
        rkhs.Term(rkhs.Evaluation(block.X), rkhs.Squared(), block.y, rkhs.Tunable() * block.weight),
        rkhs.Term(rkhs.Gradient(block.X), rkhs.Squared(), weight=1e-4),
    ]


@pytest.mark.parametrize("criterion", ["evidence", pytest.param("loo", marks=pytest.mark.slow)])
def test_as_in_memory(criterion):
    stream = rkhs.streams.blocks(X, Y, WEIGHT, rows=40)
    found = rkhs.streams.StreamedProblem(KERNEL, terms, stream, SPAN, rkhs.Constant()).tune(criterion, starts=1)
    block = rkhs.streams.Block(0, X, Y, WEIGHT)
    expected = rkhs.Problem(KERNEL, terms(block), rkhs.Constant(), approximation=SPAN).tune(criterion, starts=1)
    assert found.tuning.functionals == expected.tuning.functionals
    for name, value in expected.tuning.parameters.items():
        assert np.log(found.tuning.parameters[name] / value) == pytest.approx(0, abs=0.1), name
    mean = found.solve(tol=1e-8).function(X[:20])
    np.testing.assert_allclose(mean, expected.solve(tol=1e-8).function(X[:20]), atol=0.01)


def test_a_stream_that_can_be_read_once():
    """The first block is the sample, and is not lost."""
    stream = rkhs.streams.blocks((X[k : k + 50], Y[k : k + 50], WEIGHT[k : k + 50]) for k in (0, 50))
    found = rkhs.streams.StreamedProblem(KERNEL, terms, stream, SPAN, rkhs.Constant()).tune(starts=1)
    assert found.tuning.functionals[1] == 150  # 50 points in two dimensions
    f = found.solve(tol=1e-6).function
    assert np.sqrt(np.mean((f(X) - Y) ** 2)) < 0.15


ROWS = rkhs.streams.blocks(X, Y)
FIXED = rkhs.streams.StreamedProblem(rkhs.Gaussian(1.0), lambda block: terms(block)[1:], ROWS, SPAN, rkhs.Constant())
test_nothing_open_is_said = refused((FIXED.tune, "Nothing is left open"))
