"""The local averages of Zhang et al. 2013, 4.3, under the protocol of Table 1, and when which invariance helps.

L_i(f) = E f(x_i + z) - f(x_i) with z ~ N(0, width^2 I), one functional for each point where the gradient has n.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from papers.experiment import (
    Array,
    Cell,
    Experiment,
    Record,
    compare,
    distinct,
    errors_by_draw,
    finished_records,
    mean_and_deviation,
    select,
    table,
)
from papers.few_labels import DRAWS, SETS, cells, compute, load_points
from papers.printed_deviations import LABELS

MODELS = ("SVM", "local average")
OTHERS = {"InvSVM": "gradient", "LapSVM": "graph (0/1)"}  # in the results of table1, if they are in the same folder


def plan(quick: bool, _: list[Record]) -> list[Cell]:
    """Plan local averages, and no invariance, on the draws of Table 1."""
    if quick:
        return cells(("heart",), LABELS[:1], 2, MODELS, "columns")
    return cells(SETS, LABELS, DRAWS, MODELS, "columns")


def page(records: list[Record], out: Path) -> str:
    """Write the errors of all invariances, wins against the SVM, and what the sets have in common."""
    beside = [r for r in finished_records(out, "table1") if r.cell["model"] in OTHERS]
    everything = [*records, *beside]
    present = [m for m in OTHERS if select(everything, model=m)]
    models = [*MODELS, *present]
    rows, won = [], []
    for name in distinct(records, "set"):
        for labels in distinct(records, "labels"):
            own = {m: list(errors_by_draw(everything, set=name, labels=labels, model=m).values()) for m in models}
            complete = [m for m in models if own[m]]
            against = {m: compare(everything, m, "SVM", set=name, labels=labels)[0] for m in complete[1:]}
            said = ", ".join(f"{OTHERS.get(m, 'average')}: {who}" for m, who in against.items() if who != "tie")
            rows.append([name, str(labels), *(mean_and_deviation(own[m]) for m in models), said or "none"])
            won += [(name, m, who) for m, who in against.items()]
    headings = ["set", "l", *(OTHERS.get(m, m) for m in models), "differs from the SVM (p < 0.05)"]
    text = "Test error in percent, mean and standard deviation over the draws of `table1`."
    if present:
        text += f" {' and '.join(OTHERS[m] for m in present)}: {' and '.join(present)} of that table."
    return text + "\n\n" + table(headings, rows) + _when(won, distinct(records, "set"), models[1:])


def _when(won: list[tuple[str, str, str]], names: list[str], models: list[str]) -> str:
    """Write wins and losses by set, next to its size and dimension."""
    rows = []
    for name in names:
        points = load_points(name, "columns")
        t, n = points.X.shape
        row = [name, str(n), f"{t / n:.0f}", f"{effective_dimension(points.X):.0f}"]
        for model in models:
            counts = [sum(1 for s, m, who in won if (s, m, who) == (name, model, kind)) for kind in ("win", "loss")]
            row.append(f"{counts[0]} / {counts[1]}")
        rows.append(row)
    headings = ["set", "features", "points per feature", "effective dimension"]
    return "Wins / losses against the SVM over the three l, and what the set is like:\n\n" + table(
        [*headings, *(OTHERS.get(m, m) for m in models)], rows
    )


def effective_dimension(X: Array) -> float:
    """Return (sum of variances)^2 / sum of their squares, over principal components.

    Examples
    --------
    >>> effective_dimension(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
    2.0
    """
    variances = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    return float(variances.sum() ** 2 / np.sum(variances**2))


LOCAL_AVERAGE = Experiment("local-average", "Local averages instead of gradients", plan, compute, page)
