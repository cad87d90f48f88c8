"""All of MNIST on one GPU: ten classes, 60,000 images, alone, with seven tangents each, or upright with moved copies,
by their pixels, or by the directions of their edges.

    python -m benchmarks.mnist tune|final [--train N] [--held-back N] [--settings JSON] [--device D] [--out DIR]

Pixels are smoothed; loss and invariances are squared.  `tune` learns from a part of the training set and measures on
another part of it; `final` learns from all of it and measures on the test set, once.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline

import rkhs
from benchmarks.data import digits
from rkhs.invariances import ImageTangents, RandomImageTransform
from rkhs.preprocessing import Blur, Deskew, EdgeDirections

SHAPE = (28, 28)
TUNED = {"smoothing": 0.8, "s2": 20, "C": 100, "nu": 4e6, "tol": 0.1, "landmarks": 2000, "precision": "tf32"}
TUNED |= {"deskew": False, "edges": False, "copies": 0}
PLAIN = {"nu": 0, "tol": 0.01, "landmarks": 500}  # the same without invariances, which converges sooner
EDGES = {"edges": True, "deskew": True, "s2": 1.14, "C": 100, "nu": 0, "tol": 0.01, "landmarks": None}  # no copies
MOVED_EDGES = EDGES | {"C": 30, "copies": 7}
COPIES = {"deskew": True, "smoothing": 0.6, "s2": 15, "C": 15, "nu": 0, "copies": 7, "tol": 0.02, "landmarks": 3000}


def images(which: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Images as rows of numbers between 0 and 1, and their digits."""
    X, y = digits("mnist", which)
    return X / 255, y


def model(options: dict[str, Any], device: str) -> Pipeline:
    """Images made upright or not, smoothed, and what learns from them."""
    common: dict[str, Any] = {
        "kernel": rkhs.Gaussian(scale=options["s2"] ** 0.5),
        "loss": "squared",
        "C": options["C"],
        "solver": rkhs.SolverOptions(
            rkhs.solvers.ConjugateGradients(landmarks=options["landmarks"]), device, options["precision"]
        ),
        "tol": options["tol"],
    }
    if options["copies"] or options["edges"]:
        motions = [RandomImageTransform(SHAPE, random_state=k) for k in range(options["copies"])]
        features = EdgeDirections(SHAPE) if options["edges"] else None
        learner = rkhs.VirtualSampleSVC(motions, features=features, **common)
    else:
        tangents = ImageTangents(SHAPE, smoothing=0)
        learner = rkhs.InvariantClassifier(invariance=tangents, nu=options["nu"], unlabeled=None, **common)
    smoothing = 0.0 if options["edges"] else options["smoothing"]
    return make_pipeline(*[Deskew(SHAPE)] * options["deskew"], Blur(SHAPE, smoothing), learner)


def measure(X: Any, y: Any, Z: Any, digits: Any, setting: dict[str, Any], device: str) -> dict[str, Any]:
    """Fit one model and count its errors."""
    options = TUNED | setting
    start = perf_counter()
    fitted = model(options, device).fit(X, y)
    seconds = perf_counter() - start
    wrong = int(np.sum(fitted.predict(Z) != digits))
    solution = fitted[-1].solution_
    row = {"train": len(X), **options, "errors": wrong, "error_percent": 100 * wrong / len(digits)}
    row |= {"fit_seconds": seconds, "solve_seconds": solution.seconds, "products": solution.products}
    row |= {"gap": solution.relative_gap, "status": solution.status}
    print(json.dumps(row), flush=True)
    return row


def main() -> None:
    """Tune or measure, and write the rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["tune", "final"])
    parser.add_argument("--train", type=int, default=50_000)
    parser.add_argument("--held-back", type=int, default=10_000)
    parser.add_argument(
        "--settings", default=json.dumps([PLAIN, {}, COPIES, EDGES, MOVED_EDGES]), help="a list of changes to TUNED"
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    X, y = images("train")
    if options.what == "tune":
        Z, digits = X[-options.held_back :], y[-options.held_back :]
        X, y = X[: options.train], y[: options.train]
    else:
        Z, digits = images("test")
    rows = [measure(X, y, Z, digits, setting, options.device) for setting in json.loads(options.settings)]
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"mnist_{options.what}.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
