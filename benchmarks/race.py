"""The race: products and seconds to a certified gap, beside L-BFGS on the coefficients; and grids beside separate fits.

    python -m benchmarks.race [--quick] [--first-order] [--out DIR]

90 labels (squared hinge or logistic) and squared gradients at all points, Gaussian kernel of median scale, constant
basis; relative gap 1e-4.  Everything in one run; the seconds of a product are given as a ratio to its bare matrix
products.

With --first-order: the other algorithms that section 5 of Zhang et al. 2013 names, on heart without a constant, with
the Gram matrix in memory: a stochastic subgradient method (Pegasos, with the mean of the second half of its iterates)
and a bundle method (all cutting planes of the sum of losses), for the hinge loss and squared slopes.
"""

from __future__ import annotations

import argparse
import resource
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console

import rkhs
from benchmarks.data import load
from benchmarks.timing import markdown, seconds, show, write

TOL = 1e-4
LABELS = 90
PATIENCE = 300.0  # seconds for L-BFGS
LAMBDAS = [0.01, 0.1, 1.0, 10.0, 100.0]
NUS = [0.001, 0.01, 0.1, 1.0, 10.0]
FOLDS = [np.arange(k, LABELS, 5) for k in range(5)]


@dataclass(frozen=True)
class Setting:
    """A data set with its labeled points."""

    name: str
    X: Any
    y: Any
    scale: float

    @classmethod
    def of(cls, name: str) -> Setting:
        X, y = load(name)
        labeled = np.random.default_rng(0).choice(len(y), LABELS, replace=False)
        first = np.concatenate([labeled, np.setdiff1d(np.arange(len(y)), labeled)])
        return cls(name, X[first], y[first], rkhs.kernels.median_scale(X))

    def problem(self, loss: rkhs.extend.Loss, lam: Any = 1.0, nu: float = 1.0) -> rkhs.Problem:
        labels = rkhs.Term(rkhs.Evaluation(self.X[:LABELS]), loss, target=self.y[:LABELS], weight=lam)
        flat = rkhs.Term(rkhs.Gradient(self.X), rkhs.Squared(), weight=nu)
        return rkhs.Problem(rkhs.Gaussian(scale=self.scale), [labels, flat], basis=rkhs.Constant())

    def bare_seconds(self) -> float:
        """The four t x t x n matrix products inside one Gram product."""
        X, P = self.X, np.ones((len(self.X), len(self.X)))
        return min(seconds(lambda: (X @ X.T, X @ X.T, P @ X, P @ X)) for _ in range(5))


def races(sets: list[Setting], console: Console) -> list[list[str]]:
    """One row for each data set, loss and weights."""
    rows = []
    for setting in sets:
        bare = setting.bare_seconds()
        for loss in (rkhs.SquaredHinge(), rkhs.Logistic()):
            for lam, nu in ((1.0, 0.1), (100.0, 10.0)):
                problem = setting.problem(loss, lam, nu)
                G = problem.system.gram
                v = np.ones(G.shape[1])
                product = min(seconds(lambda G=G, v=v: G @ v) for _ in range(5))
                ours = problem.solve(tol=TOL)
                row = [setting.name, f"{problem.system.size:,}", repr(loss), f"({lam:g}, {nu:g})"]
                row += [f"{ours.products}", f"{ours.seconds:.2f}", f"{ours.relative_gap:.0e}", f"{product / bare:.2f}"]
                row += _lbfgs(problem, ours.products) if lam == 1.0 and setting.name != "usps_ssl" else ["", "", ""]
                rows.append(row)
                console.print("  ".join(row))
    return rows


def _lbfgs(problem: rkhs.Problem, ours: int) -> list[str]:
    """The papers' solver, for as long as shows whether it is nowhere near."""
    theirs = problem.solve(rkhs.solvers.LBFGS(max_iterations=100_000), tol=TOL, time_limit=PATIENCE)
    reached = theirs.relative_gap <= TOL
    count = f"{'' if reached else '> '}{theirs.products}"
    return [count, f"{theirs.relative_gap:.0e}", f"{'' if reached else '> '}{theirs.products / ours:.0f}"]


def grids(sets: list[Setting], console: Console) -> list[list[str]]:
    """5 lambda x 5 nu x 5 folds together, beside separate fits (one fold of five timed, and multiplied)."""
    rows = []
    for setting in sets:
        problem = setting.problem(rkhs.SquaredHinge())
        labels, flat = problem.terms
        start = perf_counter()
        solutions = problem.grid({labels: LAMBDAS, flat: NUS}, held_out={labels: FOLDS}, tol=TOL)
        together = perf_counter() - start
        worst = max(s.relative_gap for s in solutions.flat)
        start = perf_counter()
        kept = np.ones(LABELS)
        kept[FOLDS[0]] = 0.0
        apart = 0
        for lam in LAMBDAS:
            for nu in NUS:
                apart += setting.problem(rkhs.SquaredHinge(), lam * kept, nu).solve(tol=TOL).products
        separate = 5 * (perf_counter() - start)
        row = [
            setting.name,
            f"{together:.1f}",
            f"{separate:.1f}",
            f"{together / separate:.2f}",
            f"{worst:.0e}",
            f"{5 * apart}",
        ]
        rows.append(row)
        console.print("  ".join(row))
    return rows


def first_order(console: Console) -> list[list[str]]:
    """The objective after as many Gram products as each algorithm may use, relative to the minimum."""
    rows, setting = [], Setting.of("heart")
    for lam, nu in ((1.0, 0.1), (10.0, 1.0)):
        terms = setting.problem(rkhs.Hinge(), lam, nu).terms
        problem = rkhs.Problem(rkhs.Gaussian(scale=setting.scale), terms)
        ours = problem.solve(rkhs.solvers.Galerkin(), tol=TOL)
        least = problem.solve(tol=1e-10).primal
        row = [f"({lam:g}, {nu:g})", f"{ours.products}", f"{ours.primal / least - 1:.0e}"]
        reached = [*stochastic(problem, (10, 100, 1000)), *bundle(problem, (10, 30, 100))]
        row += [f"{J / least - 1:.0e}" for J in reached]
        rows.append(row)
        console.print("  ".join(row))
    return rows


def objective(problem: rkhs.Problem, a: Any, u: Any) -> tuple[float, Any]:
    """J, and the subgradients of the losses with their weights, at f with the coefficients a and L(f) = u."""
    terms = problem.system.terms
    losses = [float((t.weight[:, 0] * t.loss.value(u[t.rows, None], t.target)[:, 0]).sum()) for t in terms]
    slopes = [t.weight[:, 0] * t.loss.gradient(u[t.rows, None], t.target)[:, 0] for t in terms]
    return float(a @ u) / 2 + sum(losses), np.concatenate(slopes)


def stochastic(problem: rkhs.Problem, products: tuple[int, ...]) -> list[float]:
    """J of the mean of the second half of Pegasos' iterates, after steps that read as many entries as products."""
    G, rng = problem.system.exact.dense(), np.random.default_rng(0)
    size, found = len(G), []
    a, u, mean = np.zeros(size), np.zeros(size), np.zeros(size)
    by_row = [(t, i) for t in problem.system.terms for i in range(t.rows.stop - t.rows.start)]
    radius = np.sqrt(2 * objective(problem, a, u)[0])
    norm2, scale, kept, last = 0.0, 1.0, 0, products[-1] * size
    halves = {count * size // 2 for count in products}
    for step, row in enumerate(rng.integers(size, size=last), 1):
        t, i = by_row[row]
        value = scale * u[row]
        slope = float(t.weight[i, 0] * t.loss.gradient(np.full((1, 1), value), t.target[i : i + 1])[0, 0])
        move = -size * slope / step
        shrink = 1 - 1 / step
        norm2 = shrink**2 * norm2 + 2 * shrink * move * value + move**2 * G[row, row]
        if shrink * scale < 1e-8:
            a, u, scale = shrink * scale * a, shrink * scale * u, 1.0
        else:
            scale *= shrink
        a[row] += move / scale
        u += (move / scale) * G[row]
        if norm2 > radius**2:  # the minimum is inside this ball
            scale, norm2 = scale * radius / np.sqrt(norm2), radius**2
        if step in halves:
            mean, kept = np.zeros(size), 0
        if step % 10 == 0:
            mean, kept = mean + scale * a, kept + 1
        if step % size == 0 and step // size in products:
            found.append(objective(problem, mean / kept, G @ mean / kept)[0])
    return found


def bundle(problem: rkhs.Problem, products: tuple[int, ...]) -> list[float]:
    """The least J of a bundle method after so many products."""
    import cvxpy

    G = problem.system.exact.dense()
    a, u, best, found = np.zeros(len(G)), np.zeros(len(G)), np.inf, []
    slopes, images, offsets = np.zeros((0, len(G))), np.zeros((0, len(G))), np.zeros(0)
    for count in range(1, products[-1] + 1):
        J, g = objective(problem, a, u)
        best = min(best, J)
        if count in products:
            found.append(best)
        slopes, images = np.vstack([slopes, g]), np.vstack([images, G @ g])
        offsets = np.append(offsets, J - a @ u / 2 - g @ u)
        # max over p in the simplex of p'offsets - 1/2 |p'slopes|^2
        values, vectors = np.linalg.eigh(slopes @ images.T)
        root = vectors * np.sqrt(values.clip(min=0))
        p = cvxpy.Variable(len(offsets), nonneg=True)
        cvxpy.Problem(cvxpy.Maximize(offsets @ p - cvxpy.sum_squares(root.T @ p) / 2), [cvxpy.sum(p) == 1]).solve()
        a, u = -p.value @ slopes, -p.value @ images
    return found


def main() -> None:
    """Run the race, print both tables and write them as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the small sets only")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--first-order", action="store_true", help="stochastic subgradients and a bundle method")
    options = parser.parse_args()
    console = Console(width=150)
    if options.first_order:
        names = ["(lambda, nu)", "Galerkin, products", "its excess"]
        names += [f"stochastic, {count}" for count in (10, 100, 1000)] + [f"bundle, {count}" for count in (10, 30, 100)]
        table = ("Relative excess of J over the minimum after so many products", names, first_order(console))
        show(console, *table)
        write(options.out, "first-order.md", markdown(*table))
        return
    sets = [Setting.of(name) for name in ("australian", "bci", *([] if options.quick else ["usps_ssl"]))]
    race = ["data", "functionals", "loss", "(lambda, nu)", "products", "seconds", "gap", "product / bare"]
    race += ["L-BFGS products", "its gap", "times fewer"]
    grid = ["data", "grid, s", "separate, s", "ratio", "worst gap", "products apart"]
    raced, gridded = races(sets, console), grids(sets, console)
    tables = [("To a certified relative gap of 1e-4", race, raced), ("5 lambda x 5 nu x 5 folds", grid, gridded)]
    for table in tables:
        show(console, *table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    console.print(f"Peak memory of this process: {peak:.2f} GiB")
    write(options.out, "race.md", "".join(markdown(*table) for table in tables))


if __name__ == "__main__":
    main()
