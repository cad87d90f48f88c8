"""[W] section 7: USPS digits, ten machines of one against the rest, Gaussian beside thin plate.

Squared hinge; five folds of the 7,291 training digits choose the parameters of each machine, which is then trained on
all of them; the largest of the ten values labels the 2,007 test digits.  Linear functions separate the digits, so [W]
6.2 leaves them out of the thin plate's functions ("without basis"); "with basis" is what happens if they stay.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from rkhs.datasets import load
from rkhs.estimators.labels import one_vs_rest
from rkhs.estimators.thin_plate import second_order
from rkhs.experiments.experiment import Cell, Experiment, Record, Result, chosen, values
from rkhs.experiments.markdown import table
from rkhs.experiments.squared_hinge import Gaussians
from rkhs.finite.term import Term
from rkhs.functionals import Evaluation
from rkhs.kernels import median_scale
from rkhs.losses import SquaredHinge
from rkhs.problem import Problem
from rkhs.solvers import Descent

Array = np.ndarray[Any, Any]
VARIANTS = ("Gaussian", "thin plate without basis", "thin plate with basis")
PRINTED = {"Gaussian": "88 (4.38 %)", "thin plate without basis": "85 (4.25 %)"}
SECONDS = {"Gaussian": "~40 s", "thin plate without basis": "~17 min"}  # of one machine, in 2007
ALL, QUICK = 7291, 700  # training points
FOLDS = 5
DIGITS = 10
SCALES = (0.125, 0.25, 0.5, 1.0)  # of the Gaussian, in median distances
GAUSSIAN_CS = (1.0, 10.0, 100.0)
CS = (0.01, 0.1, 1.0, 10.0)  # of the thin plate, divided by the squared median distance
FOLD_TOL, TOL = 1e-2, 1e-3
PATIENCE = 60.0  # seconds for one solve with basis: where linear functions separate, J tends to 0 and no gap is small


@lru_cache(maxsize=1)
def digits(points: int) -> tuple[Array, Array, Array, Array]:
    """X, y, X_test, y_test; the first of each, in proportion, if not all points are wanted."""
    data = load("usps_digits")
    split = data.train or 0
    tests = (len(data.y) - split) * points // ALL
    return (
        data.X[:points],
        data.y[:points],
        data.X[split : split + tests],
        data.y[split : split + tests],
    )


def options(variant: str, quick: bool) -> list[dict[str, Any]]:
    """What a cell of a fold tries; the Cs are tried together."""
    scales = SCALES[2:3] if quick else SCALES
    return [{"scale": scale} for scale in scales] if variant == "Gaussian" else [{}]


def plan(quick: bool, records: list[Record]) -> list[Cell]:
    """The folds; and when they are done, the machines with the best parameters."""
    points, count = (QUICK, 2) if quick else (ALL, FOLDS)
    found: list[Cell] = []
    for variant in VARIANTS[:2] if quick else VARIANTS:
        folds = [
            {"variant": variant, "points": points, "folds": count, "fold": fold, **option}
            for option in options(variant, quick)
            for fold in range(count)
        ]
        found += folds
        done = [r for r in records if r.cell in folds]
        if len(done) == len(folds):
            found.append({"variant": variant, "points": points, "chosen": best(done)})
    return found


def best(records: list[Record]) -> list[dict[str, float]]:
    """For each digit the parameters of the least mean error; of several the first."""
    tried: dict[tuple[float | None, float], list[list[float]]] = {}
    for r in records:
        for C, errors in r.result["errors"].items():
            tried.setdefault((r.cell.get("scale"), float(C)), []).append(errors)
    keys = list(tried)
    means = np.array([np.mean(tried[k], axis=0) for k in keys])  # (parameters, 10)
    least = np.argmin(np.round(means, 12), axis=0)
    return [{"C": keys[k][1]} | ({} if keys[k][0] is None else {"scale": keys[k][0]}) for k in least]


def compute(cell: Cell) -> Result:
    """Errors of each digit's machine on a fold, or of all machines together on the test set."""
    X, y, X_test, y_test = digits(cell["points"])
    if "fold" in cell:
        splitter = StratifiedKFold(cell["folds"], shuffle=True, random_state=0)
        a, b = list(splitter.split(X, y))[cell["fold"]]
        wanted = one_vs_rest(y[b], DIGITS)
        tried = _tried(cell["variant"], X[a], y[a], X[b], cell.get("scale"), FOLD_TOL)
        return {"errors": {f"{C:g}": np.mean(np.sign(f) != wanted, axis=0).tolist() for C, f in tried.items()}}
    start = perf_counter()
    decided = np.empty((len(y_test), DIGITS))
    for scale in sorted({own.get("scale") for own in cell["chosen"]}, key=str):
        Cs = sorted({own["C"] for own in cell["chosen"] if own.get("scale") == scale})
        tried = _tried(cell["variant"], X, y, X_test, scale, TOL, Cs)
        for digit, own in enumerate(cell["chosen"]):
            if own.get("scale") == scale:
                decided[:, digit] = tried[own["C"]][:, digit]
    wrong = int(np.sum(decided.argmax(axis=1) != y_test))
    return {"errors": wrong, "of": len(y_test), "training": round(perf_counter() - start, 1)}


def _tried(
    variant: str, X: Array, y: Array, points: Array, scale: float | None, tol: float, Cs: list[float] | None = None
) -> dict[float, Array]:
    """For each C the values (t, 10) of the ten machines at the points."""
    target = one_vs_rest(y, DIGITS)
    median = median_scale(X)
    if variant == "Gaussian":
        assert scale is not None
        kernels = [Gaussians(X, own, scale * median) for own in target.T]
        for other in kernels[1:]:
            other.K = kernels[0].K
        return {C: np.column_stack([g.values(C, points) for g in kernels]) for C in Cs or GAUSSIAN_CS}
    without = variant == "thin plate without basis"
    kernel, unit = second_order(X.shape[1]), 1 / median**2

    def problem_of(C: float) -> Problem:
        term = Term(Evaluation(X), SquaredHinge(), target=target, weight=C * unit)
        return Problem(kernel, [term], null_space="dropped" if without else "kept")

    if without:
        solutions = problem_of(1.0).grid({0: Cs or CS}, tol=tol, verbose=False)
        return {C: np.asarray(s.function(points)) for C, s in zip(Cs or CS, solutions, strict=True)}
    found, last = {}, None
    for C in Cs or CS:
        last = problem_of(C).solve(Descent(), tol=tol, start=last, time_limit=PATIENCE, verbose=False)
        found[C] = np.asarray(last.function(points))
    return found


def page(records: list[Record], _: Path) -> str:
    """Errors and times beside the printed ones."""
    rows = []
    for variant in values(records, "variant"):
        last = next(r for r in chosen(records, variant=variant) if "chosen" in r.cell)
        folds = sum(r.seconds for r in chosen(records, variant=variant) if "fold" in r.cell)
        share = 100 * last.result["errors"] / last.result["of"]
        rows.append(
            [
                variant,
                PRINTED.get(variant, "none"),
                f"{last.result['errors']} of {last.result['of']} ({share:.2f} %)",
                SECONDS.get(variant, "none"),
                f"{last.result['training'] / 10:.0f} s",
                f"{folds:.0f} s",
                ", ".join(sorted({" ".join(f"{k}={v:g}" for k, v in own.items()) for own in last.cell["chosen"]})),
            ]
        )
    headings = [
        "machine",
        "errors, printed",
        "errors, ours",
        "training one of ten, printed",
        "ours, with test",
        "cross-validation",
        "chosen",
    ]
    return "Errors on the test digits, and seconds on one core:\n\n" + table(headings, rows)


USPS = Experiment("usps", "USPS digits ([W] section 7)", plan, compute, page)
