"""
Digits that may move
====================

A handwritten 7 that is shifted, turned or sheared a little is still a 7.  The derivative of the image along such a
motion is its *tangent vector* v, and the derivative of f along it is a linear functional, <v, grad f(x)>.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import rkhs
from rkhs.invariances import ImageTangents
from rkhs.plotting import ChangeDisplay, TangentsDisplay

images, digits = load_digits(return_X_y=True)
chosen = np.isin(digits, (1, 7))
X, y = images[chosen] / 16, digits[chosen]

tangents = ImageTangents(shape=(8, 8), kinds=["translation", "rotation", "shear", "thickness"])
TangentsDisplay.from_image(tangents, X[0], amounts=(-1, -0.5, 0, 0.5, 1))

# %%
# Three ones and three sevens have a label.  One model is told nothing more; the other also knows that all digits,
# labeled or not, may move.  Errors on the rest, for three random choices of the labeled ones:

settings = {"scale": 0.5 * rkhs.kernels.median_scale(X), "loss": "squared_hinge", "C": 10.0, "tol": 1e-3}
for seed in range(3):
    rng = np.random.default_rng(seed)
    labeled = np.concatenate([rng.choice(np.flatnonzero(y == digit), 3, replace=False) for digit in (1, 7)])
    few = np.full(len(y), -1)
    few[labeled] = y[labeled]
    plain = rkhs.InvariantClassifier(invariance=None, **settings).fit(X, few)
    knowing = rkhs.InvariantClassifier(invariance=tangents, nu=30.0, **settings).fit(X, few)
    errors = [100 * np.mean(model.predict(X[few == -1]) != y[few == -1]) for model in (plain, knowing)]
    print(f"labels alone {errors[0]:.1f} %, labels and tangents {errors[1]:.1f} %")

# %%
# How much does f change while a digit moves?  A flat line is what the invariance asks for.

for name, model in (("labels alone", plain), ("labels and tangents", knowing)):
    print(name, "mean |<v, grad f>| =", np.abs(tangents(X)(model.function_)).mean().round(3))
ChangeDisplay.from_estimator({"labels alone": plain, "and tangents": knowing}, tangents, X[[0, 3, 8]])
plt.show()
