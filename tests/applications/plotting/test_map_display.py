"""The picture of a map: values, standard deviations, data, masks, and labels in degrees."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import rkhs
from rkhs.plotting import MapDisplay

pytestmark = pytest.mark.usefixtures("figures")


@pytest.fixture(scope="module")
def sea():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"lon": np.r_[rng.uniform(178, 180, 20), rng.uniform(-180, -178, 20)]})
    table = table.assign(lat=rng.uniform(59, 61, 40), depth=rng.uniform(0, 9, 40))
    X, depth = rkhs.maps.points(table, "depth")
    depth.attrs = {"depth": {"units": "m"}}
    return X, depth, rkhs.InvariantRegressor(coordinates="lonlat").fit(X, depth)


def test_values_and_standard_deviations_of_an_estimator(sea):
    X, depth, model = sea
    display = MapDisplay.from_estimator(model, X, depth, spacing=0.25, reach=20.0)
    left, right = display.axes_
    assert display.ax_ is left
    values, std = (ax.collections[0].get_array() for ax in (left, right))
    assert_allclose(values.filled(np.nan), display.map.values["depth"])
    assert_allclose(std.filled(np.nan), display.map.std["depth"])
    assert np.ma.count_masked(values) == np.sum(np.isnan(display.map.values["depth"])) > 0
    bars = [ax.get_ylabel() for ax in display.figure_.axes if ax not in (left, right)]
    assert bars == ["depth (m)", "standard deviation (m)"]
    assert_allclose(left.get_aspect(), 2.0, rtol=0.01)  # 1 / cos 60 degrees
    shown = right.collections[1].get_offsets()[:, 0]  # across the antimeridian
    assert len(shown) == 40
    assert shown.min() >= 178
    assert shown.max() <= 182
    labels = [left.xaxis.get_major_formatter()(value, None) for value in (179, 180, 181)]
    labels += [left.yaxis.get_major_formatter()(value, None) for value in (-12.5, 0.0, 7.0)]
    assert labels == ["179°E", "180°", "179°W", "12.5°S", "0°", "7°N"]


def test_a_dataset_is_drawn_as_its_estimator(sea):
    pytest.importorskip("xarray")
    X, depth, model = sea
    chart = rkhs.maps.grid(model, X, depth, spacing=0.5)
    display = MapDisplay.from_dataset(chart, X)
    assert_allclose(display.map.values["depth"], chart["depth"])
    assert [ax.get_ylabel() for ax in display.figure_.axes[2:]] == ["depth (m)", "standard deviation (m)"]
    _, ax = plt.subplots()
    alone = MapDisplay.from_dataset(chart[["depth"]], X, axes=ax)
    assert alone.axes_.tolist() == [ax]
    assert len(ax.collections) == 2
    with pytest.raises(ValueError, match="no values 'salinity'; it has 'depth'"):
        MapDisplay.from_dataset(chart, name="salinity")


def test_a_spike_does_not_dim_the_rest():
    X = np.random.default_rng(0).uniform(0, 10, (50, 2))
    y = np.sin(X[:, 0])
    y[0] = 1e4
    display = MapDisplay.from_estimator(rkhs.InvariantRegressor(scale=0.1, C=1e6).fit(X, y), X, std=False, spacing=0.2)
    _, high = display.ax_.collections[0].get_clim()
    assert len(display.axes_) == 1
    assert high < np.nanmax(display.map.values["value"])
    assert display.ax_.get_xlabel() == "x"
