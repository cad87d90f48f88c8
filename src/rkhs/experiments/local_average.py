"""The local averages of Zhang et al. 2013, 4.3, under the protocol of Table 1; and when which invariance helps.

L_i(f) = E f(x_i + z) - f(x_i) with z ~ N(0, width^2 I), one functional for each point where the gradient has n.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rkhs.experiments.experiment import Cell, Experiment, Record, Result, chosen, values
from rkhs.experiments.journal import finished
from rkhs.experiments.markdown import spread, table
from rkhs.experiments.pairs import errors, verdict
from rkhs.experiments.protocol import DRAWS, LABELS, SETS, cells, points_of
from rkhs.experiments.table1 import compute as compute_table1

AVERAGE = "local average"
MACHINES = ("SVM", AVERAGE)
OTHERS = {"InvSVM": "gradient", "LapSVM": "graph"}  # in the results of table1, if they are in the same folder


def plan(quick: bool, _: list[Record]) -> list[Cell]:
    """Local averages and no knowledge, on the draws of Table 1."""
    if quick:
        return cells(("heart",), LABELS[:1], 2, MACHINES, "columns")
    return cells(SETS, LABELS, DRAWS, MACHINES, "columns")


def compute(cell: Cell) -> Result:
    """The same as in Table 1."""
    return compute_table1(cell)


def page(records: list[Record], out: Path) -> str:
    """Errors of all invariances, wins against the SVM, and what they have in common."""
    beside = [r for r in finished(out, "table1") if r.cell["machine"] in OTHERS]
    everything = [*records, *beside]
    present = [m for m in OTHERS if chosen(everything, machine=m)]
    machines = [*MACHINES, *present]
    rows, won = [], []
    for name in values(records, "set"):
        for labels in values(records, "labels"):
            own = {m: list(errors(everything, set=name, labels=labels, machine=m).values()) for m in machines}
            complete = [m for m in machines if own[m]]
            against = {m: verdict(everything, m, "SVM", set=name, labels=labels)[0] for m in complete[1:]}
            said = ", ".join(f"{OTHERS.get(m, 'average')}: {who}" for m, who in against.items() if who != "tie")
            rows.append([name, str(labels), *(spread(own[m]) for m in machines), said or "none"])
            won += [(name, m, who) for m, who in against.items()]
    headings = ["set", "l", *(OTHERS.get(m, m) for m in machines), "differs from the SVM (p < 0.05)"]
    text = "Test error in percent, mean and standard deviation over the draws of `table1`.\n\n" + table(headings, rows)
    return text + _when(won, values(records, "set"), machines[1:])


def _when(won: list[tuple[str, str, str]], names: list[str], machines: list[str]) -> str:
    """Wins and losses by set, beside what a set is like."""
    rows = []
    for name in names:
        points = points_of(name, "columns")
        t, n = points.X.shape
        row = [name, str(n), f"{t / n:.0f}", f"{effective_dimension(points.X):.0f}"]
        for machine in machines:
            counts = [sum(1 for s, m, who in won if (s, m, who) == (name, machine, kind)) for kind in ("win", "loss")]
            row.append(f"{counts[0]} / {counts[1]}")
        rows.append(row)
    headings = ["set", "features", "points per feature", "effective dimension"]
    return "Wins / losses against the SVM over the three l, and what the set is like:\n\n" + table(
        [*headings, *(OTHERS.get(m, m) for m in machines)], rows
    )


def effective_dimension(X: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
    """(sum of variances)^2 / sum of their squares, over principal components.

    Examples
    --------
    >>> import numpy as np
    >>> effective_dimension(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
    2.0
    """
    variances = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    return float(variances.sum() ** 2 / np.sum(variances**2))


LOCAL_AVERAGE = Experiment("local-average", "Local averages instead of gradients", plan, compute, page)
