"""
Slopes that were measured
=========================

A solver with an adjoint gives the slopes of its result for about the price of another run.  Six runs with slopes say as
much as many more without.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

X = np.linspace(0, 10, 6)[:, None]
y, slopes = np.sin(X[:, 0]) + 0.1 * X[:, 0], np.cos(X) + 0.1
slopes[2] = np.nan  # one run had no slope

# %%
# `gradients` are learned with the values; all settings (scale, size, noise of each kind) can be learned too.

free = rkhs.InvariantRegressor(scale=1.5, C=1e4, invariance=None).fit(X, y)
observed_target = rkhs.InvariantRegressor(scale=1.5, C=1e4).fit(X, y, gradients=slopes)
values, measured = rkhs.Measurement(rkhs.Evaluation(X), y), rkhs.Measurement(rkhs.Gradient(X), slopes)
learned = rkhs.FunctionalRegressor().fit([values, measured])

# %%
x = np.linspace(0, 10, 300)[:, None]
mean, spread = learned.predict(x, return_std=True)
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(x, np.sin(x) + 0.1 * x, "k:", label="truth")
ax.plot(x, free.predict(x), label="values")
ax.plot(x, observed_target.predict(x), label="values and slopes")
ax.plot(x, mean, label="values and slopes, settings learned")
ax.fill_between(x[:, 0], mean - 2 * spread, mean + 2 * spread, alpha=0.2)
ax.plot(X, y, "k.")
ax.legend()
plt.show()
