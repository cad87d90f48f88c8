"""The weighted sum of kernels between which few labels cannot decide.

The leave-one-out errors of fifty labels have standard errors that are larger than the differences between most
candidates, and the smallest of many such errors is chosen by chance.  Instead of picking one kernel, the best of each
family (a kernel of raw or of standardized features, of principal components, of a graph, ..) gets a weight,

    w_j ~ p_j s_j^(-m / 4),        k = sum_j w_j k_j / v_j,

with its prior share p_j, its mean squared leave-one-out error s_j and the number m of labels that are evidence.
s^(-m/2) is the likelihood of m residuals of unknown variance; its root allows for residuals that depend on each other,
since all are differences to the same labels.  Learned length scales are candidates only if they are significantly
better, which they may be by chance: half of their gain, in logarithms, counts.  v_j is the variance of the values
k_j(x_i, x_i) that a constant does not explain: an intercept is free, and the kernel of wide length scales is nearly
constant.

The sum is one kernel, so that f solves one problem with one certificate; the values of f are close to the weighted mean
of the functions that the kernels would give alone.  Kernels with less than 3 % of the largest weight are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from rkhs._core.backend.arrays import Matrix, Vector
from rkhs.estimators._data import Sample, predicted_codes
from rkhs.estimators.search._scorers import (
    BEYOND,
    LeaveOneOutScorer,
    ScoringTargets,
    folds,
    leave_one_out,
)
from rkhs.estimators.search._search import KINDS, OF_ALL_POINTS, Choice, Outcome, paired_test, report

CLUSTERS_SHARE = 0.5  # the prior share of the assumption that clusters are classes
POWER = 0.25  # of the mean squared errors, for each label
COMPARED = ("clipped", "margin")  # kinds that were compared with what was best by then
LEAST = 0.03  # of the largest weight
USUAL_C, DECADES = 10.0, 1.0  # the prior of C for classes and a kernel of variance one: its median, and its deviation
TINY = 1e-12  # squared errors that count as none
FOLDS = 10  # at most, of labels that are predicted by a discriminant of the others
_SHRUNK = {"solver": "lsqr", "shrinkage": "auto"}  # the shrinkage of Ledoit and Wolf (2004)


def members(found: Sequence[Outcome]) -> list[Outcome]:
    """Return the best outcome of each family."""
    best: dict[object, Outcome] = {}
    for one in found:
        if np.isfinite(one.loss) and (one.family not in best or one.loss < best[one.family].loss):
            best[one.family] = one
    return list(best.values())


def weighted(candidates: Sequence[Outcome], count: int) -> list[tuple[float, Outcome]]:
    """Return outcomes with their weights, the largest first, by their errors at `count` labels.

    One that assumes clusters is the only one if no label is evidence for or against it.  Another one may have learned
    length scales that are significantly better than others.
    """
    assumed = np.array([one.kind == "clusters" for one in candidates])
    share = 0.0 if not assumed.any() else 1.0 if assumed.all() or not count else CLUSTERS_SHARE
    prior = np.where(assumed, share, (1 - share) / max(np.sum(~assumed), 1))
    losses = np.array([one.loss for one in candidates])
    learned = np.array([one.kind == "scales" for one in candidates])
    if learned.any() and not learned.all():
        losses[learned] = np.sqrt(losses[learned] * np.maximum(losses[learned], losses[~learned].min()))
    found = weights(losses, prior, count)
    parts = [(weight, one) for weight, one in zip(found.tolist(), candidates, strict=True) if weight]
    return sorted(parts, key=lambda pair: -pair[0])


def weights(losses: Vector, prior: Vector, count: int) -> Vector:
    """Return the weights of candidates by their prior shares and mean squared errors at `count` labels."""
    # w_j ~ p_j s_j^(-m/4)
    with np.errstate(divide="ignore"):
        exponents = np.log(prior) - POWER * count * np.log(np.maximum(losses, TINY))
    found = np.exp(exponents - exponents.max())
    found[found < LEAST] = 0.0
    return np.asarray(found / found.sum())


def index_of_C(Cs: Vector, losses: Vector, count: int, variance: float) -> int:
    """Return the index of the value nearest to the mean of log C under its prior and the errors at `count` labels.

    The kernel has the given variance without constants.
    """
    # log posterior of C: -(log10(C v / 10))^2 / 2 - m/2 log s(C)
    away = np.log10(Cs * variance / USUAL_C) / DECADES
    exponents = -(away**2) / 2 - count / 2 * np.log(np.maximum(losses, TINY))
    share = np.exp(exponents - exponents.max())
    return int(np.argmin(np.abs(np.log(Cs) - np.log(Cs) @ share / share.sum())))


def each(found: Sequence[Outcome], without: Sequence[str] = ()) -> list[Outcome]:
    """Return the best outcome of each kind but some; of several C with nearly the smallest loss the smallest."""
    result = []
    for kind in dict.fromkeys((*KINDS, *(one.kind for one in found))):
        of_kind = [one for one in found if one.kind == kind and kind not in without]
        if of_kind:
            best = min(of_kind, key=lambda one: one.loss)
            same = {**best.params, "C": None}
            near = [one for one in of_kind if {**one.params, "C": None} == same and one.loss <= 1.001 * best.loss]
            result.append(min(near, key=lambda one: one.params["C"]))
    return result


def smallest(found: Sequence[Outcome]) -> Outcome | None:
    """Return the outcome with the smallest loss, the first of equal ones; None if there is none."""
    return min(found, key=lambda one: one.loss, default=None)


def least(found: Sequence[Outcome]) -> Outcome:
    """Return the outcome with the smallest loss that needs no comparison; of equal kinds the first of `KINDS`."""
    return min(each(found, COMPARED), key=lambda one: one.loss)


def chosen(found: Sequence[Outcome]) -> Outcome:
    """Return what is clearly better than the others, else a weighted sum, else the outcome with the smallest loss."""
    better = [one for one in found if one.kind in COMPARED and one.accepted]
    return next((one for one in reversed([*found, *better]) if one.parts or one in better), None) or least(found)


@dataclass(frozen=True, eq=False)
class Discriminant:
    """Linear discriminant analysis of one-against-rest scores: g = matrix f + offset.

    A class that lies between two others, such as the middle of low, middle and high, has the largest one-against-rest
    score nowhere.  But the scores of class k have a mean m_k and, in the model of linear discriminant analysis, a
    common covariance S, and the most probable class maximizes

        g_k(x) = m_k'S^-1 f(x) - 1/2 m_k'S^-1 m_k + log share_k

    (flexible discriminant analysis: Hastie, Tibshirani and Buja 1994).  The means and the covariance, with the
    shrinkage of Ledoit and Wolf (2004), are estimated from leave-one-out scores.
    """

    matrix: Matrix  # (classes, classes)
    offset: Vector  # (classes,)
    fitted: bool = True  # to the classes of labels

    @classmethod
    def of(cls, scores: Matrix, codes: Vector) -> Discriminant:
        """Fit the discriminant to leave-one-out scores (l, classes) and class indices (l,)."""
        fitted = LinearDiscriminantAnalysis(**_SHRUNK).fit(scores, codes)
        return cls(fitted.coef_, fitted.intercept_)

    def __call__(self, scores: Matrix) -> Matrix:
        return np.asarray(scores @ self.matrix.T + self.offset)

    @classmethod
    def with_shares(cls, scores: Matrix, shares: Vector) -> Discriminant:
        """Return scores in units of their deviation, plus offsets with which the classes have the given shares.

        The mean over all points of the probabilities, softmax(scores / s + b), is the share of each class (class mass
        normalization: Zhu, Ghahramani and Lafferty 2003).
        """
        unit = float(np.std(scores - scores.mean(axis=1, keepdims=True))) or 1.0
        offset = np.zeros(scores.shape[1])
        for _ in range(300):
            # b <- b + 1/2 log(share / mean_i softmax(g_i / s + b)): iterative scaling
            offset += 0.5 * np.log(shares / softmax(scores / unit + offset, axis=1).mean(axis=0))
        return cls(np.eye(scores.shape[1]) / unit, offset, fitted=False)

    @staticmethod
    def applies(scores: Matrix, codes: Vector) -> bool:
        """Return whether there are at least three classes and three labels of each of them."""
        classes = scores.shape[1]
        enough = classes > 2 and int(np.bincount(codes, minlength=classes).min()) >= 3
        return enough and bool(np.all(np.isfinite(scores)))

    @staticmethod
    def cross_validated(scores: Matrix, codes: Vector) -> Matrix:
        """Return the scores (l, classes) of each fold by a discriminant that is fitted to the other folds."""
        parts = StratifiedKFold(min(FOLDS, int(np.bincount(codes).min())), shuffle=True, random_state=0)
        rule = LinearDiscriminantAnalysis(**_SHRUNK)
        return np.asarray(cross_val_predict(rule, scores, codes, cv=parts, method="decision_function"))


@dataclass(frozen=True, eq=False)
class Decision:
    """The choice among outcomes for labels that were left out, and the report about it."""

    found: Sequence[Outcome]
    best: Outcome
    targets: ScoringTargets
    unlabeled: bool  # whether there are points without labels
    scorer: LeaveOneOutScorer | None = None  # None if rows that were not learned from scored the candidates

    @cached_property
    def discriminant(self) -> tuple[Discriminant | None, float]:
        """The discriminant of the scores, None unless it lowers the errors significantly, and the share of errors."""
        values, codes, weight = self.best.values, self.targets.classes, self.targets.weight
        if (
            codes is None
            or "loss" in self.best.params
            or np.any(weight != weight[0])
            or not Discriminant.applies(values, codes)
        ):
            return None, self.best.error
        if self.scorer is None:
            predicted, discriminated = map(predicted_codes, (values, Discriminant.cross_validated(values, codes)))
        else:
            predicted, discriminated = self._with_discriminant(self.scorer)
        before, after = self.targets.mistakes(predicted), self.targets.mistakes(discriminated)
        if not paired_test(before, after, weight):
            return None, self.best.error
        return Discriminant.of(values, codes), float(np.mean(after))

    def _with_discriminant(self, scorer: LeaveOneOutScorer) -> tuple[Vector, Vector]:
        """Return the classes (p,) of points in folds without their labels, by the largest score and a discriminant.

        The leave-one-out score of a label depends on all others, those of its fold too.  Therefore a discriminant is
        fitted to scores that are computed without the fold.
        """
        targets, params = self.targets, self.best.params
        K, codes = scorer.matrix(scorer.kernels(params["kernel"], params["scale"])), np.asarray(targets.classes)
        count = min(FOLDS, int(np.bincount(codes).min()))
        parts = list(folds(len(codes), codes, count))
        [values] = leave_one_out(K, targets.target, targets.weight, [params["C"]], [held_out for held_out, _ in parts])
        discriminated = np.empty_like(codes)
        for held_out, rest in parts:
            part = targets.take(rest)
            [scores] = leave_one_out(K[np.ix_(rest, rest)], part.target, part.weight, [params["C"]])
            discriminated[held_out] = predicted_codes(Discriminant.of(scores, codes[rest])(values[held_out]))
        return predicted_codes(values), discriminated

    @property
    def sentence(self) -> str:
        """A sentence about the weights or the gain of unlabeled points, and about the discriminant if there is one."""
        best, parts, tried = self.best, self.best.summands, each(self.found)
        using = smallest([one for one in tried if one.kind in OF_ALL_POINTS])
        without = smallest([one for one in tried if one.kind not in (*OF_ALL_POINTS, "sum", *COMPARED)])
        share = sum(weight for weight, one in parts if one.kind in OF_ALL_POINTS)
        errors = "Held-out rows" if self.scorer is None else "Leave-one-out"
        regression = self.targets.classes is None
        what = "root mean squared error" if regression else "errors"

        def shown(candidate: Outcome) -> str:
            return f"{candidate.error:.4g}" if regression else f"{100 * candidate.error:.1f} %"

        if best.kind == "clusters" and not self.targets.evidence:
            shares = " and that classes are as frequent as among the labels" if best.values.shape[1] > 1 else ""
            return (
                f"No class has more than {BEYOND} labels, too few to compare errors: it is assumed that rows of one "
                f"cluster share a class{shares}."
            )
        if best.kind in COMPARED:
            rival = chosen([one for one in self.found if one.kind not in COMPARED])
            how = "The hinge loss in folds" if best.kind == "margin" else "Clipping columns of heavy tails"
            text = f"{how} has {shown(best)} {what}; what is best without it has {shown(rival)} left out."
        elif not self.unlabeled or using is None or without is None:
            why = "Unlabeled rows were not tried" if self.unlabeled else "There are no unlabeled rows"
            of = f" of a weighted sum of {len(parts)} kernels" if len(parts) > 1 else ""
            text = f"{errors}: {shown(best)} {what}{of}. {why}."
        elif len(parts) > 1:
            text = (
                f"{errors}: {shown(best)} {what} of a weighted sum of {len(parts)} kernels. Those that use "
                f"unlabeled rows have {100 * share:.0f} % of the weight; the best "
                f"kernel without them has {shown(without)} {what} alone."
            )
        else:
            verdict = "helped" if best.kind in OF_ALL_POINTS else "did not help"
            text = f"Unlabeled rows {verdict}: {shown(without)} {what} without them, {shown(using)} with them."
        rule, error = self.discriminant
        return text if rule is None else f"{text} A linear discriminant of the scores has {100 * error:.1f} % errors."

    def report(self) -> dict[str, Any]:
        """Return `selection_report_`: the best outcome of each kind, the chosen one, and a sentence about them."""
        columns = {"error": "error of left-out targets", "loss": "mean squared error of left-out targets"}

        def known(one: Outcome) -> dict[str, Any]:
            return {"error": one.error, "standard_error": self.targets.standard_error(one.values), "loss": one.loss}

        return report(self.sentence, self.best, columns, each(self.found), known)


def evidence_report(choice: Choice, best: Outcome, sample: Sample) -> dict[str, Any]:
    """Return `selection_report_` of a search by evidence."""
    found = sorted(choice.found, key=lambda one: one.loss) if sample.slopes is not None else choice.found
    used, total = found[0].problem.tuning.functionals
    what = "targets" if sample.slopes is None else "values and slopes"
    reason = (
        f"has the largest logarithm of the evidence minus the number of learned settings, by {used} of {total} {what}."
        if np.isfinite(found[0].loss)
        else "is the first, with the settings of its start: no time was left to compare them."
    )
    sentence = f"Of {len(found)} kernels, {best.params['kernel']!r} {reason}"
    columns = {"evidence": "logarithm of the evidence", "score": "the same minus the number of learned settings"}

    def known(one: Outcome) -> dict[str, Any]:
        return {"name": repr(one.params["kernel"]), "evidence": one.problem.tuning.value, "score": -one.loss}

    return report(sentence, replace(best, scores=-np.array([found[0].loss])), columns, found, known)
