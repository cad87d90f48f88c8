"""How many draws the printed table has: the functions on cases that are known, and the figures that pages state."""

from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_ind

from papers.experiment import errors_by_draw, finished_records
from papers.printed_deviations import (
    MODELS,
    PRINTED,
    ROWS,
    attainable,
    attainable_cells,
    log_likelihood,
    p_of_printed,
    p_within_printed,
    printed_error,
    simulated_cells,
    variance_ratios,
)

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "measurements" / "papers"


@pytest.fixture(scope="module")
def table1():
    return finished_records(RESULTS, "table1")


@pytest.mark.parametrize("draws", [2, 3, 4])
def test_attainable_means_and_deviations_are_those_of_an_enumeration(draws):
    counts = np.array(list(combinations_with_replacement(range(18), draws)))
    errors = 100 * counts / 23
    pairs = zip(errors.mean(axis=1), errors.std(axis=1, ddof=1), strict=True)
    found = {(round(mean, 1 + (mean < 10)), round(deviation, 1 + (deviation < 10))) for mean, deviation in pairs}
    inner = sorted(pair for pair in found if pair[0] < 40 and 0 < pair[1] < 20)
    assert len(inner) > 40
    assert all(attainable(mean, deviation, 23, draws) for mean, deviation in inner)
    others = [(mean, round(deviation + 0.11, 2)) for mean, deviation in inner if deviation < 9]
    assert any((mean, deviation) not in found for mean, deviation in others)
    for pair in others:
        assert attainable(*pair, 23, draws) == (pair in found)


def test_printed_cells_are_those_of_three_counts():
    assert {name: attainable_cells(name, rows) for name, rows in ROWS.items()} == {
        "heart": 4,
        "bci": 9,
        "bupa": 7,
        "ionosphere": 5,
        "sonar": 5,
    }
    assert attainable_cells("bupa", 245) == 1
    assert sum(attainable_cells(name, rows, draws=2) for name, rows in ROWS.items()) == 1


def test_simulated_cells_tell_three_draws_from_ten():
    assert np.all(simulated_cells(3, repetitions=3) == 9 * len(ROWS))
    assert simulated_cells(10, repetitions=10).max() < 15


@pytest.mark.slow
def test_variances_fit_three_draws(table1):
    ratios = variance_ratios(table1)
    assert len(ratios) == 81
    found = {draws: log_likelihood(ratios, draws, 10) for draws in range(2, 11)}
    assert max(found, key=found.get) == 3
    assert found[3] - found[10] == pytest.approx(104.1, abs=0.1)
    for model in MODELS:
        alone = [log_likelihood(variance_ratios(table1, [model]), draws, 10) for draws in range(2, 11)]
        assert int(np.argmax(alone)) == 1  # 3 draws


def test_the_likelihood_finds_the_number_of_draws():
    rng = np.random.default_rng(0)
    ratios = rng.standard_normal((400, 5)).var(axis=1, ddof=1) / rng.standard_normal((400, 10)).var(axis=1, ddof=1)
    found = [log_likelihood(ratios, draws, 10) for draws in range(2, 11)]
    assert int(np.argmax(found)) + 2 in (4, 5, 6)


def test_t_tests_against_the_printed_cells(table1):
    errors = {
        (name, labels): list(errors_by_draw(table1, set=name, labels=labels, model="InvSVM").values())
        for name in PRINTED
        for labels in (30, 60, 90)
    }
    student = {key for key, own in errors.items() if p_of_printed(own, key[0], "InvSVM", key[1]) < 0.05}
    assert student == {("heart", 90), ("g241n", 90), ("ionosphere", 30), ("sonar", 60)}
    welch = {key for key, own in errors.items() if p_of_printed(own, key[0], "InvSVM", key[1], False) < 0.05}
    assert welch == {("ionosphere", 30)}


def test_t_tests_are_those_of_scipy_on_three_draws():
    mean, deviation = printed_error("sonar", "InvSVM", 60)
    three = mean + deviation * np.array([-1.0, 0.0, 1.0])
    ours = [20.0, 22.0, 19.0, 21.0]
    for equal in (True, False):
        expected = ttest_ind(ours, three, equal_var=equal).pvalue
        assert p_of_printed(ours, "sonar", "InvSVM", 60, equal) == pytest.approx(expected)


def test_no_printed_cell_separates_invsvm_from_svm():
    p = [p_within_printed(name, "InvSVM", "SVM", labels) for name in PRINTED for labels in (30, 60, 90)]
    assert min(p) == pytest.approx(0.065, abs=0.001)
