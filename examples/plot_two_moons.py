"""
Two labels and many points
==========================

Two hundred points, two of them with a label.  What else is known?  That f does not change quickly where there are
points: its gradient is small at all of them, labeled or not.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

import rkhs

X, truth = make_moons(200, noise=0.08, random_state=0)
y = np.full(200, -1)  # -1: no label, as in sklearn.semi_supervised
y[[3, 4]] = truth[[3, 4]]

# %%
# ``nu`` is the weight of what is known about the gradient.  With ``nu=0`` the model is a plain kernel model of two
# labeled points.

_, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
for ax, nu in zip(axes, (0.0, 3e3), strict=True):
    model = rkhs.InvariantClassifier(scale=0.25, loss="logistic", nu=nu, fit_intercept=False).fit(X, y)
    rkhs.plotting.BoundaryDisplay.from_estimator(model, X, y, ax=ax)
    ax.set_title(f"nu = {nu:g}: {100 * model.score(X, truth):.1f} % of the points right")

# %%
# The arrows are the representers of slopes that the function uses: where, and in which direction, f was held flat.
# They are ordinary pieces of the function, next to the two circles, which are the representers of the labels.

f = model.function_
print(f.functionals)
print("largest slope at the points:", np.abs(rkhs.Gradient(X)(f)).max().round(2))
plt.show()
