"""Rules of choice: their scores against models trained by hand, and what each rule prefers."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.svm import SVC

from papers import choice_rules
from papers.choice_rules import Grid, fast_svm, leave_one_out_margins, squared_residuals
from papers.experiment import errors_by_draw, finished_records
from papers.few_labels import CS
from papers.printed_deviations import printed_error

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "measurements" / "papers"
RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 2))
Y = np.where(X[:, 0] + 0.7 * RNG.standard_normal(30) > 0, 1, -1)
K = X @ X.T


@pytest.mark.parametrize("C", CS)
def test_the_fast_svm_is_that_of_scikit_learn(C):
    support, coefficients, intercept = fast_svm(K, Y, C)
    expected = SVC(C=C, kernel="precomputed", tol=1e-4).fit(K, Y).decision_function(K)
    assert np.allclose(K[:, support] @ coefficients + intercept, expected)


def test_margins_are_those_of_models_without_the_label():
    found = leave_one_out_margins(K, Y, 1.0)
    for i in range(len(Y)):
        kept = np.arange(len(Y)) != i
        model = SVC(C=1.0, kernel="precomputed", tol=1e-6).fit(K[np.ix_(kept, kept)], Y[kept])
        assert found[i] == pytest.approx(Y[i] * model.decision_function(K[i : i + 1, kept])[0], abs=2e-3)


def test_squared_residuals_are_those_of_ridge_regression_without_the_label():
    found = squared_residuals(K, Y, 0.7)
    for i in range(len(Y)):
        kept = np.arange(len(Y)) != i
        model = Ridge(alpha=1 / (2 * 0.7)).fit(X[kept], Y[kept])  # 1/2 |w|^2 + C sum r^2
        assert found[i] == pytest.approx((Y[i] - model.predict(X[i : i + 1])[0]) ** 2)


def grid_of(name, best, draw=0):
    """A draw whose scores each prefer another pair (C, nu)."""
    pairs = iter(best)

    def peak(sign):
        own = np.zeros((5, 5))
        own[next(pairs)] = sign
        return own

    return Grid((name, 30), draw, peak(-1), peak(1), peak(-1), peak(1), peak(-1), peak(-1))


def test_each_rule_has_its_score():
    grid = grid_of("heart", [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 3)])
    everything, nus = [grid], list(range(5))
    assert choice_rules.best_of_draw(grid, everything, nus) == choice_rules.best_pair(grid, everything, nus) == (0, 1)
    assert choice_rules.fold_errors(grid, everything, nus) == (1, 2)
    assert choice_rules.fold_losses(grid, everything, nus) == (2, 3)
    assert choice_rules.left_out_errors(grid, everything, nus) == (3, 4)
    assert choice_rules.left_out_losses(grid, everything, nus) == (4, 0)
    assert choice_rules.least_squares(grid, everything, nus) == (2, 3)  # nu by least squares, C by the loss of ties
    assert choice_rules.fixed_nu(2, grid, everything, nus) == (1, 2)
    for rule in (choice_rules.RULES | choice_rules.ORACLES).values():
        assert rule(grid, everything, [0])[1] == 0


def test_a_prior_on_nu_comes_from_the_other_sets():
    own = grid_of("heart", [(0, 1)] * 6)
    others = [grid_of("sonar", [(2, 3)] * 6, draw) for draw in range(2)]
    assert choice_rules.nu_of_other_sets(own, [own, *others], list(range(5)))[1] == 3
    assert choice_rules.nu_of_other_sets(others[0], [own, *others], list(range(5)))[1] == 1


def test_one_pair_has_the_smallest_mean_error_over_the_draws():
    first, second = grid_of("heart", [(0, 1)] * 6), grid_of("heart", [(2, 3)] * 6, 1)
    first.test[2, 3] = -0.9
    assert choice_rules.best_pair(first, [first, second], list(range(5))) == (2, 3)
    assert choice_rules.best_of_draw(first, [first, second], list(range(5))) == (0, 1)


@pytest.fixture(scope="module")
def grids():
    return choice_rules.read_grids(finished_records(RESULTS, "choice-rules"))


def test_the_first_rule_is_that_of_table1(grids):
    """On all draws of the committed results, with and without gradients."""
    table1 = finished_records(RESULTS, "table1")
    for model, nus in (("InvSVM", list(range(5))), ("SVM", [0])):
        found = choice_rules.errors_of(choice_rules.fold_errors, grids, nus)
        assert len(found) == 27
        for (name, labels), errors in found.items():
            expected = errors_by_draw(table1, set=name, labels=labels, model=model)
            assert errors == pytest.approx([expected[draw] for draw in range(10)], abs=1e-5)


def test_no_rule_recovers_the_step_to_the_oracle(grids):
    nus = list(range(5))
    present, oracle = (
        choice_rules.overall_mean(choice_rules.errors_of(rule, grids, nus))
        for rule in (choice_rules.fold_errors, choice_rules.best_pair)
    )
    assert (present, oracle) == pytest.approx((24.01, 22.70), abs=0.01)
    for rule in choice_rules.RULES.values():
        assert choice_rules.overall_mean(choice_rules.errors_of(rule, grids, nus)) > present - 0.1


def test_the_printed_error_on_ionosphere_is_out_of_reach(grids):
    best = choice_rules.errors_of(choice_rules.best_of_draw, grids, list(range(5)))["ionosphere", 30]
    assert np.mean(best) == pytest.approx(11.2, abs=0.1)
    assert min(map(np.mean, combinations(best, 3))) > printed_error("ionosphere", "InvSVM", 30)[0]
