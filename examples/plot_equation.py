"""
An equation in place of data
============================

The temperature of a plate that is heated inside and kept at zero around the edge: minus the Laplacian of f is the heat.
Both sentences are linear in f, so they are fitted as if they had been measured, at points without any mesh.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

rng = np.random.default_rng(0)
inside = rng.uniform(0, 1, (150, 2))
along, zero, one = np.linspace(0, 1, 25), np.zeros(25), np.ones(25)
edge = np.concatenate([np.stack(side, axis=1) for side in ((along, zero), (along, one), (zero, along), (one, along))])


def truth(x):
    """A solution that is known, to compare with."""
    return np.sin(np.pi * x[:, 0]) * np.sin(2 * np.pi * x[:, 1])


heat = 5 * np.pi**2 * truth(inside)

# %%
# 150 points inside and 100 on the edge.  The weights are large: there is no noise.

terms = [
    rkhs.Term(-rkhs.Laplacian(inside), rkhs.Squared(), heat, weight=1e6),
    rkhs.Term(rkhs.Evaluation(edge), rkhs.Squared(), 0.0, weight=1e9),
]
f = rkhs.Problem(rkhs.Gaussian(scale=0.3), terms).solve().function

# %%
# A probe says what f is at one place: it joins as one more term, and the equation carries it to all others.

side = np.linspace(0, 1, 60)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
error = f(grid) - truth(grid)
print(f"largest error: {np.abs(error).max():.1e} of a temperature of 1")
_, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
for ax, values, name in zip(axes, (f(grid), error), ("temperature", "error"), strict=True):
    shown = ax.contourf(side, side, values.reshape(60, 60), levels=15)
    ax.plot(*inside.T, "k.", markersize=2)
    ax.plot(*edge.T, "k.", markersize=2)
    ax.set_title(name)
    plt.colorbar(shown, ax=ax)
plt.show()
