"""
Three things that you may know
==============================

Top: a kernel model that sees values or labels only.  Bottom: the same model, told one thing more.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

import rkhs

figure, axes = plt.subplots(2, 3, figsize=(12, 6.2), layout="constrained")
grid = np.linspace(0, 1, 200)[:, None]


def draw(ax, f, truth, points, values, title):
    """A fitted curve, the true one, and what was observed."""
    ax.plot(grid, truth(grid), "--", color="0.6", label="truth")
    ax.plot(grid, f(grid), color="tab:blue", label="model")
    ax.plot(points, values, "o", color="black", ms=5, label="observed values")
    ax.set_title(title)


# **Points without a label.**  Two of 200 points have a label.  The model below also knows that it should change slowly
# wherever there are points.

X, y = make_moons(200, noise=0.08, random_state=0)
few = np.full(200, -1)
few[[3, 4]] = y[[3, 4]]
for ax, nu, name in zip(axes[:, 0], (0.0, 3e3), ("2 labels", "2 labels + 198 points without"), strict=True):
    model = rkhs.InvariantClassifier(scale=0.25, loss="logistic", nu=nu, fit_intercept=False).fit(X, few)
    rkhs.plotting.BoundaryDisplay.from_estimator(model, X, few, ax=ax, representers=False, legend=ax is axes[1, 0])
    ax.set_title(f"{name}: {100 * model.score(X, y):.1f} % right")

# **Slopes.**  Four values were measured; below, the four slopes too.

points = np.array([[0.05], [0.35], [0.65], [0.95]])


def wave(x):
    """The true function."""
    return np.sin(9 * x[:, 0]) + x[:, 0]


def slope(x):
    """Its derivative."""
    return 9 * np.cos(9 * x) + 1


values = rkhs.Term(rkhs.Evaluation(points), rkhs.Squared(), target=wave(points), weight=1e4)
slopes = rkhs.Term(rkhs.Gradient(points), rkhs.Squared(), target=slope(points), weight=1e4)
observed_target = {"4 values": [values], "4 values + 4 slopes": [values, slopes]}
for ax, (name, terms) in zip(axes[:, 1], observed_target.items(), strict=True):
    f = rkhs.Problem(rkhs.Gaussian(scale=0.2), terms, basis=rkhs.Constant()).solve().function
    error = np.sqrt(np.mean((f(grid) - wave(grid)) ** 2))
    draw(ax, f, wave, points, wave(points), f"{name}: error {error:.2f}")
for x, value, rise in zip(points[:, 0], wave(points), slope(points)[:, 0], strict=True):
    axes[1, 1].plot([x - 0.04, x + 0.04], [value - 0.04 * rise, value + 0.04 * rise], color="tab:red", lw=2)
axes[0, 1].legend(loc="upper left", fontsize=9)

# **Shape.**  Twelve noisy values of something that only rises; below, the model knows that it rises.

random = np.random.default_rng(3)
point_groups = np.sort(random.random((12, 1)), axis=0)


def growth(x):
    """The true function."""
    return np.tanh(6 * (x[:, 0] - 0.4))


noisy = growth(point_groups) + 0.25 * random.standard_normal(12)
values = rkhs.Term(rkhs.Evaluation(point_groups), rkhs.Squared(), target=noisy, weight=30.0)
rising = rkhs.Term(rkhs.Derivative(grid[::4], axes=[0]), rkhs.losses.OneSided(), weight=30.0)
observed_target = {"12 values": [values], "12 values + it rises": [values, rising]}
for ax, (name, terms) in zip(axes[:, 2], observed_target.items(), strict=True):
    f = rkhs.Problem(rkhs.Gaussian(scale=0.2), terms, basis=rkhs.Constant()).solve().function
    error = np.sqrt(np.mean((f(grid) - growth(grid)) ** 2))
    draw(ax, f, growth, point_groups, noisy, f"{name}: error {error:.2f}")
plt.show()
