"""InvSVM with its weights chosen by cross-validation."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from rkhs.estimators.atomic import all_or_nothing
from rkhs.estimators.classifier import Classifier
from rkhs.estimators.cross_validated import CrossValidated
from rkhs.estimators.invariant_classifier import InvariantClassifier
from rkhs.estimators.invariant_problem import invariant_problem
from rkhs.estimators.sample import Sample, Vector


class InvariantClassifierCV(CrossValidated, Classifier):
    """`InvariantClassifier` with C and nu (scale and epsilon, if there are several) of the best held-out accuracy.

    The labelled points are split into stratified folds; the labels of one fold are left out at a time, and its
    points stay, unlabelled, as [Z] 6.2 has it.  The grid shares its work over folds, C, nu and classes.  Among
    candidates of equal accuracy, of which there are many with few labels, the one with the least loss of held-out
    labels is taken.

    Parameters
    ----------
    kernel : as in `InvariantClassifier`
    Cs : the values of C, or how many between 1 and 1000
    nus : the values of nu, or how many: 0 and numbers between 0.1 and 10
    scales : the length scales to try for a kernel given by name; numbers or "median"
    epsilons : the widths to try for losses that are given by name and have one
    loss : as in `InvariantClassifier`; "squared_hinge" by default, whose grid takes about half the time of "hinge" on
        sonar and ionosphere with 90 labels, with no larger an error
    invariance, invariance_loss, fit_intercept, class_weight, unlabeled, solver, tol, verbose :
        as in `InvariantClassifier`
    approximation : as in `InvariantClassifier`, of rows in memory: they are summed up once for each scale and epsilon,
        and the grid combines and solves p x p matrices
    cv : the number of folds (no more than the smallest class has points), a splitter of scikit-learn for the
        labelled points, or pairs of indices (train, test) of rows of X
    random_state : the seed of the folds, 0 if None
    cv_tol : the relative duality gap to which the machines of the grid are solved

    Attributes
    ----------
    C_, nu_, scale_, epsilon_ : the best values, together in `best_params_`
    best_score_, best_index_, cv_results_ : as in scikit-learn's `GridSearchCV`; candidates that were not solved to
        `cv_tol` have NaN as their scores and are not chosen
    search_status_ : "converged" if all candidates were solved; otherwise what kept them from it.  Ctrl-C ends the
        search with the candidates that are solved by then, if there are any
    function_, solution_, problem_, classes_, labelled_ : of the machine with the best values, trained on all labels

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> search = rkhs.InvariantClassifierCV(Cs=[1, 10], nus=[0, 0.1], cv=3).fit(X, np.where(np.arange(60) < 20, y, -1))
    >>> len(search.cv_results_["params"]), sorted(search.best_params_)
    (4, ['C', 'nu'])

    With an approximation the rows are looked at once:

    >>> near = rkhs.InvariantClassifierCV(Cs=[1, 10], nus=[0, 0.1], cv=3, approximation=rkhs.Landmarks(30)).fit(X, y)
    >>> near.solution_.span
    'Landmarks: 30 functions'
    """

    plain = InvariantClassifier

    def __init__(
        self,
        kernel: Any = "gaussian",
        *,
        Cs: Any = 4,
        nus: Any = 4,
        scales: Any = "median",
        epsilons: Any = 0.1,
        loss: Any = "squared_hinge",
        invariance: Any = "gradient",
        invariance_loss: Any = "squared",
        fit_intercept: bool = True,
        class_weight: Any = None,
        unlabeled: Any = -1,
        approximation: Any = None,
        cv: Any = 5,
        solver: Any = "auto",
        tol: float = 1e-4,
        cv_tol: float = 1e-2,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.Cs = Cs
        self.nus = nus
        self.scales = scales
        self.epsilons = epsilons
        self.loss = loss
        self.invariance = invariance
        self.invariance_loss = invariance_loss
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.unlabeled = unlabeled
        self.approximation = approximation
        self.cv = cv
        self.solver = solver
        self.tol = tol
        self.cv_tol = cv_tol
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> InvariantClassifierCV:
        """Choose C and nu, and learn f with them from points X (t, n) and their classes y."""
        self._check_rows(X)
        sample = self._sample(X, y, sample_weight)
        machine = self._choose(sample, StratifiedKFold, accuracy)
        if self.approximation is None:
            self._learn(invariant_problem(machine, sample), sample)
        else:
            self._adopt(machine.fit(X, y, sample_weight))
        return self


def accuracy(values: Vector, sample: Sample) -> float:
    """The share of points, by weight, whose class is predicted."""
    predicted = (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)
    return float(np.average(predicted == sample.y, weights=sample.weight))
