"""The number of landmarks: as many as are affordable if the held-out error falls with their number."""

import numpy as np
import pytest

import rkhs
from rkhs._core.limits import with_limits
from rkhs.estimators.search import _many_labels as counting
from rkhs.extend import with_time_limit

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(size=(600, 2))


@pytest.fixture(autouse=True)
def small():
    with with_limits(landmarks=40):
        yield


def problem(target, loss=None, scale=0.1):
    term = rkhs.Term(rkhs.Evaluation(X), loss or rkhs.Squared(), target=target, weight=100.0)
    return rkhs.Problem(rkhs.Gaussian(scale), [term], rkhs.Constant())


def test_a_function_with_detail_takes_the_most_and_a_plain_one_the_fewest():
    detailed = np.sin(20 * X[:, 0]) * np.sin(20 * X[:, 1])
    assert counting.landmark_count(problem(detailed)) == 120
    assert counting.landmark_count(problem(X[:, 0] + 0.01 * RANDOM.standard_normal(600), scale=5.0)) == 40


def test_several_outputs_and_other_losses():
    detailed = np.sin(20 * X[:, :1]) * np.sin(20 * X[:, 1:])
    assert counting.landmark_count(problem(np.hstack([detailed, -detailed]))) == 120
    assert counting.landmark_count(problem(np.sign(detailed[:, 0]), rkhs.Hinge())) == 120


def test_rows_and_memory_limit_the_number(monkeypatch):
    with with_limits(landmark_work=600 * 95**2):
        assert counting.landmark_count(problem(np.sin(20 * X[:, 0]))) == 95
    monkeypatch.setattr(counting, "KEPT_BYTES", 8 * 600 * 92)
    assert counting.landmark_count(problem(np.sign(np.sin(20 * X[:, 0])), rkhs.Hinge())) == 91  # and the constant


def test_a_time_limit_allows_no_comparison():
    with with_time_limit(1e-9):
        assert counting.landmark_count(problem(X[:, 0])) == 50


@pytest.mark.slow
def test_only_labels_are_compared_if_class_proportions_are_known_too(monkeypatch):
    monkeypatch.setattr(counting, "iterates_exactly", lambda system: False)
    y = np.where(np.arange(600) < 500, np.where(X[:, 0] > 0.5, 2, 1), -1)
    prior = rkhs.ClassPrior({1: 0.5, 2: 0.5})
    with pytest.warns(UserWarning, match="landmarks for 500 labels"), with_limits(exact_labels=300):
        model = rkhs.InvariantClassifierCV(class_weight=prior, nus=[0]).fit(X, y)
    assert model.solution_.span.startswith("Landmarks")
    assert model.score(X, np.where(X[:, 0] > 0.5, 2, 1)) > 0.9
