"""
The Poisson model does not accept intervals of time
===================================================

Events are counted per unit of time, and the interval of time differs from row to row (`pyGAM 98
<https://github.com/dswah/pyGAM/issues/98>`_, `scikit-learn 24614
<https://github.com/scikit-learn/scikit-learn/issues/24614>`_). Divide the counts by the exposure, and pass the
exposure as the weight: this is the same likelihood as with an offset. The exposure may also be an area or a number of
people.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import rkhs

rng = np.random.default_rng(0)
X, years = rng.uniform(0, 10, (150, 1)), rng.uniform(0.5, 8.0, 150)  # kilometers, and how long accidents were counted
accidents = rng.poisson(years * np.exp(np.sin(X[:, 0]) + 0.1 * X[:, 0]))

model = rkhs.counts.KernelPoissonRegressor(C="cv").fit(X, accidents / years, sample_weight=years)
print(f"C = {model.C_:g}, explained deviance {model.score(X, accidents / years, years):.2f}")

grid = np.linspace(0, 10, 300)[:, None]
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.scatter(X[:, 0], accidents / years, s=5 * years, color="0.6", label="counts per year; large dots: many years")
ax.plot(grid, model.predict(grid), label="learned rate")
ax.plot(grid, np.exp(np.sin(grid) + 0.1 * grid), "k:", label="true rate")
ax.set(xlabel="km", ylabel="accidents per year")
ax.legend()
plt.show()

# %%
# What it costs
# -------------
#
# With a given ``C`` 1,000 rows take 0.1 seconds and 2,000 take 0.4. ``C="cv"`` fits 35 models, which takes 0.6 seconds
# for 500 rows. Above 5,000 rows landmarks are used, and time is linear in the number of rows.
#
# When not to use it
# ------------------
#
# If counts vary more than a Poisson distribution allows, the rates are still right on average, and nothing here states
# their spread. For a rate that is nearly log-linear in many features scikit-learn's ``PoissonRegressor`` is as good.
# Counts over areas of different shape are averages: see :ref:`area-to-point kriging
# <sphx_glr_auto_recipes_maps_plot_areas.py>`.
