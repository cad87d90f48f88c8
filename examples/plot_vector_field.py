"""
A flow without sources
======================

A liquid that cannot be compressed: what flows in flows out.  From arrows at a few points, fields without divergence are
learned exactly so.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (25, 2))


def flow(x):
    """A whirl."""
    return np.stack([-x[:, 1] * np.exp(-np.sum(x**2, axis=1)), x[:, 0] * np.exp(-np.sum(x**2, axis=1))], axis=1)


# %%
# Both components of the field at the points are one family of functionals, `Components`.

arrows = rkhs.Term(rkhs.functionals.Components(X), rkhs.Squared(), flow(X), weight=rkhs.Tunable())
found = {}
for name, kernel in (
    ("without divergence", rkhs.kernels.DivergenceFree(rkhs.Gaussian(rkhs.Tunable()))),
    ("two components", rkhs.kernels.components(rkhs.Gaussian(rkhs.Tunable()), 2, np.eye(2))),
):
    found[name] = rkhs.Problem(kernel, [arrows]).tune().solve().function

side = np.linspace(-1, 1, 12)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
for name, field in found.items():
    error = np.abs(rkhs.functionals.Components(grid)(field) - flow(grid)).mean()
    print(f"{name}: mean error {error:.4f}")

# %%
_, axes = plt.subplots(1, 2, figsize=(9, 4.3), layout="constrained", sharey=True)
for ax, (name, field) in zip(axes, found.items(), strict=True):
    ax.quiver(*grid.T, *rkhs.functionals.Components(grid)(field).T, color="C0")
    ax.quiver(*X.T, *flow(X).T, color="k")
    ax.set_title(name)
plt.show()
