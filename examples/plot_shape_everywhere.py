"""
A shape that holds everywhere
=============================

A price that never falls with quality, and no quantile below a lower one: not only at the points where that was asked
for, but everywhere on the box of the data, with a proof.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

rng = np.random.default_rng(3)
X = np.sort(rng.uniform(0, 10, (60, 1)), axis=0)
y = 1 / (1 + np.exp(-(X[:, 0] - 5))) + (0.05 + 0.02 * X[:, 0]) * rng.standard_normal(60)

# %%
# The certificate says what is proved, on which box, and with which margin.

settings = {"scale": 1.0, "C": 10.0, "invariance": None}
free = rkhs.InvariantRegressor(**settings).fit(X, y)
rising = rkhs.InvariantRegressor(**settings, shape={0: "increasing", "f": (0, None)}).fit(X, y)
bands = rkhs.QuantileRegressor([0.1, 0.5, 0.9], scale=1.0, C=3.0).fit(X, y)
print(rising.shape_certificate_)
print(bands.crossing_certificate_)

# %%
# In features together: convex along every direction, where each feature by itself would say less.

Z = rng.uniform(-1, 1, (120, 2))
cost = (Z[:, 0] + Z[:, 1]) ** 2 + 0.3 * np.cos(4 * (Z[:, 0] - Z[:, 1])) + 0.05 * rng.standard_normal(120)
bowl = rkhs.InvariantRegressor(**settings, shape={(0, 1): "convex"}).fit(Z, cost)
print(bowl.shape_certificate_)

# %%
x = np.linspace(*rising.shape_certificate_.box[:, 0], 300)[:, None]
_, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", sharey=True)
axes[0].plot(x, free.predict(x), label="values alone")
axes[0].plot(x, rising.predict(x), label="rising and at least 0")
axes[0].legend()
axes[1].plot(x, bands.predict(x), label=["10 %", "50 %", "90 %"])
axes[1].legend()
for ax in axes:
    ax.plot(X, y, "k.", markersize=3)
plt.show()
