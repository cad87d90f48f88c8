"""
Does this library support area-to-point kriging?
================================================

Yes (`scikit-gstat 38 <https://github.com/mmaelicke/scikit-gstat/issues/38>`_, `pyinterpolate 523
<https://github.com/DataverseLabs/pyinterpolate/issues/523>`_). The average over an area is a linear functional of the
surface, as a value is: `rkhs.Integral` has boxes, polygons and line segments, and `rkhs.FunctionalRegressor` learns
from them the surface, its length scale and the noise.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

x, y = corners = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0))).reshape(2, 36)
averages = (np.cos(x) - np.cos(x + 1)) * (np.sin(0.7 * (y + 1)) - np.sin(0.7 * y)) / 0.7 + 0.2 * (x + 0.5)

areas = rkhs.Integral.boxes(corners.T, corners.T + 1, nodes=3, mean=True)  # or Integral.polygons(vertices)
model = rkhs.FunctionalRegressor(scale=rkhs.Tunable()).fit(rkhs.Measurement(areas, averages))

side = np.linspace(0, 6, 80)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
truth = np.sin(grid[:, 0]) * np.cos(0.7 * grid[:, 1]) + 0.2 * grid[:, 0]
_, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained", sharey=True)
maps = {"averages of 36 areas": averages, "map from the averages": model.predict(grid), "truth": truth}
for ax, (title, values) in zip(axes, maps.items(), strict=True):
    n = round(len(values) ** 0.5)
    ax.imshow(values.reshape(n, n), origin="lower", extent=(0, 6, 0, 6), vmin=-1, vmax=2)
    ax.set_title(title)
print(f"error of the map {np.sqrt(np.mean((model.predict(grid) - truth) ** 2)):.3f}")
plt.show()

# %%
# What it costs
# -------------
#
# 36 areas take half a second, 81 take 2 and 144 take 6 seconds, most of which is the search for the length scale and
# the noise. Each area has 3 x 3 quadrature nodes, and time grows with the square of the number of nodes;
# `rkhs.geometry.quadrature_nodes` says how many are needed. For thousands of areas fix the length scale, or use
# ``approximation=rkhs.FourierGrid()``.
#
# When not to use it
# ------------------
#
# Do not use it if the surface changes within an area more than between areas: averages do not say where. Counts of
# rare events are not averages with equal noise; give their standard deviation as the ``noise`` of the measurement, or
# use `rkhs.counts.KernelPoissonRegressor` for counts at points.
