"""scikit-learn's own checks on models with an approximation."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import rkhs

ALL = [
    rkhs.InvariantClassifier(unlabeled=None, loss="squared", approximation=rkhs.Landmarks(20)),
    rkhs.InvariantRegressor(approximation=rkhs.FourierFeatures(20)),
]
SEARCHES = [
    rkhs.InvariantClassifierCV(Cs=[1, 10], nus=[0, 0.1], cv=2, unlabeled=None, approximation=rkhs.Landmarks(20)),
    rkhs.InvariantRegressorCV(Cs=[1, 10], nus=[0, 0.1], cv=2, approximation=rkhs.FourierFeatures(20)),
]
WEIGHTS = "landmarks are chosen from a sample of rows, where a row given twice is two rows"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
}


def expected(estimator):
    return EXPECTED


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ALL, expected_failed_checks=expected)
def test_contract(estimator, check):
    check(estimator)


@pytest.mark.slow  # searches in `test_contract.py` and approximations above have all checks in `make test`
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(SEARCHES)
def test_contract_of_searches(estimator, check):
    check(estimator)
