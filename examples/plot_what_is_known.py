"""
One function, different measurements
====================================

The truth is a function of two variables.  At 25 points we may know its values, or averages around them, or differences
to a neighbor, or slopes, or curvatures: each is a linear functional, and the function of least norm that agrees with
them is a sum of their representers.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

rng = np.random.default_rng(4)
truth = rkhs.results.Function(
    rkhs.Gaussian(scale=0.13), rkhs.Evaluation(rng.uniform(0, 1, (40, 2))), rng.standard_normal(40)
)
axis = np.linspace(0, 1, 61)
grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)

X = np.random.default_rng(1).uniform(0, 1, (25, 2))
values, slopes = rkhs.Evaluation(X), rkhs.Gradient(X)
measured = {
    "values": values,
    "averages over N(x, 0.1^2)": rkhs.functionals.LocalAverage(X, width=0.1),
    "values, differences to a neighbor": rkhs.stack([values, rkhs.Difference(np.clip(X + 0.1, 0, 1), X)]),
    "values and slopes": rkhs.stack([values, slopes]),
    "values, slopes, curvatures": rkhs.stack([values, slopes, rkhs.functionals.Hessian(X)]),
}

# %%
# The same two lines learn from all of them: ``L(truth)`` is what was measured, whatever L is.


def learn(L):
    """The function of (almost) least norm that agrees with L(truth)."""
    term = rkhs.Term(L, rkhs.Squared(), target=L(truth), weight=1e8)
    return rkhs.Problem(rkhs.Matern(nu=3.5, scale=0.4), [term]).solve().function


_, axes = plt.subplots(2, 3, figsize=(11, 7.2), layout="constrained", sharex=True, sharey=True)
target = truth(grid)
levels = np.linspace(1.1 * target.min(), 1.1 * target.max(), 15)
panels = {"the truth": target} | {name: learn(L)(grid) for name, L in measured.items()}
for ax, (name, found) in zip(axes.flat, panels.items(), strict=True):
    ax.contourf(axis, axis, found.reshape(61, 61), levels=levels, cmap="RdBu_r", extend="both")
    error = np.linalg.norm(found - target) / np.linalg.norm(target)
    ax.set_title(name if name == "the truth" else f"{name}\nerror {100 * error:.1f} %", fontsize=10)
    ax.plot(*X.T, "k.", markersize=4)
plt.show()
