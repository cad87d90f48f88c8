"""
The model converges on forces, but the energy error is very high
================================================================

`sGDML 30 <https://github.com/stefanch/sGDML/issues/30>`_ describes this for a transition between two states, where
more training points do not help. Forces determine the energy up to a constant for each region that the samples
connect. Two states without samples of the transition between them leave the difference of their energies open; a few
energies determine it, as one more term.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

rng = np.random.default_rng(0)
X = np.concatenate([rng.normal(-1, 0.15, (25, 2)), rng.normal(1, 0.15, (25, 2))])  # two states


def energy(x):
    """Return the energy of a double well."""
    return (x[:, 0] ** 2 - 1) ** 2 + 0.4 * x[:, 0] + (x[:, 1] - x[:, 0]) ** 2


slope = 2 * (X[:, 1] - X[:, 0])
gradient = np.stack([4 * X[:, 0] * (X[:, 0] ** 2 - 1) + 0.4 - slope, slope], axis=1)  # minus the force
forces = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), gradient, weight=1e4)
few = X[[0, 30]]
energies = rkhs.Term(rkhs.Evaluation(few), rkhs.Squared(), energy(few), weight=1e4)

along = np.stack([np.linspace(-1.4, 1.4, 200)] * 2, axis=1)
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, terms in {"forces at 50 points": [forces], "forces, and energies at two points": [forces, energies]}.items():
    f = rkhs.Problem(rkhs.Gaussian(scale=0.6), terms, rkhs.Constant()).solve().function
    ax.plot(along[:, 0], f(along) - f(few)[0] + energy(few)[0], label=name)
ax.plot(along[:, 0], energy(along), "k:", label="truth")
ax.plot(X[:, 0], np.full(50, -0.6), "k|", label="samples")
ax.set(xlabel="along the transition", ylabel="energy")
ax.legend()
plt.show()

# %%
# What it costs
# -------------
#
# Both fits take less than 0.1 seconds. Energies cost little: 50 samples in two coordinates have 100 components of
# forces, and each energy is one functional more. Memory is that of the samples and not of a matrix: 27,000 forces of
# ethanol are learned by ``python -m benchmarks.force_field``.
#
# When not to use it
# ------------------
#
# If the samples connect the two states, forces suffice, and noisy energies may harm: give them the weight of their
# noise. Between the states neither energies nor forces were seen, so the barrier is a guess; sample there. For
# molecules use distances of atoms as coordinates, as in :ref:`the example of a small molecule
# <sphx_glr_auto_examples_plot_force_field.py>`.
