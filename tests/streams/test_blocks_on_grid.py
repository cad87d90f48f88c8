"""Rows in blocks on a Fourier grid: sums of blocks, in one pass if the box is known."""

import numpy as np
import pytest

import rkhs
from refusals import refused

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(size=(3000, 2))
Y = np.sin(6 * X[:, 0]) * X[:, 1]
KERNEL = rkhs.Gaussian(scale=0.4)
GRID = rkhs.FourierGrid(1e-4, box=([0.0, 0.0], [1.0, 1.0]))


def terms(block):
    return [
        rkhs.Term(rkhs.Evaluation(block.X), rkhs.Squared(), target=block.y, weight=10.0),
        rkhs.Term(rkhs.Gradient(block.X), rkhs.Squared(), weight=1e-3),
    ]


def streamed(blocks, grid=GRID, make=terms, kernel=KERNEL, basis=None):
    return rkhs.streams.StreamedProblem(kernel, make, blocks, grid, basis=basis)


def reading(source, counts):
    def read():
        counts.append(0)
        for start in range(0, len(source), 700):
            counts[-1] += 1
            yield source[start : start + 700], Y[start : start + 700]

    return read


@pytest.mark.parametrize("basis", [None, rkhs.Polynomials(1)])
@pytest.mark.parametrize("grid", [GRID, rkhs.FourierGrid(1e-4)])
def test_blocks_give_the_solution_of_all_rows(basis, grid):
    stream = rkhs.streams.blocks(X, Y, rows=700)
    solution = streamed(stream, grid, basis=basis).solve(tol=1e-6)
    whole = rkhs.Problem(KERNEL, terms(rkhs.streams.Block(0, X, Y, None)), basis, approximation=GRID).solve(tol=1e-6)
    assert solution.status == "converged"
    np.testing.assert_allclose(solution.function(X[:50]), whole.function(X[:50]), atol=2e-3)
    assert solution.primal == pytest.approx(whole.primal, rel=1e-3)


def test_one_pass_if_the_box_is_known():
    counts = []
    stream = rkhs.streams.blocks(reading(X, counts))
    streamed(stream).solve()
    assert sum(count == 5 for count in counts) == 1  # besides the first block, for the terms
    assert sum(counts) <= 6
    assert streamed(rkhs.streams.blocks(reading(X, [])())).solve().status == "converged"  # rows that are read once


@pytest.mark.parametrize("grid", [GRID, rkhs.FourierGrid(1e-4)])
def test_fields_in_blocks(grid):
    kernel = rkhs.kernels.DivergenceFree(KERNEL)

    def arrows(block):
        target = np.stack([np.sin(3 * block.X[:, 1]), np.cos(2 * block.X[:, 0])], axis=1)
        return [rkhs.Term(rkhs.functionals.Components(block.X), rkhs.Squared(), target=target, weight=10.0)]

    solution = streamed(rkhs.streams.blocks(X, Y, rows=700), grid, arrows, kernel).solve()
    whole = rkhs.Problem(kernel, arrows(rkhs.streams.Block(0, X, Y, None)), approximation=GRID).solve()
    points = rkhs.functionals.Components(X[:50])
    assert np.allclose(points(solution.function), points(whole.function), atol=2e-3)


def robust(block):
    return [rkhs.Term(rkhs.Evaluation(block.X), rkhs.Huber(0.1), target=block.y)]


def pairs(block):
    return [rkhs.Term(rkhs.Difference(block.X, 1 - block.X), rkhs.Squared(), weight=1.0)]


ROWS, MOVED = rkhs.streams.blocks(X, Y, rows=1000), np.concatenate([X[:-1], [[3.0, 3.0]]])
test_what_is_refused = refused(
    (lambda: streamed(rkhs.streams.blocks(reading(X, [])()), rkhs.FourierGrid()).solve(), "box"),
    (streamed(ROWS, make=robust).solve, "squared losses"),
    (streamed(ROWS, make=pairs).solve, "several points"),
    (streamed(rkhs.streams.blocks(MOVED, Y, rows=1000)).solve, "Block 2 .*outside of the box"),
)
