"""The search for settings: candidates, and the four ways to score them.

`search(candidates, scorer)` scores settings until the time limit.  The candidates may depend on the scores of earlier
ones.  A scorer maps settings to scored candidates, one for each of several values that share their work:

leave-one-out  `LeaveOneOutScorer`: exact predictions of every label from all others, by the squared loss
folds          `FoldScorer`: models without some of the labels, all solved together (`Problem.grid`)
evidence       `EvidenceScorer`: the marginal likelihood, maximized over everything that is open
held-out rows  `row_losses`: losses at rows that were not learned from

`paired_test` decides whether a candidate is better than another one by more than chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from scipy.stats import rankdata

from rkhs._core.backend.arrays import Vector, to_numpy
from rkhs._core.backend.memory import map_in_threads
from rkhs._core.finite.monitor import Monitor, Stopped
from rkhs._core.finite.solution import CONVERGED
from rkhs.losses import Loss


@dataclass(frozen=True, eq=False)
class Candidate:
    """Settings with their scores.

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
        Similar candidates, the best of which is part of a combination.
    error : float, default=inf
        The share of wrong classes, or the root mean squared error.
    values : object, optional
        Held-out predictions, or whatever the scorer wants to keep.
    problem : Problem, optional
        The problem with its tuned hyperparameters.

    Examples
    --------
    >>> from rkhs.extend import Candidate
    >>> Candidate({"C": 10.0}, loss=0.2, scores=np.array([-0.2])).params
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

    def with_errors(self, ratio: float, regression: bool) -> Candidate:
        """Return the candidate with `ratio` times the squared error, and the error and score that belong to it."""
        loss, error = ratio * self.loss, self.error * ratio**0.5 if regression else min(ratio * self.error, 1.0)
        return replace(self, loss=loss, error=error, scores=np.array([-loss if regression else 1 - error]))


def search(
    candidates: Iterable[Any] | Callable[[list[Candidate]], Iterator[Sequence[Any]]],
    scorer: Callable[[Any], list[Candidate]],
    monitor: Monitor | None = None,
) -> tuple[list[Candidate], str]:
    """Score candidates until the time limit; return all that were scored, and the status.

    The candidates are settings, which are scored one after the other, or a function that maps the list of scored
    candidates, which grows during the search, to batches of settings, each of which is scored on all cores.

    Parameters
    ----------
    candidates : iterable or callable
        The settings, or the function.
    scorer : callable
        It maps settings to a list of scored candidates, one for each of several values that share their work.
    monitor : Monitor, optional
        What keeps the time limit and shows progress.

    Returns
    -------
    found : list of Candidate
        All that were scored.
    status : str
        "converged", or why a candidate or the search was stopped.

    Examples
    --------
    >>> from rkhs.extend import Candidate, best_of, search
    >>> def scorer(C):
    ...     return [Candidate({"C": C}, loss=abs(C - 2), scores=np.array([-abs(C - 2)]))]
    >>> best_of(search([0.1, 1.0, 10.0], scorer)[0]).params
    {'C': 1.0}
    """
    found: list[Candidate] = []
    batches = candidates(found) if callable(candidates) else ([settings] for settings in candidates)
    try:
        for batch in batches:
            for scored in map_in_threads(scorer, batch) if len(batch) > 1 else map(scorer, batch):
                found += scored
                if monitor is not None:
                    monitor.report(None, min(candidate.loss for candidate in found), inf)
    except Stopped as stop:
        if monitor is None:
            raise
        return found, str(stop)
    finally:
        if monitor is not None:
            monitor.close()
    return found, next((one.status for one in reversed(found) if one.status != CONVERGED), CONVERGED)


def best_of(found: Sequence[Candidate]) -> Candidate:
    """Return the candidate with the smallest loss; equal ones, to rounding, are decided by `tie`.

    Parameters
    ----------
    found : sequence of Candidate
        The scored candidates.

    Returns
    -------
    Candidate
        The best one.

    Examples
    --------
    >>> from rkhs.extend import Candidate, best_of
    >>> found = [Candidate({"C": C}, loss=loss, scores=np.array([-loss])) for C, loss in ((1.0, 0.3), (10.0, 0.1))]
    >>> best_of(found).params
    {'C': 10.0}
    """
    least = min(candidate.loss for candidate in found)
    tied = [candidate for candidate in found if candidate.loss <= least + 1e-12 * max(abs(least), 1.0)]
    return min(tied, key=lambda candidate: candidate.tie)


def cv_results(found: Sequence[Candidate], seconds: float, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Return `cv_results_` in the form of scikit-learn's `GridSearchCV`, with the named parameters."""
    names = list(found[0].params if names is None else names)
    params = [{name: candidate.params[name] for name in names} for candidate in found]
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
    share, fall = np.broadcast_to(weight, before.shape) / np.sum(np.broadcast_to(weight, before.shape)), before - after
    mean = float(share @ fall)
    error = float(np.sqrt(share**2 @ (fall - mean) ** 2))  # var(sum_i s_i d_i) = sum_i s_i^2 var(d_i)
    if signs and mean > 0 and float(np.mean(np.sign(fall))) * len(fall) ** 0.5 > 2.0:
        return True
    return bool(np.isfinite(mean)) and mean > max(sure * error, least * float(share @ before))


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


@dataclass(frozen=True, eq=False)
class CompactResults:
    """`cv_results_` in the form in which it is saved: parameter values shared by many candidates are stored once."""

    entries: dict[str, Any]  # numeric arrays; None for entries that are rebuilt from `params`
    params: dict[str, tuple[list[Any], Vector]]  # by name: the distinct values, and the index of each candidate's value

    @classmethod
    def of(cls, results: dict[str, Any]) -> CompactResults:
        params = results["params"]
        entries = {
            name: None if value is params or (name.startswith("param_") and value.dtype.kind == "O") else value
            for name, value in results.items()
        }
        factorized = {}
        for name in params[0]:
            values = [candidate[name] for candidate in params]
            keys = [(type(v), repr(v)) if isinstance(v, str | float | int | tuple) else id(v) for v in values]
            distinct = dict(zip(keys, values, strict=True))
            index = {key: k for k, key in enumerate(distinct)}
            factorized[name] = list(distinct.values()), np.array([index[key] for key in keys], dtype=np.int32)
        return cls(entries, factorized)

    def expanded(self) -> dict[str, Any]:
        """Return the results in their original form."""
        values = {name: [distinct[k] for k in codes] for name, (distinct, codes) in self.params.items()}
        params = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
        objects = {f"param_{name}": masked_objects(column) for name, column in values.items()}
        return {name: objects.get(name, params) if value is None else value for name, value in self.entries.items()}


def masked_objects(values: Sequence[Any]) -> Any:
    """Return a masked array (t,) of objects, without making axes of tuples."""
    data = np.empty(len(values), dtype=object)
    for k, value in enumerate(values):
        data[k] = value
    return np.ma.masked_array(data, mask=False)
