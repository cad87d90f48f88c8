"""rkhs.maps: points from tables, grids around them, cells far from data, datasets and netCDF files."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rkhs
from refusals import refused
from rkhs.maps import GridMap, are_degrees, axes_around

xarray = pytest.importorskip("xarray")

RANDOM = np.random.default_rng(0)
TABLE = pd.DataFrame({"lat": RANDOM.uniform(50, 52, 60), "Lon": RANDOM.uniform(7, 10, 60), "ship": "Alma"})
TABLE["depth"], TABLE["salinity"] = 20 + TABLE["lat"], 35 - TABLE["Lon"] / 10


class Plane:
    """A model whose predictions are known: 2 x - y, with standard deviations 3 x."""

    coordinates_ = None
    feature_names_in_ = np.array(["x", "y"])

    def predict(self, X, return_std=False):
        x, y = np.asarray(X).T
        self.asked = X
        return (2 * x - y, 3 * x) if return_std else 2 * x - y


def test_points_of_a_frame():
    table = TABLE.copy()
    table.loc[[3, 4], "depth"] = np.nan, np.inf
    X, depth = rkhs.maps.points(table, "depth")
    assert list(X.columns) == ["Lon", "lat"]
    assert len(X) == len(depth) == 58
    X, both = rkhs.maps.points(table, ["depth", "salinity"], x="Lon", y="lat")
    assert_array_equal(both.to_numpy(), TABLE.drop([3, 4])[["depth", "salinity"]].to_numpy())
    assert rkhs.maps.points(TABLE[["lat", "Lon", "depth"]])[1].name == "depth"


def test_points_of_xarray_keep_attributes():
    sea = xarray.DataArray(
        [[1.0, np.nan, 3.0], [4.0, 5.0, 6.0]],
        {"lat": ("lat", [1.0, 2.0], {"units": "degrees_north"}), "lon": [10.0, 20.0, 30.0]},
        ("lat", "lon"),
        name="temperature",
        attrs={"units": "K", "long_name": "sea temperature"},
    )
    for table in (sea, sea.to_dataset()):
        X, y = rkhs.maps.points(table, "temperature")
        assert_array_equal(X.to_numpy(), [[10, 1], [30, 1], [10, 2], [20, 2], [30, 2]])
        assert_array_equal(y, [1, 3, 4, 5, 6])
        assert y.attrs["temperature"]["units"] == "K"
    chart = rkhs.maps.grid(Plane(), X, y, spacing=1.0, reach=np.inf)
    assert chart["temperature_std"].attrs["units"] == "K"
    assert chart["temperature_std"].attrs["long_name"] == "standard deviation of a new measurement of sea temperature"
    assert chart["lat"].attrs["units"] == "degrees_north"
    track = xarray.Dataset({"z": ("obs", [1.0, 2.0])}, {"lon": ("obs", [0.0, 1.0]), "lat": ("obs", [0.0, 1.0])})
    assert_array_equal(rkhs.maps.points(track, "z")[0].to_numpy(), [[0, 0], [1, 1]])


def test_points_of_geopandas():
    geopandas = pytest.importorskip("geopandas")
    places = geopandas.points_from_xy(TABLE["Lon"], TABLE["lat"])
    frame = geopandas.GeoDataFrame(TABLE[["depth"]], geometry=places, crs="EPSG:4326")
    X, depth = rkhs.maps.points(frame, "depth")
    assert list(X.columns) == ["longitude", "latitude"]
    assert_allclose(X.to_numpy(), TABLE[["Lon", "lat"]])
    assert_allclose(depth, TABLE["depth"])
    metres, _ = rkhs.maps.points(frame.to_crs("EPSG:32632"), "depth")
    assert list(metres.columns) == ["x", "y"]
    assert metres.to_numpy().min() > 1e5
    with pytest.raises(ValueError, match="the geometry has Polygon: pass centroids"):
        rkhs.maps.points(frame.set_geometry(frame.to_crs(32632).buffer(9).to_crs(4326)), "depth")


def test_a_grid_has_the_predictions_at_its_cells():
    X = pd.DataFrame({"x": [0.0, 1.0, 0.2], "y": [0.0, 2.0, 1.4]})
    model = Plane()
    chart = rkhs.maps.grid(model, X, spacing=(0.25, 0.5), reach=np.inf)
    assert chart["value"].dims == ("y", "x")
    assert_allclose(chart["x"], [0, 0.25, 0.5, 0.75, 1])
    assert_allclose(chart["y"], [0, 0.5, 1, 1.5, 2])
    assert_allclose(chart["value"], 2 * chart["x"].to_numpy() - chart["y"].to_numpy()[:, None])
    assert_allclose(chart["value_std"].sel(x=0.5), 1.5)
    assert list(model.asked.columns) == ["x", "y"]
    assert "value_std" not in rkhs.maps.grid(model, X, spacing=0.5, std=False)
    zoomed = rkhs.maps.grid(model, X, region=(0.1, 0.3, 1.0, 1.2), spacing=0.1, reach=np.inf)
    assert_allclose(zoomed["x"], [0.1, 0.2, 0.3])


def test_cells_far_from_data_are_empty():
    X = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 4.0]])
    model = Plane()
    chart = rkhs.maps.grid(model, X, spacing=0.5, reach=1.2)
    far = np.array([np.min(np.hypot(*(X - [x, y]).T)) > 1.2 for y in chart["y"] for x in chart["x"]])
    assert_array_equal(np.isnan(chart["value"].to_numpy().ravel()), far)
    assert len(model.asked) == np.sum(~far)
    assert "farther than 1.2 from all 4 points" in chart.attrs["comment"]


def gap_of(X):
    """Return a sixth of the distance from which on cells are empty."""
    return GridMap.of(Plane(), X, None, spacing=np.ptp(X, axis=0).max() / 9).reach / 6


def test_the_typical_gap_is_that_between_tracks():
    along, across = np.linspace(0, 10, 2000), np.arange(0.0, 11.0, 2.0)
    tracks = np.stack(np.meshgrid(across, along), axis=-1).reshape(-1, 2)
    assert_allclose(gap_of(tracks), 2.0 / 4, rtol=0.05)
    square = RANDOM.uniform(size=(4000, 2))
    assert_allclose(gap_of(square), np.sqrt(np.log(2) / (np.pi * 4000)), rtol=0.1)  # of a Poisson process
    line = np.column_stack([along, 2 * along])
    assert_allclose(gap_of(line), np.hypot(along[1], 2 * along[1]), rtol=1e-6)


def test_default_axes_are_round_and_few():
    x, y = axes_around(np.array([[0.13, 5.0], [9.81, 25.2]]), False, None, None)
    assert 10_000 < len(x) * len(y) <= 41_000
    assert_allclose(x / (x[1] - x[0]), np.round(x / (x[1] - x[0])), atol=1e-9)
    assert x[0] <= 0.13 < x[1]
    assert x[-2] < 9.81 <= x[-1]
    for size in (0.02, 1.0, 37.0, 7e5):
        x, y = axes_around(size * np.array([[0.0, 0.0], [3.1, 2.3]]), False, None, None)
        assert f"{x[1] - x[0]:.6e}".split("e")[0][1:] == ".000000"  # one digit and a power of ten
        assert 10_000 < len(x) * len(y) <= 41_000


@pytest.mark.parametrize(
    ("longitudes", "ends"),
    [
        ([170.0, -175.0, 179.0], (170, 185)),
        ([350.0, 5.0, 10.0], (-10, 10)),
        ([-10.0, 5.0, 10.0], (-10, 10)),
        ([245.0, 255.0], (245, 255)),
        ([0.0, 120.0, 240.0], (0, 240)),
        ([100.0, 160.0, -150.0, -90.0, -40.0, 20.0], (-260, 20)),
    ],
)
def test_longitudes_are_along_the_shortest_arc(longitudes, ends):
    x, y = axes_around(np.column_stack([longitudes, np.full(len(longitudes), 89.5)]), True, None, 5.0)
    assert (x[0], x[-1]) == ends
    assert y.max() <= 90


def test_a_globe_has_each_longitude_once():
    x, y = axes_around(
        np.array([[-180.0, -90.0], [-60.0, 0.0], [60.0, 0.0], [180.0, 90.0]]), True, (-180, 180, -90, 90), 30.0
    )
    assert_allclose(x, np.arange(-180, 180, 30))
    assert_allclose(y, np.arange(-90, 91, 30))


def test_netcdf_round_trip(tmp_path):
    X, y = rkhs.maps.points(TABLE, ["depth", "salinity"])
    y.attrs = {"depth": {"units": "m", "long_name": "depth below the surface"}}
    model = rkhs.InvariantRegressor(coordinates="lonlat").fit(X, y)
    chart = rkhs.maps.grid(model, X, y, spacing=0.25)
    assert set(chart.data_vars) == {"depth", "depth_std", "salinity", "salinity_std"}
    assert_allclose(
        chart["depth"].sel(lat=51.0, Lon=8.5), model.predict(pd.DataFrame({"Lon": [8.5], "lat": [51.0]}))[0, 0]
    )
    assert chart["Lon"].attrs["units"] == "degrees_east"
    chart.to_netcdf(tmp_path / "map.nc")
    with xarray.open_dataset(tmp_path / "map.nc") as found:
        assert found.identical(chart)
        again = GridMap.of_dataset(found.load())
    assert again.degrees
    assert again.names == ("Lon", "lat")
    assert_array_equal(again.std["salinity"], chart["salinity_std"])
    rows = GridMap.of(model, X, y, spacing=0.25).to_frame()
    assert list(rows.columns) == ["Lon", "lat", "depth", "depth_std", "salinity", "salinity_std"]
    assert len(rows) == int(chart["depth"].notnull().sum())


def test_degrees_are_recognized_by_names():
    for names in (("Longitude", "LAT"), ("lng", "latitude"), (" lon_deg", "Lat", "depth")):
        assert are_degrees(names)
    for names in (("x", "y"), ("lat", "lon"), ("lon",), (0, 1)):
        assert not are_degrees(names)


def test_maps_in_degrees_without_coordinates_say_so():
    """As do those with latitudes first; arrays and tables of more columns are no such maps."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(0, 9, (20, 2)), columns=["lng", "Latitude"])
    model, y = rkhs.InvariantRegressor(scale=1.0), frame["lng"]
    for columns in (frame, frame[["Latitude", "lng"]], frame.assign(depth=1.0)):
        with pytest.warns(UserWarning, match='taken for a plane.*coordinates="lonlat", or X.to_numpy'):
            model.fit(columns, y)
    with warnings.catch_warnings(action="error"):
        model.fit(frame.to_numpy(), y)
        model.fit(frame.assign(depth=1.0, age=2.0), y)
        rkhs.InvariantRegressor(coordinates="lonlat").fit(frame, y)


@pytest.mark.parametrize(
    ("region", "ends"),
    [((175, -175, -5, 0), (175, 185)), ((350, 10, -5, 0), (-10, 10)), ((170, 185, -5, 0), (170, 185))],
)
def test_regions_across_the_180th_meridian(region, ends):
    x, y = axes_around(np.zeros((1, 2)), True, region, 5.0)
    assert (x[0], x[-1], y[0], y[-1]) == (*ends, -5, 0)


TWO = np.array([[0.0, 0.0], [1.0, 1.0]])
test_what_is_refused = refused(
    (lambda: rkhs.maps.points(TABLE, "dept"), "no column 'dept'; .* Did you mean 'depth'"),
    (lambda: rkhs.maps.points(TABLE), "value must name the column of the values, one of 'ship', 'depth', 'salinity'"),
    (lambda: rkhs.maps.points(TABLE, "ship"), "must be numbers: could not convert string to float"),
    (lambda: rkhs.maps.points(TABLE.assign(depth=np.nan), "depth"), "No row has numbers in all of the columns"),
    (lambda: rkhs.maps.points(TABLE[["lat", "depth"]], "depth"), "none are called longitude and latitude, or x and y"),
    (lambda: rkhs.maps.points(TABLE.to_numpy()), "made from a data frame, .* got ndarray", TypeError),
    (lambda: rkhs.maps.grid(Plane(), np.ones((3, 3))), r"A map has two columns, and X has the shape \(3, 3\)"),
    (lambda: rkhs.maps.grid(Plane(), TWO[:1]), r"All points are at \[0.0, 0.0\]"),
    (lambda: rkhs.maps.grid(Plane(), TWO, spacing=1e-6), "makes 1,000,004,000,004 cells"),
    (lambda: rkhs.maps.grid(Plane(), TWO, spacing=0.0), "spacing must be positive"),
    (lambda: rkhs.maps.grid(Plane(), TWO, region=(1, 0, 0, 1)), r"must be \(west, east, south, north\)"),
    (lambda: rkhs.maps.grid(Plane(), TWO, region=(0, np.inf, 0, 1)), r"must be \(west, east, south, north\)"),
    (lambda: rkhs.maps.grid(Plane(), TWO, region=(5, 6, 5, 6), reach=0.1), "No cell is within reach=0.1"),
    (lambda: rkhs.maps.grid(Plane(), TWO, region=(5, 5, 5, 5), spacing=1.0), r"All points are at \[5.0, 5.0\]"),
    (lambda: rkhs.maps.grid(Plane(), TWO, spacing=100.0), "is larger than the map"),
    (lambda: axes_around(TWO, True, (0, 1, 89, 95), 1.0), r"\(west, east, south, north\) in degrees"),
    (lambda: axes_around(TWO, True, (0, 1, -106, 0), 1.0), "in degrees"),
    (lambda: axes_around(TWO, True, (2, 1, 3, 4), 1.0), "west <= east"),
    (lambda: GridMap.of_dataset(xarray.Dataset({"a": 1.0})), "no variable of two dimensions"),
)
