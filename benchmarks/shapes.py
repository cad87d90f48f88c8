"""Shapes and quantiles that hold everywhere: what a proof costs, and whether it is true.

    python -m benchmarks.shapes [--points 1000000] [--repeats 3] [--out DIR]

Noisy samples of a rising and of a convex function of one feature and of two.  Each is fitted with constraints at the
points where the proof ends up having them, without a proof, and with the proof and all its rounds; processor seconds
are the least of some repeats.  Then slopes, or second derivatives, are computed at `points` random points of the box.
Quantiles: three levels of a heteroscedastic sample, crossing counted at as many points, pinball loss on a fresh sample
compared with separate fits.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import rkhs
from benchmarks.timing import interleaved, markdown, show, write

Matrix = np.ndarray[Any, Any]


def samples(n: int, convex: bool, t: int = 200) -> tuple[Matrix, Matrix]:
    """Points of a cube and noisy values."""
    rng = np.random.default_rng(n)
    X = rng.uniform(-1.7, 1.7, (t, n))
    f = np.sum(X**2, axis=1) if convex else np.sum(np.tanh(2 * X), axis=1)
    return X, f + 0.3 * rng.standard_normal(t)


def in_pieces(apply: Any, box: Matrix, count: int) -> float:
    """The least value at random points of the box."""
    rng = np.random.default_rng(0)
    return min(float(np.min(apply(rng.uniform(*box, (50_000, box.shape[1]))))) for _ in range(-(-count // 50_000)))


def _solved(kernel: Any, terms: Any, basis: Any) -> Any:
    return rkhs.Problem(kernel, terms, basis).solve()


def pinball(y: Matrix, found: Matrix, level: float) -> float:
    """The loss of a quantile."""
    return float(np.mean(np.maximum(level * (y - found), (level - 1) * (y - found))))


def main() -> None:
    """Print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    rows = []
    for n, word in ((1, "increasing"), (1, "convex"), (2, "increasing"), (2, "convex")):
        X, y = samples(n, word == "convex")
        shape = dict.fromkeys(range(n), word)
        shaped = rkhs.InvariantRegressor(invariance=None, C=10.0, scale=1.0, shape=shape)
        shaped.fit(X, y)
        certificate, terms = shaped.shape_certificate_, shaped.problem_.terms
        kernel, basis = shaped.problem_.kernel, shaped.problem_.basis
        calls = {
            "with": partial(shaped.fit, X, y),
            "without": partial(_solved, kernel, terms, basis),
        }
        used = interleaved(calls, options.repeats, time.process_time)
        f = shaped.function_
        least = min(
            in_pieces(lambda Z, own=proof.claim: own.at(Z, Z)(f), certificate.box, options.points)  # noqa: B023
            for proof in certificate.proofs
        )
        proved = "proved" if certificate.proved else "open"
        numbers = [f"{used['without']:.2f}", f"{used['with']:.2f}", f"{used['with'] / used['without']:.1f}"]
        rows.append([f"{n}", word, proved, f"{least:.2g}", *numbers])
        print(*rows[-1], flush=True)
    title = f"Shapes: least derivative at {options.points:,} points, and processor seconds"
    headings = ["features", "shape", "on the box", "least", "at points only", "with proof", "ratio"]
    show(Console(), title, headings, rows)
    write(options.out, "shapes.md", markdown(title, headings, rows))

    rng, levels = np.random.default_rng(0), [0.1, 0.5, 0.9]
    draw = rng.uniform(0, 3, (2, 300, 1))
    targets = np.sin(2 * draw[..., 0]) + 0.3 * draw[..., 0] * rng.standard_normal((2, 300))
    options_of = {"scale": 0.3, "C": 10.0}
    model = rkhs.QuantileRegressor(levels, **options_of).fit(draw[0], targets[0])
    box = model.crossing_certificate_.box
    gap = in_pieces(lambda Z: np.diff(model.predict(Z), axis=1), box, options.points)
    rows = []
    for k, level in enumerate(levels):
        alone = rkhs.InvariantRegressor(loss=rkhs.Quantile(level), invariance=None, **options_of)
        apart = pinball(targets[1], alone.fit(draw[0], targets[0]).predict(draw[1]), level)
        joint = pinball(targets[1], model.predict(draw[1])[:, k], level)
        rows.append([f"{level}", f"{apart:.5f}", f"{joint:.5f}", f"{joint / apart - 1:+.2%}", f"{gap:.2g}"])
        print(*rows[-1], flush=True)
    title = f"Quantiles: pinball loss on a fresh sample ({'proved' if model.crossing_certificate_.proved else 'open'})"
    headings = ["level", "separate", "joint", "difference", "least gap"]
    show(Console(), title, headings, rows)
    write(options.out, "quantiles.md", markdown(title, headings, rows))


if __name__ == "__main__":
    main()
