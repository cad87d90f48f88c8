"""
Values, slopes and what they leave open
=======================================

With squared losses the model is a Gaussian process that observed linear functionals with noise.  Three values alone
leave a lot open between them; the slopes at the same points close most of it.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

kernel = rkhs.Gaussian(scale=1.2)
X = np.array([[0.0], [2.5], [5.0]])
grid = np.linspace(-0.5, 5.5, 200)[:, None]
measured = {
    "values": [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(X[:, 0]), weight=1e4)],
}
measured["values and slopes"] = [
    *measured["values"],
    rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), target=np.cos(X), weight=1e4),
]

# %%
_, axes = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained", sharey=True)
for ax, (name, terms) in zip(axes, measured.items(), strict=True):
    problem = rkhs.Problem(kernel, terms)
    f = problem.solve().function(grid)
    deviation = np.sqrt(
        rkhs.solvers._conditioned.ConditionedGram.of(problem.represented).variance(rkhs.Evaluation(grid))
    )
    ax.fill_between(grid[:, 0], f - 2 * deviation, f + 2 * deviation, alpha=0.3, label="two standard deviations")
    ax.plot(grid, f, label="f")
    ax.plot(grid, np.sin(grid), "k:", label="the truth")
    ax.plot(X, np.sin(X), "ko")
    ax.set_title(f"{name}: mean deviation {deviation.mean():.2f}")
axes[0].legend()
plt.show()
