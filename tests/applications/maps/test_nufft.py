"""Non-uniform Fourier transforms: against sums over all pairs, adjoint to each other, in either package."""

import numpy as np
import pytest

import rkhs
from rkhs.maps import _nufft as nufft

SHAPES = [(1,), (41,), (7, 11), (9, 1), (5, 7, 9), (3, 1, 5)]


def example(shape, count=30):
    rng = np.random.default_rng(len(shape))
    phases = np.ascontiguousarray(rng.uniform(-10, 10, size=(count, len(shape))))  # more than one period
    values, coefficients = (rng.normal(size=(2, *s)) for s in ((count,), shape))
    return phases, values[0] + 1j * values[1], coefficients[0] + 1j * coefficients[1]


def waves(phases, shape):
    """The matrix exp(i <j, x>) of all points and frequencies."""
    axes = [np.arange(n) - n // 2 for n in shape]
    j = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(shape))
    return np.exp(1j * phases @ j.T)


@pytest.mark.parametrize("error", [1e-12, 1e-6, 0.0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_over_all_pairs(shape, error):
    phases, values, coefficients = example(shape)
    W, allowed = waves(phases, shape), 10 * max(error, 1e-13)
    expected = W @ coefficients.reshape(-1)
    found = nufft.to_points(coefficients, phases, error)
    assert np.abs(found - expected).max() <= allowed * np.abs(expected).max()
    expected = (W.conj().T @ values).reshape(shape)
    found = nufft.to_modes(values, phases, shape, error)
    assert found.shape == shape
    assert np.abs(found - expected).max() <= allowed * np.abs(expected).max()


def test_other_inputs():
    """Real values, arrays in other layouts, and no points at all."""
    phases, values, coefficients = example((7, 11))
    np.testing.assert_allclose(
        nufft.to_modes(values.real, phases, (7, 11), 1e-12),
        (waves(phases, (7, 11)).conj().T @ values.real).reshape(7, 11),
        atol=1e-10,
    )
    transposed = np.asfortranarray(coefficients)
    np.testing.assert_array_equal(
        nufft.to_points(transposed, phases, 1e-9), nufft.to_points(coefficients, phases, 1e-9)
    )
    assert nufft.to_points(coefficients, phases[:0], 1e-9).shape == (0,)
    np.testing.assert_array_equal(nufft.to_modes(values[:0], phases[:0], (7, 11), 1e-9), np.zeros((7, 11)))


@pytest.fixture
def installed(monkeypatch):
    """Make only some packages importable, for `package` alone."""
    nufft.package.cache_clear()
    yield lambda *names: monkeypatch.setattr(nufft, "find_spec", lambda name: name if name in names else None)
    nufft.package.cache_clear()


def test_the_choice_of_a_package(installed):
    installed("finufft", "ducc0")
    assert nufft.package() == "ducc0"
    nufft.package.cache_clear()
    installed("finufft")
    assert nufft.package() == "finufft"


def test_without_a_package_the_remedy_is_named(installed):
    installed()
    term = rkhs.Term(rkhs.Evaluation([[0.0], [1.0]]), rkhs.Squared(), [0.0, 1.0])
    problem = rkhs.Problem(rkhs.Gaussian(), [term], approximation=rkhs.FourierGrid())
    with pytest.raises(ImportError, match=r"ducc0 or finufft.*pip install 'rkhs\[maps\]'"):
        problem.solve()
    with pytest.raises(ImportError, match="pip install"):
        nufft.to_points(np.ones(3), np.zeros((1, 1)), 1e-9)


@pytest.mark.parametrize("shape", [(41,), (7, 11), (5, 7, 9)], ids=str)
def test_calls_of_finufft(shape, installed, monkeypatch):
    """Without finufft here: a module that sums over all pairs, with its conventions, in its place."""
    import sys
    from types import ModuleType

    stand_in = ModuleType("finufft")

    def transform(kind, d):
        def second(*arguments, isign, eps):
            *columns, coefficients = arguments
            phases = checked(columns)
            return waves(isign * phases, coefficients.shape) @ coefficients.reshape(-1)

        def first(*arguments, isign, eps):
            *columns, values, shape = arguments
            phases = checked(columns)
            return (waves(isign * phases, shape).T @ values).reshape(shape)

        def checked(columns):
            assert len(columns) == d
            assert all(x.flags.c_contiguous and np.abs(x).max() <= np.pi for x in columns)
            return np.stack(columns, axis=1)

        return first if kind == 1 else second

    for d in (1, 2, 3):
        for kind in (1, 2):
            setattr(stand_in, f"nufft{d}d{kind}", transform(kind, d))
    phases, values, coefficients = example(shape)
    ours = nufft.to_points(coefficients, phases, 1e-12), nufft.to_modes(values, phases, shape, 1e-12)
    monkeypatch.setitem(sys.modules, "finufft", stand_in)
    nufft.package.cache_clear()
    installed("finufft")
    theirs = nufft.to_points(coefficients, phases, 1e-12), nufft.to_modes(values, phases, shape, 1e-12)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
