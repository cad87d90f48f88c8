"""
Spectra with a drifting baseline
================================

Two substances differ by a small peak.  Each spectrum has its own baseline and is shifted a little, which says nothing
about the substance.  A model that knows so needs fewer labeled spectra.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs
from rkhs.invariances import SignalTangents

time = np.linspace(0, 1, 60)


def spectra(count, rng):
    """Random spectra (count, 60) and their substance."""
    substance = rng.integers(0, 2, count)
    shift = 0.02 * rng.standard_normal((count, 1))
    main = np.exp(-(((time - 0.35 - shift) / 0.06) ** 2))
    small = np.exp(-(((time - 0.62 - shift) / 0.04) ** 2))
    baseline = rng.uniform(-1, 1, (count, 1)) + rng.uniform(-1, 1, (count, 1)) * time
    noise = 0.05 * rng.standard_normal((count, 60))
    return main + 0.5 * substance[:, None] * small + baseline + noise, substance


rng = np.random.default_rng(0)
X, y = spectra(20, rng)
X_new, y_new = spectra(500, rng)
_, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
for k in range(8):
    ax.plot(time, X[k], color=f"C{y[k]}")
ax.set_title("eight spectra of two substances")

# %%
# What is known: f does not change when the spectrum is shifted, raised or tilted.

tangents = SignalTangents(kinds=["shift", "offset", "drift"])
for name, invariance, nu in (("labels alone", None, 0.0), ("labels and motions", tangents, 20.0)):
    model = rkhs.InvariantClassifier(loss="squared_hinge", C=10.0, invariance=invariance, nu=nu).fit(X, y)
    print(f"{name}: {100 * (1 - model.score(X_new, y_new)):.1f} % wrong")

# %%
# The last model along each motion, for three new spectra: nearly flat.

rkhs.plotting.ChangeDisplay.from_estimator(model, tangents, X_new[:3], amounts=np.linspace(-1, 1, 11))
plt.show()
