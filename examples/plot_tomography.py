"""
From rays to a picture
======================

A scanner measures integrals along rays.  An integral is a functional as any other: the picture is learned from them,
with its scale and the noise.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

rng = np.random.default_rng(0)
angle = rng.uniform(0, 2 * np.pi, (2, 150))
start, end = (np.stack([np.cos(a), np.sin(a)], axis=1) for a in angle)


def density(x):
    """Two bumps."""
    one, other = (np.sum((x - c) ** 2, axis=-1) for c in ([0.3, 0.2], [-0.3, -0.1]))
    return np.exp(-one / 0.06) + 0.6 * np.exp(-other / 0.12)


# %%
# What the scanner sees, with noise; and how exact the rays' integrals are for the kernel that was found.

rays = rkhs.Integral.segments(start, end, nodes=16)
seen = np.sum(rays.weights * density(rays.points), axis=1) + 0.01 * rng.standard_normal(150)
model = rkhs.FunctionalRegressor(scale=rkhs.Tunable(), fit_intercept=False).fit(rkhs.Measurement(rays, seen))
print(
    "noise:",
    round(model.noise_[0], 4),
    " error of nodes:",
    rkhs.geometry.quadrature_error(model.problem_.kernel, rays).max(),
)

# %%
side = np.linspace(-1, 1, 60)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
mean, spread = model.predict(grid, return_std=True)
_, axes = plt.subplots(1, 3, figsize=(10, 3.3), layout="constrained", sharey=True)
for ax, values, name in zip(
    axes, (density(grid), mean, spread), ("truth", "learned", "standard deviation"), strict=True
):
    ax.imshow(values.reshape(60, 60), extent=(-1, 1, -1, 1), origin="lower", vmin=0, vmax=1)
    ax.set_title(name)
axes[0].plot(*np.stack([start[:40], end[:40]]).transpose(2, 0, 1), color="white", alpha=0.3, linewidth=0.5)
plt.show()
