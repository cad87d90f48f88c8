"""LapSVM with the squared hinge, under the protocol of Table 1 of Zhang et al. 2013.

The paper cites the library of Melacci and Belkin (its reference 36), which trains the LapSVM in the primal, with a
squared hinge, or in the dual, with a hinge, and does not say which.  `table1` has the hinge.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from papers.experiment import (
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
from papers.few_labels import DRAWS, SETS, SQUARED, cells, compute
from papers.printed_deviations import LABELS, printed_error

MODEL = f"LapSVM{SQUARED}"


def plan(quick: bool, _: list[Record]) -> list[Cell]:
    """Plan the draws of Table 1."""
    if quick:
        return cells(("heart",), LABELS[:1], 2, (MODEL,), "columns")
    return cells(SETS, LABELS, DRAWS, (MODEL,), "columns")


def page(records: list[Record], out: Path) -> str:
    """Write the errors with both losses beside the printed ones, and tests of InvSVM against this LapSVM."""
    table1 = [r for r in finished_records(out, "table1") if r.cell["model"] in ("LapSVM", "InvSVM")]
    everything = [*records, *table1]
    rows, means = [], list[list[float]]()
    counts = {other: dict.fromkeys(("win", "tie", "loss"), 0) for other in ("LapSVM", "InvSVM")}
    for name in distinct(records, "set"):
        for labels in distinct(records, "labels"):
            mean, deviation = printed_error(name, "LapSVM", labels)
            own = [
                list(errors_by_draw(everything, set=name, labels=labels, model=model).values())
                for model in ("LapSVM", MODEL)
            ]
            rows.append([name, str(labels), f"{mean:g} ± {deviation:g}", *map(mean_and_deviation, own)])
            means.append([mean, *(float(np.mean(errors)) if errors else np.nan for errors in own)])
            for other in counts if select(table1, set=name, labels=labels) else ():
                counts[other][compare(everything, other, MODEL, set=name, labels=labels)[0]] += 1
    tests = "; ".join(
        f"{other} against the squared hinge {found['win']} wins, {found['tie']} ties, {found['loss']} losses"
        for other, found in counts.items()
    )
    printed, hinge, squared = np.mean(means, axis=0)
    both = (
        f"printed {printed:.1f}, hinge {hinge:.1f}, squared hinge {squared:.1f}. Paired t tests at 5 percent: {tests}."
    )
    return (
        "Zhang et al. cite a library that trains the LapSVM with a squared hinge (in the primal) or with a hinge (in "
        "the dual). Test error in percent, mean and standard deviation over the draws of `table1`, which has the "
        f"hinge. {f'Means over the cells: {both}' if table1 else ''}\n\n"
        + table(["set", "l", "printed", "hinge", "squared hinge"], rows)
    )


LAPSVM = Experiment("lapsvm", "LapSVM with the squared hinge (Zhang et al. 2013, Table 1)", plan, compute, page)
