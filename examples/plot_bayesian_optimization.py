"""
Bayesian optimization with slopes
=================================

An expensive function is minimized with few evaluations: a model of the values so far has a mean and a standard
deviation everywhere, and the next evaluation is where the *expected improvement* over the best value is largest
(:func:`rkhs.acquisition.suggest`).  Simulations with an adjoint, and programs with automatic differentiation, return
the gradient together with the value.  A model that learns from both needs fewer evaluations, the more so the more
inputs there are.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import qmc

import rkhs


def branin(x):
    """Return a function of two inputs with three equal minima, and its gradient."""
    u, v = 15 * x[0] - 5, 15 * x[1]
    a, t = v - 5.1 / (4 * np.pi**2) * u**2 + 5 / np.pi * u - 6, 10 * (1 - 1 / (8 * np.pi))
    slope = 2 * a * (5 / np.pi - 10.2 / (4 * np.pi**2) * u) - t * np.sin(u)
    return a**2 + t * np.cos(u) + 10, 15 * np.array([slope, 2 * a])


def hartmann(x):
    """Return a function of six inputs with six minima, and its gradient."""
    sharp = np.array(
        [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
    )
    rows = ["1312 1696 5569 124 8283 5886", "2329 4135 8307 3736 1004 9991", "2348 1451 3522 2883 3047 6650"]
    away = x - 1e-4 * np.array([row.split() for row in [*rows, "4047 8828 8732 5743 1091 381"]], dtype=float)
    bumps = np.array([1, 1.2, 3, 3.2]) * np.exp(-np.sum(sharp * away**2, axis=1))
    return -bumps.sum(), 2 * bumps @ (sharp * away)


# %%
# The loop learns a model, asks it for the next point, and evaluates the function there.  The length scales and the
# amplitude are learned anew each time, by maximum evidence.


def minimize(function, inputs, evaluations, slopes, seed):
    """Return the points and the smallest value after each evaluation."""
    X = qmc.Sobol(inputs, rng=seed).random(4)
    found = [function(x) for x in X]
    while len(X) < evaluations:
        y, gradients = np.array([value for value, _ in found]), np.array([slope for _, slope in found])
        measured = [rkhs.Measurement(rkhs.Evaluation(X), y - y.mean(), noise=1e-3 * y.std())]
        if slopes:
            measured.append(rkhs.Measurement(rkhs.Gradient(X), gradients, noise=1e-3 * gradients.std()))
        model = rkhs.FunctionalRegressor(scale=rkhs.Tunable()).fit(measured)
        X = np.vstack([X, rkhs.acquisition.suggest(model, [(0, 1)] * inputs, X[np.argmin(y)], random_state=seed)])
        found.append(function(X[-1]))
    return X, np.minimum.accumulate([value for value, _ in found])


# %%
# The regret is the smallest value so far minus the minimum.

cases = {"Branin, two inputs": (branin, 2, 0.397887, 11), "Hartmann, six inputs": (hartmann, 6, -3.322368, 8)}
runs = {}
figure, axes = plt.subplots(1, 3, figsize=(11, 3.2))
for axis, (title, (function, inputs, minimum, count)) in zip(axes, cases.items(), strict=False):
    for name, color in (("values", "0.5"), ("values and slopes", "C3")):
        runs[title, name] = [minimize(function, inputs, count, name != "values", seed) for seed in range(2)]
        regret = np.mean([best - minimum for _, best in runs[title, name]], axis=0)
        axis.semilogy(np.arange(1, count + 1), regret, color=color, label=name)
        print(f"{title}, {name}: regret {regret[-1]:.2g} after {count} evaluations")
    axis.set(title=title, xlabel="evaluations", ylabel="regret")
axes[0].legend()

# %%
# With slopes the points of the first function gather at its minima.

X, _ = runs["Branin, two inputs", "values and slopes"][0]
grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 80)] * 2), axis=-1)
values = np.apply_along_axis(lambda x: branin(x)[0], 2, grid)
axes[2].contourf(grid[..., 0], grid[..., 1], np.log(values), 20, cmap="Blues_r")
axes[2].plot(*X[:4].T, "o", color="0.3", label="first points")
axes[2].plot(*X[4:].T, ".", color="C3", label="suggested")
axes[2].set_title("evaluations, with slopes")
axes[2].legend()
figure.tight_layout()
