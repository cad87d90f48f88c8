"""Draw the picture of `rkhs fit`: errors, the settings that were tried if there are several, and the points."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from rkhs._backend.arrays import Vector
from rkhs._cli.learning import Examples, Fit, Tried
from rkhs._cli.markup import short
from rkhs._cli.outputs import write_figure
from rkhs.plotting import BoundaryDisplay, GridDisplay


def draw(path: Path, fit: Fit, examples: Examples, X: Vector, facts: dict[str, Any]) -> None:
    """Draw the examples, by which settings were chosen, and their predictions."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    compared, known = facts["comparison"], examples.labeled
    tried, several = Tried.by(fit.search), len(fit.search.cv_results_["params"]) > 1
    with mpl.rc_context({"text.parse_math": False}):  # a class may be called $b^{$
        canvas, axes = plt.subplots(1, 2 + several, figsize=(5 * (2 + several), 4.2), layout="constrained")
        heights = [compared["error"], compared["its error"]]
        bars = axes[0].bar(["the model", compared["compared with"]], heights, color=["tab:blue", "0.7"])
        axes[0].bar_label(bars, fmt="%.3g")
        axes[0].set(ylabel=facts["measure"], title="cross-validated")
        if several and tried is not None:
            _draw_tried(axes[1], tried)
        elif several:
            GridDisplay.from_estimator(fit.search, ax=axes[1])
            axes[1].set_title("settings tried; frame: chosen")
        ax = axes[-1]
        if examples.regression:
            ax.plot(examples.y[known], fit.model.predict(X[known]), ".", markersize=4)
            ax.axline((float(examples.y[known].mean()),) * 2, slope=1.0, color="0.6", linewidth=1)
            ax.set(xlabel=facts["target"], ylabel="fitted")
        elif X.shape[1] == 2:
            BoundaryDisplay.from_estimator(fit.model, X, examples.y, ax=ax)
        else:  # the two directions in which the points vary most
            plane = PCA(2).fit_transform(X) if X.shape[1] > 1 else np.column_stack([X, np.zeros(len(X))])
            predicted = fit.model.predict(X)
            for k, name in enumerate(fit.model.classes_):
                members, color = predicted == name, f"C{k % 10}"
                ax.scatter(*plane[members & ~known].T, s=8, color=color, alpha=0.5)
                ax.scatter(*plane[members & known].T, s=30, color=color, edgecolor="k", linewidth=0.5, label=name)
            ax.set_title("predicted classes (with a frame: labeled)")
            ax.legend(fontsize="small")
        write_figure(canvas, path)


def _draw_tried(ax: Any, tried: Tried) -> None:
    """Draw the values by which an automatic choice was made, with the chosen one in another color."""
    places = range(len(tried.names))
    ax.scatter(tried.values, places, color=["tab:blue" if k == tried.chosen else "0.7" for k in places])
    ax.set_yticks(places, [fill(short(name, 72), 24) for name in tried.names], fontsize="small")
    ax.set(xlabel=fill(tried.criterion, 48), title="candidates (blue: chosen)")
    ax.invert_yaxis()
