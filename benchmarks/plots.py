"""The picture of `benchmarks.products`: costs as the number of points and of features grow, and beside others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.costs import Cost, Dense, Setting
from benchmarks.gpytorch_peer import Comparison


def draw(costs: Sequence[Cost], dense: Sequence[Dense], peers: Sequence[Comparison], path: Path) -> None:
    """Write three panels to the path."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, (by_t, by_n, seconds) = plt.subplots(1, 3, figsize=(15, 4.5), layout="constrained")
    gradients = [cost for cost in costs if cost.setting.family == "gradients"]
    n, t = (_most_frequent([key(c.setting) for c in gradients]) for key in (lambda s: s.n, lambda s: s.t))
    _lines(by_t, [c for c in gradients if c.setting.n == n], lambda s: s.t)
    by_t.set(xlabel="points", title=f"{n} features")
    _lines(by_n, [c for c in gradients if c.setting.t == t], lambda s: s.n)
    by_n.set(xlabel="features", title=f"{t} points")
    for axes in (by_t, by_n):
        axes.set(xscale="log", ylabel="seconds / seconds of bare products", ylim=(0, None))
        axes.axhline(1.0, color="k", linewidth=0.8)
    by_t.legend(fontsize=7)

    sizes = [d.t * d.n for d in dense]
    seconds.plot(sizes, [d.dense for d in dense], "o-", label="dense matrix")
    seconds.plot(sizes, [d.ours for d in dense], "o-", label="ours, the same")
    sizes = [c.points * (c.dimensions + 1) for c in peers]
    seconds.plot(sizes, [c.theirs for c in peers], "s--", label="GPyTorch RBFKernelGrad")
    seconds.plot(sizes, [c.ours for c in peers], "s--", label="ours, the same")
    seconds.set(xscale="log", yscale="log", xlabel="functionals", ylabel="seconds", title="build and product")
    seconds.legend(fontsize=7)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _lines(axes: Any, costs: Sequence[Cost], size: Callable[[Setting], int]) -> None:
    """One line for each kernel, in NumPy and in PyTorch, in float64."""
    for library, style in (("numpy", "o-"), ("torch", "x:")):
        own = [c for c in costs if c.setting.library == library and c.setting.dtype == "float64"]
        for k, kernel in enumerate(dict.fromkeys(c.kernel for c in own)):
            line = sorted((size(c.setting), c.ratio) for c in own if c.kernel == kernel)
            axes.plot(*zip(*line, strict=True), style, color=f"C{k}", label=f"{kernel}, {library}")


def _most_frequent(values: Sequence[int]) -> int:
    return max(set(values), key=values.count)
