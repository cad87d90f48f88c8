"""scikit-learn's contract, to the letter: every check for every estimator, none of them expected to fail."""

from functools import partial

import pytest
from sklearn.utils.estimator_checks import (
    check_classifiers_classes,
    estimator_checks_generator,
    parametrize_with_checks,
)

import rkhs

# As in scikit-learn's own suite: whether a solver reaches its tolerance on every odd data set is another matter.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

GRAPH = rkhs.invariances.Graph(n_neighbors=2)
# Every y of scikit-learn's checks is a label, -1 included: that is what unlabeled=None says.  What takes longest is
# checked once: learned scales with values, the hinge loss with InvariantClassifier.
ALL = [
    rkhs.InvariantClassifier(unlabeled=None),
    rkhs.InvariantRegressor(),
    rkhs.InvariantClassifierCV("gaussian", Cs=[1, 10], nus=[0, 0.1], scales="median", unlabeled=None),
    rkhs.InvariantRegressorCV(Cs=[1, 10], nus=[0, 0.1]),
    rkhs.ThinPlateClassifier(),
    rkhs.ThinPlateRegressor(),
    rkhs.InvariantClassifier(loss="squared", invariance=GRAPH, C=100.0, nu=1000.0, unlabeled=None),
    rkhs.VirtualSampleSVC(loss="squared"),
]
# y = -1 is no label: scikit-learn spares its own semi-supervised classifiers such labels, by their names.
SEMI_SUPERVISED = [rkhs.InvariantClassifier(), rkhs.InvariantClassifier(invariance="graph", C=100.0, nu=1000.0)]


@parametrize_with_checks(ALL)
def test_contract(estimator, check):
    check(estimator)


def _once_more():
    """In `make test` checks of classes for one of them: both share what y = -1 means; the rest is as above."""
    for one in SEMI_SUPERVISED:
        for _, check in estimator_checks_generator(one, legacy=True):
            alike = one.invariance == "graph" or "class" not in check.func.__name__
            marks = pytest.mark.slow if alike else ()
            yield pytest.param(one, check, id=f"{one.invariance}-{check.func.__name__}", marks=marks)


@pytest.mark.parametrize(("estimator", "check"), list(_once_more()))
def test_contract_with_unlabeled_points(estimator, check):
    if check.func is check_classifiers_classes:
        check = partial(check_classifiers_classes, "LabelSpreading")
    check(estimator)
