"""
Choosing C and nu
=================

``InvariantClassifierCV`` solves a grid of weights over stratified folds of the labeled points; all other points stay,
without labels.  Directions found for one cell serve all others, so the grid costs little more than its hardest cells.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import rkhs

X, truth = load_breast_cancer(return_X_y=True)
rng = np.random.default_rng(0)
order = rng.permutation(len(X))[:250]
X, truth = StandardScaler().fit_transform(X[order]), truth[order]
y = np.where(np.arange(250) < 30, truth, -1)

search = rkhs.InvariantClassifierCV(invariance="gradient", loss="squared_hinge", Cs=4, nus=4, cv=3).fit(X, y)
print("best:", search.best_params_)
print(f"error where there was no label: {100 * np.mean(search.predict(X[30:]) != truth[30:]):.1f} %")

# %%
rkhs.plotting.GridDisplay.from_estimator(search)
plt.show()
