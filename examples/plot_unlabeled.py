"""
Do unlabeled rows help?
========================

It depends on the data.  ``InvariantClassifierCV()`` tries kernels of graphs of all rows, and its kernel is a sum in
which those that predict left-out labels better have larger weights; ``selection_report_`` has the result.  Three kinds
of data, with few labels each: clusters, curves (manifolds), and neither.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

import rkhs

rng = np.random.default_rng(0)
scattered, turn = rng.uniform(-1, 1, (300, 2)), np.sqrt(rng.uniform(0.05, 1, 300)) * 3 * np.pi
side = rng.integers(0, 2, 300)
spirals = turn[:, None] * np.stack([np.cos(turn + np.pi * side), np.sin(turn + np.pi * side)], axis=1) / 10
kinds = {
    "clusters": make_moons(300, noise=0.12, random_state=0),
    "curves": (spirals + 0.03 * rng.standard_normal((300, 2)), side),
    "neither": (scattered, (scattered[:, 0] + scattered[:, 1] > 0).astype(int)),
}
LABELS = {"clusters": 16, "curves": 24, "neither": 24}

# %%
# Lines are where f = 0: dashed without graphs (``nus=[0]``), solid as chosen.  A choice by 24 labels may be wrong: if
# there are neither clusters nor curves, the graph that is chosen here has more errors.

figure, axes = plt.subplots(1, 3, figsize=(11, 4.2))
for axis, (name, (X, truth)) in zip(axes, kinds.items(), strict=True):
    few = LABELS[name]
    y = np.where(np.arange(300) < few, truth, -1)
    plain, chosen = (rkhs.InvariantClassifierCV(nus=nus).fit(X, y) for nus in ([0], None))
    wrong = [100 * np.mean(model.predict(X[few:]) != truth[few:]) for model in (plain, chosen)]
    print(
        f"{name}: {wrong[0]:.1f} % errors without, {wrong[1]:.1f} % as chosen. {chosen.selection_report_['sentence']}"
    )
    low, high = X.min(axis=0) - 0.2, X.max(axis=0) + 0.2
    grid = np.stack(np.meshgrid(*(np.linspace(a, b, 80) for a, b in zip(low, high, strict=True))), axis=-1)
    axis.scatter(*X[few:].T, s=6, c="0.75")
    axis.scatter(*X[:few].T, s=30, c=truth[:few], cmap="coolwarm", edgecolors="k", linewidths=0.5)
    for model, style in ((plain, "--"), (chosen, "-")):
        f = model.decision_function(grid.reshape(-1, 2)).reshape(80, 80)
        axis.contour(grid[..., 0], grid[..., 1], f, levels=[0], colors="k", linestyles=style)
    axis.set_title(f"{name}: {wrong[0]:.1f} % errors without them, {wrong[1]:.1f} % as chosen", fontsize=9)
    axis.set(xticks=[], yticks=[])
figure.tight_layout()
plt.show()
