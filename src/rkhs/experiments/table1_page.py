"""The page and the picture of Table 1: printed and computed errors side by side."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from rkhs.experiments.experiment import Record, chosen, values
from rkhs.experiments.markdown import spread, table
from rkhs.experiments.pairs import errors, verdict
from rkhs.experiments.table1_printed import printed

MACHINES = ("SVM", "LapSVM", "InvSVM")
DEFAULT = "default"  # InvariantClassifierCV(), nothing set
FITS = 126  # machines of a cell: 25 weights in 5 folds, and the last


def page(records: list[Record], _: Path) -> str:
    """Errors, the aim, paired tests, times, and the papers' solver."""
    trained = [r for r in records if r.cell["machine"] in (*MACHINES, DEFAULT)]
    race = _race(chosen(records, machine="L-BFGS"))
    return _errors(trained) + _tests(trained) + _default(trained) + _times(trained) + race


def _errors(records: list[Record]) -> str:
    rows, within, count = [], 0, 0
    for name in values(records, "set"):
        for labels in values(records, "labels"):
            row = [name, str(labels)]
            for machine in MACHINES:
                mean, deviation = printed(name, machine, labels)
                own = list(errors(records, set=name, labels=labels, machine=machine).values())
                row += [f"{mean:g} ± {deviation:g}", spread(own)]
            reached = bool(np.mean(own) <= mean + deviation)
            within, count = within + reached, count + 1
            default = errors(records, set=name, labels=labels, machine=DEFAULT).values()
            rows.append([*row, "yes" if reached else "no", spread(list(default))])
    headings = ["set", "l", *(f"{machine}, {who}" for machine in MACHINES for who in ("printed", "ours"))]
    draws = len(values(records, "draw"))
    return (
        f"Test error in percent, mean and standard deviation over {draws} draws. Within: is our InvSVM's mean at "
        f"most the paper's plus one of its standard deviations? In {within} of {count} cells it is. The last column is "
        "`InvariantClassifierCV()` with nothing set.\n\n" + table([*headings, "within", "default"], rows)
    )


def _tests(records: list[Record]) -> str:
    rows = []
    totals: dict[str, Counter[str]] = {"SVM": Counter(), "LapSVM": Counter()}
    for name in values(records, "set"):
        row = [name]
        for labels in values(records, "labels"):
            nus = [r.result["chosen"]["nu"] for r in chosen(records, set=name, labels=labels, machine="InvSVM")]
            for other in totals:
                who, p = verdict(records, "InvSVM", other, set=name, labels=labels)
                totals[other][who] += 1
                row.append(f"{who} (p = {p:.2g})")
            row.append(f"{np.median(nus):g}")
        rows.append(row)
    headings = [text for labels in values(records, "labels") for text in (f"SVM, l = {labels}", "LapSVM", "median nu")]
    return (
        f"InvSVM on the same draws, by a paired t test at 5 percent: {_said(totals)}. The nu that cross-validation "
        "chose is given too.\n\n" + table(["set", *headings], rows)
    )


def _default(records: list[Record]) -> str:
    """The default model compared with each of the others."""
    totals: dict[str, Counter[str]] = {other: Counter() for other in MACHINES}
    rows = []
    for name in values(records, "set"):
        for labels in values(records, "labels"):
            row = [name, str(labels)]
            for other in MACHINES:
                who, p = verdict(records, DEFAULT, other, set=name, labels=labels)
                totals[other][who] += 1
                row.append(f"{who} (p = {p:.2g})")
            took = Counter(
                r.result["chosen"]["knowledge"] for r in chosen(records, set=name, labels=labels, machine=DEFAULT)
            )
            rows.append([*row, ", ".join(f"{kind} {count}" for kind, count in took.most_common())])
    return (
        f"The default model on the same draws: {_said(totals)}. What it chose, in how many draws, is given too.\n\n"
        + table(["set", "l", *MACHINES, "chosen"], rows)
    )


def _said(totals: dict[str, Counter[str]]) -> str:
    """Wins, ties and losses against each of the others."""
    return "; ".join(
        f"against {other} {c['win']} wins, {c['tie']} ties, {c['loss']} losses" for other, c in totals.items()
    )


def _times(records: list[Record]) -> str:
    rows = []
    for name in values(records, "set"):
        own = [sum(r.seconds for r in chosen(records, set=name, machine=machine)) for machine in (*MACHINES, DEFAULT)]
        rows.append([name, *(f"{seconds:.0f}" for seconds in (*own, sum(own)))])
    total = sum(r.seconds for r in records)
    rows.append(["all", "", "", "", "", f"{total:.0f}"])
    return "Seconds on one core, all draws and all l together:\n\n" + table(
        ["set", *MACHINES, DEFAULT, "together"], rows
    )


def _race(records: list[Record]) -> str:
    if not records:
        return ""
    rows = []
    for r in records:
        at_least = "" if r.result["reached"] else "> "
        theirs, ours = r.result["L-BFGS"], r.result["ours"]
        rows.append(
            [
                r.cell["set"],
                f"{ours:.2f}",
                f"{at_least}{theirs:.1f}",
                f"{r.result['its gap']:.0e}",
                f"{at_least}{theirs / ours:.0f}",
                f"{at_least}{theirs * FITS / 3600:.1f}",
            ]
        )
    headings = ["set", "ours, s", "L-BFGS, s", "its gap", "times longer", "L-BFGS for one draw, h"]
    return (
        "The papers' solver, L-BFGS on the coefficients, and ours: one model (l = 90, squared hinge, lambda = 10, "
        "nu = 0.1) to a relative gap of 1e-3, and stopped after a minute. The last column is its time for the "
        f"{FITS} models of one draw.\n\n" + table(headings, rows)
    )


def draw(records: list[Record], png: Path) -> None:
    """A panel for each set: errors by l, ours filled and printed hollow."""
    import matplotlib.pyplot as plt

    trained = [r for r in records if r.cell["machine"] in (*MACHINES, DEFAULT)]
    names = values(trained, "set")
    columns = min(3, len(names))
    shape = -(-len(names) // columns), columns
    figure, axes = plt.subplots(*shape, figsize=(4.2 * shape[1], 3.2 * shape[0]), layout="constrained", squeeze=False)
    for ax, name in zip(axes.flat, names, strict=False):
        for k, machine in enumerate((*MACHINES, DEFAULT)):
            for labels in values(trained, "labels"):
                own = list(errors(trained, set=name, labels=labels, machine=machine).values())
                at = labels + 5 * (k - 1.5)
                first = labels == values(trained, "labels")[0]
                style = {"color": f"C{k}", "capsize": 2, "fmt": "o"}
                ax.errorbar(at - 1, np.mean(own), np.std(own), label=machine if first else None, **style)
                if machine in MACHINES:
                    mean, deviation = printed(name, machine, labels)
                    ax.errorbar(at + 1, mean, deviation, markerfacecolor="white", alpha=0.6, **style)
        ax.set_title(name)
        ax.set_xticks(values(trained, "labels"))
        ax.set_ylim(bottom=0)
    axes[0, 0].legend(fontsize="small", title="filled: ours, hollow: printed", title_fontsize="small")
    figure.supxlabel("labels")
    figure.supylabel("test error, percent")
    figure.savefig(png, dpi=90)
    plt.close(figure)
