"""
Curvature greater than rho
==========================

`pyGAM 330 <https://github.com/dswah/pyGAM/issues/330>`_ asks for a curvature above a given number, and for the same
with a slope. Subtract a function that has exactly this curvature or slope, require the rest to be convex or
increasing, and add the function again.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(-2, 2, (30, 1)), axis=0)
y = np.cosh(X[:, 0]) + 0.3 * rng.standard_normal(30)  # its second derivative is at least 1
RHO = 1.0


def parabola(x):
    """Return a function with the second derivative RHO."""
    return RHO / 2 * x[:, 0] ** 2  # RHO * x[:, 0] for a slope of at least RHO


settings = {"scale": 0.7, "C": 10.0, "invariance": None}
rest = rkhs.InvariantRegressor(**settings, shape={0: "convex"}).fit(X, y - parabola(X))
convex = rkhs.InvariantRegressor(**settings, shape={0: "convex"}).fit(X, y)
print(rest.shape_certificate_)

grid = np.linspace(X.min(), X.max(), 300)[:, None]
second = rkhs.Derivative(grid, axes=[0, 0])
_, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
axes[0].plot(X, y, "k.")
axes[0].plot(grid, convex.predict(grid), label="convex")
axes[0].plot(grid, rest.predict(grid) + parabola(grid), label="curvature at least 1")
axes[1].plot(grid, second(convex.function_))
axes[1].plot(grid, second(rest.function_) + RHO)
axes[1].axhline(RHO, color="k", linestyle=":")
axes[1].set_title("second derivative")
axes[0].legend()
plt.show()

# %%
# What it costs
# -------------
#
# It costs as much as the shape alone: 0.1 seconds here, 0.3 for 1,000 rows and 1 for 2,000. The parabola costs
# nothing.
#
# When not to use it
# ------------------
#
# A bound that the data contradict moves the whole curve. If you do not know the number, use ``"convex"`` alone. For a
# bound that differs from place to place, subtract a function with this second derivative.
