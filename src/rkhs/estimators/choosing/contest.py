"""Which candidate is taken, and what is said about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from rkhs.estimators.choosing.judging import Candidate

EQUAL = 1e-3  # share of the error by which C may miss the least
GAIN = 0.1  # of the error, by which it has to fall for a graph


@dataclass(frozen=True, eq=False)
class Contest:
    """Candidates, those without a graph first, and whether there are classes and unlabelled points."""

    found: Sequence[Candidate]
    classes: bool
    unlabelled: bool

    @property
    def plain(self) -> Candidate:
        """The candidate of the least error without a graph."""
        found = self._least([one for one in self.found if one.graph is None])
        assert found is not None  # these are tried first
        return found

    @property
    def graph(self) -> Candidate | None:
        """The same with a graph, if there are any."""
        return self._least([one for one in self.found if one.graph is not None])

    def _least(self, some: list[Candidate]) -> Candidate | None:
        """The candidate of the least error; of several C with that error the least, which is the easiest to solve."""
        best = min(some, key=lambda one: one.loss, default=None)
        if best is None:
            return None
        settings = {**best.params, "C": None}
        alike = [one for one in some if {**one.params, "C": None} == settings and one.loss <= (1 + EQUAL) * best.loss]
        return min(alike, key=lambda one: one.C)

    @property
    def best(self) -> Candidate:
        """The candidate of the least error; one with a graph only where that gains enough."""
        plain, graph = self.plain, self.graph
        return graph if graph is not None and graph.loss < (1 - GAIN) * plain.loss else plain

    @property
    def sentence(self) -> str:
        """What unlabelled points were worth, in plain words."""
        plain, graph = self.plain, self.graph
        what = "errors" if self.classes else "root mean squared error"
        if not self.unlabelled:
            told = "There are no unlabelled rows to learn from."
            return f"Without each label in turn: {self._said(plain)} {what}. {told}"
        if graph is None:
            return f"Without each label in turn: {self._said(plain)} {what}. Unlabelled rows were not tried."
        if self.best is plain:
            return (
                f"Unlabelled rows did not help: {self._said(plain)} {what} without them, {self._said(graph)} with them."
            )
        if graph.error < plain.error:
            return f"Unlabelled rows helped: {self._said(graph)} {what} instead of {self._said(plain)}."
        return (
            f"Unlabelled rows helped a little: {self._said(graph)} {what}, {self._said(plain)} before, and less doubt."
        )

    def report(self) -> dict[str, Any]:
        """What was tried, what it was worth, and one plain sentence about it."""
        best = {"none": self.plain, "graph": self.graph}
        rows = [
            {"knowledge": name, "error": one.error, "loss": one.loss, **one.params} for name, one in best.items() if one
        ]
        return {
            "sentence": self.sentence,
            "candidates": rows,
            "chosen": self.best.params,
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
        return f"{100 * one.error:.1f} %" if self.classes else f"{one.error:.4g}"

    def _score(self, one: Candidate) -> float:
        """Accuracy, or minus the mean squared error."""
        return 1 - one.error if self.classes else -(one.error**2)
