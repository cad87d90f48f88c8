"""
Signals with jumps
==================

A squared norm makes large slopes expensive: it rounds off jumps, or follows the noise between them.  The total
variation, the integral of ``|grad f|``, charges a jump by its height alone (Rudin, Osher and Fatemi 1992).  It is a
loss of vectors, :class:`rkhs.losses.GroupNorm`, of the slopes on a triangulation of points, to which
:class:`rkhs.invariances.TotalVariation` can add points where f jumps.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

rng = np.random.default_rng(0)


def truth(x):
    """A staircase."""
    return np.select([x < 0.2, x < 0.45, x < 0.5, x < 0.8], [0, 1.0, -0.5, 0.7], 0.2)


x = np.sort(rng.uniform(size=200))
y = truth(x) + 0.15 * rng.standard_normal(200)
X, fine = x[:, None], np.linspace(0, 1, 1001)
values = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=y, weight=1 / (2 * 0.15**2))
kernel = 10.0 * rkhs.Matern(1.5, scale=0.05)

# %%
# Without the prior, two smoothings: the first follows the noise, the second misses the jumps.  With it, f is flat
# between the jumps.  The weight of the total variation is the only setting, and 20 to 60 give nearly the same function.

found = {
    "little smoothing": rkhs.Problem(kernel, [values], rkhs.Constant()).solve(),
    "much smoothing": rkhs.Problem(0.02 * kernel, [values], rkhs.Constant()).solve(),
}
variation = rkhs.invariances.TotalVariation(X)
for _ in range(2):
    solution = rkhs.Problem(kernel, [values, variation.term(weight=30.0)], rkhs.Constant()).solve(tol=1e-3)
    variation = variation.refined(solution.function, 40)
found["total variation"] = solution

figure, axes = plt.subplots(1, 3, figsize=(11, 3), sharey=True)
for axis, (name, one) in zip(axes, found.items(), strict=True):
    predicted = one.function(fine[:, None])
    error = np.sqrt(np.mean((predicted - truth(fine)) ** 2))
    axis.plot(x, y, ".", color="0.75", markersize=4)
    axis.plot(fine, truth(fine), color="0.4", linewidth=1)
    axis.plot(fine, predicted, color="C3")
    axis.set_title(f"{name}, error {error:.3f}")
    print(f"{name}: error {error:.3f}, {one.status}")
figure.tight_layout()

# %%
# In the plane the prior is the same: the length of the vector of both slopes, which does not depend on the coordinates.

Z = rng.uniform(size=(400, 2))
disc = (np.hypot(Z[:, 0] - 0.5, Z[:, 1] - 0.5) < 0.3) + 0.2 * rng.standard_normal(400)
terms = [
    rkhs.Term(rkhs.Evaluation(Z), rkhs.Squared(), target=disc, weight=1 / (2 * 0.2**2)),
    rkhs.invariances.TotalVariation(Z).term(weight=40.0),
]
plane = rkhs.Matern(1.5, scale=0.1)
results = [rkhs.Problem(plane, terms[:k], rkhs.Constant()).solve(tol=1e-2) for k in (1, 2)]

side = np.linspace(0, 1, 60)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
figure, axes = plt.subplots(1, 3, figsize=(11, 3.4))
axes[0].scatter(Z[:, 0], Z[:, 1], c=disc, s=12, vmin=-0.3, vmax=1.3)
axes[0].set_title("400 noisy values")
inside = np.hypot(grid[:, 0] - 0.5, grid[:, 1] - 0.5) < 0.3
for axis, name, one in zip(axes[1:], ("values", "values and total variation"), results, strict=True):
    predicted = one.function(grid)
    axis.imshow(predicted.reshape(60, 60), origin="lower", extent=(0, 1, 0, 1), vmin=-0.3, vmax=1.3)
    axis.set_title(f"{name}, error {np.sqrt(np.mean((predicted - inside) ** 2)):.3f}")
for axis in axes:
    axis.set_aspect("equal")
figure.tight_layout()
plt.show()
