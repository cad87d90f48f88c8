"""Which rule chooses best?  All candidates of `InvariantClassifierCV()` with what they predict, and rules on them.

    python -m benchmarks.choices [--draws N] [--only REGEX] [--out DIR]

Errors in percent at the unlabeled rows of `benchmarks.development_sets`.  Rules that take one candidate: the default;
the least squared error of labels that are left out; the default after errors are means over neighboring C, widths and
nu; with the least C within a standard error.  Rules that take several: the mean of what the default chooses in Bayesian
bootstraps of the labels (bagging); weights by pseudo-BMA+, each kind of knowledge with a quarter of the prior weight,
and stacking (Yao, Vehtari, Simpson and Gelman 2018); and one model with a sum of kernels, the best of each measure of
distances, with such weights, instead of one kernel where no graph is taken.  Classes are those of the largest
score.  SVC is the better of a searched one on features as they are and divided by their deviations.

Each draw is added to a journal, DIR/choices.jsonl, and not computed again: it can be stopped and goes on.
"""

from __future__ import annotations

import argparse
import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from rich.console import Console
from scipy.optimize import nnls
from sklearn.preprocessing import StandardScaler

from benchmarks.development_sets import draw, sets
from benchmarks.timing import markdown, show, write
from benchmarks.unlabeled import svc
from rkhs._estimators.length_scales import as_kernel
from rkhs._estimators.options import GRAPH_RANGE, WIDE_C_RANGE, as_grid
from rkhs._estimators.scoring import GRAPH, Candidate, Labeled, falls_significantly, leave_one_out
from rkhs._estimators.selection import GRAPH_STANDARD_ERRORS, Choice, Graphs, KernelCandidate, ModelSelection

Vector = np.ndarray[Any, Any]
CS, NUS = as_grid(10, "Cs", WIDE_C_RANGE), as_grid(6, "nus", GRAPH_RANGE, with_zero=True)
BOOTSTRAPS, LEAST = 50, 0.02  # and the least weight of a kernel in a sum


@dataclass(eq=False)
class Recorded(ModelSelection):
    """Keeps what each candidate predicts (t, q) at all points, and its kernel between points and labels if plain."""

    said: dict[Candidate, Vector] = field(default_factory=dict)
    plain: dict[Candidate, Vector] = field(default_factory=dict)
    candidates_of: dict[Candidate, KernelCandidate] = field(default_factory=dict)

    def run(self) -> str:
        status = super().run()
        for one in self.found:
            if one not in self.said:  # with learned scales
                self._keep([one], self._columns(one.kernel, one.scale), None)
        return status

    def _columns(self, kernel: Any, scale: Any) -> Vector:
        return np.asarray(self.kernel_of(kernel, scale)(self.X, self.X[self.labeled.rows]))

    def _keep(self, several: list[Candidate], K: Vector, place: KernelCandidate | None) -> None:
        for one in several:
            self.said[one] = solved(K, self.labeled, one.C).astype(np.float32)
            if place is not None:
                self.candidates_of[one] = place
            if one.graph is None:
                self.plain[one] = K

    def _scored(self, place: KernelCandidate, graph: Any, nu: float, K: Vector) -> list[Candidate]:
        several = super()._scored(place, graph, nu, K)
        self._keep(several, self._columns(*place.settings) if graph is None else self.warped, place)
        return several

    def _along(self, place: KernelCandidate, R: Vector, graphs: Graphs, which: Any) -> Any:
        own = R[self.labeled.rows]
        for neighbors, power in which:
            graph, L, trace = graphs.of(neighbors, power)
            along = R
            for _ in range(power):
                along = L @ along
            B = R.T @ along / trace
            for nu in filter(None, self.nus):
                factor = scipy.linalg.cho_factor(np.eye(len(B)) + 2 * nu * B, lower=True)
                self.warped = R @ scipy.linalg.cho_solve(factor, own.T)
                yield self._scored(place, graph, nu, self.warped[self.labeled.rows])


def solved(K: Vector, labeled: Labeled, C: float) -> Vector:
    """Values (t, q) at all points by the squared loss, from the kernel between points and labels (t, l)."""
    S = K[labeled.rows] + np.eye(len(labeled.rows)) / (2 * C)
    both = np.linalg.solve(S, np.column_stack([np.ones(len(S)), labeled.target]))
    offset = both[:, 1:].sum(axis=0) / both[:, 0].sum()
    return np.asarray(K @ (both[:, 1:] - np.outer(both[:, 0], offset)) + offset)


@dataclass(eq=False)
class Draw:
    """The candidates of one draw of labels, and rules on them: each gives values (t, q)."""

    search: Recorded

    def __post_init__(self) -> None:
        self.found, self.labeled = list(self.search.said), self.search.labeled
        self.squares = np.array([one.squares for one in self.found])
        rng = np.random.default_rng(0)
        self.bootstraps = rng.dirichlet(np.ones(self.squares.shape[1]), size=BOOTSTRAPS)

    @property
    def rules(self) -> dict[str, Callable[[], Vector]]:
        return {
            "default": lambda: self.said(self.chosen(self.found)),
            "least error": lambda: self.said(min(self.found, key=lambda one: one.loss)),
            "smoothed": lambda: self.said(self.chosen(self.smoothed())),
            "least C within a standard error": self.least_C,
            "bagged": self.bagged,
            "pseudo-BMA+": self.averaged,
            "stacked": self.stacked,
            "sum of kernels": self.summed,
        }

    def said(self, one: Candidate) -> Vector:
        return self.search.said[self.found[self.number(one)]]

    def number(self, one: Candidate) -> int:
        """Its place among those that were found; copies of it have the same predictions."""
        return next(i for i, own in enumerate(self.found) if own.values is one.values)

    def chosen(self, several: list[Candidate], weight: Vector | None = None) -> Candidate:
        return Choice(several, self.labeled if weight is None else replace(self.labeled, weight=weight), True).best

    def bagged(self) -> Vector:
        picked = []
        for share in self.bootstraps:
            weight = share * len(share)
            several = [
                replace(one, loss=float(loss)) for one, loss in zip(self.found, self.squares @ share, strict=True)
            ]
            picked.append(self.said(self.chosen(several, weight)))
        return np.mean(picked, axis=0)

    def weights(self, some: Vector) -> Vector:
        """Pseudo-BMA+: means over bootstraps of weights in proportion to loss^(-l/2), each kind as likely before."""
        kinds = [self.found[i].kind for i in some]
        prior = -np.log([kinds.count(kind) for kind in kinds])
        scores = -0.5 * self.squares.shape[1] * np.log(self.squares[some] @ self.bootstraps.T) + prior[:, None]
        shares = np.exp(scores - scores.max(axis=0))
        return np.mean(shares / shares.sum(axis=0), axis=1)

    def averaged(self) -> Vector:
        w = self.weights(np.arange(len(self.found)))
        return np.tensordot(w, np.array([self.search.said[one] for one in self.found]), 1)

    def stacked(self) -> Vector:
        """Weights >= 0 of sum 1 whose mean of left-out values has the least squared error."""
        best: dict[Any, Candidate] = {}
        for one in sorted(self.found, key=lambda one: -one.loss):
            best[repr({**one.params, "C": None})] = one
        several = list(best.values())
        A = np.stack([one.values.ravel() for one in several], axis=1)
        large = 1e3 * np.sqrt(len(A))
        w = nnls(np.vstack([A, np.full(len(several), large)]), np.append(self.labeled.target.ravel(), large))[0]
        return np.tensordot(w / w.sum(), np.array([self.search.said[one] for one in several]), 1)

    def smoothed(self) -> list[Candidate]:
        """Errors are means over the next smaller and larger C, width and nu."""
        medians: dict[Any, list[float]] = {}
        for place in self.search.candidates_of.values():
            medians.setdefault((place.features, str(place.settings[0])[:7]), []).append(_size(place))
        at: dict[Any, Candidate] = {}
        for one, place in self.search.candidates_of.items():
            widths = sorted(set(medians[place.features, str(place.settings[0])[:7]]))
            graph = None if one.graph is None else (one.graph.n_neighbors, one.graph.power)
            steps = (widths.index(_size(place)), NUS.index(one.nu), CS.index(one.C))
            at[(place.features, str(place.settings[0])[:7], graph, *steps)] = one
        smooth = [one for one in self.found if one not in self.search.candidates_of]
        for (*where, i, j, k), one in at.items():
            near = [(i + a, j + b, k + c) for a, b, c in product((-1, 0, 1), repeat=3) if abs(a) + abs(b) + abs(c) < 2]
            squares = np.mean([at[(*where, *n)].squares for n in near if (*where, *n) in at], axis=0)
            smooth.append(replace(one, squares=squares, loss=float(squares.mean())))
        return smooth

    def least_C(self) -> Vector:
        best = self.chosen(self.found)
        alike = [one for one in self.found if {**one.params, "C": 0} == {**best.params, "C": 0} and one.C <= best.C]
        error = len(best.squares) ** -0.5
        near = [one for one in alike if np.mean(d := one.squares - best.squares) <= error * np.std(d)]
        return self.said(min(near, key=lambda one: one.C))

    def summed(self) -> Vector:
        best: dict[Any, int] = {}
        for i, one in enumerate(self.found):
            if one in self.search.plain:
                place = self.search.candidates_of.get(one)
                family = (place and place.features, str(one.kernel)[:7])
                if family not in best or one.loss < self.found[best[family]].loss:
                    best[family] = i
        some = np.array(list(best.values()))
        w = self.weights(some)
        kept = w >= LEAST
        K = np.tensordot(w[kept] / w[kept].sum(), [self.search.plain[self.found[i]] for i in some[kept]], 1)
        own = self.labeled
        values = list(leave_one_out(K[own.rows], own.target, own.weight, CS))
        C = int(np.argmin([own.loss(u) for u in values]))
        graph = min((one for one in self.found if one.kind == GRAPH), key=lambda one: one.loss, default=None)
        if graph is not None and falls_significantly(
            own.squares(values[C]), graph.squares, own.weight, GRAPH_STANDARD_ERRORS
        ):
            return self.said(graph)
        return solved(K, own, CS[C])


def _size(place: KernelCandidate) -> float:
    return float(np.max(place.settings[1]))


def measured(X: Vector, y: Vector, rows: Vector) -> dict[str, float]:
    """Errors in percent of all rules, and of SVC, at rows without a label."""
    target = np.where(y[rows, None] == np.arange(y.max() + 1), 1.0, -1.0)
    labeled = Labeled(rows, target[:, 1:] if y.max() == 1 else target, np.ones(len(rows)), y[rows])
    search = Recorded(
        X, np.ones(len(X), int), labeled, ["gaussian", "laplace"],
        lambda given, scale: as_kernel(given, scale, X), None, CS, NUS, unlabeled=True, learns_scales=True,
    )  # fmt: skip
    search.run()
    rest = np.setdiff1d(np.arange(len(y)), rows)
    errors = {}
    for name, rule in Draw(search).rules.items():
        values = rule()[rest]
        told = values.argmax(axis=1) if values.shape[1] > 1 else values[:, 0] > 0
        errors[name] = 100 * float(np.mean(told != y[rest]))
    scaled = StandardScaler().fit_transform(X)
    both = {"SVC": svc(X, y, rows), "SVC, scaled": svc(scaled, y, rows)}
    return errors | {name: 100 * float(np.mean(told[rest] != y[rest])) for name, told in both.items()}


def main() -> None:
    """Measure what the journal lacks, print the table and write it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--only", default="", help="sets whose names match")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    journal, console = options.out / "choices.jsonl", Console(width=130)
    found = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    done = {(one["set"], one["draw"]) for one in found}
    wanted = [(name, seed) for name in sets() if re.search(options.only, name) for seed in range(options.draws)]
    with journal.open("a") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, seed in wanted:
            if (name, seed) not in done:
                X, y, labels = sets()[name]()
                found.append({"set": name, "draw": seed, **measured(X, y, draw(y, labels, seed))})
                file.write(json.dumps(found[-1]) + "\n")
                file.flush()
                console.print(found[-1])
    heads, rows = table(found)
    show(console, "Rules of choice: errors in percent", heads, rows)
    write(options.out, "choices.md", markdown("Rules of choice: errors in percent", heads, rows))


def table(found: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Of each rule the mean over sets, its difference to the default with a standard error, and lost sets."""
    names = [name for name in found[0] if name not in ("set", "draw")]
    of = list(dict.fromkeys(one["set"] for one in found))
    means = {n: np.array([np.mean([one[n] for one in found if one["set"] == s]) for s in of]) for n in names}
    peer, rows = np.minimum(means["SVC"], means["SVC, scaled"]), []
    for name, own in means.items():
        gain = own - means["default"]
        error = f"{gain.mean():+.2f} ± {gain.std() / np.sqrt(len(gain)):.2f}"
        rows.append([name, f"{own.mean():.2f}", error, str(int(np.sum(own > peer + 0.5)))])
    return ["rule", "mean", "against the default", "sets worse than SVC by 0.5"], rows


if __name__ == "__main__":
    main()
