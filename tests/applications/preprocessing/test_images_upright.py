"""Images made upright and smooth, and images moved at random."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import ndimage
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import rkhs
from refusals import refused
from rkhs.invariances import RandomImageTransform
from rkhs.preprocessing import Blur, Deskew

SHAPE = (20, 16)
RNG = np.random.default_rng(0)


def blobs(count, rng=RNG, reach=2.0):
    """Smooth images: some Gaussian blobs, well inside the frame."""
    rows, columns = np.meshgrid(*(np.arange(side) - (side - 1) / 2 for side in SHAPE), indexing="ij")
    images = np.zeros((count, *SHAPE))
    for image in images:
        for _ in range(3):
            r, c = rng.uniform(-reach, reach, 2)
            image += rng.uniform(0.5, 1) * np.exp(-((rows - r) ** 2 + (columns - c) ** 2) / 4.5)
    return images


def moments(image):
    mass = image - image.min()
    rows, columns = np.meshgrid(*map(np.arange, image.shape), indexing="ij")
    total = mass.sum()
    r, c = (mass * rows).sum() / total, (mass * columns).sum() / total
    aslant = (mass * (rows - r) * (columns - c)).sum() / (mass * (rows - r) ** 2).sum()
    return r, c, aslant


def moved(image, matrix, shift):
    """Return an image that is moved around its center by SciPy's splines, its border continued."""
    center = (np.array(SHAPE) - 1) / 2
    framed, offset = np.pad(image, 12, mode="edge"), center + shift - matrix @ center + 12
    return ndimage.affine_transform(framed, matrix, offset, output_shape=SHAPE, order=3, mode="mirror")


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1000),
    shear=st.floats(-0.5, 0.5),
    shift=st.tuples(st.floats(-1.5, 1.5), st.floats(-1.5, 1.5)),
    unit=st.sampled_from([1e-6, 1.0, 255.0, 1e6]),
    offset=st.sampled_from([0.0, -1.0, 3.0]),
)
def test_upright_images_do_not_know_how_they_were_sheared_shifted_or_measured(seed, shear, shift, unit, offset):
    image = blobs(1, np.random.default_rng(seed), reach=1.5)
    slanted = moved(image[0], np.array([[1.0, 0.0], [shear, 1.0]]), np.array(shift))
    deskew = Deskew(SHAPE)
    first, second = (deskew.fit_transform(x.reshape(1, -1)).reshape(SHAPE) for x in (image, slanted))
    other = deskew.transform(unit * (slanted.reshape(1, -1) + offset)).reshape(SHAPE) / unit - offset
    np.testing.assert_allclose(second, first, atol=0.02)
    np.testing.assert_allclose(other, second, atol=1e-8)
    r, c, aslant = moments(second)
    np.testing.assert_allclose([r, c, aslant], [9.5, 7.5, 0], atol=0.05)


def test_images_without_a_slant_stay():
    blank, line = np.full(SHAPE, 3.0), np.zeros(SHAPE)
    line[9, 4:12] = 1.0
    upright = Deskew(SHAPE).fit_transform(np.stack([blank, line]).reshape(2, -1)).reshape(2, *SHAPE)
    np.testing.assert_array_equal(upright[0], blank)
    assert np.isfinite(upright[1]).all()
    assert upright[1].sum() == pytest.approx(8, abs=0.5)


def test_blurring_is_a_gaussian_filter():
    X = RNG.standard_normal((4, SHAPE[0] * SHAPE[1])).astype(np.float32)
    found = Blur(SHAPE, width=1.2).fit_transform(X)
    expected = [ndimage.gaussian_filter(x.reshape(SHAPE).astype(float), 1.2, mode="nearest").ravel() for x in X]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(Blur(SHAPE, width=0).fit_transform(X), X)


def test_random_motions_move_by_what_they_say():
    images = blobs(400, np.random.default_rng(1), reach=1.0)
    before = np.array([moments(image)[:2] for image in images])
    still = {"rotation": 0.0, "scaling": 0.0, "shear": 0.0}
    moved = RandomImageTransform(SHAPE, translation=1.0, **still)(images.reshape(400, -1)).reshape(images.shape)
    steps = np.array([moments(image)[:2] for image in moved]) - before
    np.testing.assert_allclose(steps.std(axis=0), 1.0, atol=0.12)
    turned = RandomImageTransform(SHAPE, rotation=0.2, scaling=0, shear=0, translation=0)(images.reshape(400, -1))
    np.testing.assert_allclose(turned.sum(axis=1), images.sum(axis=(1, 2)), rtol=0.02)  # a turn keeps the mass


def test_random_motions_keep_what_is_not_to_move_and_repeat_themselves():
    X = blobs(5).reshape(5, -1)
    nothing = RandomImageTransform(SHAPE, rotation=0, scaling=0, shear=0, translation=0)
    np.testing.assert_allclose(nothing(X), X, atol=1e-8)
    np.testing.assert_array_equal(RandomImageTransform(SHAPE)(X), RandomImageTransform(SHAPE)(X))
    assert np.abs(RandomImageTransform(SHAPE)(X) - RandomImageTransform(SHAPE, random_state=1)(X)).max() > 0.1
    bent = RandomImageTransform(SHAPE, rotation=0, scaling=0, shear=0, translation=0, bending=1.0)(X)
    assert 0.01 < np.abs(bent - X).mean() < 0.2


test_bad_input_is_refused_by_name = refused(
    (lambda: RandomImageTransform((20,)), "rows, columns"),
    (lambda: RandomImageTransform(SHAPE, shear=-1), "shear"),
    (lambda: RandomImageTransform(SHAPE, width=0), "width"),
    (lambda: RandomImageTransform(SHAPE)(np.zeros((2, 5))), "5 features"),
    (lambda: Deskew(SHAPE).fit(np.zeros((2, 5))), "5 features"),
    (lambda: Deskew((1, 5)).fit(np.zeros((2, 5))), "rows, columns"),
    (lambda: Blur(SHAPE, width=-1).fit_transform(np.zeros((2, 320))), "width"),
    (lambda: Blur(SHAPE).fit(np.full((2, 320), np.nan)), "NaN"),
    (lambda: Blur(SHAPE).fit(np.zeros((2, 320))).transform(np.zeros((2, 3))), "320"),
)


def test_a_pipeline_of_upright_smooth_images_with_moved_copies_learns_a_class_of_slants():
    rng = np.random.default_rng(3)
    bars = np.zeros((2, *SHAPE))
    bars[0, 4:16, 7:9] = 1.0
    bars[1, 4:16, 5:11] = 1.0  # thicker
    y = np.arange(60) % 2
    X = RandomImageTransform(SHAPE, shear=0.3, random_state=9)(bars[y].reshape(60, -1)) + 0.01 * rng.standard_normal(
        (60, 320)
    )
    motions = [RandomImageTransform(SHAPE, random_state=k) for k in range(3)]
    svc = rkhs.VirtualSampleSVC(motions, loss="squared", solver=rkhs.SolverOptions(device="cpu", precision="float64"))
    model = make_pipeline(Deskew(SHAPE), Blur(SHAPE), svc)
    assert clone(model).fit(X[:10], y[:10]).score(X[10:], y[10:]) >= 0.95
    assert len(model[:-1].fit(X).get_feature_names_out()) == 320
