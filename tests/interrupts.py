"""Ctrl-C at random moments: is a wrong number ever kept?

    PYTHONPATH=src python tests/interrupts.py [moments] [seed]

A real SIGINT comes somewhere in `fit`, `partial_fit`, a search, `predict_proba`, standard deviations, a grid, a path or
`solve`.  The law, of each of them:

    state    the model is as it was before, or what it says now is right for the status that it states
    status   "converged" is within the tolerance of the true solution; any other status has a gap that is true
    again    the same call once more gives what it gives without an interrupt
"""

import pickle
import signal
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError

import rkhs
from rkhs.invariances import Monotone

TOL = 1e-6  # of fits and of cells: solutions that converged predict the same to about its root
NEAR = 2e-2  # by which predictions of such solutions may differ
X, Y = make_moons(160, noise=0.25, random_state=0)
OTHER, OTHER_Y = make_moons(90, noise=0.1, random_state=1)
THREE = (Y + (X[:, 0] > 1)).astype(int)
HALF = np.where(np.arange(160) % 2 == 0, Y, -1)
PLACES = np.random.default_rng(0).uniform(-1, 2, size=(40, 2))
SLOPES = np.sin(X[:, 0]) + X[:, 1]


class Wrong(AssertionError):
    """A number that is not right was kept."""


@dataclass
class Outcome:
    """What became of one interrupt."""

    case: str
    moment: float
    word: str


def interrupted(work, seconds):
    """What some work returns, or None where SIGINT ended it after so many seconds; and whether it was raised."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process in the background does not have
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
            return work(), False
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    except KeyboardInterrupt:
        return None, True


def close(one, other, tol=NEAR):
    return np.all(np.abs(np.asarray(one) - np.asarray(other)) <= tol)


def must(holds, what):
    if not holds:
        raise Wrong(what)


def honest(solution, best):
    """The gap of a solution is true, where the minimum of J is known to be `best`."""
    slack = 1e-6 * abs(best) + float(np.sum(solution.certificate.rounding)) + 1e-9
    must(solution.primal >= best - slack, f"J = {solution.primal} is below the minimum {best}")
    must(solution.dual <= best + slack, f"the bound {solution.dual} is above the minimum {best}")
    if solution.status == "converged":
        must(solution.primal - best <= 2 * TOL * abs(best) + slack, f"'converged' at J = {solution.primal}, not {best}")


class Case:
    """Something that can be interrupted: `prepare` it, `work`, `check` what an interrupt leaves, and do it `again`."""

    def reference(self):
        return self.work(self.prepare())


@dataclass
class Fitting(Case):
    """`fit` of a model, new or fitted to other data before."""

    make: Any
    X: Any
    y: Any
    before: Any = None  # (X, y) of an earlier fit

    def prepare(self):
        model = self.make()
        return model if self.before is None else model.fit(*self.before)

    def work(self, model):
        return model.fit(self.X, self.y)

    def check(self, model, kept, right, raised):
        if as_it_was(model, kept):
            must(raised, "an interrupt left the model as it was and was not raised")
            return "raised"
        honest(model.solution_, right.solution_.primal)
        must(hasattr(model, "classes_") == hasattr(right, "classes_"), "classes are lost")
        if hasattr(right, "classes_"):
            must(np.array_equal(model.classes_, right.classes_), "classes of another fit")
        if model.solution_.status == "converged":
            must(close(values(model), values(right)), "'converged' to other values")
        return model.solution_.status

    def again(self, model, right):
        must(close(values(self.work(model)), values(right), 1e-9), "another fit gives other values")


def is_auto(value):
    return isinstance(value, str) and value == "auto"


@dataclass
class Searching(Fitting):
    """`fit` of a model that chooses by cross-validation."""

    def check(self, model, kept, right, raised):
        if as_it_was(model, kept):
            must(raised, "an interrupt left the model as it was and was not raised")
            return "raised"
        ours, theirs = model.cv_results_, right.cv_results_
        scores, true = (found["mean_test_score"] for found in (ours, theirs))
        solved = ~np.isnan(scores)
        must(np.all(solved) == (model.search_status_ == "converged"), f"{model.search_status_}, and {scores}")
        must(close(scores[solved], true[solved], 1e-3), f"scores {scores}, not {true}")
        must(scores[model.best_index_] == scores[solved].max(), "the best is not the best")
        must(model.best_params_ == ours["params"][model.best_index_], "parameters of another candidate")
        must(
            np.all(ours["rank_test_score"][~solved] > ours["rank_test_score"][solved].max()), "unsolved ones have ranks"
        )
        plain = getattr(rkhs, type(model).__name__.removesuffix("CV"))()
        names = plain.get_params().keys()  # whose default is what "auto" stands for by folds
        shared = {name: v for name, v in model.get_params().items() if name in names and not is_auto(v)}
        chosen = {"C": model.C_, "nu": model.nu_, "scale": model.scale_}
        alone = plain.set_params(**{**shared, **chosen}).fit(self.X, self.y)
        honest(model.solution_, alone.solution_.primal)
        return f"search {model.search_status_}, fit {model.solution_.status}"


@dataclass
class Choosing(Fitting):
    """`fit` of a model that chooses by exact errors, all of them or none."""

    def check(self, model, kept, right, raised):
        word = super().check(model, kept, right, raised)
        if word != "raised":
            must(model.best_params_ == right.best_params_, "other parameters")
        return word


@dataclass
class Asking(Case):
    """Something that a fitted model computes when it is first asked for."""

    make: Any
    ask: Any

    def prepare(self):
        return pickle.loads(self.make())

    def work(self, model):
        return self.ask(model)

    def check(self, model, kept, right, raised):
        return "raised" if raised else "finished"

    def again(self, model, right):
        must(close(self.work(model), right, 1e-9), f"{self.work(model)[:3]}, not {right[:3]}")


@dataclass
class Adding(Case):
    """A further `partial_fit`."""

    make: Any
    blocks: Any

    def prepare(self):
        model = self.make()
        for block in self.blocks[:-1]:
            model.partial_fit(*block)
        return model

    def work(self, model):
        return model.partial_fit(*self.blocks[-1])

    def check(self, model, kept, right, raised):
        if as_it_was(model, kept):
            must(raised, "an interrupt left the model as it was and was not raised")
            self.work(model)
            word = "raised"
        else:
            word = model.solution_.status
        must(close(values(model), values(right), 1e-9), "other values after the same blocks")
        return word

    def again(self, model, right):
        model.partial_fit(*self.blocks[0])
        must(np.all(np.isfinite(values(model))), "a further block is not added")


@dataclass
class Solving(Case):
    """`solve`, `path` or `grid` of a problem."""

    make: Any
    ask: Any

    def prepare(self):
        return self.make()

    def work(self, problem):
        return np.asarray(self.ask(problem), dtype=object)

    def check(self, problem, kept, right, raised, found=None):
        if found is None:
            return "raised"
        for one, true in zip(found.flat, right.flat, strict=True):
            honest(one, true.primal)
            if one.status == "converged":
                must(close(one.function(PLACES), true.function(PLACES)), "'converged' to other values")
        counts = Counter(one.status for one in found.flat)
        return " and ".join(sorted(counts))

    def again(self, problem, right):
        for one, true in zip(self.work(problem).flat, right.flat, strict=True):
            must(close(one.function(PLACES), true.function(PLACES), 1e-6), "another solve gives other values")


@dataclass
class Tuning(Solving):
    """`tune` of a problem, which ends with the best settings so far."""

    def work(self, problem):
        return self.ask(problem)

    def check(self, problem, kept, right, raised, found=None):
        if found is None:
            return "raised"
        value = found.evidence().value
        must(abs(value - found.tuning.value) <= 1e-6 * abs(value), f"evidence {value}, not {found.tuning.value}")
        must(value <= right.tuning.value + 1e-3, f"evidence {value} above the largest")
        if found.tuning.status == "converged":
            must(abs(value - right.tuning.value) <= 1e-3 * abs(value), "'converged' elsewhere")
        return found.tuning.status

    def again(self, problem, right):
        must(abs(self.work(problem).tuning.value - right.tuning.value) <= 1e-9, "another tuning finds other settings")


def values(model):
    """What it says at some places; None if it is not fitted."""
    try:
        return model.decision_function(PLACES) if hasattr(model, "decision_function") else model.predict(PLACES)
    except NotFittedError:
        return None


def as_it_was(model, kept):
    """Whether a model says what it said before, all of it."""
    now = state(model)
    return now.keys() == kept.keys() and all(now[name] is kept[name] for name in now)


def state(model):
    return dict(vars(model))


def fitted(model, X, y):
    """The bytes of a fitted model, once and for all."""
    found = []

    def make():
        if not found:
            found.append(pickle.dumps(model.fit(X, y)))
        return found[0]

    return make


def problem(loss, target, basis=True, approximation=None):
    terms = [rkhs.Term(rkhs.Evaluation(X), loss, target, 10.0), rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1)]
    return rkhs.Problem(rkhs.Gaussian(0.5), terms, rkhs.Constant() if basis else None, approximation=approximation)


def open_problem():
    target = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), SLOPES, rkhs.Tunable())
    return rkhs.Problem(rkhs.Gaussian(rkhs.Tunable()), [target], rkhs.Constant())


def classifier(**options):
    return rkhs.InvariantClassifier(**{"scale": 0.5, "C": 10.0, "tol": TOL} | options)


def regressor(**options):
    return rkhs.InvariantRegressor(**{"scale": 0.5, "C": 10.0, "tol": TOL} | options)


def searcher(**options):
    settings = {"Cs": [1, 10, 100], "nus": [0, 0.1], "scales": 0.5, "cv": 3, "tol": TOL}
    return rkhs.InvariantClassifierCV(invariance="gradient", **settings | options)


def cut(*columns):
    return [tuple(column[start : start + 40] for column in columns) for start in range(0, 160, 40)]


SIGNS = np.where(Y == 1, 1.0, -1.0)
FOLDS = [np.arange(k, 160, 3) for k in range(3)]
SPAN = rkhs.Landmarks(40)
CASES = {
    "fit hinge": Fitting(classifier, X, HALF, (OTHER, OTHER_Y + 5)),
    "fit logistic": Fitting(lambda: classifier(loss="logistic"), X, Y),
    "fit three classes": Fitting(lambda: classifier(loss="squared_hinge"), X, THREE, (OTHER, OTHER_Y)),
    "fit iterating": Fitting(lambda: classifier(loss="logistic", solver=rkhs.solvers.NonlinearCG()), X, Y),
    "fit regressor": Fitting(regressor, X, SLOPES, (OTHER, OTHER_Y)),
    "fit kinks": Fitting(lambda: regressor(invariance=Monotone({0: 1}), loss="huber"), X, SLOPES),
    "fit thin plate": Fitting(lambda: rkhs.geometry.ThinPlateClassifier(tol=TOL), X, Y, (OTHER, OTHER_Y)),
    "fit graph": Fitting(lambda: classifier(invariance="graph", C=100.0, nu=1000.0), X, HALF),
    "fit landmarks": Fitting(lambda: classifier(approximation=SPAN), X, HALF, (OTHER, OTHER_Y)),
    "search": Searching(searcher, X, Y),
    "search again": Searching(searcher, X, HALF, (OTHER, OTHER_Y)),
    "search hinge": Searching(lambda: searcher(loss="hinge"), X, Y),
    "search landmarks": Searching(lambda: searcher(approximation=SPAN), X, Y),
    "search regression": Searching(
        lambda: rkhs.InvariantRegressorCV(invariance="gradient", Cs=[1, 10], nus=[0, 0.1], scales=0.5, cv=3, tol=TOL),
        X,
        SLOPES,
    ),
    "search knowledge": Choosing(lambda: rkhs.InvariantClassifierCV(tol=TOL), X, HALF, (OTHER, OTHER_Y)),
    "probabilities": Asking(fitted(classifier(), X, Y), lambda m: m.predict_proba(PLACES)),
    "probabilities, three": Asking(fitted(classifier(loss="logistic"), X, THREE), lambda m: m.predict_proba(PLACES)),
    "probabilities, plate": Asking(
        fitted(rkhs.geometry.ThinPlateClassifier(), X, Y), lambda m: m.predict_proba(PLACES)
    ),
    "deviations": Asking(fitted(regressor(), X, SLOPES), lambda m: m.predict(PLACES, return_std=True)[1]),
    "leaving out": Asking(
        lambda: pickle.dumps(problem(rkhs.Logistic(), SIGNS)), lambda p: p.leave_out().predictions[0]
    ),
    "tuning": Tuning(open_problem, lambda p: p.tune()),
    "partial_fit": Adding(lambda: regressor(approximation=SPAN), cut(X, SLOPES)),
    "partial_fit classes": Adding(lambda: classifier(approximation=SPAN, loss="logistic"), cut(X, Y)),
    "solve": Solving(lambda: problem(rkhs.Hinge(), SIGNS), lambda p: [p.solve(tol=TOL)]),
    "solve landmarks": Solving(lambda: problem(rkhs.Hinge(), SIGNS, approximation=SPAN), lambda p: [p.solve(tol=TOL)]),
    "path": Solving(lambda: problem(rkhs.Logistic(), SIGNS), lambda p: p.path(0, [0.1, 1, 10], tol=TOL)),
    "grid": Solving(
        lambda: problem(rkhs.SquaredHinge(), SIGNS),
        lambda p: p.grid({0: [0.1, 1, 10], 1: [0.1, 1]}, {0: FOLDS}, tol=TOL),
    ),
    "grid, kinks": Solving(lambda: problem(rkhs.Hinge(), SIGNS), lambda p: p.grid({0: [0.1, 1]}, {0: FOLDS}, tol=TOL)),
    "grid, landmarks": Solving(
        lambda: problem(rkhs.Hinge(), SIGNS, approximation=SPAN), lambda p: p.grid({0: [0.1, 1, 10]}, tol=TOL)
    ),
}


class Reference:
    """What a case gives without an interrupt, and how long that takes."""

    def __init__(self, name):
        self.case = CASES[name]
        self.right = self.case.reference()
        given = self.case.prepare()
        start = time.perf_counter()
        self.case.work(given)
        self.seconds = time.perf_counter() - start


def trial(name, share, references):
    """One interrupt after a share of the time that a case takes."""
    if name not in references:
        references[name] = Reference(name)
    reference = references[name]
    case, moment = reference.case, share * reference.seconds
    given = case.prepare()
    kept = state(given)
    found, raised = interrupted(lambda: case.work(given), moment)
    extra = {"found": found} if isinstance(case, Solving) else {}
    word = case.check(given, kept, reference.right, raised, **extra)
    case.again(given, reference.right)
    return Outcome(name, moment, word)


def campaign(moments, seed=0, names=tuple(CASES)):
    """So many interrupts, at moments drawn evenly over the time of cases drawn evenly; the outcomes, and complaints."""
    rng = np.random.default_rng(seed)
    references, outcomes, complaints = {}, [], []
    order = [names[k % len(names)] for k in range(moments)]
    for k, name in enumerate(order):
        share = float(rng.uniform(0, 1.1))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outcomes.append(trial(name, share, references))
        except Wrong as wrong:
            complaints.append(f"{k}: {name} at {share:.3f} of its time: {wrong}")
    return outcomes, complaints


def main():
    moments, seed = (int(given) for given in (sys.argv[1:] + ["200", "0"][len(sys.argv) - 1 :]))
    start = time.perf_counter()
    outcomes, complaints = campaign(moments, seed)
    words = Counter((one.case, one.word) for one in outcomes)
    for (case, word), count in sorted(words.items()):
        print(f"{case:24s} {count:4d} {word}")
    print(*complaints, sep="\n")
    totals = Counter(one.word for one in outcomes)
    print(f"{moments} interrupts in {time.perf_counter() - start:.0f} s: {dict(totals)}; {len(complaints)} wrong")
    sys.exit(bool(complaints))


if __name__ == "__main__":
    main()
