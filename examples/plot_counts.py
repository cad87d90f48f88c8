"""
Counts, and how far a prediction can be trusted
===============================================

Where along a road do accidents happen, if each place was watched for a different number of years?  Then: preferences
between pairs, and the distance within which no change of the features can change a class.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

import rkhs

rng = np.random.default_rng(0)
X, years = rng.uniform(0, 10, (150, 1)), rng.uniform(0.5, 8.0, 150)
rate = np.exp(np.sin(X[:, 0]) + 0.1 * X[:, 0])
accidents = rng.poisson(years * rate)

# %%
# The exposure is the weight of a row, and the target is the count per unit of exposure.

counts = rkhs.KernelPoissonRegressor(C="cv").fit(X, accidents / years, sample_weight=years)
print(f"C = {counts.C_:g}, explained deviance {counts.score(X, accidents / years, years):.2f}")

# %%
# Each of 120 pairs says which of two points is preferred: the one that is nearer to the origin, with some errors.

Z = rng.uniform(-2, 2, (100, 2))
pairs = rng.integers(0, 100, (120, 2))
pairs = pairs[pairs[:, 0] != pairs[:, 1]]
difference = np.sum(Z[pairs[:, 1]] ** 2 - Z[pairs[:, 0]] ** 2, axis=1) + rng.logistic(size=len(pairs))
pairs = np.where(difference[:, None] > 0, pairs, pairs[:, ::-1])
utility = rkhs.PreferenceRegressor(C="cv").fit(Z, pairs=pairs)
print(f"{utility.score(Z, -np.sum(Z**2, axis=1)):.0%} of all pairs are in the right order")

# %%
# The norm of a function bounds how fast it changes: within the circles the class provably stays the same.

moons, y = make_moons(60, noise=0.1, random_state=0)
classifier = rkhs.InvariantClassifier(scale=0.7).fit(moons, y)
radius = rkhs.certified_radius(classifier.function_, moons)

_, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
grid = np.linspace(0, 10, 300)[:, None]
axes[0].scatter(X[:, 0], accidents / years, s=4 * years, color="0.6", label="counts per year")
axes[0].plot(grid, counts.predict(grid), label="learned")
axes[0].plot(grid, np.exp(np.sin(grid) + 0.1 * grid), "--", label="truth")
axes[0].set_title("accidents per year")
axes[0].legend()
square = np.stack(np.meshgrid(*2 * [np.linspace(-2, 2, 60)]), axis=-1)
axes[1].contourf(*square.T, utility.predict(square.reshape(-1, 2)).reshape(60, 60).T, 12)
for i, j in pairs:
    axes[1].annotate("", Z[i], Z[j], arrowprops={"arrowstyle": "->", "color": "white", "alpha": 0.4})
axes[1].set_title("utility, and arrows to what is preferred")
axes[2].scatter(*moons.T, c=y, cmap="coolwarm", s=10)
for point, r in zip(moons, radius, strict=True):
    axes[2].add_patch(plt.Circle(point, r, fill=False, alpha=0.4))
axes[2].set_aspect("equal")
axes[2].set_title("radii within which the class is certain")
plt.show()
