"""Which candidate is taken, and what is said about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import rankdata

from rkhs.estimators.choosing.judging import GRAPH, KINDS, MEASURE, NONE, SURE, SURER, Candidate, Labelled, falls
from rkhs.estimators.discriminant import Discriminant, predicted_without, worth_trying

EQUAL = 1e-3  # share of the error by which C may miss the least


@dataclass(frozen=True, eq=False)
class Contest:
    """Candidates, the labels that judge them, and whether there are unlabelled points."""

    found: Sequence[Candidate]
    labelled: Labelled
    unlabelled: bool

    def of(self, kind: str) -> Candidate | None:
        """The candidate of the least error of a kind; of several C with that error the least: the easiest to solve."""
        some = [one for one in self.found if one.kind == kind]
        best = min(some, key=lambda one: one.loss, default=None)
        if best is None:
            return None
        settings = {**best.params, "C": None}
        alike = [one for one in some if {**one.params, "C": None} == settings and one.loss <= (1 + EQUAL) * best.loss]
        return min(alike, key=lambda one: one.C)

    @cached_property
    def best(self) -> Candidate:
        """That of the first kind, or of a later one where errors, label by label, fall by a standard error.

        There are many graphs, and the best of many looks better than it is: there the fall has to be larger.
        """
        best = self.plain
        for kind in KINDS[1:]:
            one = self.of(kind)
            sure = SURER if kind == GRAPH else SURE
            if one is not None and falls(best.squares, one.squares, self.labelled.weight, sure):
                best = one
        return best

    @property
    def plain(self) -> Candidate:
        """The best one that knows of labelled points alone."""
        found = self.of(NONE)
        assert found is not None  # these are tried first
        return found

    @property
    def discriminant(self) -> Discriminant | None:
        """The rule that tells classes by where their scores lie, where it has fewer errors than the largest score."""
        return self._discriminant[0]

    @cached_property
    def _discriminant(self) -> tuple[Discriminant | None, float]:
        """And the share of errors without each label."""
        values, codes, weight = self.best.values, self.labelled.classes, self.labelled.weight
        if codes is None or np.any(weight != weight[0]) or not worth_trying(values, codes):
            return None, self.best.error
        after = predicted_without(values, codes) != codes
        if not falls(1.0 * self.labelled.wrong(values), 1.0 * after, weight):
            return None, self.best.error
        return Discriminant.of(values, codes), float(np.mean(after))

    @property
    def sentence(self) -> str:
        """What unlabelled points were worth, in plain words; and what the rule is worth that is taken after that."""
        rule, error = self._discriminant
        told = self._unlabelled_were_worth
        if rule is None:
            return told
        return f"{told} Classes lie between others: told by where the scores of each are, {100 * error:.1f} % errors."

    @property
    def _unlabelled_were_worth(self) -> str:
        best, plain = self.best, self.plain
        what = "errors" if self.labelled.classes is not None else "root mean squared error"
        if not self.unlabelled:
            told = "There are no unlabelled rows to learn from."
            return f"Without each label in turn: {self._said(best)} {what}. {told}"
        graph = self.of(GRAPH)
        if graph is None and best.kind != MEASURE:
            return f"Without each label in turn: {self._said(best)} {what}. Unlabelled rows were not tried."
        if best.kind not in (MEASURE, GRAPH):
            assert graph is not None  # as it was tried
            return (
                f"Unlabelled rows did not help: {self._said(best)} {what} without them, {self._said(graph)} with them."
            )
        if best.error < plain.error:
            return f"Unlabelled rows helped: {self._said(best)} {what} instead of {self._said(plain)}."
        return (
            f"Unlabelled rows helped a little: {self._said(best)} {what}, {self._said(plain)} before, and less doubt."
        )

    def report(self) -> dict[str, Any]:
        """What was tried, what it was worth, and one plain sentence about it."""
        tried = [one for one in map(self.of, KINDS) if one is not None]
        return {
            "sentence": self.sentence,
            "candidates": [
                {"knowledge": one.kind, "error": one.error, "loss": one.loss, **one.params} for one in tried
            ],
            "chosen": {"knowledge": self.best.kind, **self.best.params},
            "score": self._score(self.best),
        }

    def results(self, seconds: float) -> dict[str, Any]:
        """As `cv_results_` of scikit-learn's searches; the one split is that into each label and all others."""
        scores = np.array([self._score(one) for one in self.found])
        nothing = np.zeros(len(self.found))
        told: dict[str, Any] = {"mean_fit_time": nothing + seconds / len(self.found), "std_fit_time": nothing}
        told |= {"mean_score_time": nothing, "std_score_time": nothing}
        for name in self.found[0].params:
            values = np.empty(len(self.found), dtype=object)
            values[:] = [one.params[name] for one in self.found]
            told[f"param_{name}"] = np.ma.masked_array(values, mask=False)
        told["params"] = [one.params for one in self.found]
        losses = np.array([one.loss for one in self.found])
        return told | {
            "split0_test_score": scores,
            "mean_test_score": scores,
            "std_test_score": nothing,
            "mean_test_loss": losses,
            "rank_test_score": rankdata(losses, method="min").astype(np.int32),
        }

    def _said(self, one: Candidate) -> str:
        return f"{100 * one.error:.1f} %" if self.labelled.classes is not None else f"{one.error:.4g}"

    def _score(self, one: Candidate) -> float:
        """Accuracy, or minus the mean squared error."""
        return 1 - one.error if self.labelled.classes is not None else -(one.error**2)
