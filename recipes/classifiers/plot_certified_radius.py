"""
How far can the features change before the predicted class does?
================================================================

Measurement errors and adversaries change features a little. The norm of the learned function bounds how fast it
changes: `rkhs.certified_radius` returns for each row a distance within which no change of the features changes the
class. It is proved, and not searched for.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

import rkhs

X, y = make_moons(60, noise=0.1, random_state=0)
model = rkhs.InvariantClassifier(scale=0.7).fit(X, y)
radius = rkhs.certified_radius(model, X)
print(f"median radius {np.median(radius):.3f}, smallest {radius.min():.3f}")

grid = np.stack(np.meshgrid(np.linspace(-1.5, 2.5, 120), np.linspace(-1, 1.5, 120)), axis=-1)
f = model.decision_function(grid.reshape(-1, 2)).reshape(120, 120)
_, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
ax.contour(grid[..., 0], grid[..., 1], f, levels=[0], colors="k")
ax.scatter(*X.T, c=y, cmap="coolwarm", s=12)
for point, r in zip(X, radius, strict=True):
    ax.add_patch(plt.Circle(point, r, fill=False, alpha=0.4))
ax.set(aspect="equal", title="within each circle the class is certain")
plt.show()

# %%
# What it costs
# -------------
#
# One evaluation of the function at the rows and a bound on its norm, which the fit has computed already: 0.05 seconds
# here. It needs no search for counterexamples.
#
# When not to use it
# ------------------
#
# The radius is a lower bound, and often much smaller than the distance to the decision boundary, so a small radius
# does not show that a prediction is fragile. It is Euclidean: scale the features so that equal distances are equally
# likely. It needs a kernel of the distance, such as the Gaussian.
