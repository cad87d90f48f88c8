"""Few labels of MNIST's 60,000 training images: the default model, label spreading and GraphLearning.

    python -m benchmarks.mnist_few [--features edges|pixels] [--labels N | --random] [--draws N] [--first N]
                                   [--rows N] [--copies] [--device D] [--peers] [--out DIR]

Errors in percent on the unlabeled rows and on the 10,000 test images, seconds of the clock, and the peak memory of the
process in GiB up to then.  `edges` are those of make_pipeline(Deskew(SHAPE), EdgeDirections(SHAPE)); they are computed
once and InvariantClassifierCV() is fitted to them for each draw of the labels, N of each class, or 100 of all rows with
--random.  `pixels` are the images divided by 255.

--copies adds nine moved copies of each image, 600,000 rows in all: shifts by one pixel in eight directions, and a
rotation by ten degrees, after the images were made upright, since Deskew undoes shifts.  Only images themselves have
labels, and errors are those of the images.  Features are in float32 (0.9 GiB of edges).

--peers adds scikit-learn's LabelSpreading with ten neighbors, and the Laplace and Poisson learning of GraphLearning
(Calder, Cook, Thorpe and Slepcev 2020) on our graph of ten neighbors, if `graphlearning` can be imported.  They predict
unlabeled rows only.

Each draw is added to DIR/mnist_few.jsonl.
"""

from __future__ import annotations

import argparse
import json
import resource
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy.ndimage
from rich.console import Console
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import LabelSpreading

import rkhs
from benchmarks.data import digits
from benchmarks.timing import show
from rkhs.kernels import GraphKernel, NeighborGraph
from rkhs.preprocessing import Deskew, EdgeDirections

Array = np.ndarray[Any, Any]
SHAPE = (28, 28)
NEIGHBORS = 10  # of the default model's graph, and of the peers' graphs
SHIFTS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
DEGREES = 10.0
BLOCK = 10_000  # images whose features are computed at once
MISSING = "GraphLearning is missing, its Laplace and Poisson learning are left out: pip install graphlearning"


def moved_copies(images: Array) -> Iterator[Array]:
    """Yield the nine moved copies of images (t, 784), of the same dtype."""
    stack = images.reshape(-1, *SHAPE)
    for i, j in SHIFTS:
        moved = np.zeros_like(stack)
        to, source = ((slice(max(d, 0), 28 + min(d, 0)) for d in pair) for pair in ((i, j), (-i, -j)))
        moved[(slice(None), *to)] = stack[(slice(None), *source)]
        yield moved.reshape(images.shape)
    yield scipy.ndimage.rotate(stack, DEGREES, axes=(1, 2), reshape=False, order=1).reshape(images.shape)


def features_of(images: Array, kind: str) -> Array:
    """Return the features (t, n) of images in uint8."""
    if kind == "pixels":
        return images / 255
    return make_pipeline(Deskew(SHAPE), EdgeDirections(SHAPE)).fit_transform(images / 255)


def with_copies(images: Array, kind: str) -> Array:
    """Return the features (10 t, n) of images and of their moved copies in float32; edges are those of upright images.

    Images are made upright before they are moved, since `Deskew` centers them and would undo shifts.
    """
    blocks = [images[start : start + BLOCK] for start in range(0, len(images), BLOCK)]
    if kind == "edges":
        blocks = [Deskew(SHAPE).fit_transform(block / np.float32(255)).astype(np.float32) for block in blocks]

    def features(block: Array) -> Array:
        return EdgeDirections(SHAPE).fit_transform(block) if kind == "edges" else block / np.float32(255)

    X: Array | None = None
    for k, block in enumerate(blocks):
        for j, moved in enumerate(chain([block], moved_copies(block))):
            part, start = features(moved), j * len(images) + k * BLOCK
            X = np.empty((10 * len(images), part.shape[1]), dtype=np.float32) if X is None else X
            X[start : start + len(part)] = part
    assert X is not None
    return X


def drawn(y: Array, seed: int, each: int | None) -> Array:
    """Return the labeled rows of a draw: `each` of every class, or 100 of all rows for None."""
    rng = np.random.default_rng(seed)
    if each is None:
        return rng.choice(len(y), 100, replace=False)
    return np.concatenate([rng.choice(np.flatnonzero(y == c), each, replace=False) for c in range(10)])


def measure(X: Array, y: Array, Z: Array, digits: Array, labeled: Array, device: str | None) -> dict[str, Any]:
    """Fit the default model; return errors, seconds, memory, and what was chosen."""
    few = np.full(len(X), -1)
    few[labeled] = y[labeled]
    solver = "auto" if device is None else rkhs.SolverOptions(device=device)
    start = perf_counter()
    model = rkhs.InvariantClassifierCV(solver=solver).fit(X, few)
    fitted = perf_counter()
    on_rows = model.predict(X[: len(y)])  # copies have the digits of their images and are not counted again
    nodes = perf_counter()
    on_test = model.predict(Z)
    seconds = {"fit": fitted - start, "predict rows": nodes - fitted, "predict test": perf_counter() - nodes}
    report, rest = model.selection_report_, few[: len(y)] == -1
    return {
        "unlabeled": percent(on_rows[rest] != y[rest]),
        "test": percent(on_test != digits),
        **{f"{name} s": value for name, value in seconds.items()},
        "GiB": peak(),
        "kernel": described(model.best_params_["kernel"]),
        "C": model.C_,
        "agreement": report.get("agreement"),
        "unreached": report.get("unreached"),
        "sentence": report["sentence"],
    }


def peers(X: Array, graph: Any) -> dict[str, Callable[[Array, Array], Array]]:
    """Return the other models by name, each a map from labeled rows and their classes to the classes of all rows."""

    def spreading(rows: Array, classes: Array) -> Array:
        few = np.full(len(X), -1)
        few[rows] = classes
        return LabelSpreading(kernel="knn", n_neighbors=NEIGHBORS, max_iter=100).fit(X, few).transduction_

    found: dict[str, Callable[[Array, Array], Array]] = {"label spreading": spreading}
    if graph is not None:
        import graphlearning as gl

        found["Laplace"] = lambda rows, classes: gl.ssl.laplace(graph).fit_predict(rows, classes)
        found["Poisson"] = lambda rows, classes: gl.ssl.poisson(graph).fit_predict(rows, classes)
    return found


def described(kernel: Any) -> str:
    """Return a short text about a kernel: length scales are left out."""
    if isinstance(kernel, str):
        return kernel
    names = [repr(k) if isinstance(k, GraphKernel) else type(k).__name__ for _, k in kernel.summands()]
    return " + ".join(f"{factor:g} * {name}" for (factor, _), name in zip(kernel.summands(), names, strict=True))


def percent(wrong: Array) -> float:
    """Return the share of errors in percent."""
    return 100 * float(np.mean(wrong))


def peak() -> float:
    """Return the peak memory of the process in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def summary(found: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return the mean and the standard error of each model's figures over the draws."""
    names = ("unlabeled", "test", "fit s", "predict test s", "agreement")
    rows = []
    for model in dict.fromkeys(one["model"] for one in found):
        cells = []
        for name in names:
            values = [one[name] for one in found if one["model"] == model and one.get(name) is not None]
            error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0
            cells.append(f"{np.mean(values):.3g} ± {error:.2g}" if values else "")
        rows.append([model, str(sum(one["model"] == model for one in found)), *cells])
    return ["model", "draws", "unlabeled %", "test %", "fit s", "predict test s", "agreement"], rows


def main() -> None:
    """Measure, print, and add the draws to the journal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", default="edges", choices=["edges", "pixels"])
    parser.add_argument("--labels", type=int, default=10, help="labels of each class")
    parser.add_argument("--random", action="store_true", help="100 labels of all rows instead")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first draw")
    parser.add_argument("--rows", type=int, default=60_000, help="training images")
    parser.add_argument("--copies", action="store_true", help="add nine moved copies of each image")
    parser.add_argument("--device", help='of PyTorch, such as "cuda"')
    parser.add_argument("--peers", action="store_true", help="also label spreading and GraphLearning")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    console = Console(width=130)
    (images, y), (test, test_digits) = digits("mnist", "train"), digits("mnist", "test")
    images, y = images[: options.rows].astype(np.uint8), y[: options.rows].astype(int)
    start = perf_counter()
    X = (with_copies if options.copies else features_of)(images, options.features)
    Z = features_of(test.astype(np.uint8), options.features)
    seconds = perf_counter() - start
    console.print(f"{X.shape[0]} rows of {X.shape[1]} features: {seconds:.1f} s, {peak():.1f} GiB")
    graph = None
    if options.peers and find_spec("graphlearning") is None:
        console.print(MISSING)
    elif options.peers:
        graph = NeighborGraph.of(X, NEIGHBORS, device=options.device).weights
    settings = {"features": options.features, "labels": "random" if options.random else options.labels}
    settings |= {"rows": len(X), "device": options.device, "features s": seconds}
    others, found = peers(X, graph) if options.peers else {}, []
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "mnist_few.jsonl").open("a") as journal:

        def keep(one: dict[str, Any]) -> None:
            found.append(settings | one)
            journal.write(json.dumps(found[-1]) + "\n")
            journal.flush()
            console.print(one)

        for seed in range(options.first, options.first + options.draws):
            labeled = drawn(y, seed, None if options.random else options.labels)
            keep({"draw": seed, "model": "ours", **measure(X, y, Z, test_digits, labeled, options.device)})
            rest = np.setdiff1d(np.arange(len(y)), labeled)
            for name, predict in others.items():
                start = perf_counter()
                wrong = percent(predict(labeled, y[labeled])[rest] != y[rest])
                keep({"draw": seed, "model": name, "unlabeled": wrong, "fit s": perf_counter() - start})
    show(console, "Few labels of MNIST, means and standard errors", *summary(found))


if __name__ == "__main__":
    main()
