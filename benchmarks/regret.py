"""The regret of `auto`: how much longer it takes than the best solver in the folder, on a hundred problems.

    python -m benchmarks.regret [--quick] [--papers] [--out DIR] [--only REGEX] [--auto-only]

Sixteen families of problems, from 100 to 10,000 functionals; weights, kernels, dimensions and bases go round with the
family and the size.  Each solve is one of a fresh problem in a process of its own.  All times and limits are seconds of
the processor, so that other work on the computer hardly matters: a solve may take half as long again as the best one so
far, and is ended when it does not keep to that.  A solver counts when it has converged.  Plain support vector machines
are timed beside scikit-learn's SVC.  With --papers the problems are those of the pages of the papers instead
(`papers/`) and signals with total variation, with weights from their grids.

All timings go to regret.json after each problem, and what is there is not timed again; --auto-only times `auto` again
beside the stored times of the others.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import ceil, exp, inf, log
from multiprocessing import get_context
from pathlib import Path
from resource import RLIMIT_CPU, setrlimit
from time import process_time
from typing import Any
from zlib import crc32

import numpy as np
from rich.console import Console
from sklearn.svm import SVC

import rkhs
from benchmarks import total_variation
from benchmarks.timing import markdown, show, write
from papers import digits, few_labels, thin_plate, two_moons
from rkhs._core import progress
from rkhs._core.finite.certificate import certify
from rkhs._core.finite.monitor import slowness
from rkhs._core.finite.problem import Iterate

AT_FIRST = 15.0  # seconds for a solver as long as none has converged
AT_LEAST = 0.05  # seconds for every solver
PATIENCE = 1.5  # times the best so far, for the others
PAIRED = 2.0  # seconds up to which the two that are compared are timed again, in turn
SHORT, REPEATS = 0.2, 3  # seconds under which a solve is repeated, and how often: the first one also warms up
QUICK = 300  # functionals

DENSE = ("Direct", "LibSVM", "Newton", "SchurComplement", "BoxDual", "ProximalNewton")
ITERATIVE = ("ConjugateGradients", "Galerkin", "InteriorPointCG", "NonlinearCG")
VECTORS = ("ADMM",)  # for losses of vectors

LABELS: dict[str, rkhs.extend.Loss] = {
    "hinge": rkhs.Hinge(),
    "logistic": rkhs.Logistic(),
    "squared-hinge": rkhs.SquaredHinge(),
}
VALUES: dict[str, rkhs.extend.Loss] = {
    "ridge": rkhs.Squared(),
    "svr": rkhs.losses.EpsilonInsensitive(0.1),
    "huber": rkhs.Huber(0.1),
    "absolute": rkhs.losses.Absolute(),
    "quantile": rkhs.Quantile(0.9),
}
FAMILIES = (
    *("ridge", "hinge", "svr", "logistic", "squared-hinge", "huber", "absolute", "quantile", "ridge+gradients"),
    *("hinge+gradients", "logistic+gradients", "squared-hinge+gradients", "ridge+convex", "ridge+monotone"),
    "logistic+monotone",
)
WEIGHTS = (1.0, 1e2, 1e4, 1e6, 1e8)
KERNELS = ("gaussian", "narrow", "matern", "cubic", "plate")
DIMENSIONS = (1, 2, 5, 10, 30)


@dataclass(frozen=True)
class Case:
    """A problem to be, made of its words alone."""

    family: str
    size: int
    weight: float
    kernel: str
    dimension: int
    constant: bool
    tol: float = 1e-4
    outputs: int | None = None

    @property
    def name(self) -> str:
        words = [self.family, f"{self.size}", f"w{self.weight:.0e}", self.kernel, f"{self.dimension}d"]
        words += ["constant"] * self.constant + [f"{self.outputs}-outputs"] * (self.outputs is not None)
        return " ".join([*words, f"tol{self.tol:.0e}"]).replace("e+0", "e").replace("e-0", "e-")

    @property
    def model(self) -> bool:
        """Whether scikit-learn's SVC solves the same problem."""
        return self.family == "hinge" and self.kernel == "gaussian" and self.constant and self.outputs is None

    @property
    def points(self) -> np.ndarray[Any, Any]:
        _, _, more = self.family.partition("+")
        count = self.size // {"": 1, "gradients": self.dimension + ("ridge" in self.family)}.get(more, 2)
        return self._random(0).standard_normal((max(count, 2), self.dimension))

    def problem(self) -> rkhs.Problem:
        """The problem, of about the size."""
        X, (first, _, more) = self.points, self.family.partition("+")
        loss = {**LABELS, **VALUES}[first]
        known = X[: max(30, len(X) // 20)] if more == "gradients" and first in LABELS else X
        shape = (len(known),) if self.outputs is None else (len(known), self.outputs)
        noise = self._random(1).standard_normal(shape)
        truth = np.sin(2 * known[:, 0]) + known.sum(axis=1) / 2
        y = (truth if self.outputs is None else truth[:, None] + np.arange(self.outputs)) + 0.3 * noise
        terms = [rkhs.Term(rkhs.Evaluation(known), loss, np.where(y > 0, 1, -1) if first in LABELS else y, self.weight)]
        if more == "gradients":
            terms.append(rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=self.weight / 10))
        elif more:
            axes = [0, 0] if more == "convex" else [0]
            terms.append(rkhs.Term(rkhs.Derivative(X, axes=axes), rkhs.losses.OneSided(), weight=self.weight))
        return rkhs.Problem(self._kernel(X), terms, rkhs.Constant() if self.constant else None)

    def svc(self) -> SVC:
        """Scikit-learn's model for the same problem."""
        scale = rkhs.kernels.median_scale(self.points)
        return SVC(C=self.weight, kernel="rbf", gamma=1 / (2 * scale**2))

    def _kernel(self, X: Any) -> rkhs.extend.Kernel:
        match self.kernel:
            case "gaussian" | "narrow":
                return rkhs.Gaussian(rkhs.kernels.median_scale(X) / (4 if self.kernel == "narrow" else 1))
            case "matern":
                return rkhs.Matern(2.5, rkhs.kernels.median_scale(X))
            case "plate" if "+" not in self.family:
                return rkhs.kernels.ThinPlate(2)
            case _:
                return rkhs.kernels.Polyharmonic(5 if "convex" in self.family else 3)

    def _random(self, what: int) -> np.random.Generator:
        return np.random.default_rng([crc32(self.name.encode()), what])


@dataclass(frozen=True)
class PaperCase:
    """A problem of a page of the papers: what `make` returns."""

    family: str  # the page, and the model
    kernel: str  # the data, and what else distinguishes the problem
    make: Callable[[], rkhs.Problem]
    weights: tuple[float, ...]
    tol: float = 1e-6  # the default of `Problem.solve`
    model = False  # scikit-learn does not have it

    @property
    def name(self) -> str:
        return f"{self.family}: {self.kernel}, " + ", ".join(f"{weight:g}" for weight in self.weights)

    @property
    def size(self) -> int:
        return sum(term.functional.size for term in self.make().terms)

    @property
    def points(self) -> np.ndarray[Any, Any]:
        return np.zeros((self.size, self.dimension))

    def problem(self) -> rkhs.Problem:
        """The problem, with the weights of its terms multiplied by those of the case."""
        problem = self.make()
        pairs = zip(problem.terms, self.weights, strict=True)
        terms = [term.changed(weight=weight * term.weight) for term, weight in pairs]
        return rkhs.Problem(problem.kernel, terms, problem.basis, problem.null_space)


def paper_cases() -> list[PaperCase]:
    """Problems of the pages of the papers, with weights from their grids."""
    found = [
        case
        for nu in (0.01, 0.1, 1.0)
        for case in (
            *(PaperCase("two-moons", losses, partial(moons, losses, SCALE), (1.0, nu)) for losses in two_moons.LOSSES),
            PaperCase("two-moons-2006", "hinge", partial(moons, HINGES, two_moons.SCALE_2006), (0.5, nu / 2)),
        )
    ]
    found += [
        PaperCase("table1 InvSVM", f"{name}, {labels} labels", partial(invsvm, name, labels), weights)
        for name in few_labels.SETS
        for labels, weights in ((30, (1.0, 1.0)), (90, (10.0, 0.1)), (90, (1000.0, 10.0)))
    ]
    found += [
        PaperCase(f"table1 {model}", "sonar", partial(invsvm, "sonar", 90, model), weights)
        for model in ("LapSVM", "local average")
        for weights in ((1.0, 1.0), (100.0, 0.1))
    ]
    found += [
        PaperCase(f"digits {variant}", kernel, partial(moved_digits, variant, kernel), weights)
        for variant in digits.VARIANTS
        for kernel, _ in digits.INPUTS[1:]
        for weights in [(1e4, 1e2) if variant.startswith("InvSVM") else (1e4,)]
        if not (kernel == "linear" and "derivatives" in variant)
    ]
    found += [
        PaperCase("total variation", f"{made.__name__}, {scale}", partial(variation, made, scale), (1.0, weight), 1e-3)
        for made in (total_variation.blocks, total_variation.steps)
        for scale, weight in ((0.03, 0.5), (0.1, 5.0))
    ]
    return found + [
        PaperCase("thin-plate", name, partial(plate, name), (C,))
        for name in ("thyroid", "heart", "diabetes", "image")
        for C in (1e-2, 1.0, 100.0)
    ]


SCALE, HINGES = two_moons.SCALE, "hinge + epsilon-insensitive"


def moons(losses: str, scale: float) -> rkhs.Problem:
    """The problem of a panel of both figures 1."""
    moons, (label, invariance) = two_moons.moons_of(0), two_moons.LOSSES[losses]
    values = rkhs.Evaluation(moons.X[moons.labeled])
    labels = rkhs.Term(values, LABELS[label], moons.y[moons.labeled])
    return rkhs.Problem(rkhs.Gaussian(scale), [labels, rkhs.Term(rkhs.Gradient(moons.X), invariance)])


def invsvm(name: str, labels: int, model: str = "InvSVM") -> rkhs.Problem:
    """The first draw of a set of Table 1 of 2013, hinge and squared invariances."""
    points = few_labels.load_points(name, "columns")
    known = few_labels.labeled_rows(points.y, labels, 0)
    term = rkhs.Term(rkhs.Evaluation(points.X[known]), rkhs.Hinge(), points.y[known])
    flat = rkhs.Term(rkhs.Gradient(points.X), rkhs.Squared())
    invariance = flat if model == "InvSVM" else next(few_labels.invariances(model, points))[0]
    return rkhs.Problem(rkhs.Gaussian(points.scale), [term, invariance], rkhs.Constant())


def moved_digits(variant: str, kernel: str) -> rkhs.Problem:
    """The first draw of 4 and 9 of Figure 2."""
    X, y = digits.load_pair("4-9")
    train = np.concatenate([np.flatnonzero(y == 1)[: digits.MANY], np.flatnonzero(y == -1)[: digits.FEW]])
    shape = {"Gaussian": 1.0, "polynomial": 3.0, "linear": 1.0}[kernel]
    return digits.Model(variant, kernel, digits.prepared(X[train], 0.0), y[train]).problem(shape, digits.EPSILONS[0])


def variation(signal: Callable[..., Any], scale: float) -> rkhs.Problem:
    """A signal with jumps and the total variation of f, as in `benchmarks.total_variation`."""
    random = np.random.default_rng(0)
    x = np.sort(random.uniform(size=200))
    y = signal(x) + 0.2 * random.standard_normal(200)
    values = rkhs.Term(rkhs.Evaluation(x[:, None]), rkhs.Squared(), target=y, weight=1 / (2 * 0.2**2))
    prior = rkhs.invariances.TotalVariation(x[:, None]).term(1 / 0.2)
    return rkhs.Problem(10.0 * rkhs.Matern(1.5, scale), [values, prior], rkhs.Constant())


def plate(name: str) -> rkhs.Problem:
    """The thin plate on all points of a set of Table 1 of 2007."""
    return thin_plate.thin_plate_problem(*thin_plate.load_points(name))


def cases() -> list[Case]:
    """All problems, the small ones first."""
    found = [Case("hinge", size, 10.0, "gaussian", 10, True) for size in (500, 1000, 2000, 5000, 10_000)]
    found += [Case("ridge", size, 1e2, "gaussian", 10, True, outputs=10) for size in (1000, 3000)]
    found += [Case(family, 1000, 1e2, "gaussian", 10, True, outputs=5) for family in LABELS]
    for i, family in enumerate(FAMILIES):
        for j, size in enumerate((100, 300, 1000, 1500 + i % 2, 3000, 5000, 10_000)):
            if size >= 5000 and (i + (size > 5000)) % 3:
                continue
            kernel = KERNELS[(i + j) % 5]
            dimension = DIMENSIONS[(i + 3 * j + 2 * (i // 5)) % 5]
            if kernel in ("cubic", "plate") or "convex" in family:
                dimension = min(dimension, 2)
            while "gradients" in family and dimension > size // 20:
                dimension = DIMENSIONS[DIMENSIONS.index(dimension) - 1]
            constant = kernel not in ("cubic", "plate") and ("hinge" in family or bool((i + j) % 2))
            tol = 1e-4 if (i + j) % 6 else 1e-6
            found.append(Case(family, size, WEIGHTS[(i + i // 5 + 2 * j) % 5], kernel, dimension, constant, tol))
    return sorted(found, key=lambda case: case.size)


def solved(case: Case | PaperCase, solver: str, limit: float, repeats: int = REPEATS) -> dict[str, Any]:
    """One solve, timed; repeated where it is short."""
    best: dict[str, Any] = {"seconds": inf}
    for _ in range(repeats):
        problem = case.problem()
        start = process_time()
        try:
            chosen = solver if solver == "auto" else getattr(rkhs.solvers, solver)()
            solution = problem.solve(chosen, tol=case.tol, time_limit=limit)
        except rkhs.exceptions.NotApplicableError:
            return {"status": "not applicable"}
        run = {"seconds": process_time() - start, "status": solution.status}
        run |= {"solver": solution.solver, "gap": solution.relative_gap}
        run |= {"products": solution.products, "iterations": solution.iterations}
        best = min(best, run, key=lambda run: run["seconds"])
        if best["seconds"] > SHORT:
            break
    return best


def model(case: Case | PaperCase, repeats: int = REPEATS) -> dict[str, Any]:
    """Scikit-learn's SVC, timed; it ends by a criterion of its own, so the gap that it leaves is told as well."""
    X, problem, best = case.points, case.problem(), inf
    y = problem.terms[0].target
    for _ in range(repeats):
        model, start = case.svc(), process_time()
        model.fit(X, y)
        best = min(best, process_time() - start)
        if best > SHORT:
            break
    a, constant = np.zeros((len(y), 1)), np.full((len(y), 1), model.intercept_[0])
    a[model.support_, 0] = model.dual_coef_[0]
    gap = certify(problem.system, Iterate(a, problem.system.Q.T @ constant)).relative
    return {"seconds": best, "status": "converged", "solver": "SVC", "gap": gap}


def apart(work: Callable[..., dict[str, Any]], *arguments: Any, limit: float = AT_FIRST) -> dict[str, Any]:
    """The result of work in a process of its own, which is ended when it takes much longer than the limit."""
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def child() -> None:
        progress.clock = process_time  # for the time limits of solvers
        most = ceil(process_time() + 1.5 * limit + 1)
        setrlimit(RLIMIT_CPU, (most, most))
        try:
            sender.send(work(*arguments))
        except Exception as error:
            sender.send({"status": f"{type(error).__name__}: {error}"})

    process = context.Process(target=child)
    process.start()
    sender.close()
    try:
        return dict(receiver.recv())
    except EOFError:
        return {"status": "ended"}
    finally:
        process.kill()
        process.join()


def measured(case: Case | PaperCase, stored: dict[str, Any], auto_only: bool) -> dict[str, Any]:
    """The size of a problem and the runs of all solvers; of `auto` alone beside the stored ones if so asked."""
    kept = {name: run for name, run in stored.get("runs", {}).items() if auto_only and name != "auto"}
    entry: dict[str, Any] = {"size": case.size, "runs": kept}

    def time(solver: str) -> None:
        known = [run["seconds"] for name, run in entry["runs"].items() if _counts(run) and name != "SVC"]
        limit = PATIENCE * min(known) + AT_LEAST if known else AT_FIRST
        limit = AT_FIRST if solver == "auto" else limit
        entry["runs"][solver] = {"limit": limit, **apart(solved, case, solver, limit, limit=limit)}

    time("auto")
    if auto_only:
        return entry
    vectors = VECTORS if case.family == "total variation" else ()
    for solver in (DENSE + ITERATIVE if case.size <= 2000 else ITERATIVE + DENSE) + vectors:
        own = entry["runs"]["auto"]
        if own.get("solver") == solver and own["seconds"] > 1:  # not twice
            entry["runs"][solver] = own
        else:
            time(solver)
    if case.model:
        entry["runs"]["SVC"] = apart(model, case)
    again(case, entry["runs"])
    return entry


def again(case: Case | PaperCase, runs: dict[str, Any]) -> None:
    """Time `auto` and what it is compared with in turn, where all are short: what else goes on hits all of them."""
    others = [name for name in runs if _counts(runs[name]) and name not in ("auto", "SVC")]
    best = min(others, key=lambda name: runs[name]["seconds"], default=None)
    names = [name for name in ("auto", best, "SVC") if name in runs and _counts(runs[name])]
    if len(names) > 1 and max(runs[name]["seconds"] for name in names) <= PAIRED:
        for name, run in apart(in_turn, case, names).get("runs", {}).items():
            runs[name] |= run


def in_turn(case: Case | PaperCase, names: list[str]) -> dict[str, Any]:
    """Solvers one after the other, several times: the shortest times of each."""
    best: dict[str, Any] = {}
    for _ in range(REPEATS):
        for name in names:
            run = model(case, 1) if name == "SVC" else solved(case, name, AT_FIRST, 1)
            best[name] = min(best.get(name, run), run, key=lambda run: run["seconds"])
    return {"status": "done", "runs": best}


def _counts(run: dict[str, Any]) -> bool:
    return run["status"] == "converged"


def compared(entry: dict[str, Any]) -> tuple[str, float, str, float]:
    """The solver and seconds of `auto` and of the best; auto's infinite where it has not converged."""
    runs = {name: run for name, run in entry["runs"].items() if _counts(run) and name != "SVC"}
    auto = entry["runs"]["auto"]
    best = min(runs, key=lambda name: runs[name]["seconds"], default="none")
    known = (runs[best].get("solver", best), runs[best]["seconds"]) if runs else ("none", inf)
    return auto.get("solver", auto["status"]), auto["seconds"] if _counts(auto) else inf, *known


def tables(entries: dict[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """The regret of each problem, the worst first, its mean, and models beside SVC.

    Where `auto` has not converged, its seconds so far stand for it, or all it had where it gave up by itself.
    """
    rows, models, ratios = [], [], {}
    for name, entry in entries.items():
        mine, seconds, best, least = compared(entry)
        auto = entry["runs"]["auto"]
        known = auto["seconds"] if auto["status"] in ("converged", "time limit") else AT_FIRST  # at least
        ratios[name] = known / least if least < inf else 0.0  # nothing to compare with
        took = f"{'> ' if seconds == inf else ''}{known:.3g}"
        size = f"{entry['size']}"
        rows.append([name, size, mine, took, best, f"{least:.3g}", f"{ratios[name]:.2f}"])
        if _counts(entry["runs"].get("SVC", {"status": ""})):
            theirs = entry["runs"]["SVC"]["seconds"]
            gap = f"{entry['runs']['SVC'].get('gap', inf):.0e}"
            models.append([name, took, f"{theirs:.3g}", f"{known / theirs:.2f}", f"{least / theirs:.2f}", gap])
    rows.sort(key=lambda row: -float(row[-1]))
    solved_ones = [ratio for ratio in ratios.values() if ratio]
    mean = exp(sum(map(log, solved_ones)) / max(len(solved_ones), 1))
    headings = ["problem", "functionals", "auto's", "s", "best", "s", "ratio"]
    title = f"auto beside the best: geometric mean {mean:.2f}, worst {max(ratios.values(), default=1.0):.1f}"
    title += f"; {len(ratios) - len(solved_ones)} of {len(ratios)} problems no solver solved in time"
    beside = ["problem", "auto, s", "SVC, s", "auto / SVC", "best / SVC", "SVC's gap"]
    return [(title, headings, rows), ("Support vector machines beside SVC", beside, models)]


def warm_up() -> None:
    """Import what solvers import at first use, and measure the speed of this computer, before processes are forked."""
    X = np.random.default_rng(0).standard_normal((20, 2))
    labels = rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), np.sign(X[:, 0]))
    values = rkhs.Term(rkhs.Evaluation(X), rkhs.losses.Absolute(), X[:, 1])
    for term in (labels, values):
        for solver in ("LibSVM", "InteriorPointCG", "NonlinearCG", "Galerkin"):
            chosen = getattr(rkhs.solvers, solver)()
            problem = rkhs.Problem(rkhs.Gaussian(1.0), [term])
            if chosen.lacks(problem.system) is None:
                problem.solve(chosen)
    slowness()


def main() -> None:
    """Time what has not been timed yet, print the tables and write them as Markdown."""
    warm_up()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to 300 functionals only")
    parser.add_argument("--papers", action="store_true", help="the problems of the pages of the papers")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--only", default="", help="problems whose names match")
    parser.add_argument("--auto-only", action="store_true", help="auto again, beside the stored times of the others")
    options = parser.parse_args()
    name = "regret-papers" if options.papers else "regret"
    console, path = Console(width=150), options.out / f"{name}.json"
    entries: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for case in paper_cases() if options.papers else cases():
        if (options.quick and case.size > QUICK) or not re.search(options.only, case.name):
            continue
        if case.name not in entries or options.auto_only:
            entries[case.name] = measured(case, entries.get(case.name, {}), options.auto_only)
            mine, seconds, best, least = compared(entries[case.name])
            console.print(f"{case.name:60} {mine:20} {seconds:8.3f}   {best:20} {least:8.3f}  {seconds / least:6.2f}")
            write(options.out, path.name, json.dumps(entries, indent=1))
    for table in tables(entries):
        show(console, *table)
    write(options.out, f"{name}.md", "".join(markdown(*table) for table in tables(entries)))


if __name__ == "__main__":
    main()
