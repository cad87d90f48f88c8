"""
A map from 100,000 soundings
============================

A ship's sonar has measured the depth at 100,000 scattered points, and one in a hundred is wrong: fish, bubbles, a lost
echo.  Exact kriging would need a matrix of 80 GB.  ``rkhs.FourierGrid`` writes the sea floor as a sum of waves, so that
the points enter by sums alone (``pip install 'rkhs[maps]'``).
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

rng = np.random.default_rng(0)
NOISE = 0.5


def depth(x):
    """Depths (t,) of a sea floor with a channel and some hills."""
    hills = np.sin(x[:, 0]) * np.cos(0.7 * x[:, 1]) + 0.3 * np.sin(2 * x[:, 0] + x[:, 1])
    return hills - 1.5 * np.exp(-((x[:, 1] - 5 - np.sin(0.6 * x[:, 0])) ** 2))


X = rng.uniform(0, 10, (140_000, 2))
X = X[np.hypot(X[:, 0] - 7.5, X[:, 1] - 2.5) > 1.5]  # the ship could not go around an island
X = X[:100_000]
wrong = rng.uniform(size=len(X)) < 0.01
soundings = depth(X) + NOISE * rng.standard_normal(len(X)) + np.where(wrong, rng.uniform(10, 40, len(X)), 0.0)

# %%
# Wrong soundings are all too shallow here.  With the squared loss they lift the whole map; with Huber's loss a sounding
# that is more than two standard deviations off counts linearly, and has little influence.  The weight of a value is one
# over twice the variance of its noise.

kernel, grid = rkhs.Gaussian(scale=1.0), rkhs.FourierGrid()
losses = {"squared loss": rkhs.Squared(), "Huber's loss": rkhs.Huber(2 * NOISE)}
found = {}
for name, loss in losses.items():
    term = rkhs.Term(rkhs.Evaluation(X), loss, target=soundings, weight=1 / (2 * NOISE**2))
    found[name] = rkhs.Problem(kernel, [term], rkhs.Constant(), approximation=grid).solve(tol=1e-4)
    print(f"{name}: {found[name].status}, {found[name].span}")

# %%
# Soundings that are far from the robust map are left out.  With the others the squared loss gives a map and its error
# bars, which are estimated from random surfaces because there are more than 100 points on the map.  They are large
# around the island, where the ship could not go, and along the edges.

kept = np.abs(soundings - found["Huber's loss"].function(X)) < 5 * NOISE
print(f"left out: {np.sum(~kept & wrong)} of {np.sum(wrong)} wrong soundings, and {np.sum(~kept & ~wrong)} others")
term = rkhs.Term(rkhs.Evaluation(X[kept]), rkhs.Squared(), target=soundings[kept], weight=1 / (2 * NOISE**2))
clean = rkhs.Problem(kernel, [term], rkhs.Constant(), approximation=grid).solve(tol=1e-4)

side = np.linspace(0, 10, 80)
places = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
deviations = clean.posterior.std(rkhs.Evaluation(places))
true = depth(places)
sea = np.hypot(places[:, 0] - 7.5, places[:, 1] - 2.5) > 1.5
maps = {
    **{name: one.function(places) for name, one in found.items()},
    "without wrong soundings": clean.function(places),
}
for name, values in maps.items():
    print(f"{name}: error {np.sqrt(np.mean((values - true)[sea] ** 2)):.3f}")
within = np.mean(np.abs(maps["without wrong soundings"] - true)[sea] < 2 * deviations[sea])
print(f"true depths within two standard deviations: {within:.0%}")

# %%
_, axes = plt.subplots(1, 4, figsize=(14, 3.7), layout="constrained", sharey=True)
for ax, (name, values) in zip(axes, {"truth": true, **dict(list(maps.items())[:2])}.items(), strict=False):
    ax.contourf(side, side, values.reshape(80, 80), levels=np.linspace(-3, 1.5, 19), extend="both", cmap="terrain")
    ax.set_title(name, fontsize=10)
    ax.set_aspect("equal")
shown = axes[3].contourf(side, side, np.log10(deviations).reshape(80, 80), levels=19, cmap="magma")
plt.colorbar(shown, ax=axes[3])
axes[3].set_title("standard deviation (log10)", fontsize=10)
axes[3].set_aspect("equal")
plt.show()
