"""The picture that `rkhs fit` draws: errors, the grid, and the points in a plane."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from rkhs._backend.arrays import Vector
from rkhs.cli.errors import CommandError
from rkhs.cli.learning import Learnt
from rkhs.cli.sample import Points
from rkhs.plotting import BoundaryDisplay, GridDisplay
from rkhs.writing import replacing


def draw(path: Path, learnt: Learnt, X: Vector, facts: dict[str, Any]) -> None:
    """Errors compared with the plain SVM's; the heat map of the settings tried, if there are several; the points."""
    import matplotlib as mpl

    mpl.use("agg")
    with mpl.rc_context({"text.parse_math": False}):  # a class may be called $b^{$
        _draw(path, learnt, X, facts)


def _draw(path: Path, learnt: Learnt, X: Vector, facts: dict[str, Any]) -> None:
    import matplotlib.pyplot as plt

    machine, used = learnt.machine, learnt.chosen_on
    gridded = len(learnt.search.cv_results_["params"]) > 1
    figure, axes = plt.subplots(1, 2 + gridded, figsize=(5 * (2 + gridded), 4.2), layout="constrained")
    _errors(axes[0], facts["cross-validated"])
    if gridded:
        GridDisplay.from_estimator(learnt.search, ax=axes[1])
        axes[1].set_title("settings tried; frame: chosen")
    if used.regression:
        _predicted(axes[-1], machine, X, used, facts["target"])
    elif X.shape[1] == 2:
        BoundaryDisplay.from_estimator(machine, X, used.y, ax=axes[-1])
    else:
        _plane(axes[-1], machine, X, used)
    write_figure(figure, path)


def check_format(path: Path) -> None:
    """Refuse a name whose suffix is of no picture, before the work that it is to show."""
    from matplotlib.backend_bases import FigureCanvasBase

    formats = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix[1:].lower() not in formats:
        raise CommandError(f"{path} names no kind of picture: it can end in .{', .'.join(formats)}.")


def write_figure(figure: Any, path: Path) -> None:
    """Write a picture to a file, and close it."""
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        figure.savefig(file, dpi=110, format=path.suffix[1:].lower())
    plt.close(figure)


def _errors(ax: Any, rows: list[dict[str, Any]]) -> None:
    measure = list(rows[0])[1]
    names = [row["model"].replace(", ", "\n") for row in rows]
    bars = ax.bar(names, [row[measure] for row in rows], color=["tab:blue", "0.7"])
    ax.bar_label(bars, fmt="%.3g")
    ax.set_ylabel(measure)
    ax.set_title("cross-validated")


def _predicted(ax: Any, machine: Any, X: Vector, used: Points, target: str) -> None:
    known = used.labelled
    ax.plot(used.y[known], machine.predict(X[known]), ".", markersize=4)
    ax.axline((float(used.y[known].mean()),) * 2, slope=1.0, color="0.6", linewidth=1)
    ax.set_xlabel(target)
    ax.set_ylabel("predicted, with it in the training set")


def _plane(ax: Any, machine: Any, X: Vector, used: Points) -> None:
    """The two directions in which the points vary most; the colour is the predicted class."""
    plane = PCA(2).fit_transform(X) if X.shape[1] > 1 else np.column_stack([X, np.zeros(len(X))])
    predicted, known = machine.predict(X), used.labelled
    for k, name in enumerate(machine.classes_):
        own = predicted == name
        ax.scatter(*plane[own & ~known].T, s=8, color=f"C{k % 10}", alpha=0.5)
        ax.scatter(*plane[own & known].T, s=30, color=f"C{k % 10}", edgecolor="k", linewidth=0.5, label=name)
    ax.set_title("predicted classes (with a frame: labelled)")
    ax.legend(fontsize="small")
