"""All of MNIST on one GPU: ten classes, 60,000 images, seven tangents each, beside the same machine without them.

    python -m benchmarks.mnist tune|final [--train N] [--held-back N] [--settings JSON] [--out DIR]

Images are smoothed; loss and invariances are squared.  `tune` learns from a part of the training set and
measures on another part of it; `final` learns from all of it and measures on the test set, once.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy.ndimage

import rkhs
from benchmarks.data import digits
from rkhs.invariances import ImageTangents

SHAPE = (28, 28)
TUNED = {"smoothing": 0.8, "s2": 20, "C": 100, "nu": 300, "tol": 0.1, "landmarks": 2000, "precision": "tf32"}
PLAIN = {"nu": 0, "tol": 0.01, "landmarks": 500}  # the same without invariances, which converges sooner


def images(which: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Images as rows of numbers between 0 and 1, and their digits."""
    X, y = digits("mnist", which)
    return X / 255, y


def smoothed(X: np.ndarray[Any, Any], pixels: float) -> np.ndarray[Any, Any]:
    """Images after a Gaussian filter of a width in pixels."""
    return scipy.ndimage.gaussian_filter(X.reshape(-1, *SHAPE), (0, pixels, pixels)).reshape(X.shape)


def measure(X: Any, y: Any, Z: Any, digits: Any, setting: dict[str, Any]) -> dict[str, Any]:
    """Fit one machine and count its errors."""
    options = TUNED | setting
    X, Z = (smoothed(images, options["smoothing"]) for images in (X, Z))
    machine = rkhs.InvariantClassifier(
        kernel=rkhs.Gaussian(scale=options["s2"] ** 0.5),
        loss="squared",
        C=options["C"],
        invariance=ImageTangents(SHAPE, smoothing=0),
        nu=options["nu"],
        unlabeled=None,
        solver=rkhs.solvers.ConjugateGradients(landmarks=options["landmarks"]),
        tol=options["tol"],
        device="cuda",
        precision=options["precision"],
    )
    start = perf_counter()
    machine.fit(X, y)
    fitted = perf_counter() - start
    wrong = int(np.sum(machine.predict(Z) != digits))
    solution = machine.solution_
    row = {"train": len(X), **options, "errors": wrong, "error_percent": 100 * wrong / len(digits)}
    row |= {"fit_seconds": fitted, "solve_seconds": solution.seconds, "products": solution.products}
    row |= {"gap": solution.relative_gap, "status": solution.status}
    print(json.dumps(row), flush=True)
    return row


def main() -> None:
    """Tune or measure, and write the rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["tune", "final"])
    parser.add_argument("--train", type=int, default=50_000)
    parser.add_argument("--held-back", type=int, default=10_000)
    parser.add_argument("--settings", default=json.dumps([PLAIN, {}]), help="a list of changes to TUNED")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    X, y = images("train")
    if options.what == "tune":
        Z, digits = X[-options.held_back :], y[-options.held_back :]
        X, y = X[: options.train], y[: options.train]
    else:
        Z, digits = images("test")
    rows = [measure(X, y, Z, digits, setting) for setting in json.loads(options.settings)]
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"mnist_{options.what}.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
