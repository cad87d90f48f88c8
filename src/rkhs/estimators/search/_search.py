"""The search for settings: trials, their outcomes, and the choice.

    Trial     what a model would be: a kernel, its length scale, values of C, a loss
    Outcome   what a scorer found: predictions of left-out rows, their loss and error, the settings
    Family    a function (scorer, outcomes so far) -> batches of trials, such as kernels of graphs
    scorer    a function trial -> outcomes, one for each of several values that share their work
    choose    the driver: it asks each family for trials, scores them until the time limit, and lets a rule decide

There are three ways to score: leaving out labels (`LeaveOneOutScorer`, exact for the squared loss), rows that were not
learned from (`FoldScorer`, `HeldOutScorer`), and the marginal likelihood (`EvidenceScorer`), maximized over everything
that is open.  `paired_test` decides whether an outcome is better than another one by more than chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from scipy.stats import rankdata

from rkhs._core.backend.arrays import Matrix, Vector, to_numpy
from rkhs._core.backend.memory import map_in_threads
from rkhs._core.finite.monitor import Monitor, Stopped
from rkhs._core.finite.solution import CONVERGED
from rkhs.losses import Loss

PRIORS = {  # kinds of families, in the order in which they are reported
    "none": "none",
    "additive": "a sum of functions of one column each",
    "features": "distances from the covariance of all rows",
    "trend": "a linear trend",
    "scales": "a length scale for each column",
    "graph": "neighboring rows have similar targets",
    "clusters": "rows of one cluster share a class",
    "sum": "a weighted sum of the kernels that errors cannot tell apart",
    "clipped": "columns with heavy tails are clipped",
    "margin": "a large margin, by the hinge loss",
}
KINDS = tuple(PRIORS)
OF_ALL_POINTS = ("features", "graph", "clusters")  # kinds of kernels that are computed from the unlabeled points too


@dataclass(frozen=True, eq=False)
class Trial:
    """What a model would be.

    Parameters
    ----------
    kernel : str or Kernel
        The kernel.
    scale : float, tuple or str, default=1.0
        Its length scale, or one for each feature, if it is given by name.
    kind : str, default="none"
        The kind of prior, for the report.
    Cs : sequence of float, optional
        The values of C to try; by default all of the search.
    family : object, optional
        Similar trials, the best of which is part of a weighted sum.
    loss : str or Loss, optional
        The loss by which the model would be learned, if it is not that of the search.
    matrix : ndarray of shape (l, l), optional
        The kernel matrix of the labeled points, if it is known.
    features : object, optional
        The feature map of the kernel, with which graphs are tried too.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.extend.Trial(rkhs.kernels.Polynomial(2), kind="polynomial").scale
    1.0
    """

    kernel: Any
    scale: Any = 1.0
    kind: str = "none"
    Cs: Sequence[float] | None = None
    family: Any = None
    loss: Any = None
    matrix: Matrix | None = None
    features: Any = None

    @classmethod
    def of(cls, outcome: Outcome, *Cs: float) -> Trial:
        """Return the kernel of an outcome with some values of C, by default its own."""
        kernel, scale, C = (outcome.params[name] for name in ("kernel", "scale", "C"))
        return cls(kernel, scale, outcome.kind, Cs=Cs or (C,), family=outcome.family)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a scorer found out about settings.

    Parameters
    ----------
    params : dict
        The settings, by the names of the estimator's parameters.
    loss : float
        What the search minimizes; infinity if it could not be computed.
    scores : ndarray of shape (folds,)
        Scores, of which larger ones are better.
    status : str, default="converged"
        That of the solutions.
    tie : float, default=0.0
        A second loss, which decides between equal ones.
    kind : str, default="none"
        The kind of prior: "none", "slopes", "shape", "graph", ..
    family : object, optional
        Similar settings, the best of which is part of a weighted sum.
    error : float, default=inf
        The share of wrong classes, or the root mean squared error.
    values : object, optional
        Predictions of left-out rows, or whatever the scorer wants to keep.
    problem : Problem, optional
        The problem with its tuned hyperparameters.
    features : object, optional
        The feature map of the kernel.
    parts : sequence of pairs of float and Outcome, default=()
        The summands of a weighted sum, with their weights.
    accepted : bool, default=True
        Whether it may be chosen: False if it was compared with a simpler one and is not clearly better.

    Examples
    --------
    >>> from rkhs.extend import Outcome
    >>> Outcome({"C": 10.0}, loss=0.2, scores=np.array([-0.2])).params
    {'C': 10.0}
    """

    params: Mapping[str, Any]
    loss: float
    scores: Vector
    status: str = CONVERGED
    tie: float = 0.0
    kind: str = "none"
    family: Any = None
    error: float = inf
    values: Any = None
    problem: Any = None
    features: Any = None
    parts: Sequence[tuple[float, Outcome]] = ()
    accepted: bool = True

    @property
    def summands(self) -> Sequence[tuple[float, Outcome]]:
        """The kernels whose sum it is, with their weights: itself if it is no sum."""
        return self.parts or [(1.0, self)]

    def with_errors(self, ratio: float, regression: bool) -> Outcome:
        """Return the outcome with `ratio` times the squared error, and the error and score that belong to it."""
        loss, error = ratio * self.loss, self.error * ratio**0.5 if regression else min(ratio * self.error, 1.0)
        return replace(self, loss=loss, error=error, scores=np.array([-loss if regression else 1 - error]))


Family = Callable[[Any, list[Outcome]], Iterable[Sequence[Any]]]
Scorer = Callable[[Any], list[Outcome]]


@dataclass(frozen=True, eq=False)
class Choice:
    """The result of a search.

    Parameters
    ----------
    found : list of Outcome
        All outcomes.
    status : str
        "converged", or why a trial or the search was stopped.
    decide : callable, optional
        The rule that maps the outcomes to one of them; by default `best_of`.

    Examples
    --------
    >>> from rkhs.extend import Choice, Outcome
    >>> Choice([Outcome({"C": 1.0}, loss=0.3, scores=np.array([-0.3]))]).best.params
    {'C': 1.0}
    """

    found: list[Outcome]
    status: str = CONVERGED
    decide: Callable[[Sequence[Outcome]], Outcome] | None = None

    @cached_property
    def best(self) -> Outcome:
        """The outcome that is chosen."""
        return (self.decide or best_of)(self.found)


def choose(
    families: Iterable[Family],
    scorer: Scorer,
    decide: Callable[[Sequence[Outcome]], Outcome] | None = None,
    monitor: Monitor | None = None,
) -> Choice:
    """Score the trials of families, one family after the other, until the time limit.

    Parameters
    ----------
    families : iterable of callable
        Functions that map the scorer and the list of outcomes, which grows during the search, to batches of trials.
        The trials of a batch are scored on all cores.
    scorer : callable
        A function that maps a trial to a list of outcomes, one for each of several values that share their work.
    decide : callable, optional
        The rule that maps outcomes to the best one; by default `best_of`.
    monitor : Monitor, optional
        What keeps the time limit and shows progress.

    Returns
    -------
    Choice
        All outcomes, the best one and the status.

    Examples
    --------
    >>> from rkhs.extend import Outcome, choose
    >>> def scorer(C):
    ...     return [Outcome({"C": C}, loss=abs(C - 2), scores=np.array([-abs(C - 2)]))]
    >>> choose([lambda scorer, found: [[0.1, 1.0, 10.0]]], scorer).best.params
    {'C': 1.0}
    """
    found: list[Outcome] = []
    try:
        for family in families:
            for batch in family(scorer, found):
                for scored in map_in_threads(scorer, batch) if len(batch) > 1 else map(scorer, batch):
                    found += scored
                    if monitor is not None:
                        monitor.report(None, min(one.loss for one in found), inf)
    except Stopped as stop:
        if monitor is None:
            raise
        return Choice(found, str(stop), decide)
    finally:
        if monitor is not None:
            monitor.close()
    return Choice(found, next((one.status for one in reversed(found) if one.status != CONVERGED), CONVERGED), decide)


def best_of(found: Sequence[Outcome]) -> Outcome:
    """Return the outcome with the smallest loss; equal ones, to rounding, are decided by `tie`.

    Parameters
    ----------
    found : sequence of Outcome
        The outcomes.

    Returns
    -------
    Outcome
        The best one.

    Examples
    --------
    >>> from rkhs.extend import Outcome, best_of
    >>> found = [Outcome({"C": C}, loss=loss, scores=np.array([-loss])) for C, loss in ((1.0, 0.3), (10.0, 0.1))]
    >>> best_of(found).params
    {'C': 10.0}
    """
    least = min(candidate.loss for candidate in found)
    tied = [candidate for candidate in found if candidate.loss <= least + 1e-12 * max(abs(least), 1.0)]
    return min(tied, key=lambda candidate: candidate.tie)


def report(sentence: str, best: Outcome, columns: Any, found: Sequence[Outcome], known: Any) -> dict[str, Any]:
    """Return `selection_report_`: a sentence, what is `known` of each outcome, the chosen one, and its summands.

    `columns` are the meanings of what is known and compared, the criterion last.  The chosen outcome is the first one
    of the kind of the best.
    """
    kinds = [one.kind for one in found]
    rows = [{"prior": one.kind, "name": PRIORS.get(one.kind, one.kind), **known(one), **one.params} for one in found]
    for k, row in enumerate(rows):
        row["chosen"] = k == (kinds.index(best.kind) if best.kind in kinds else 0)
    weights = [{"weight": w, "prior": one.kind, "error": one.error, **one.params} for w, one in best.summands]
    chosen = {"prior": best.kind, "name": PRIORS.get(best.kind, best.kind), **best.params}
    about = {"sentence": sentence, "columns": columns, "candidates": rows}
    return {**about, "chosen": chosen, "score": float(best.scores[0]), "weights": weights}


def cv_results(found: Sequence[Outcome], seconds: float, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Return `cv_results_` in the form of scikit-learn's `GridSearchCV`, with the named parameters."""
    names = list(found[0].params if names is None else names)
    params = [{name: candidate.params.get(name, "squared") for name in names} for candidate in found]
    scores = np.array([candidate.scores for candidate in found])  # (candidates, folds)
    zeros = np.zeros(len(params))
    results: dict[str, Any] = {"mean_fit_time": zeros + seconds / scores.size, "std_fit_time": zeros}
    results |= {"mean_score_time": zeros, "std_score_time": zeros}
    columns = {name: [values[name] for values in params] for name in names}
    for name, values in columns.items():
        numbers = all(isinstance(value, float) for value in values)
        results[f"param_{name}"] = np.ma.masked_array(values, mask=False) if numbers else masked_objects(values)
    results["params"] = params
    results |= {f"split{k}_test_score": column for k, column in enumerate(scores.T)}
    results |= {"mean_test_score": scores.mean(axis=1), "std_test_score": scores.std(axis=1)}
    ranks = rankdata([candidate.loss for candidate in found], method="min")
    return results | {"rank_test_score": ranks.astype(np.int32)}


def paired_test(
    before: Vector, after: Vector, weight: Any = 1.0, *, sure: float = 1.0, least: float = 0.05, signs: bool = False
) -> bool:
    """Return whether the mean of losses (l,) falls by more than `sure` standard errors and by the share `least`.

    The second condition is for models that are nearly equal, whose small difference may be significant.  With `signs`
    it suffices that the mean falls and the number of losses that fall exceeds the number that rise by two standard
    deviations of a fair coin, which matters if few losses dominate the mean.

    Parameters
    ----------
    before, after : ndarray of shape (l,)
        The losses of two models at the same rows.
    weight : float or ndarray of shape (l,), default=1.0
        The weights of the rows.
    sure : float, default=1.0
        The number of standard errors.
    least : float, default=0.05
        The share of the mean of `before`.
    signs : bool, default=False
        Whether signs suffice.

    Returns
    -------
    bool
        Whether the second model is better by more than chance.

    Examples
    --------
    >>> from rkhs.extend import paired_test
    >>> before = np.array([1.0, 0.9, 1.2, 0.8])
    >>> paired_test(before, before - 0.3), paired_test(before, before + np.array([0.5, -0.5, 0.4, -0.5]))
    (True, False)
    """
    fall, weight = before - after, np.broadcast_to(weight, before.shape)
    mean, error = mean_and_error(fall, weight)
    if signs and mean > 0 and float(np.mean(np.sign(fall))) * len(fall) ** 0.5 > 2.0:
        return True
    return bool(np.isfinite(mean)) and mean > max(sure * error, least * float(np.average(before, weights=weight)))


def mean_and_error(losses: Vector, weight: Vector) -> tuple[float, float]:
    """Return the weighted mean of independent losses (l,), and its standard error."""
    share = weight / np.sum(weight)
    mean = float(share @ losses)
    # var(sum_i s_i d_i) = sum_i s_i^2 var(d_i)
    return mean, float(np.sqrt(share**2 @ (losses - mean) ** 2))


def row_losses(loss: Loss, values: Any, target: Any) -> Vector:
    """Return the losses of values at rows, summed over outputs.

    Parameters
    ----------
    loss : Loss
        The loss.
    values, target : array of shape (t,) or (t, outputs)
        The predicted values and their targets.

    Returns
    -------
    ndarray of shape (t,)
        The losses.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.extend.row_losses(rkhs.Squared(), np.array([[1.0, 0.0], [2.0, 1.0]]), np.zeros((2, 2)))
    array([1., 5.])
    """
    return to_numpy(loss.value(values, target)).reshape(len(values), -1).sum(axis=1)


def masked_objects(values: Sequence[Any]) -> Any:
    """Return a masked array (t,) of objects, without making axes of tuples."""
    data = np.empty(len(values), dtype=object)
    for k, value in enumerate(values):
        data[k] = value
    return np.ma.masked_array(data, mask=False)
