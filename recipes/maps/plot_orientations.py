"""
Orientations with no surface, and other structural constraints
==============================================================

`gempy 224 <https://github.com/gempy-project/gempy/issues/224>`_ asks for orientations that belong to no stratigraphic
unit, and for scalar products of the gradient with a vector such as a fold axis; `LoopStructural 186
<https://github.com/Loop3D/LoopStructural/pull/186>`_ adds inequalities. Each is a linear functional of the scalar
field: a value, a gradient, a directional derivative, or a value with a one-sided loss.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

contact = np.array([[0.5, 1.0], [3.0, 2.2], [7.0, 1.1]])  # points of the horizon: f = 0
measured = np.array([[1.5, 3.0], [5.0, 3.5], [8.5, 2.5]])  # orientations at points of no known unit
normals = np.array([[-0.5, 1.0], [0.3, 1.0], [-0.2, 1.0]])
bedding = np.array([[9.0, 0.5]]), np.array([[1.0, 0.0]])  # f does not change along this direction
above = np.array([[5.0, 2.6], [9.0, 1.6]])  # a well crossed younger rock here: f >= 0.2

terms = [
    rkhs.Term(rkhs.Evaluation(contact), rkhs.Squared(), 0.0, weight=1e4),
    rkhs.Term(rkhs.Gradient(measured), rkhs.Squared(), normals, weight=1e2),
    rkhs.Term(rkhs.functionals.DirectionalDerivative(*bedding), rkhs.Squared(), 0.0, weight=1e2),
    rkhs.Term(rkhs.Evaluation(above), rkhs.losses.OneSided(), 0.2, weight=1e3),
]
f = rkhs.Problem(rkhs.Gaussian(scale=3.0), terms, basis=rkhs.Constant()).solve().function

side, up = np.linspace(0, 10, 100), np.linspace(0, 4, 100)
grid = np.stack(np.meshgrid(side, up), axis=-1).reshape(-1, 2)
_, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
ax.contour(side, up, f(grid).reshape(100, 100), levels=15, cmap="copper", linewidths=0.7)
ax.contour(side, up, f(grid).reshape(100, 100), levels=[0], colors="C0", linewidths=2)
ax.plot(*contact.T, "C0o", label="points of the horizon")
ax.plot(*above.T, "C2^", label="points above it")
ax.quiver(*measured.T, *normals.T, color="C3", label="orientations")
ax.quiver(*bedding[0].T, *bedding[1].T, color="C4", label="bedding")
ax.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
plt.show()

# %%
# What it costs
# -------------
#
# This page takes 0.1 seconds. With the squared loss, values and gradients at 250, 500 and 1,000 points in two
# dimensions take 0.06, 0.2 and 1 seconds. Inequalities cost four times as much as equations do, because the solver has
# to find which of them hold with equality.
#
# When not to use it
# ------------------
#
# Gradients have a length: if only the direction of bedding was measured, their length (1 here) is an assumption about
# thickness. If it is wrong, use directional derivatives of zero along the bedding, and one gradient. Faults and
# unconformities need one function on each side.
