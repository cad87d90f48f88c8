"""
Computing the gradient and its error with Gaussian process regression
=====================================================================

`scikit-learn 13909 <https://github.com/scikit-learn/scikit-learn/issues/13909>`_ asks for the mean and the variance of
dy/dx. The derivative is a linear functional, so it has a mean and a standard deviation as a value has:
``predict_gradient(X, return_std=True)``.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 10, (40, 1)), axis=0)
y = np.sin(X[:, 0]) + 0.1 * X[:, 0] + 0.1 * rng.standard_normal(40)

model = rkhs.FunctionalRegressor().fit(rkhs.Measurement(rkhs.Evaluation(X), y))  # learns the noise and the scale
print(f"standard deviation of the noise: {model.noise_[0]:.2f}")

grid = np.linspace(0, 10, 200)[:, None]
curves = {"y": model.predict(grid, return_std=True), "dy/dx": model.predict_gradient(grid, return_std=True)}
truth = {"y": np.sin(grid) + 0.1 * grid, "dy/dx": np.cos(grid) + 0.1}
_, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for ax, (name, (mean, deviation)) in zip(axes, curves.items(), strict=True):
    mean, deviation = mean.ravel(), deviation.ravel()
    ax.fill_between(grid[:, 0], mean - 2 * deviation, mean + 2 * deviation, alpha=0.3)
    ax.plot(grid, mean, label="mean, with two standard deviations")
    ax.plot(grid, truth[name], "k:", label="truth")
    ax.set_title(name)
axes[0].plot(X, y, "k.", markersize=4)
axes[0].legend(fontsize=8)
plt.show()

# %%
# What it costs
# -------------
#
# Learning the length scale and the noise and predicting 200 slopes takes 0.4 seconds for 200 values, 0.8 for 400 and 4
# for 800: the likelihood needs the cube of the number of values. With a given scale and noise, a fit of 4,000 values
# takes about a second.
#
# When not to use it
# ------------------
#
# The error bars assume noise of one size and one smoothness everywhere. Near a jump or a kink the true slope lies
# outside of them. With losses other than the squared one there are slopes, and no error bars of slopes.
