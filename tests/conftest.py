"""Gaps that are known: tests that say what must hold and does not yet, each listed in `known_gaps.txt`."""

import os
from pathlib import Path

import pytest

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # before SciPy is imported: scikit-learn's dispatch to tensors needs it

GAPS = [
    line
    for line in (Path(__file__).parent / "known_gaps.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid.startswith(tuple(GAPS)):
            item.add_marker(pytest.mark.xfail(reason="a known gap, see tests/known_gaps.txt", strict=False))
