"""
A surface from points with normals
==================================

Points of a ring, each with the direction that points outward, as a scanner gives them: the surface is where a function
is zero, which is about the signed distance nearby.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

rng = np.random.default_rng(0)
around, across = rng.uniform(0, 2 * np.pi, (2, 1500))
outward = np.stack([np.cos(across) * np.cos(around), np.cos(across) * np.sin(around), np.sin(across)], axis=1)
middle = np.stack([np.cos(around), np.sin(around), 0 * around], axis=1)
points = middle + 0.4 * outward

# %%
# Values and slopes are one interpolation problem: f is zero at the points and its gradient is the normal there.
# Overlapping pieces of some hundred points each make it fast for many points.

ring = rkhs.geometry.reconstruct_surface(points, outward)
print(ring)
test = rng.uniform(0, 2 * np.pi, (2, 500))
on = np.stack([(1 + 0.4 * np.cos(test[0])) * f(test[1]) for f in (np.cos, np.sin)] + [0.4 * np.sin(test[0])], axis=1)
print(f"points of the true ring are {np.abs(ring(on)).mean() / ring.spacing:.4f} of the spacing of points away")

# %%
# A cut through the middle: the zeros of f, and distances near them.  ``ring.mesh(100)`` gives triangles (with
# scikit-image), whose corners are moved onto the zeros.

x = np.linspace(-1.6, 1.6, 120)
cut = np.stack([*np.meshgrid(x, x), np.zeros((120, 120))], axis=-1)
f = ring(cut.reshape(-1, 3)).reshape(120, 120)
_, ax = plt.subplots(figsize=(5, 4), layout="constrained")
shown = ax.contourf(x, x, f, levels=np.linspace(-0.4, 0.4, 17), cmap="RdBu", extend="both")
ax.contour(x, x, f, levels=[0.0], colors="k")
near = np.abs(points[:, 2]) < 0.03
ax.plot(*points[near, :2].T, "k.", markersize=3)
ax.set_aspect("equal")
plt.colorbar(shown, label="signed distance, about")
plt.show()
