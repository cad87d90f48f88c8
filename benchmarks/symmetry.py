"""Rotations of digits with few labels: exact invariance under a group, compared with tangents and rotated copies.

    python -m benchmarks.symmetry [--pairs 6-9 3-8 ..] [--draws 5] [--out build/bench]

Pairs of MNIST digits with 10 labeled images of each, which are upright.  Errors in percent on 500 test images of each
digit: as they are, rotated by random angles of at most 30 degrees, and rotated by any angle.

pixels: images of 14 x 14 pixels, the means of 2 x 2; rotations by multiples of 90 degrees permute them.
rings: values on 13 circles at 48 angles, times the root of the radius, so that distances are those of images on a disc.
    Rotations by multiples of 7.5 degrees permute them; the group consists of those by multiples of 15 degrees.

All models are SVMs with a Gaussian kernel whose scale and C are chosen by three stratified folds of the labels: the
smallest error, ties by the hinge loss.  The strength of the tangents is given, since upright labels cannot show how far
test images are rotated.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from rich.console import Console
from scipy import ndimage

import rkhs
from benchmarks.data import digits
from benchmarks.imbalance import Fit, Matrix, Values, balanced_error, choose, labels
from benchmarks.timing import markdown, show, write
from rkhs.invariances import ImageTangents

PAIRS = ("6-9", "3-8", "4-7", "1-7", "4-9")
LABELS, TESTS = 10, 500  # of each digit
RINGS, ANGLES, STEPS = 13, 48, 24  # radii 1 to 13 pixels; angles of each ring; rotations of the group
FACTORS, CS = (0.25, 0.5, 1.0), (1.0, 10.0, 100.0)  # of the median distance; of the hinge loss
TESTED = {"upright": 0.0, "within 30": 30.0, "any angle": 180.0}  # the largest angle of test images in degrees
Map = Callable[[Matrix], Matrix]  # from images (t, 28, 28) to features


@cache
def mnist(which: str) -> tuple[Matrix, Matrix]:
    """Return the images (t, 28, 28) and digits of the "train" or the "test" part."""
    X, y = digits("mnist", which)
    return X.reshape(-1, 28, 28).astype(np.uint8), y


def pixels(images: Matrix) -> Matrix:
    """Return images (t, 28, 28) as rows of 14 x 14 pixels."""
    return images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(images), -1)


def rings(images: Matrix) -> Matrix:
    """Return the values of images on circles around their center, (t, rings * angles)."""
    radii, angles = np.arange(1, RINGS + 1)[:, None], 2 * np.pi * np.arange(ANGLES) / ANGLES
    at = 13.5 + radii * np.stack([np.sin(angles)[None] + 0 * radii, np.cos(angles)[None] + 0 * radii])
    values = np.array([ndimage.map_coordinates(image, at, order=1) for image in images])
    return (np.sqrt(radii) * values).reshape(len(images), -1)


def rotated(images: Matrix, degrees: Iterable[float]) -> Matrix:
    """Return each image rotated by its angle."""
    return np.array([ndimage.rotate(g, a, reshape=False, order=1) for g, a in zip(images, degrees, strict=True)])


def quarter_turns() -> Matrix:
    """Return the four rotations of 14 x 14 pixels as permutations."""
    index = np.arange(196).reshape(14, 14)
    return np.array([np.rot90(index, k).ravel() for k in range(4)])


def turns_of_rings() -> Matrix:
    """Return the rotations of rings by multiples of 15 degrees as permutations."""
    index = np.arange(RINGS * ANGLES).reshape(RINGS, ANGLES)
    return np.array([np.roll(index, k * ANGLES // STEPS, axis=1).ravel() for k in range(STEPS)])


def svm(features: Map, group: Matrix | None = None, angles: tuple[float, ...] = (0.0,), strength: float = 0.0) -> Fit:
    """Return a fit with the symmetrized kernel of a group, copies rotated by `angles`, or tangents of a strength.

    The weight of the squared change of f along the tangents of an image is `strength` times that of its label, if
    tangents have the length of the scale.
    """

    def fit(images: Matrix, y: Matrix, setting: tuple[float, float]) -> Values:
        factor, C = setting
        X = features(images)
        scale = factor * float(rkhs.kernels.median_scale(X))
        kernel: rkhs.kernels.Kernel = rkhs.Gaussian(scale)
        if group is not None:
            kernel = rkhs.kernels.Symmetrized(kernel, group)
        copies = [features(rotated(images, np.full(len(images), a))) if a else X for a in angles]
        terms = labels(np.concatenate(copies), np.tile(y, len(angles)), C)
        if strength:
            tangents = ImageTangents(shape=(14, 14), kinds=["rotation"])
            length = float(np.mean(np.sum(np.asarray(tangents.vectors(X)) ** 2, axis=-1)))
            weight = strength * C * scale**2 / length
            terms.append(rkhs.Term(tangents(X), rkhs.Squared(), weight=weight))
        f = rkhs.Problem(kernel, terms, rkhs.Constant()).solve(tol=1e-2).function
        return lambda Z: np.asarray(f(features(Z)))

    return fit


def models() -> dict[str, Fit]:
    """Return the models by name."""
    every = tuple(15.0 * k for k in range(24))
    return {
        "pixels": svm(pixels),
        "pixels, tangents, strength 0.1": svm(pixels, strength=0.1),
        "pixels, tangents, strength 1": svm(pixels, strength=1.0),
        "pixels, copies rotated by 15 and 30": svm(pixels, angles=(0.0, -30.0, -15.0, 15.0, 30.0)),
        "pixels, copies at 24 angles": svm(pixels, angles=every),
        "pixels, group of 4 rotations": svm(pixels, group=quarter_turns()),
        "rings": svm(rings),
        "rings, group of 24 rotations": svm(rings, group=turns_of_rings()),
    }


def measure(pair: str, seed: int) -> dict[str, dict[str, float]]:
    """Return the errors in percent of all models, for each kind of test images."""
    rng = np.random.default_rng(seed)
    parts: list[Matrix] = []
    for which, count in (("train", LABELS), ("test", TESTS)):
        X, y = mnist(which)
        rows = [rng.permutation(np.flatnonzero(y == int(c)))[:count] for c in pair.split("-")]
        parts += [X[np.concatenate(rows)] / 255, np.repeat([-1.0, 1.0], count)]
    images, y, tests, truth = parts
    turned = {name: rotated(tests, rng.uniform(-most, most, len(tests))) for name, most in TESTED.items()}
    found = {}
    for name, fit in models().items():
        f = fit(images, y, choose(fit, list(product(FACTORS, CS)), images, y)[0])
        found[name] = {kind: 100 * balanced_error(f(Z), truth) for kind, Z in turned.items()}
    return found


def main() -> None:
    """Print the table, and write it."""
    parser = argparse.ArgumentParser(description="Rotations of digits: groups, tangents and copies.")
    parser.add_argument("--pairs", nargs="+", default=PAIRS)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--out", type=Path, help="a folder for symmetry.md and symmetry.json")
    options = parser.parse_args()
    console, results = Console(width=180), {}
    for pair, seed in product(options.pairs, range(options.draws)):
        results[f"{pair} {seed}"] = measure(pair, seed)
        console.print(pair, seed)
    headings = ["model", *(f"{pair}, {kind}" for pair in options.pairs for kind in TESTED)]
    rows = []
    for name in models():
        row = [name]
        for pair, kind in product(options.pairs, TESTED):
            row.append(f"{np.mean([results[f'{pair} {seed}'][name][kind] for seed in range(options.draws)]):.1f}")
        rows.append(row)
    title = f"Errors in percent with {LABELS} labels of each digit, means of {options.draws} draws"
    show(console, title, headings, rows)
    if options.out:
        write(options.out, "symmetry.md", markdown(title, headings, rows))
        (options.out / "symmetry.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
