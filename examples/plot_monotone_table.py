"""
A score that never falls with income
====================================

Who pays back a loan?  A bank may not tell one applicant that more income or fewer debts would have been worse.  The
promise is kept everywhere on the box of the data, with a proof, not only at the rows of the table.
``python -m benchmarks.monotone`` compares this with boosted trees under the same constraints on four real tables.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

rng = np.random.default_rng(0)
income, debt, age = rng.lognormal(0.5, 0.5, 400), rng.exponential(1.0, 400), rng.uniform(20, 70, 400)
chance = 1 / (1 + np.exp(-(2.5 * np.log(income) - 1.2 * debt + 0.5 * np.sin(age / 8))))
paid = (rng.uniform(size=400) < chance).astype(int)
X = np.stack([np.log(income), debt, (age - 45) / 15], axis=1)

# %%
# A sum of a function of each feature is proved feature by feature, however many there are.

kernel = rkhs.kernels.additive(rkhs.Gaussian(scale=1.0), 3)
settings = {"kernel": kernel, "C": 1.0, "loss": "squared", "invariance": None}
free = rkhs.InvariantClassifier(**settings).fit(X, paid)
fair = rkhs.InvariantClassifier(**settings, shape={0: "increasing", 1: "decreasing"}).fit(X, paid)
print(fair.shape_certificate_)
for name, model in (("without the promise", free), ("with it", fair)):
    print(f"{name}: {np.mean(model.predict(X) != (chance > 0.5)):.1%} of decisions differ from the best possible ones")

# %%
# Along one feature, the others at their means: the free score falls with income where data are thin.

_, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained", sharey=True)
for j, (ax, name) in enumerate(
    zip(axes, ("log income, promised to rise", "debt, promised to fall", "age"), strict=True)
):
    x = np.repeat(X.mean(axis=0)[None], 200, axis=0)
    x[:, j] = np.linspace(X[:, j].min(), X[:, j].max(), 200)
    ax.plot(x[:, j], free.decision_function(x), label="free")
    ax.plot(x[:, j], fair.decision_function(x), label="with the promise")
    ax.plot(X[:, j], np.full(400, -2.0), "k|", alpha=0.3)
    ax.set_xlabel(name)
axes[0].set_ylabel("score")
axes[0].legend()
plt.show()
