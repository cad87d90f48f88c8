"""
A curve that only rises
=======================

A dose and a noisy response: more never helps less.  "df/dx >= 0" is a one-sided loss on derivatives, at as many points
as we like.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs
from rkhs.invariances import Monotone

rng = np.random.default_rng(3)
X = np.sort(rng.uniform(0, 10, (40, 1)), axis=0)
y = 1 / (1 + np.exp(-(X[:, 0] - 5))) + 0.15 * rng.standard_normal(40)

# %%
# Points without a target carry the shape where there are no measurements: here a grid over the whole range.

grid = np.linspace(0, 10, 100)[:, None]
points, targets = np.concatenate([X, grid]), np.concatenate([y, np.full(100, np.nan)])
settings = {"scale": 1.0, "C": 10.0, "unlabeled": np.nan}
free = rkhs.InvariantRegressor(invariance=None, **settings).fit(points, targets)
rising = rkhs.InvariantRegressor(invariance=Monotone({0: +1}), nu=1e4, **settings).fit(points, targets)

slope = rkhs.Derivative(grid, axes=[0])
print("smallest slope:", {name: slope(m.function_).min().round(3) for name, m in (("free", free), ("rising", rising))})

# %%
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(X, y, "k.", label="measured")
ax.plot(grid, free.predict(grid), label="values alone")
ax.plot(grid, rising.predict(grid), label="values, and f' >= 0")
ax.set_xlabel("dose")
ax.set_ylabel("response")
ax.legend()
plt.show()
