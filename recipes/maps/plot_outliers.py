"""
Robust regression: how do I keep outliers from pulling the curve?
=================================================================

Gaussian process libraries answer with a Student-t likelihood and approximate inference (`GPJax 671
<https://github.com/thomaspinder/GPJax/issues/671>`_). A convex alternative is Huber's loss: residuals above a
threshold count linearly and not quadratically. The solution is unique and comes with a certificate.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 10, (120, 1)), axis=0)
y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(120)
wrong = rng.uniform(size=120) < 0.15
y[wrong] += rng.uniform(1, 4, wrong.sum())

settings = {"scale": 1.0, "C": 10.0, "invariance": None}
squared = rkhs.InvariantRegressor(loss="squared", **settings).fit(X, y)
robust = rkhs.InvariantRegressor(loss=rkhs.Huber(0.2), **settings).fit(X, y)  # twice the noise
found = np.abs(y - robust.predict(X)) > 0.5
print(f"{np.sum(found & wrong)} of {wrong.sum()} outliers found, and {np.sum(found & ~wrong)} other values")

grid = np.linspace(0, 10, 300)[:, None]
_, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
ax.plot(X, y, "k.", markersize=4)
ax.plot(X[found], y[found], "o", markerfacecolor="none", color="C3", label="found to be outliers")
ax.plot(grid, np.sin(grid), "k:", label="truth")
ax.plot(grid, squared.predict(grid), label="squared loss")
ax.plot(grid, robust.predict(grid), label="Huber's loss")
ax.legend(loc="lower left")
plt.show()

# %%
# What it costs
# -------------
#
# 1,000 values take 0.1 seconds, 2,000 take 0.4 and 4,000 take 1.1, about as much as with the squared loss. Time grows
# with the square of the number of values, and ``approximation=rkhs.Landmarks(200)`` makes it linear.
#
# When not to use it
# ------------------
#
# If outliers are not rare, or all lie together on one side of a gap, no loss can tell them from the truth. The curve
# stays slightly biased toward outliers that lie on one side. There are no error bars with Huber's loss: leave the
# outliers out that were found, and fit the others with the squared loss.
