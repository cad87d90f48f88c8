"""
Can I ensure conditions in the derivative, such as zero slope at x = 0?
=======================================================================

A question in `gpytorch 664 <https://github.com/cornellius-gp/gpytorch/issues/664>`_. Boundary values and boundary
slopes are terms without noise: a squared loss with a large weight, here 1e8, which holds them to 1e-7.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

rng = np.random.default_rng(0)
radius = np.sort(rng.uniform(0.3, 0.9, (25, 1)), axis=0)
y = (1 - radius[:, 0] ** 2) ** 2 + 0.08 * rng.standard_normal(25)  # a profile: symmetric, and zero at the wall

measured = rkhs.Term(rkhs.Evaluation(radius), rkhs.Squared(), y, weight=1 / (2 * 0.08**2))
symmetric = rkhs.Term(rkhs.Derivative([[0.0]], axes=[0]), rkhs.Squared(), 0.0, weight=1e8)
wall = rkhs.Term(rkhs.Evaluation([[1.0]]), rkhs.Squared(), 0.0, weight=1e8)

kernel, grid = rkhs.Gaussian(scale=0.4), np.linspace(0, 1, 200)[:, None]
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, terms in {"measurements": [measured], "and both conditions": [measured, symmetric, wall]}.items():
    f = rkhs.Problem(kernel, terms, rkhs.Constant()).solve().function
    slope = rkhs.Derivative([[0.0]], axes=[0])(f)[0]
    print(f"{name}: slope at 0 {slope:.1e}, value at 1 {f([[1.0]])[0]:.1e}")
    ax.plot(grid, f(grid), label=name)
ax.plot(grid, (1 - grid**2) ** 2, "k:", label="truth")
ax.plot(radius, y, "k.")
ax.legend()
plt.show()

# %%
# What it costs
# -------------
#
# Each condition is one more functional, so it costs as much as one more row: 0.01 seconds here. Conditions along a
# whole boundary are as many functionals as there are points on it.
#
# When not to use it
# ------------------
#
# Weights that are many orders of magnitude larger than the others make the problem badly conditioned; an exact
# equation is not needed if the boundary value was measured with noise. A condition at points does not hold between
# them: take points closer than half of a length scale, or a kernel that has the symmetry, such as
# `rkhs.kernels.Symmetrized`.
