"""Tangents of images against images really moved by scipy.ndimage, and on digits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import ndimage
from sklearn.datasets import load_digits

from refusals import refused
from rkhs.invariances import ImageTangents, RandomImageTransform, SignalTangents, transformed_copies
from rkhs.invariances._images import affine_coordinates, resampled

SHAPE = (24, 20)
WIDTH = 1.5


def blobs(seed, count=4):
    """Smooth images with no content near the border."""
    rng = np.random.default_rng(seed)
    rows, columns = np.indices(SHAPE)
    images = []
    for _ in range(count):
        image = np.zeros(SHAPE)
        for _ in range(5):
            center = rng.uniform([8, 7], [16, 13])
            image += rng.uniform(0.5, 1) * np.exp(-((rows - center[0]) ** 2 + (columns - center[1]) ** 2) / 5)
        images.append(image)
    return np.stack(images)


def really_moved(image, name, a):
    """The smoothed image moved by SciPy's own functions; `a` in pixels at the border, as in ImageTangents."""
    r = max(SHAPE) / 2
    center = (np.array(SHAPE) - 1) / 2
    if name == "down":
        return ndimage.shift(image, (a, 0), mode="nearest")
    if name == "right":
        return ndimage.shift(image, (0, a), mode="nearest")
    if name == "rotation":
        return ndimage.rotate(image, np.degrees(a / r), reshape=False, mode="nearest")
    forward = {
        "scaling": np.diag([1 + a / r, 1 + a / r]),
        "shear along columns": np.array([[1, a / r], [0, 1]]),
        "shear along rows": np.array([[1, 0], [a / r, 1]]),
    }[name]
    back = np.linalg.inv(forward)
    return ndimage.affine_transform(image, back, offset=center - back @ center, mode="nearest")


def far(found, truth):
    """The relative error."""
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


MOTIONS = ["down", "right", "rotation", "scaling", "shear along columns", "shear along rows"]


@pytest.mark.parametrize("method", ["analytic", "difference"])
@pytest.mark.parametrize("name", MOTIONS)
def test_tangents_are_derivatives_of_images_really_moved(name, method):
    images = blobs(0)
    tangents = ImageTangents(SHAPE, method=method, smoothing=WIDTH, step=0.02)
    V = tangents.vectors(images.reshape(len(images), -1))[:, tangents.names.index(name)]
    h = 0.02
    for image, v in zip(images, V, strict=True):
        smoothed = ndimage.gaussian_filter(image, WIDTH, mode="nearest")
        truth = (really_moved(smoothed, name, h) - really_moved(smoothed, name, -h)) / (2 * h)
        assert far(v.reshape(SHAPE), truth) < 0.02


@pytest.mark.parametrize("smoothing", [0.01, 0.3, 0.5, 0.6, 0.8])
def test_tangents_are_derivatives_at_every_smoothing(smoothing):
    """Samples of the derivative of a narrow Gaussian are too small: by 40 % for a width of 0.45, and 0 below 0.125."""
    X = blobs(2).reshape(4, -1)
    options = {"kinds": ["translation", "rotation", "scaling", "shear"], "smoothing": smoothing}
    truth = ImageTangents(SHAPE, method="difference", step=1e-3, **options).vectors(X)
    assert far(ImageTangents(SHAPE, **options).vectors(X), truth) < 0.12
    signals = X[:, 7 * SHAPE[1] : 12 * SHAPE[1]]
    truth = np.gradient(ndimage.gaussian_filter1d(signals, smoothing, axis=1), axis=1)
    assert far(-SignalTangents(["shift"], smoothing=smoothing).vectors(signals)[:, 0], truth) < 0.12


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, bool])
@pytest.mark.parametrize("method", ["analytic", "difference"])
def test_integers_are_converted(dtype, method):
    X = load_digits().data[:5].astype(dtype)
    for transform in (
        ImageTangents((8, 8), method=method).vectors,
        RandomImageTransform((8, 8)),
        SignalTangents().vectors,
        transformed_copies(SignalTangents())[0],
    ):
        assert_allclose(transform(X), transform(X.astype(float)))


def test_resampling_each_image_at_places_of_its_own_is_that_of_scipy():
    rng, center = np.random.default_rng(0), (np.array(SHAPE) - 1) / 2
    images, A, b = blobs(6, 3), np.eye(2) + 0.1 * rng.standard_normal((3, 2, 2)), rng.standard_normal((3, 2))
    found = resampled(images, affine_coordinates(SHAPE, A, b))
    for image, matrix, shift, result in zip(images, A, b, found, strict=True):
        framed, offset = np.pad(image, 12, mode="edge"), center + shift - matrix @ center + 12
        expected = ndimage.affine_transform(framed, matrix, offset, output_shape=SHAPE, order=3, mode="mirror")
        assert_allclose(result, expected, atol=1e-7)


def test_thickness_is_simards_formula_and_the_derivative_of_a_dilation():
    images = blobs(1)
    X = images.reshape(len(images), -1)
    V = ImageTangents(SHAPE, kinds="thickness", smoothing=WIDTH).vectors(X)
    for image, v in zip(images, V[:, 0], strict=True):
        gy, gx = (ndimage.gaussian_filter(image, WIDTH, order=o, mode="nearest") for o in [(1, 0), (0, 1)])
        squared = gx**2 + gy**2
        assert_allclose(v.reshape(SHAPE), squared / np.sqrt(squared.max()), rtol=3e-3, atol=1e-6)
    difference = ImageTangents(SHAPE, kinds="thickness", smoothing=WIDTH, method="difference", step=0.1).vectors(X)
    assert far(difference, V) < 0.1


def test_a_dilation_thickens_and_an_erosion_thins():
    X = blobs(3).reshape(4, -1)
    tangents = ImageTangents(SHAPE, kinds="thickness")
    thicker, thinner = tangents.moved(X, 1.0)[:, 0], tangents.moved(X, -1.0)[:, 0]
    assert np.all(thicker >= X)
    assert np.all(thinner <= X)
    assert np.all((thicker > 0.5).sum(axis=1) > (thinner > 0.5).sum(axis=1))


def test_one_unit_moves_at_most_about_a_pixel():
    """Tangents of different kinds are comparable: none is longer than the slope of the image, or twice that."""
    X = blobs(4).reshape(4, -1)
    norms = np.linalg.norm(ImageTangents(SHAPE).vectors(X), axis=2)
    assert norms.max() < 2 * norms[:, :2].max()
    assert norms.min() > 0.05 * norms[:, :2].min()


def test_translation_by_whole_pixels_is_exact():
    X = blobs(5).reshape(4, -1)
    moved = ImageTangents(SHAPE, kinds="translation").moved(X, 2.0).reshape(4, 2, *SHAPE)
    assert_allclose(moved[:, 0, 2:], X.reshape(4, *SHAPE)[:, :-2], atol=1e-5)
    assert_allclose(moved[:, 1, :, 2:], X.reshape(4, *SHAPE)[:, :, :-2], atol=1e-5)


@pytest.mark.parametrize("method", ["analytic", "difference"])
def test_the_tangent_distance_beats_the_distance_on_digits(method):
    """Simard's experiment: the nearest of 150 digits, when each may move along its tangents."""
    digits = load_digits()
    X, y = digits.data / 16, digits.target
    known, labels, asked, truth = X[:150], y[:150], X[150:], y[150:]
    basis = np.linalg.qr(np.swapaxes(ImageTangents((8, 8), method=method).vectors(known), 1, 2))[0]  # (150, 64, 7)
    between = asked[:, None] - known[None]
    plain = np.sum(between**2, axis=2)
    along = np.einsum("tin,ink->tik", between, basis)
    errors = [np.mean(labels[np.argmin(d, axis=1)] != truth) for d in (plain, plain - np.sum(along**2, axis=2))]
    assert errors[1] < 0.95 * errors[0]


@pytest.mark.parametrize("method", ["analytic", "difference"])
def test_blank_images_and_no_images(method):
    tangents = ImageTangents((4, 4), method=method)
    assert not tangents.vectors(np.ones((1, 16))).round(12).any()
    assert tangents(np.zeros((0, 16))).shape == (0, 7)


test_wrong_settings_are_refused = refused(
    (lambda: ImageTangents((4,)), "rows, columns"),
    (lambda: ImageTangents((4, 4), kinds=["mirror"]), "kinds must be among translation"),
    (lambda: ImageTangents((4, 4), kinds=[]), "kinds must be among"),
    (lambda: ImageTangents((4, 4), method="magic"), "analytic"),
    (lambda: ImageTangents((4, 4), smoothing=-1), "smoothing"),
    (lambda: ImageTangents((4, 4), step=0), "step"),
    (lambda: ImageTangents((28, 28))(np.zeros((2, 64))), "64 features, but images of shape"),
    (lambda: ImageTangents((8, 8))(np.zeros((2, 8, 8))), r"X.reshape\(len\(X\), -1\) for images"),
)
