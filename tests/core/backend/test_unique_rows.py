"""Distinct rows: as NumPy finds them, and with Ctrl-C wherever it comes."""

import sys

import numpy as np
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from rkhs._core.backend.arrays import row_keys
from rkhs.extend import unique_rows


@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=2), elements=st.sampled_from([-1.0, -0.0, 0.0, 0.5, 7.0])))
def test_the_same_as_numpy(rows):
    expected = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    for ours, theirs in zip(unique_rows(rows), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs.reshape(ours.shape))


def test_rows_without_columns_or_without_rows():
    assert [len(part) for part in unique_rows(np.zeros((3, 0)))] == [1, 1, 3]
    assert [len(part) for part in unique_rows(np.zeros((0, 2)))] == [0, 0, 0]


def test_an_interrupt_stays_an_interrupt():
    """Raise KeyboardInterrupt at each line in turn; NumPy's own function turns some of them into a TypeError."""
    rows = np.random.default_rng(0).integers(0, 3, (20, 2)).astype(float)
    moment = finished = 0
    while not finished:
        moment, events = moment + 1, 0

        def trace(*_, moment=moment):
            nonlocal events
            events += 1
            if events == moment:
                raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            unique_rows(rows)
            finished = moment
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
    assert finished > 10


def test_keys_tell_rows_apart():
    keys = row_keys(np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [np.nextafter(1.0, 2), 2.0]]))
    assert keys[0] == keys[2]
    assert len(np.unique(keys)) == 3
    assert len(np.unique(row_keys(np.arange(20000.0).reshape(-1, 2)))) == 10000
