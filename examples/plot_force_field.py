"""
Energies from forces
====================

A simulation of a molecule gives the force on each atom.  Forces are minus the slopes of one function, the energy, of
the distances of atoms: so forces alone teach the energy, up to a constant, and what is learned conserves it.  Atoms
of a kind may change places, which the kernel knows exactly.  ``python -m benchmarks.force_field`` does this with
ethanol, compared with sgdml; :ref:`a recipe <sphx_glr_auto_recipes_derivatives_plot_trajectory.py>` makes a trajectory
with ASE.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs
from rkhs.kernels import generated_group

rng = np.random.default_rng(0)
REST = np.array([[0.0, 0.0, 0.0], [0.96, 0.0, 0.0], [-0.24, 0.93, 0.0]])  # water: O, H, H


def energy(x):
    """Springs along both bonds and between the hydrogens, with the parts that make them stiffer when they are short."""
    r = x.reshape(-1, 3, 3)
    total = 0.0
    for i, j, stiff in ((0, 1, 20.0), (0, 2, 20.0), (1, 2, 4.0)):
        stretch = np.linalg.norm(r[:, i] - r[:, j], axis=1) - np.linalg.norm(REST[i] - REST[j])
        total = total + stiff * stretch**2 * (1 - stretch)
    return total


def forces(x, step=1e-5):
    """Minus the slopes, by differences."""
    moves = step * np.eye(9)
    return -np.stack([(energy(x + move) - energy(x - move)) / (2 * step) for move in moves], axis=1)


X, new = (REST.reshape(1, 9) + 0.08 * rng.standard_normal((count, 9)) for count in (40, 200))

# %%
# The energy is a function of inverse distances that does not change when the hydrogens (atoms 1 and 2) change places.

distances = rkhs.kernels.InverseDistances()
group = distances.moved(generated_group([[0, 2, 1]]))
kernel = rkhs.kernels.Symmetrized(rkhs.Matern(nu=3.5, scale=2.0), group) @ distances
term = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), -forces(X), weight=1e8)
f = rkhs.Problem(kernel, [term]).solve(tol=1e-3).function

# %%
predicted = -rkhs.Gradient(new)(f)
learned, true = f(new) - f(new).mean(), energy(new) - energy(new).mean()
print(f"forces: mean error {np.abs(predicted - forces(new)).mean():.3f} of a mean {np.abs(forces(new)).mean():.2f}")
print(f"energies, of which none was told: {np.abs(learned - true).mean():.4f} of a spread of {true.std():.3f}")
_, axes = plt.subplots(1, 2, figsize=(8.5, 4), layout="constrained")
for ax, seen, expected, name in (
    (axes[0], predicted.ravel(), forces(new).ravel(), "force"),
    (axes[1], learned, true, "energy"),
):
    ax.plot(expected, expected, "k:", linewidth=1)
    ax.plot(expected, seen, ".", markersize=3)
    ax.set_xlabel(f"true {name}")
    ax.set_ylabel(f"predicted {name}")
plt.show()
