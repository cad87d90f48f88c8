"""Lee et al. 2006, Figure 1: two moons by a box-constrained dual, and how many of its coefficients are not zero.

They minimise  sum_i hinge(f(x_i); y_i) + rho_2 sum_j eps-insensitive(d_j f) + rho_1 |f|^2.  Divided by 2 rho_1 that is
our problem with C = 1 / (2 rho_1) and rho_2 / (2 rho_1) as the weight of a sum (`sums`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rkhs.datasets import TwoMoons, two_moons
from rkhs.estimators import InvariantClassifier
from rkhs.experiments.experiment import Cell, Experiment, Record, Result, chosen, values
from rkhs.experiments.markdown import spread, table
from rkhs.experiments.sums import of_sum
from rkhs.losses import EpsilonInsensitive
from rkhs.solvers import BoxDual

PRINTED = {0.0: 0.5, 0.001: 36.6, 0.005: 50.9, 0.01: 61.7, 0.1: 77.4, 10.0: 74.1}  # rho_2: percent not zero
SCALE, EPSILON, RHO_1 = 0.12, 0.001, 1.0
NOISES = (0.05, 0.1)  # of the moons, which Lee et al. 2006 do not tell,
PLACES = ("middle", "end")  # nor where its labelled points are
SEEDS = 10
ZERO = 1e-6  # of the largest that a coefficient may be


def machine_of(moons: TwoMoons, rho_2: float) -> InvariantClassifier:
    """The trained machine of a panel."""
    known = np.zeros(len(moons.y), dtype=int)
    known[moons.labelled] = moons.y[moons.labelled]
    told = of_sum(rho_2 / (2 * RHO_1), EpsilonInsensitive(EPSILON), len(moons.y), SCALE)
    machine = InvariantClassifier(
        scale=SCALE,
        loss="hinge",
        C=1 / (2 * RHO_1),
        **told,
        fit_intercept=False,
        unlabeled=0,
        solver=BoxDual(),
        tol=1e-9,
    )
    return machine.fit(moons.X, known)


def plan(quick: bool, _: list[Record]) -> list[Cell]:
    """All rho_2, on one data set or on all."""
    noises, places, seeds = (NOISES[:1], PLACES[:1], 1) if quick else (NOISES, PLACES, SEEDS)
    return [
        {"rho_2": rho, "noise": noise, "labelled": place, "seed": seed}
        for place in places
        for noise in noises
        for seed in range(seeds)
        for rho in PRINTED
    ]


def compute(cell: Cell) -> Result:
    """The error on the unlabelled points and the share of coefficients that are not zero, both in percent."""
    moons = two_moons(noise=cell["noise"], seed=cell["seed"], labelled=cell["labelled"])
    machine = machine_of(moons, cell["rho_2"])
    rest = np.setdiff1d(np.arange(len(moons.y)), moons.labelled)
    wrong = machine.predict(moons.X[rest]) != moons.y[rest]
    a = np.abs(machine.function_.coefficients)
    bounds = np.full(len(a), cell["rho_2"] / (2 * RHO_1))
    bounds[:2] = 1 / (2 * RHO_1)
    used = int(np.sum(a > ZERO * bounds))
    candidates = 2 + 2 * len(moons.y)  # two values and all slopes, also where rho_2 = 0 leaves the slopes out
    return {"error": 100 * float(np.mean(wrong)), "not zero": 100 * used / candidates}


def page(records: list[Record], _: Path) -> str:
    """Shares and errors beside the printed shares."""
    kinds = list(dict.fromkeys((r.cell["labelled"], r.cell["noise"]) for r in records))
    tables = []
    for name, what in (("not zero", "Percent of the coefficients that are not zero"), ("error", "Errors in percent")):
        rows = []
        for rho in values(records, "rho_2"):
            own = [chosen(records, rho_2=rho, labelled=place, noise=noise) for place, noise in kinds]
            printed = f"{PRINTED[rho]:.1f}" if name == "not zero" else "none"
            rows.append([f"{rho:g}", printed, *(spread([r.result[name] for r in some], 1) for some in own)])
        ours = [f"{place}, noise {noise:g}" for place, noise in kinds]
        tables.append(f"{what}:\n\n" + table(["rho_2", "printed", *ours], rows))
    return (
        "Lee et al. 2006 print the share of basis functions with a coefficient that is not zero (0.5 % is 2 of 402, so "
        "there were "
        "200 points), and no errors. Its moons are not published. Ours have a labelled point in the middle or at the "
        "outer end of each moon, and two sizes of noise; mean and standard deviation over "
        f"{len(values(records, 'seed'))} data sets.\n\n" + "".join(tables)
    )


def draw(records: list[Record], png: Path) -> None:
    """The six boundaries, as in the figure."""
    import matplotlib.pyplot as plt

    from rkhs.plotting import BoundaryDisplay

    moons = two_moons(noise=values(records, "noise")[0], seed=0)
    known: Any = np.zeros(len(moons.y), dtype=int)
    known[moons.labelled] = moons.y[moons.labelled]
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.4), layout="constrained")
    for ax, rho in zip(axes.flat, values(records, "rho_2"), strict=True):
        BoundaryDisplay.from_estimator(machine_of(moons, rho), moons.X, known, ax=ax)
        ax.set_title(f"rho_2 = {rho:g}")
    figure.savefig(png, dpi=90)
    plt.close(figure)


TWO_MOONS_2006 = Experiment("two-moons-2006", "Two moons (Lee et al. 2006, Figure 1)", plan, compute, page, draw)
