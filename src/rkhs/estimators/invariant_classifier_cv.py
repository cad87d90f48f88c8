"""InvSVM with its weights chosen by cross-validation."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from rkhs._backend.arrays import Vector
from rkhs.estimators.atomic import all_or_nothing
from rkhs.estimators.classifier import Classifier
from rkhs.estimators.cross_validated import CrossValidated
from rkhs.estimators.invariant_classifier import InvariantClassifier
from rkhs.estimators.sample import Sample
from rkhs.stopping import granted


class InvariantClassifierCV(CrossValidated, Classifier):
    """`InvariantClassifier` with settings, and the use of unlabelled points, chosen from the data.

    By default (``invariance="auto"``) the kernel, length scales, C, and whether and how the graph of nearest neighbours
    helps are chosen by exact leave-one-out errors of the squared loss: each label is predicted from all others, its
    point staying in, unlabelled.  Features are taken as they are or divided by their standard deviations, whichever
    predicts better.  What else may be known comes in where it lowers the errors, label by label, by a standard error
    and a twentieth: distances of the first principal components or of decorrelated features, both found from all
    points; a scale for each feature, learnt by evidence (``metric="auto"``); the graph.  `knowledge_report_` says what
    each gained.  Of three classes or more, some may lie between others, where the largest score is a poor guide: where
    it has fewer errors, a linear discriminant of left-out scores tells classes (`discriminant_`, otherwise None).

    With any other `invariance` C and nu are those of the best held-out accuracy: the labelled points are split into
    stratified folds, and the labels of one fold are left out at a time.  The grid shares its work over folds, C, nu and
    classes.  Among candidates of equal accuracy, of which there are many with few labels, the one with the least loss
    of held-out labels is taken.

    Parameters
    ----------
    kernel : "auto", the Gaussian or the Laplace kernel, or as in `InvariantClassifier`
    Cs : the values of C, or how many: from 0.1 to 1e8 for invariance="auto" (10 by default), otherwise from 1 to 1000
        (4)
    nus : the values of nu, or how many: 0 and numbers between 100 and 1e8 for "auto" (6 in all by default) and for
        graphs; otherwise 0 and numbers between 1 and 100 (4 in all).  They mean the same on every data set
    scales : the length scales to try for a kernel given by name; numbers, one per feature, or "median": for
        invariance="auto" 1/4, 1/2, 1, 2 and 4 times the median distance
    metric : for invariance="auto", whether scales are also learnt, one per feature: "auto" or None
    epsilons : the widths to try for losses that are given by name and have one
    loss : as in `InvariantClassifier`; "auto" chooses by the squared loss, and learns with this one
    invariance : "auto", or as in `InvariantClassifier`
    invariance_loss, fit_intercept, class_weight, class_prior, unlabeled, solver, tol, verbose :
        as in `InvariantClassifier`
    approximation : as in `InvariantClassifier`, of rows in memory: they are summed up once for each scale and epsilon,
        and the grid combines and solves p x p matrices
    cv : the number of folds (no more than the smallest class has points), a splitter of scikit-learn for the
        labelled points, or pairs of indices (train, test) of rows of X
    random_state : the seed of the folds, 0 if None
    cv_tol : the relative duality gap to which the models of the grid are solved
    time_limit : seconds for the whole fit, or None.  The search ends after about six tenths of it with the best of
        what was tried, and the model has fewer functions where all would take too long; warnings tell of both
    device, precision : as in `InvariantClassifier`: where, and how exactly, folds, cells of the grid and the model are
        computed; what "auto" judges candidates by is computed on the processor

    Attributes
    ----------
    C_, nu_, scale_, epsilon_ : the best values, together in `best_params_`, with the kernel
    feature_importances_ : shares of the features in the mean squared slope of f, in units of their deviations
    knowledge_report_ : for "auto": a "sentence" in plain words, what was "chosen", and the best of the "candidates" of
        each kind of knowledge: "none", "measure" (of distances), "scales" (learnt), "graph"
    best_score_, best_index_, cv_results_ : as in scikit-learn's `GridSearchCV`; candidates that were not solved to
        `cv_tol` have NaN as their scores and are not chosen
    search_status_ : "converged" if all candidates were solved; otherwise what kept them from it
    function_, solution_, problem_, classes_, labelled_ : of the model with the best values, trained on all labels

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.25, random_state=0)
    >>> few = np.where(np.arange(200) < 20, y, -1)
    >>> model = rkhs.InvariantClassifierCV().fit(X, few)
    >>> print(model.knowledge_report_["sentence"])
    Unlabelled rows helped: 5.0 % errors instead of 10.0 %.

    Prior knowledge of one's own, with C and nu by folds; with an approximation the rows are looked at once:

    >>> own = {"invariance": "gradient", "Cs": [1, 10], "nus": [0, 1], "cv": 3}
    >>> search = rkhs.InvariantClassifierCV(**own).fit(X, few)
    >>> len(search.cv_results_["params"]), sorted(search.best_params_)
    (4, ['C', 'nu'])
    >>> near = rkhs.InvariantClassifierCV(**own, approximation=rkhs.Landmarks(30)).fit(X, y)
    >>> near.solution_.span
    'Landmarks: 30 functions'
    """

    plain = InvariantClassifier

    def __init__(
        self,
        kernel: Any = "auto",
        *,
        Cs: Any = None,
        nus: Any = None,
        scales: Any = "median",
        metric: Any = "auto",
        epsilons: Any = 0.1,
        loss: Any = "squared",
        invariance: Any = "auto",
        invariance_loss: Any = "squared",
        fit_intercept: bool = True,
        class_weight: Any = None,
        class_prior: Any = None,
        unlabeled: Any = -1,
        approximation: Any = None,
        cv: Any = 5,
        solver: Any = "auto",
        tol: float = 1e-4,
        cv_tol: float = 1e-2,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
        device: str | None = None,
        precision: str | None = None,
    ) -> None:
        self.kernel = kernel
        self.Cs = Cs
        self.nus = nus
        self.scales = scales
        self.metric = metric
        self.epsilons = epsilons
        self.loss = loss
        self.invariance = invariance
        self.invariance_loss = invariance_loss
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.class_prior = class_prior
        self.unlabeled = unlabeled
        self.approximation = approximation
        self.cv = cv
        self.solver = solver
        self.tol = tol
        self.cv_tol = cv_tol
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose
        self.device = device
        self.precision = precision

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> InvariantClassifierCV:
        """Choose C and nu, and learn f with them from points X (t, n) and their classes y."""
        self._check_rows(X)
        sample = self._sample(X, y, sample_weight)
        self._remember(sample)
        if self._automatic:
            problem = self._choose_knowledge(sample)
            with granted(self._last):
                self._learn(problem, sample)
            return self
        self.discriminant_ = None
        machine = self._choose(sample, StratifiedKFold, accuracy)
        if self.approximation is None:
            self._learn(self._problem_of(machine, sample), sample)
        else:
            self._adopt(machine.fit(X, y, sample_weight))
        return self


def accuracy(values: Vector, sample: Sample) -> float:
    """The share of points, by weight, whose class is predicted."""
    predicted = (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)
    return float(np.average(predicted == sample.y, weights=sample.weight))
