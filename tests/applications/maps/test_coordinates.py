"""Positions on the earth: distances, the antimeridian and the poles, and models that learn from them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.preprocessing import StandardScaler

import oracle
import rkhs
from estimators.models import MODELS, ORDERED, QUANTILES, values
from refusals import refused
from rkhs.maps import LonLat

RADIUS = 6371.0088  # the mean one of the earth, in km
RANDOM = np.random.default_rng(0)


def around(longitude, latitude, degrees, count=60):
    """Draw positions within an angle of a center, evenly on the sphere; return longitudes and latitudes."""
    height = RANDOM.uniform(np.cos(np.radians(degrees)), 1, count)
    turn, side = RANDOM.uniform(0, 2 * np.pi, count), np.sqrt(1 - height**2)
    p, q = np.radians(latitude), np.radians(longitude)
    up = np.array([np.cos(p) * np.cos(q), np.cos(p) * np.sin(q), np.sin(p)])
    east = np.array([-np.sin(q), np.cos(q), 0.0])
    u = np.column_stack([side * np.cos(turn), side * np.sin(turn), height]) @ np.array([east, np.cross(up, east), up])
    return np.degrees(np.column_stack([np.arctan2(u[:, 1], u[:, 0]), np.arcsin(u[:, 2])]))


def great_circle(A, B):
    """Return the distances in km along the surface, by the haversine formula."""
    (a, b), (c, d) = np.radians(A).T[:, :, None], np.radians(B).T[:, None]
    haversine = np.sin((d - b) / 2) ** 2 + np.cos(b) * np.cos(d) * np.sin((c - a) / 2) ** 2
    return 2 * RADIUS * np.arcsin(np.sqrt(np.clip(haversine, 0, 1)))


PLACES = {
    "temperate": (9.0, 50.0, 8.0),
    "antimeridian": (180.0, -17.0, 12.0),
    "north pole": (70.0, 88.0, 10.0),
    "south pole": (0.0, -90.0, 25.0),
    "hemisphere": (-160.0, 10.0, 90.0),
    "globe": (0.0, 0.0, 180.0),
}


@pytest.mark.every
@pytest.mark.parametrize("place", PLACES)
def test_distances_are_those_on_the_earth(place):
    longitude, latitude, degrees = PLACES[place]
    X = around(longitude, latitude, degrees)
    found = LonLat.of(X)
    assert found.sphere == (degrees > 30)
    P, arc = found(X), great_circle(X, X)
    distance = np.linalg.norm(P[:, None] - P, axis=2)
    if found.sphere:
        assert_allclose(distance, 2 * RADIUS * np.sin(arc / (2 * RADIUS)), atol=1e-6)
    else:
        limit = 1 / np.cos(np.radians(1.2 * degrees) / 2)  # the center of the data is not that of the circle
        far = arc > 0
        assert np.all(distance[far] <= arc[far] * limit)
        assert np.all(distance[far] >= arc[far] / limit)


def test_the_plane_is_of_equal_area_and_north_is_up_in_the_middle():
    found, h = LonLat(20.0, 60.0), 1e-4
    for longitude, latitude in ((20.0, 60.0), (5.0, 50.0), (45.0, 75.0)):
        X = np.array([[longitude, latitude], [longitude + h, latitude], [longitude, latitude + h]])
        middle, east, north = found(X)
        area = np.linalg.det([east - middle, north - middle])
        assert_allclose(area, (RADIUS * np.radians(h)) ** 2 * np.cos(np.radians(latitude)), rtol=1e-5)
    assert_allclose(found([[20.0, 61.0]]), [[0.0, RADIUS * 2 * np.sin(np.radians(0.5))]], atol=1e-6)


def test_one_place_has_one_position():
    for X in ([[180.0, 3.0], [-180.0, 3.0], [540.0 - 360.0, 3.0]], [[0.0, 90.0], [77.0, 90.0], [-10.0, 90.0]]):
        assert len(np.unique(LonLat(170.0, 20.0)(X), axis=0)) == 1
    assert_allclose(np.linalg.norm(LonLat(30.0, 40.0)([[210.0, -40.0]])), 2 * RADIUS)  # the opposite point


def field(X):
    """Return a smooth function on the sphere."""
    a, b = np.radians(X).T
    return np.cos(b) * np.cos(a - 1) + 2 * np.sin(b) ** 2 + np.cos(b) ** 2 * np.sin(2 * a)


@pytest.mark.every
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("offset", [123.4])
def test_longitudes_may_begin_anywhere(place, offset):
    X = around(*PLACES[place])
    y, turned = field(X), X.copy()
    turned[:, 0] = np.remainder(X[:, 0] + offset + 180.0, 360.0) - 180.0
    model = rkhs.InvariantRegressor(coordinates="lonlat", C=1e3)
    first, second = (clone(model).fit(Z[:40], y[:40]).predict(Z[40:], return_std=True) for Z in (X, turned))
    assert_allclose(first[0], second[0], atol=1e-6)
    assert_allclose(first[1], second[1], rtol=1e-4)


@pytest.mark.every
@pytest.mark.parametrize("place", PLACES)
def test_predictions_are_those_of_dense_kriging(place):
    """Chords are the oracle on the sphere, and great circles in the plane, where they agree but for the projection."""
    X = around(*PLACES[place])
    y, scale, C = field(X), 1500.0, 500.0
    kernel = rkhs.Matern(1.5, scale=scale)
    model = rkhs.InvariantRegressor(kernel, coordinates="lonlat", C=C).fit(X[:40], y[:40])

    def k(A, B):
        arc = great_circle(A, B)
        r = np.sqrt(3) * (2 * RADIUS * np.sin(arc / (2 * RADIUS)) if model.coordinates_.sphere else arc) / scale
        return (1 + r) * np.exp(-r)

    saddle = np.ones((41, 41))
    saddle[:40, :40], saddle[40, 40] = k(X[:40], X[:40]) + np.eye(40) / (2 * C), 0.0
    *coefficients, constant = np.linalg.solve(saddle, [*y[:40], 0.0])
    expected = k(X[40:], X[:40]) @ coefficients + constant
    assert_allclose(model.predict(X[40:]), expected, atol=1e-4 if model.coordinates_.sphere else 0.02 * np.ptp(y))


@pytest.mark.slow
def test_settings_are_chosen_across_the_antimeridian():
    X = around(180.0, -20.0, 12.0, 50)
    assert np.ptp(X[:, 0]) > 300
    model = rkhs.InvariantRegressorCV(coordinates="lonlat").fit(X[:35].tolist(), field(X[:35]))
    assert np.sqrt(np.mean((model.predict(X[35:]) - field(X[35:])) ** 2)) < 0.02 * np.ptp(field(X))


@pytest.mark.parametrize("place", ["north pole", "globe"])
def test_slopes_are_those_in_the_columns(place):
    X = around(*PLACES[place])
    model = rkhs.InvariantRegressor(coordinates="lonlat").fit(X, np.column_stack([field(X), X[:, 1]]))
    slopes, spread = model.predict_gradient(X[:3], return_std=True)
    assert slopes.shape == (3, 2, 2)
    assert np.all(spread > 0)
    for k, h in enumerate(1e-3 * np.eye(2)):
        quotient = (model.predict(X[:3] + h) - model.predict(X[:3] - h)) / 2e-3
        assert_allclose(slopes[:, k], quotient, rtol=1e-4, atol=1e-6)


def projected(X):
    return np.column_stack([X[:, 0] * X[:, 1], X[:, 1] ** 2, X[:, 0]])


TWO = np.column_stack([RANDOM.uniform(5, 15, 60), RANDOM.uniform(45, 46, 60)])
CURVED = np.sin(TWO[:, 0] / 2) + 2 * (TWO[:, 1] - 45) + 0.1 * RANDOM.standard_normal(60)
OF_ROWS = {
    "coordinates": rkhs.InvariantRegressor(coordinates="lonlat"),
    "coordinates, search": rkhs.InvariantRegressorCV(coordinates="lonlat"),
    "coordinates, landmarks": rkhs.InvariantRegressor(coordinates="lonlat", approximation=rkhs.Landmarks(20)),
    "coordinates, neighbors": rkhs.InvariantRegressor(
        coordinates="lonlat", approximation=rkhs.Neighbors(60), invariance=None
    ),
    "metric": rkhs.InvariantRegressor(scale="agop"),
    "features": rkhs.VirtualSampleSVC(features=StandardScaler(), loss="squared_hinge"),
}


ALL = (*MODELS, *QUANTILES, *ORDERED, *OF_ROWS)
SLOW = ("InvariantRegressorCV", "InvariantRegressorCV, landmarks", "coordinates, search")  # fitted for seconds


@pytest.mark.every
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in ALL])
def test_functionals_of_f_are_those_of_the_columns(name):
    """L(f) by quadrature and differences of predictions, however an estimator scales, encodes or projects X."""
    model = clone((MODELS | QUANTILES | ORDERED | OF_ROWS)[name])
    y = (np.median(CURVED) < CURVED).astype(int) if is_classifier(model) else CURVED
    model.fit(TWO, np.round(np.exp(y)) if name == "KernelPoissonRegressor" else y)

    def f(X):
        found = np.log(model.predict(X)) if name == "KernelPoissonRegressor" else values(model, X)
        return found.reshape(len(X), -1)

    x, w = np.polynomial.legendre.leggauss(6)
    nodes, weights = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2), np.outer(w, w).reshape(-1) / 4
    boxes, Z, step = (
        rkhs.Integral.boxes([[7, 45.2], [7, 45.3]], [[13, 45.7], [8, 45.6]], mean=True, nodes=6),
        TWO[:3],
        np.array([0.5, 0.1]),
    )
    means = [weights @ f([10, 45.45] + [3, 0.25] * nodes), weights @ f([7.5, 45.45] + [0.5, 0.15] * nodes)]
    between = rkhs.Difference(Z, Z + step)  # without the threshold of ordered classes
    slopes = np.stack([(f(Z + h) - f(Z - h)) / 2e-3 for h in 1e-3 * np.eye(2)], axis=1)
    for k, function in enumerate(getattr(model, "functions_", None) or [model.function_]):
        found = boxes(function)
        assert_allclose(found[0] - found[1], (means[0] - means[1])[k], atol=1e-6)
        assert_allclose(between(function), (f(Z) - f(Z + step))[:, k], atol=1e-6)
        try:
            assert_allclose(rkhs.Gradient(Z)(function), slopes[:, :, k], rtol=1e-3, atol=1e-4)
        except rkhs.exceptions.NotBoundedError:
            assert name == "features" or function.kernel.smoothness(2) <= 1
    if is_regressor(model) and hasattr(model, "predict_gradient"):
        mean, spread = model.predict(Z, return_std="function")
        posterior = model.solution_.posterior
        assert_allclose(posterior.mean(rkhs.Evaluation(Z)), mean, atol=1e-9)
        ratio = posterior.std(rkhs.Evaluation(Z)) / spread  # a search has another amplitude
        assert_allclose(ratio, ratio[0], rtol=1e-6)


def test_the_norm_and_inner_products_are_those_of_positions():
    function = OF_ROWS["coordinates"].fit(TWO, np.column_stack([CURVED, TWO[:, 0]])).function_
    first, second = function.output(0), function.output(1)
    assert_allclose(first.norm() ** 2, rkhs.inner(first, first))
    assert_allclose(function.norm(), [first.norm(), second.norm()])
    assert_allclose(rkhs.inner(first, second), rkhs.inner(first.function, second.function))
    nodes, weights = oracle.hermite_grid(2, 9)
    average = rkhs.functionals.LocalAverage(TWO[:1], width=0.05)(first)
    assert_allclose(average, first(TWO[:1] + 0.05 * nodes) @ weights)
    with pytest.raises(ValueError, match="in different spaces"):
        rkhs.inner(first, rkhs.InvariantRegressor(coordinates=projected).fit(TWO, CURVED).function_)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_importances_are_those_of_the_columns(kernel):
    """Also at a pole, where differences must not leave the sphere."""
    X = np.column_stack([RANDOM.uniform(-180, 180, 100), RANDOM.uniform(80, 90, 100)])
    model = rkhs.InvariantRegressorCV(kernel, coordinates="lonlat", scales="median").fit(X, X[:, 1], np.arange(100))
    assert model.feature_importances_.shape == (2,)
    assert_allclose(model.feature_importances_.sum(), 1.0)


@pytest.mark.parametrize("coordinates", ["lonlat", projected])
def test_second_derivatives_need_those_of_the_map(coordinates):
    model = rkhs.InvariantRegressor(rkhs.Gaussian(300.0), coordinates=coordinates).fit(TWO, CURVED)
    Z, h = TWO[:3], 1e-2
    differences = [(model.predict(Z + s) + model.predict(Z - s) - 2 * model.predict(Z)) / h**2 for s in h * np.eye(2)]
    assert_allclose(rkhs.functionals.Laplacian(Z)(model.function_), sum(differences), rtol=1e-3, atol=1e-5)
    scaled = rkhs.VirtualSampleSVC(features=StandardScaler(), loss="squared").fit(TWO, CURVED > 0)
    with pytest.raises(rkhs.exceptions.NotBoundedError, match="derivatives up to order 0"):
        rkhs.Gradient(Z)(scaled.function_)


def test_a_projection_is_a_callable():
    X, Z = RANDOM.uniform(1, 2, (40, 2)), RANDOM.uniform(1, 2, (5, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1]
    model = rkhs.InvariantRegressor(coordinates=projected).fit(X, y)
    plain = rkhs.InvariantRegressor().fit(projected(X), y)
    assert_allclose(model.predict(Z), plain.predict(projected(Z)))
    assert_allclose(
        model.partial_fit(Z, Z[:, 1]).predict(X), plain.partial_fit(projected(Z), Z[:, 1]).predict(projected(X))
    )
    chain = np.stack([[[b, 0, 1], [a, 2 * b, 0]] for a, b in Z])  # derivatives of positions in both columns
    assert_allclose(
        model.predict_gradient(Z), np.einsum("tnm,tm->tn", chain, plain.predict_gradient(projected(Z))), rtol=1e-5
    )
    assert model.set_params(coordinates=None).fit(X, y).coordinates_ is None
    assert_allclose(model.predict(Z), rkhs.InvariantRegressor().fit(X, y).predict(Z))


def test_further_columns_are_kept():
    X = np.column_stack([around(10.0, 40.0, 5.0), RANDOM.uniform(0, 3, 60)])
    model = rkhs.InvariantRegressor(coordinates="lonlat", approximation=rkhs.Landmarks(30)).fit(X, X[:, 2])
    assert_allclose(model.coordinates_(X)[:, 2], X[:, 2])
    assert_allclose(model.predict(X), X[:, 2], atol=0.2)


def fitted(X=None, y=None, gradients=None, **options):
    X = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 1.0]]) if X is None else X
    return lambda: rkhs.InvariantRegressor(**{"coordinates": "lonlat"} | options).fit(X, X[:, 0], gradients=gradients)


LATITUDE_FIRST = pytest.importorskip("pandas").DataFrame({"latitude": [1.0, 2.0], "longitude": [3.0, 4.0]})
test_what_is_refused = refused(
    (
        lambda: rkhs.to_json(fitted()()),
        r"coordinates='lonlat' cannot be exported: .*`coordinates_\(X\)`",
        rkhs.exceptions.ExportError,
    ),
    (fitted(coordinates="latlon"), 'coordinates must be "lonlat", a callable or None'),
    (fitted(np.array([[10.0, 95.0], [0.0, 0.0]])), "Row 0 of X has longitude 10 and latitude 95, which are no degrees"),
    (fitted(np.array([[4.5e5, 80.0], [0.0, 0.0]])), "Row 0 of X has longitude 450000"),
    (fitted(np.ones((3, 1))), "needs the longitude in the first column"),
    (lambda: rkhs.InvariantRegressor(coordinates="lonlat").fit(LATITUDE_FIRST, [1, 2]), "the first one is 'latitude'"),
    (fitted(gradients=np.ones((3, 2))), "coordinates='lonlat' does not take gradients"),
    (fitted(shape={0: "increasing"}), "does not take a shape"),
    (fitted(coordinates=lambda X: X[:, 0]), r"must map X of shape \(3, 2\) to \(3, m\), got shape \(3,\)"),
    (fitted(coordinates=lambda X: np.where(X > 1, np.inf, X)), r"maps row 1 of X, \[1.0, 2.0\], to \[1.0, inf\]"),
    (
        lambda: rkhs.InvariantRegressor(coordinates="lonlat", approximation=rkhs.Landmarks(2)).partial_fit(
            np.ones((3, 2)), np.ones(3)
        ),
        "takes no coordinates",
    ),
    (fitted(coordinates=None, scale=[rkhs.Tunable(), rkhs.Tunable()]), 'scale for each feature with scale="evidence"'),
    (fitted(coordinates=None, scale=rkhs.Tunable()), 'of named kernels with scale="evidence"'),
)
