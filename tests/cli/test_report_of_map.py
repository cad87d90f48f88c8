"""The report of a map, whose kernels are compared by evidence."""

import numpy as np

import rkhs
from rkhs._cli.report import candidates_table, grid_chart


def test_kernels_are_listed_by_evidence_and_no_errors_are_shown():
    X = np.random.default_rng(0).uniform(size=(100, 2))
    search = rkhs.InvariantRegressorCV().fit(X, np.sin(6 * X[:, 0]) + X[:, 1])
    page = candidates_table(search, regression=True)
    assert "logarithm of the evidence" in page
    assert page.count("Matern") >= 3
    assert page.count("<td>chosen</td>") == 1
    assert grid_chart(search, regression=True) == ""
