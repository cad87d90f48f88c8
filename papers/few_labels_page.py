"""The page and the picture of Zhang et al. 2013, Table 1: printed and computed errors side by side."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from papers.experiment import Record, compare, distinct, errors_by_draw, mean_and_deviation, select, table

MODELS = ("SVM", "LapSVM", "InvSVM")
DEFAULT = "default"  # InvariantClassifierCV(), nothing set
FITS = 126  # models of a cell: 25 weights in 5 folds, and the last

# Table 1 of the paper: mean and standard deviation of the test error in percent, of each model for l = 30, 60, 90
_TABLE = """
heart      23.5±2.08 21.4±0.23 20±1.11    23.2±1.68 22.7±1.92 20.7±2.1   22.3±1.27 20.2±1.01 19.6±2.79
bci        44.6±1.89 39±3.41   34.6±3.25  44.8±2.72 45.4±2.25 36.1±3.92  45.3±3.59 38.4±4.41 32.7±2.27
bupa       36.2±5.53 37.9±5.8  36.9±1.8   36.6±5.98 40.7±4.05 37.1±1.58  38.2±4.46 35.4±1.85 35.2±0.45
g241c      32.9±1.59 27.1±0.92 24.8±1.99  37.1±1.25 28.4±2.44 29.7±1.57  33.1±0.49 26.4±1.14 23.4±1.36
g241n      34.6±2.52 28.3±2.65 25.6±1.48  37.7±5.76 29.9±2.41 25.9±1.49  35.4±1.57 28.4±3.03 22.3±4.69
australian 20.6±4.18 21.7±11.3 15.3±0.86  21.9±9.27 15.6±2.49 14.7±0.16  17.7±1.74 16.4±1.11 15.6±0.77
ionosphere 12.5±3.12 8.71±1.62 7.17±1.67  14.9±1.73 9.05±1.05 7.66±1.53  7.58±1.29 7.9±0.23  7.02±0.88
sonar      30.9±2.53 22.7±0.39 20.6±4.81  29.4±2.33 22.9±0.17 24.9±1.29  31.6±4.68 24.1±2.06 21.8±3.91
usps_ssl   14.9±0.26 12.6±2.04 11.3±2.06  15.3±1.1  12.3±1.74 11.1±1.81  15.4±4.02 12.2±2.93 11.3±1.63
"""
PRINTED: dict[str, list[tuple[float, float]]] = {}
for _name, *_cells in map(str.split, _TABLE.strip().splitlines()):
    PRINTED[_name] = [(float(mean), float(deviation)) for mean, deviation in (cell.split("±") for cell in _cells)]


def printed_error(name: str, model: str, labels: int) -> tuple[float, float]:
    """Return the printed mean and standard deviation.

    Examples
    --------
    >>> printed_error("ionosphere", "InvSVM", 30)
    (7.58, 1.29)
    """
    return PRINTED[name][3 * MODELS.index(model) + (30, 60, 90).index(labels)]


def page(records: list[Record], _: Path) -> str:
    """Write the errors, paired tests, times, and the race of the papers' solver."""
    trained = [r for r in records if r.cell["model"] in (*MODELS, DEFAULT)]
    race = _race(select(records, model="L-BFGS"))
    return _errors(trained) + _tests(trained) + _default_model(trained) + _times(trained) + race


def _errors(records: list[Record]) -> str:
    rows, within, count = [], 0, 0
    for name in distinct(records, "set"):
        for labels in distinct(records, "labels"):
            row = [name, str(labels)]
            for model in MODELS:
                mean, deviation = printed_error(name, model, labels)
                own = list(errors_by_draw(records, set=name, labels=labels, model=model).values())
                row += [f"{mean:g} ± {deviation:g}", mean_and_deviation(own)]
            reached = bool(np.mean(own) <= mean + deviation)
            within, count = within + reached, count + 1
            default = errors_by_draw(records, set=name, labels=labels, model=DEFAULT).values()
            rows.append([*row, "yes" if reached else "no", mean_and_deviation(list(default))])
    headings = ["set", "l", *(f"{model}, {who}" for model in MODELS for who in ("printed", "ours"))]
    draws = len(distinct(records, "draw"))
    return (
        f"Test error in percent, mean and standard deviation over {draws} draws. Within: is our InvSVM's mean at "
        f"most the paper's plus one of its standard deviations? In {within} of {count} cells it is. The last column is "
        "`InvariantClassifierCV()` with nothing set.\n\n" + table([*headings, "within", "default"], rows)
    )


def _tests(records: list[Record]) -> str:
    rows = []
    totals: dict[str, Counter[str]] = {"SVM": Counter(), "LapSVM": Counter()}
    for name in distinct(records, "set"):
        row = [name]
        for labels in distinct(records, "labels"):
            nus = [r.result["chosen"]["nu"] for r in select(records, set=name, labels=labels, model="InvSVM")]
            for other in totals:
                who, p = compare(records, "InvSVM", other, set=name, labels=labels)
                totals[other][who] += 1
                row.append(f"{who} (p = {p:.2g})")
            row.append(f"{np.median(nus):g}")
        rows.append(row)
    headings = [
        text for labels in distinct(records, "labels") for text in (f"SVM, l = {labels}", "LapSVM", "median nu")
    ]
    return (
        f"InvSVM on the same draws, by a paired t test at 5 percent: {_counts(totals)}. The nu that cross-validation "
        "chose is given too.\n\n" + table(["set", *headings], rows)
    )


def _default_model(records: list[Record]) -> str:
    totals: dict[str, Counter[str]] = {other: Counter() for other in MODELS}
    rows = []
    for name in distinct(records, "set"):
        for labels in distinct(records, "labels"):
            row = [name, str(labels)]
            for other in MODELS:
                who, p = compare(records, DEFAULT, other, set=name, labels=labels)
                totals[other][who] += 1
                row.append(f"{who} (p = {p:.2g})")
            took = Counter(r.result["chosen"]["prior"] for r in select(records, set=name, labels=labels, model=DEFAULT))
            rows.append([*row, ", ".join(f"{kind} {count}" for kind, count in took.most_common())])
    return (
        f"The default model on the same draws: {_counts(totals)}. What it chose, in how many draws, is given too.\n\n"
        + table(["set", "l", *MODELS, "chosen"], rows)
    )


def _counts(totals: dict[str, Counter[str]]) -> str:
    return "; ".join(
        f"against {other} {c['win']} wins, {c['tie']} ties, {c['loss']} losses" for other, c in totals.items()
    )


def _times(records: list[Record]) -> str:
    rows = []
    for name in distinct(records, "set"):
        own = [sum(r.seconds for r in select(records, set=name, model=model)) for model in (*MODELS, DEFAULT)]
        rows.append([name, *(f"{seconds:.0f}" for seconds in (*own, sum(own)))])
    total = sum(r.seconds for r in records)
    rows.append(["all", "", "", "", "", f"{total:.0f}"])
    return "Seconds on one core, all draws and all l together:\n\n" + table(["set", *MODELS, DEFAULT, "together"], rows)


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


def draw(records: list[Record]) -> Any:
    """Draw a panel for each set: errors by l, ours filled and printed hollow."""
    from matplotlib.figure import Figure

    trained = [r for r in records if r.cell["model"] in (*MODELS, DEFAULT)]
    names = distinct(trained, "set")
    columns = min(3, len(names))
    shape = -(-len(names) // columns), columns
    figure = Figure((4.2 * shape[1], 3.2 * shape[0]), dpi=90, layout="constrained")
    axes = figure.subplots(*shape, squeeze=False)
    for ax, name in zip(axes.flat, names, strict=False):
        for k, model in enumerate((*MODELS, DEFAULT)):
            for labels in distinct(trained, "labels"):
                own = list(errors_by_draw(trained, set=name, labels=labels, model=model).values())
                at = labels + 5 * (k - 1.5)
                first = labels == distinct(trained, "labels")[0]
                style = {"color": f"C{k}", "capsize": 2, "fmt": "o"}
                ax.errorbar(at - 1, np.mean(own), np.std(own), label=model if first else None, **style)
                if model in MODELS:
                    mean, deviation = printed_error(name, model, labels)
                    ax.errorbar(at + 1, mean, deviation, markerfacecolor="white", alpha=0.6, **style)
        ax.set_title(name)
        ax.set_xticks(distinct(trained, "labels"))
        ax.set_ylim(bottom=0)
    axes[0, 0].legend(fontsize="small", title="filled: ours, hollow: printed", title_fontsize="small")
    figure.supxlabel("labels")
    figure.supylabel("test error, percent")
    return figure
