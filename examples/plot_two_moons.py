"""
InvSVM in six lines
===================

Two hundred points, two of them with a label.  What else is known?  That f does not change quickly where there are
points: its gradient is small at all of them, labeled or not.  With the hinge loss this is the InvSVM of Zhang, Lee and
Teh (2013), formula (2) with a constant:

    min 1/2 |f|^2 + lambda sum_i max(0, 1 - y_i f(x_i)) + nu sum_j |grad f(x_j)|^2

The first sum is over the labels, the second over all points.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

import rkhs

X, moon = make_moons(200, noise=0.08, random_state=0)
y, labeled = np.where(moon == 1, 1, -1), [0, 1]  # the labels of the first two points are known


def invsvm(nu):
    """Return the f of formula (2) with lambda = 1."""
    kernel = rkhs.Gaussian(scale=0.25)
    labels = rkhs.Term(rkhs.Evaluation(X[labeled]), rkhs.Hinge(), target=y[labeled], weight=1.0)
    flat = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=nu)
    problem = rkhs.Problem(kernel, [labels, flat], basis=rkhs.Constant())
    solution = problem.solve()
    return solution.function


# %%
# With nu = 0 this is an SVM of two points, and f = 0 half-way between them, whatever lies there.  With nu = 1 each
# point keeps f flat around itself, so that f changes, and changes its sign, where there are no points.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
across, up = np.meshgrid(np.linspace(-1.5, 2.5, 160), np.linspace(-1.0, 1.5, 100))
for ax, nu in zip(axes, (0.0, 1.0), strict=True):
    f = invsvm(nu)
    height = f(np.column_stack([across.ravel(), up.ravel()])).reshape(across.shape)
    ax.contourf(across, up, height / np.abs(height).max(), np.linspace(-1, 1, 21), cmap="RdBu_r", alpha=0.6)
    ax.contour(across, up, height, [0.0], colors="black")
    ax.scatter(*X.T, s=10, color="0.35")
    ax.scatter(*X[labeled].T, s=110, c=y[labeled], cmap="RdBu_r", edgecolors="black", linewidths=1.5, zorder=3)
    wrong = np.mean(np.sign(f(X)) != y)
    ax.set_title(f"nu = {nu:g}: {wrong:.1%} of the points wrong")
figure.suptitle("InvSVM: two labels (large), 198 points without, and the line f = 0")
plt.show()
