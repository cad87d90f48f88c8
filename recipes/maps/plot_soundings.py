"""
From soundings in degrees to a netCDF map
=========================================

`verde 173 <https://github.com/fatiando/verde/issues/173>`_ asks for interpolation of longitudes and latitudes without
a projection. ``coordinates="lonlat"`` measures distances on the earth, here across the 180th meridian, and `rkhs.maps`
writes a dataset with standard deviations (``pip install 'rkhs[geo,plot]'``).
"""

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import rkhs

rng = np.random.default_rng(0)
ends = rng.uniform([176, -22], [184, -15], (10, 2, 2))  # of ten tracks around Fiji
lon, lat = np.concatenate([np.linspace(*pair, 30) for pair in ends]).T
depth = 2000 + 800 * np.sin(lon) * np.cos(1.5 * lat) + 20 * rng.standard_normal(300)
table = pd.DataFrame({"lon": np.where(lon > 180, lon - 360, lon), "lat": lat, "depth": depth})

X, y = rkhs.maps.points(table, "depth")
y.attrs["depth"] = {"units": "m"}
model = rkhs.InvariantRegressorCV(coordinates="lonlat").fit(X, y)
chart = rkhs.maps.grid(model, X, y, spacing=0.1)
chart.to_netcdf(Path(tempfile.mkdtemp()) / "map.nc")

rkhs.plotting.MapDisplay.from_dataset(chart, X)
plt.show()

# %%
# What it costs
# -------------
#
# The fit takes a few seconds for 300 soundings, and the 5,000 cells with standard deviations take another. Most of the
# time of larger maps is that of the standard deviations, which ``std=False`` leaves out.
#
# When not to use it
# ------------------
#
# The earth is a sphere here: distances differ from those on an ellipsoid by up to 0.5 percent. For positions in a
# projection, in meters, leave ``coordinates`` out.
