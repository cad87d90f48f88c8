"""Which way edges run: against the definition, and how the features turn with the image."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import rkhs
from refusals import refused
from rkhs.invariances import RandomImageTransform
from rkhs.preprocessing import Blur, Deskew, EdgeDirections

SHAPE = (12, 16)
RNG = np.random.default_rng(0)
X = RNG.random((5, SHAPE[0] * SHAPE[1]))


def by_definition(image, directions, step, width):
    """Pixel by pixel, place by place."""
    down, right = np.gradient(image)
    places = [[(s - 1) / 2 + step * (k - (-(-s // step) - 1) / 2) for k in range(-(-s // step))] for s in image.shape]
    found = np.zeros((directions, len(places[0]), len(places[1])))
    for (i, j), strength in np.ndenumerate(np.hypot(down, right)):
        angle = np.arctan2(down[i, j], right[i, j]) * directions / (2 * np.pi)
        for k in range(directions):
            apart = (angle - k + directions / 2) % directions - directions / 2
            for a, row in enumerate(places[0]):
                for b, column in enumerate(places[1]):
                    window = np.exp(-((i - row) ** 2 + (j - column) ** 2) / (2 * width**2)) / (2 * np.pi * width**2)
                    found[k, a, b] += window * strength * max(0.0, 1 - abs(apart))
    return np.sqrt(found).ravel()


@pytest.mark.parametrize(("directions", "step", "width"), [(8, 4, 2.0), (3, 5, 1.0)])
def test_the_definition(directions, step, width):
    edges = EdgeDirections(SHAPE, directions, step, width, smoothing=0)
    found = edges.fit_transform(X)
    for row, image in zip(found, X.reshape(-1, *SHAPE), strict=True):
        np.testing.assert_allclose(row, by_definition(image, directions, step, width), atol=1e-12)
    assert len(edges.get_feature_names_out()) == found.shape[1]


def test_a_quarter_turn_of_an_image_turns_places_and_directions():
    square = RNG.random((1, 9, 9))
    edges = EdgeDirections((9, 9), step=3)
    before, after = (
        edges.fit_transform(im.reshape(1, -1)).reshape(8, 3, 3) for im in (square, np.rot90(square, 1, (1, 2)))
    )
    np.testing.assert_allclose(after, np.roll(np.rot90(before, 1, (1, 2)), -2, axis=0), atol=1e-12)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_units_offsets_and_blocks_of_images_change_nothing_else(unit):
    many = RNG.random((1203, SHAPE[0] * SHAPE[1]))
    edges = EdgeDirections(SHAPE)
    found = edges.fit_transform(many)
    np.testing.assert_allclose(edges.transform(unit * (many + 3)), unit**0.5 * found, rtol=1e-4, atol=1e-6 * unit**0.5)
    np.testing.assert_allclose(edges.transform(many[700:702]), found[700:702], atol=1e-13)
    assert edges.transform(many.astype(np.float32)).dtype == np.float32
    np.testing.assert_array_equal(edges.transform(np.ones((1, many.shape[1]))), 0)


WRONG = [("directions", 2), ("step", 0), ("step", 1.5), ("width", 0), ("smoothing", -1)]
test_bad_settings_are_refused_by_name = refused(
    *((lambda name=name, bad=bad: EdgeDirections(SHAPE, **{name: bad}).fit_transform(X), name) for name, bad in WRONG)
)


def test_copies_are_moved_before_their_edges_are_taken(tmp_path):
    y, others = np.arange(40) % 3, RNG.random((7, X.shape[1]))
    images = RNG.random((3, X.shape[1]))[y] + 0.3 * RNG.random((40, X.shape[1]))
    motions = [RandomImageTransform(SHAPE, random_state=k) for k in range(2)]
    options = {"loss": "squared", "scale": 1.0, "C": 10.0, "tol": 1e-10}
    model = rkhs.VirtualSampleSVC(motions, features=EdgeDirections(SHAPE), **options)
    found = clone(model).fit(images, y)
    edges = EdgeDirections(SHAPE).fit(images)
    larger = np.concatenate([edges.transform(moved) for moved in (images, *(move(images) for move in motions))])
    expected = rkhs.VirtualSampleSVC([], **options).fit(larger, np.tile(y, 3))
    np.testing.assert_allclose(
        found.decision_function(others), expected.decision_function(edges.transform(others)), atol=1e-6
    )
    whole = make_pipeline(Deskew(SHAPE), Blur(SHAPE), model).fit(images, y)
    rkhs.save(whole, tmp_path / "model.skops")
    again = rkhs.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.decision_function(others), whole.decision_function(others))


def test_features_have_a_row_for_each_point():
    halved = FunctionTransformer(lambda points: points[::2])
    with pytest.raises(ValueError, match="must map X of shape"):
        rkhs.VirtualSampleSVC([], features=halved, scale=1.0).fit(RNG.random((20, 4)), np.arange(20) % 2)
