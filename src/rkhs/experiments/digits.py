"""[Z] Figure 2: digits that may move, InvSVM beside virtual samples (VirSVM) and a plain SVM.

50 labelled images of the first digit of a pair and 10 of the second; logistic loss normalised within each class,
epsilon-insensitive loss on the derivatives.  Images are moved by 2 pixels in 4 directions, turned by 10 degrees, scaled
and sheared by 0.1, each forth and back.  VirSVM learns from the moved images; InvSVM takes half the difference of forth
and back as the direction in which f should not change.  All other images of the pair are the test set.
"""

from __future__ import annotations

from functools import lru_cache
from math import log, radians
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from rkhs.datasets import load
from rkhs.estimators import InvariantClassifierCV, VirtualSampleSVC
from rkhs.experiments.experiment import Cell, Experiment, Record, Result, chosen, values
from rkhs.experiments.markdown import spread, table
from rkhs.experiments.pairs import p_value
from rkhs.functionals import DirectionalDerivative
from rkhs.invariances import ImageTangents
from rkhs.kernels import median_scale

Array = np.ndarray[Any, Any]
PAIRS = ("4-9", "2-3", "6-5", "7-1")
MACHINES = ("SVM", "VirSVM", "InvSVM")
REPEATS = 20
MANY, FEW = 50, 10
SHAPE = (28, 28)
RADIUS = 14.0  # pixels: one unit of a motion moves the border by a pixel
AMOUNTS = {"translation": 2.0, "rotation": RADIUS * radians(10), "scaling": RADIUS * log(1.1), "shear": RADIUS * 0.1}
CS = (1.0, 10.0, 100.0, 1000.0)
NUS = (0.1, 1.0, 10.0)
EPSILONS = (0.01, 0.1)
SCALES = (0.5, 1.0)  # in median distances
TEST_AT_ONCE = 2000


def copies(X: Array) -> Array:
    """The moved images (12, t, n): forth, back, forth, back, ..

    Examples
    --------
    >>> copies(np.zeros((3, 784))).shape
    (12, 3, 784)
    """
    found = []
    for kind, amount in AMOUNTS.items():
        motion = ImageTangents(SHAPE, kinds=(kind,), smoothing=0.0)
        there, back = motion.moved(X, amount), motion.moved(X, -amount)  # (t, flows, n)
        for k in range(there.shape[1]):
            found += [there[:, k], back[:, k]]
    return np.stack(found)


def tangents(X: Array) -> DirectionalDerivative:
    """<v, grad f(x)> for v half the difference of an image moved forth and back: shape (t, 6)."""
    moved = copies(X)
    return DirectionalDerivative(X, ((moved[0::2] - moved[1::2]) / 2).transpose(1, 0, 2))


@lru_cache(maxsize=1)
def images_of(pair: str) -> tuple[Array, Array]:
    """All images of both digits of MNIST, grey values between 0 and 1; +1 for the first digit."""
    first, second = (int(digit) for digit in pair.split("-"))
    X, y = _mnist()
    rows = np.flatnonzero((y == first) | (y == second))
    return X[rows] / 255.0, np.where(y[rows] == first, 1, -1)


@lru_cache(maxsize=1)
def _mnist() -> tuple[Array, Array]:
    data = load("mnist")
    return data.X.astype(np.float32), data.y


def plan(quick: bool, _: list[Record]) -> list[Cell]:
    """All machines, pairs and repeats."""
    pairs, repeats = (PAIRS[:1], 1) if quick else (PAIRS, REPEATS)
    return [
        {"pair": pair, "machine": machine, "repeat": repeat}
        for pair in pairs
        for machine in MACHINES
        for repeat in range(repeats)
    ]


def compute(cell: Cell) -> Result:
    """The test error in percent and what was chosen."""
    X, y = images_of(cell["pair"])
    rng = np.random.default_rng(cell["repeat"])
    own = [rng.choice(np.flatnonzero(y == label), count, replace=False) for label, count in ((1, MANY), (-1, FEW))]
    train = np.concatenate(own)
    points, labels = X[train].astype(np.float64), y[train]
    scales = [scale * median_scale(points) for scale in SCALES]
    options: dict[str, Any] = {"loss": "logistic", "class_weight": "balanced"}
    if cell["machine"] == "VirSVM":
        machine, found = virtual(points, labels, scales, options)
    else:
        flat = cell["machine"] == "InvSVM"
        machine = InvariantClassifierCV(
            Cs=CS,
            nus=NUS if flat else [0.0],
            scales=scales,
            epsilons=EPSILONS if flat else EPSILONS[0],
            invariance=tangents,
            invariance_loss="epsilon_insensitive",
            unlabeled=None,
            tol=1e-3,
            **options,
        ).fit(points, labels)
        found = {name: float(value) for name, value in machine.best_params_.items()}
    rest = np.setdiff1d(np.arange(len(y)), train)
    wrong = sum(
        int(np.sum(machine.predict(X[rows].astype(np.float64)) != y[rows]))
        for rows in np.array_split(rest, -(-len(rest) // TEST_AT_ONCE))
    )
    return {"error": 100 * wrong / len(rest), "chosen": found}


def virtual(X: Array, y: Array, scales: list[float], options: dict[str, Any]) -> tuple[Any, dict[str, float]]:
    """VirSVM with the best C and scale on the folds; of several the smallest C."""
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
    moved = copies(X)
    scores = []
    for scale in scales:
        for C in CS:
            right = []
            for a, b in folds:
                machine = _virtual(moved[:, a], scale, C / len(moved), options).fit(X[a], y[a])
                right.append(np.mean(machine.predict(X[b]) == y[b]))
            scores.append((-round(float(np.mean(right)), 12), C, scale))
    _, C, scale = min(scores)
    return _virtual(moved, scale, C / len(moved), options).fit(X, y), {"C": C, "scale": scale}


def _virtual(moved: Array, scale: float, C: float, options: dict[str, Any]) -> VirtualSampleSVC:
    transforms = [Given(one) for one in moved]
    return VirtualSampleSVC(transforms, scale=scale, C=C, tol=1e-3, **options)


class Given:
    """Images that were moved before."""

    def __init__(self, moved: Array) -> None:
        self.moved = moved

    def __call__(self, X: Array) -> Array:
        """The moved rows."""
        return self.moved


def page(records: list[Record], _: Path) -> str:
    """Mean errors, and how often InvSVM is better."""
    rows, better = [], 0
    for pair in values(records, "pair"):
        own = {m: [r.result["error"] for r in chosen(records, pair=pair, machine=m)] for m in MACHINES}
        means = {m: float(np.mean(own[m])) for m in MACHINES}
        better += means["InvSVM"] < min(means["SVM"], means["VirSVM"])
        below = [int(np.sum(np.less(own["InvSVM"], own[m]))) for m in ("VirSVM", "SVM")]
        tests = [p_value(own["InvSVM"], own[m]) for m in ("VirSVM", "SVM")]
        row = [pair, *(spread(own[m]) for m in MACHINES)]
        rows.append([*row, *(f"{b} of {len(own['SVM'])} (p = {p:.1g})" for b, p in zip(below, tests, strict=True))])
    times = "; ".join(f"{m}: {np.mean([r.seconds for r in chosen(records, machine=m)]):.1f} s" for m in MACHINES)
    return (
        "[Z] Figure 2 shows points without numbers: InvSVM's error against VirSVM's, most points on InvSVM's side. "
        "Ours are the same scatter plots and, in percent, means and standard deviations over the repeats. InvSVM has the "
        f"lowest mean on {better} of {len(rows)} pairs.\n\n"
        + table(["digits", *MACHINES, "InvSVM below VirSVM", "InvSVM below SVM"], rows)
        + f"Mean seconds of one repeat on one core, with cross-validation and test: {times}.\n"
    )


def draw(records: list[Record], png: Path) -> None:
    """InvSVM's error against VirSVM's, one point for each repeat."""
    import matplotlib.pyplot as plt

    pairs = values(records, "pair")
    figure, axes = plt.subplots(1, len(pairs), figsize=(3.6 * len(pairs), 3.8), layout="constrained", squeeze=False)
    for ax, pair in zip(axes[0], pairs, strict=True):
        own = {m: [r.result["error"] for r in chosen(records, pair=pair, machine=m)] for m in MACHINES}
        ax.plot(own["InvSVM"], own["VirSVM"], "o", label="VirSVM")
        ax.plot(own["InvSVM"], own["SVM"], "x", color="0.6", label="SVM")
        ax.axline((np.mean(own["InvSVM"]),) * 2, slope=1, color="0.7", zorder=0)
        first, second = pair.split("-")
        ax.set(title=f"{first} against {second}", xlabel="error of InvSVM, percent")
    axes[0, 0].set_ylabel("error of the other, percent")
    axes[0, 0].legend()
    figure.savefig(png, dpi=90)
    plt.close(figure)


DIGITS = Experiment("digits", "Digits that move ([Z] Figure 2)", plan, compute, page, draw)
