"""Signals, images and heights with jumps: total variation, beside squared norms and scikit-image's denoisers.

    python -m benchmarks.total_variation [signals | images] [--out DIR]

signals: 200 noisy values at random points of three functions of Donoho and Johnstone (1994) with jumps; error on a fine
    grid.  Total variation can be computed between the data, where denoisers on grids cannot.
images: noisy values on a grid: a disc and a square, a photograph (scikit-image's camera), and the heights of Mount St.
    Helens.  Peers are denoise_tv_chambolle, denoise_nl_means and denoise_bilateral of scikit-image.
All weights, length scales and parameters of peers are chosen by two folds of the noisy values; the peers, which need
complete grids, by the values at held-out pixels that are replaced by the mean of their neighbors.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from scipy.ndimage import convolve

import rkhs
from benchmarks.data import arrays
from benchmarks.timing import markdown, show, write

Matrix = np.ndarray[Any, Any]
SCALES, VARIATIONS, RIDGES = (0.03, 0.1), (0.5, 1.5, 5.0), (0.1, 1.0, 10.0)
ORDERS = (0.5, 1.5)  # of the Matern kernels without total variation; with it the order is 1.5
AMPLITUDE = {1: 10.0, 2: 1.0}  # of the kernel with total variation, by the dimension


def blocks(x: Matrix) -> Matrix:
    """Return Donoho and Johnstone's Blocks, divided by 5."""
    at = np.array([0.1, 0.13, 0.15, 0.23, 0.25, 0.40, 0.44, 0.65, 0.76, 0.78, 0.81])
    heights = np.array([4, -5, 3, -4, 5, -4.2, 2.1, 4.3, -3.1, 2.1, -4.2])
    return np.sum(heights * (1 + np.sign(x[:, None] - at)) / 2, axis=1) / 5


def heavisine(x: Matrix) -> Matrix:
    """Return Donoho and Johnstone's HeaviSine, divided by 3."""
    return (4 * np.sin(4 * np.pi * x) - np.sign(x - 0.3) - np.sign(0.72 - x)) / 3


def steps(x: Matrix) -> Matrix:
    """Return a staircase of five levels."""
    return np.select([x < 0.2, x < 0.45, x < 0.5, x < 0.8], [0, 1.0, -0.5, 0.7], 0.2)


def ridge(X: Matrix, y: Matrix, scale: float, order: float, weight: float) -> Any:
    """Return f by squared losses and the norm alone."""
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=y, weight=weight)
    return rkhs.Problem(rkhs.Matern(order, scale), [term], rkhs.Constant()).solve().function


def variation(X: Matrix, y: Matrix, scale: float, weight: float, noise: float, more: int = 0) -> Any:
    """Return f by squared losses and total variation, to whose triangulation points may be added."""
    n = X.shape[1]
    values = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=y, weight=1 / (2 * noise**2))
    prior, kernel = rkhs.invariances.TotalVariation(X), AMPLITUDE[n] * rkhs.Matern(1.5, scale)

    def fitted(prior: rkhs.invariances.TotalVariation) -> Any:
        term = prior.term(weight / noise * len(X) ** ((n - 1) / n))  # differences of neighbors count as the noise does
        return rkhs.Problem(kernel, [values, term], rkhs.Constant()).solve(tol=1e-2 if n > 1 else 1e-3).function

    f = fitted(prior)
    return fitted(prior.refined(f, more)) if more else f


def by_folds(fit: Callable[..., Any], X: Matrix, y: Matrix, choices: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the choice with the least squared error of held-out values, in two folds."""
    fold = np.random.default_rng(1).permutation(len(X)) % 2

    def error(choice: tuple[Any, ...]) -> float:
        return float(
            sum(np.sum((fit(X[fold != k], y[fold != k], *choice)(X[fold == k]) - y[fold == k]) ** 2) for k in (0, 1))
        )

    return min(choices, key=error)


def signals() -> Iterator[list[str]]:
    """Yield the errors on signals."""
    grid = np.linspace(0, 1, 2001)
    for name, truth in {"blocks": blocks, "HeaviSine": heavisine, "steps": steps}.items():
        for draw in range(3):
            random, noise = np.random.default_rng(draw), 0.2
            x = np.sort(random.uniform(size=200))
            y, X = truth(x) + noise * random.standard_normal(200), x[:, None]
            start = perf_counter()
            plain = by_folds(ridge, X, y, list(product(SCALES, ORDERS, RIDGES)))
            smooth = partial(variation, noise=noise)
            chosen = by_folds(smooth, X, y, list(product(SCALES, VARIATIONS)))
            functions = {"squared norm": ridge(X, y, *plain), "total variation": variation(X, y, *chosen, noise, 50)}
            errors = [np.sqrt(np.mean((f(grid[:, None]) - truth(grid)) ** 2)) for f in functions.values()]
            yield [name, f"{draw}", *(f"{e:.3f}" for e in errors), f"{perf_counter() - start:.0f}"]


def pictures() -> dict[str, Matrix]:
    """Return images (m, m) with values of about [0, 1]."""
    from skimage.data import camera
    from skimage.transform import resize

    m = 32
    a = (np.arange(m) + 0.5) / m
    x, y = np.meshgrid(a, a, indexing="ij")
    shapes = 0.7 * ((x - 0.35) ** 2 + (y - 0.4) ** 2 < 0.06) + ((x > 0.6) & (y > 0.55) & (x < 0.9) & (y < 0.85))
    found = {"shapes": shapes.astype(float), "camera": resize(camera(), (m, m), anti_aliasing=True)}
    data = arrays("mount_st_helens")
    X, h = data["X"], data["height"].astype(float)
    rows = np.unique(X[:, 0]), np.unique(X[:, 1])
    heights = h[np.lexsort((X[:, 1], X[:, 0]))].reshape(len(rows[0]), len(rows[1]))
    step = min(heights.shape) // m
    heights = heights[: m * step : step, : m * step : step]
    found["Mount St. Helens"] = (heights - heights.min()) / np.ptp(heights)
    return found


def peers() -> dict[str, list[Callable[[Matrix], Matrix]]]:
    """Return denoisers of scikit-image with their candidate parameters."""
    from skimage.restoration import denoise_bilateral, denoise_nl_means, denoise_tv_chambolle

    return {
        "TV of scikit-image": [lambda z, w=w: denoise_tv_chambolle(z, weight=w) for w in (0.02, 0.05, 0.1, 0.2, 0.4)],
        "non-local means": [
            lambda z, h=h: denoise_nl_means(z, h=h, patch_size=5, patch_distance=6) for h in (0.05, 0.1, 0.15, 0.2)
        ],
        "bilateral": [lambda z, c=c: denoise_bilateral(z, sigma_color=c) for c in (0.05, 0.1, 0.2, 0.4)],
    }


def images() -> Iterator[list[str]]:
    """Yield the errors on images with noise."""
    noise, neighbors = 0.1, np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]) / 4
    for name, truth in pictures().items():
        m = len(truth)
        random = np.random.default_rng(0)
        z = truth + noise * random.standard_normal(truth.shape)
        a = (np.arange(m) + 0.5) / m
        X = np.stack(np.meshgrid(a, a, indexing="ij"), axis=-1).reshape(-1, 2)
        cells = {"noisy": np.sqrt(np.mean((z - truth) ** 2))}
        start = perf_counter()
        plain = by_folds(ridge, X, z.ravel(), list(product(SCALES, ORDERS, RIDGES)))
        cells["squared norm"] = np.sqrt(np.mean((ridge(X, z.ravel(), *plain)(X) - truth.ravel()) ** 2))
        smooth = partial(variation, noise=noise)
        chosen = by_folds(smooth, X, z.ravel(), list(product((0.05,), VARIATIONS)))
        found = smooth(X, z.ravel(), *chosen)(X)
        cells["total variation"] = np.sqrt(np.mean((found - truth.ravel()) ** 2))
        seconds = perf_counter() - start
        out = random.uniform(size=z.shape) < 0.1
        filled = np.where(out, convolve(z, neighbors, mode="nearest"), z)
        for peer, candidates in peers().items():
            best = min(candidates, key=lambda denoise: float(np.sum((denoise(filled) - z)[out] ** 2)))
            cells[peer] = np.sqrt(np.mean((best(z) - truth) ** 2))
        yield [name, *(f"{error:.4f}" for error in cells.values()), f"{seconds:.0f}"]


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="signals", choices=["signals", "images"])
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    rows = []
    for row in signals() if options.what == "signals" else images():
        rows.append(row)
        print(*row, flush=True)
    if options.what == "signals":
        headings = ["signal", "draw", "squared norm", "total variation", "seconds"]
    else:
        headings = ["image", "noisy", "squared norm", "total variation", *peers(), "our seconds"]
    title = f"Total variation: root mean square errors of {options.what}"
    show(Console(width=140), title, headings, rows)
    write(options.out, f"total_variation_{options.what}.md", markdown(title, headings, rows))


if __name__ == "__main__":
    main()
