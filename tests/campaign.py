"""Random problems at all scales, solved in every way, and judged in 30 digits: does a certificate ever lie?

    PYTHONPATH=src python tests/campaign.py [seeds] [first seed] [largest size] [seconds] [kind]

The kinds are "plain", "near", "wide" and "hard".  With "near" points come in pairs at distances from 1e-12 to 1e-5,
bases are redundant, landmarks repeat themselves or nearly so, and kernels are rational quadratic and periodic too, the
latter up to 1e12 periods away.  With "wide" losses are of counts and of vectors too, and stationary kernels are also
approximated by Fourier features and on Fourier grids.  With "hard" some weights are infinite.

The law, of every solution, with slack = (stated rounding) + 1e-9 value + 1e-25 J(0):

    gap      "converged": J(f) - min J <= relative_gap * value + slack
    primal   |primal - J(f)| <= slack
    dual     dual <= min J + slack
    error    nothing but NotApplicableError, UnattainedError and PrimalInfeasible is raised, and nothing is NaN

With constraints, instead of the gap and the dual:

    agree    "converged" solutions of the same problem have the same J within their gaps
    hold     "converged": violations are within the tolerance, relative to |z_i| |f|
    proof    what is infeasible is proved to be, and nothing has converged to it

J(f) and min J are those of `judge`; min J is its upper bound, so that no complaint can be the judge's fault.
"""

import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from math import inf, isnan

import numpy as np

import judge
import problems
import rkhs
import rkhs.solvers
from rkhs._core.calculus.function_spaces import SumOfSpaces

SLACK = 1e-9
ZERO = 1e-25  # of J(0), what counts as zero
MODES = 4000  # frequencies of Fourier grids
LENGTHS = (rkhs.Squared(), rkhs.Huber(0.5), rkhs.losses.Absolute(), rkhs.losses.EpsilonInsensitive(0.3))
SOLVERS = {
    n: getattr(rkhs.solvers, n)()
    for n in sorted(rkhs.solvers.__all__)
    if issubclass(getattr(rkhs.solvers, n), rkhs.solvers.Solver) and n not in ("Race", "Solver")
}
BASES = (None, rkhs.Constant(), rkhs.Polynomials(1))
REDUNDANT = (
    *BASES,
    SumOfSpaces((rkhs.Constant(), rkhs.Polynomials(1), rkhs.Polynomials(1))),
    SumOfSpaces((rkhs.Polynomials(2), rkhs.Polynomials(1))),
    rkhs.Polynomials(4),
)


@dataclass(frozen=True)
class Verdict:
    """One solve: who, what was claimed, what is true, and which laws were broken."""

    seed: int
    solver: str
    claim: str
    truth: str
    broken: tuple[str, ...]
    converged: bool
    decided: bool
    severe: bool  # by more than 1e-6 of J and 1e-12 of J(0)
    about: str

    def __str__(self):
        broken = ",".join(self.broken) + "!" * self.severe
        return f"{self.seed:5d} {self.solver:24s} {broken:17s} {self.claim} | {self.truth} | {self.about}"


def draw(seed, largest=400, kind="plain"):
    """The random problem of a seed; most are small, and the large ones are squared (the judge is slow)."""
    rng, near = np.random.default_rng([seed, {"plain": 77, "near": 79, "wide": 80, "hard": 81}[kind]]), kind == "near"
    d = int(rng.integers(1, 4))
    unit = float(rng.choice([1.0, 1.0, 1.0, 1e-6, 1e6]))
    shift = float(rng.choice([0.0, 0.0, 0.0, 1e3, 1e6]))
    kernel = _kernel(rng, d, unit, near)
    if isinstance(kernel, rkhs.kernels.Polynomial):  # whose values grow like powers of the points, beyond 30 digits
        unit, shift = 1.0, min(shift, 1e3)
    if isinstance(kernel, rkhs.kernels.Composition) and rng.random() < 0.3:
        shift = 1e12
    squared = rng.random() < 0.3
    most = largest if squared else min(largest, 90)
    pool = [*problems.LOSSES, *[rkhs.losses.Poisson(), "vectors"] * 4 * (kind == "wide")]
    losses = [rkhs.Squared() if squared else pool[rng.integers(len(pool))] for _ in range(rng.integers(1, 4))]
    if "vectors" in losses and kernel.smoothness(d) <= 1:
        losses = [rkhs.losses.Poisson() if loss == "vectors" else loss for loss in losses]
    count = max(1, int(np.exp(rng.uniform(0, np.log(most)))) // len(losses))
    basis = REDUNDANT[rng.integers(6)] if near else BASES[rng.integers(3)]
    points = _Points(rng, d, unit, shift, near)
    terms = [_term(rng, kernel, loss, count, points, first=k == 0) for k, loss in enumerate(losses)]
    if kind == "hard":
        able = [k for k, t in enumerate(terms) if isinstance(t.loss, rkhs.extend.IntervalLoss)]
        for k in able[: max(1, int(rng.integers(len(able) + 1)))] if able else ():
            terms[k] = terms[k].changed(weight=np.where(np.asarray(terms[k].weights())[:, 0] > 0, inf, 0.0))
    return rkhs.Problem(kernel, terms, basis)


def _kernel(rng, d, unit, near):
    s = unit * float(10 ** rng.uniform(-0.7, 0.7))
    order = d // 2 + 1
    choices = [
        lambda: rkhs.Gaussian(s),
        lambda: rkhs.Gaussian(s),
        lambda: rkhs.Matern(float(rng.choice([0.5, 1.5, 2.5, 3.5])), s),
        lambda: rkhs.kernels.Polyharmonic(int(rng.choice([1, 2, 3, 5]))),
        lambda: rkhs.kernels.ThinPlate(order + int(rng.integers(2))),
        lambda: rkhs.kernels.Polynomial(int(rng.integers(1, 4)), 1.0),
        lambda: rkhs.Gaussian(s) + 0.5 * rkhs.Matern(2.5, 2 * s),
        lambda: rkhs.kernels.Polyharmonic(3) + 0.5 * rkhs.Gaussian(s),
    ]
    if near:
        choices += 2 * [
            lambda: rkhs.kernels.RationalQuadratic(float(10 ** rng.uniform(-0.7, 1)), s),
            lambda: rkhs.kernels.Periodic(unit * float(rng.choice([0.7, 3.0, 24.0])), s),
            lambda: rkhs.kernels.Periodic(3.0 * unit, s) + 0.5 * rkhs.kernels.RationalQuadratic(1.0, 2 * s),
        ]
    return choices[rng.integers(len(choices))]()


@dataclass(frozen=True)
class _Points:
    """Random points; where they are `near`, those of the second half are near some of the first half, or the same."""

    rng: np.random.Generator
    dimension: int
    unit: float
    shift: float
    near: bool

    def __call__(self, size):
        rng, X = self.rng, self.rng.normal(size=(size, self.dimension))
        if self.near and size > 1:
            half = size // 2
            distance = 10 ** rng.uniform(-12, -5, size=(half, 1)) * (rng.random((half, 1)) < 0.9)
            X[-half:] = X[rng.integers(size - half, size=half)] + distance * rng.normal(size=(half, self.dimension))
        return self.unit * (X + self.shift)


def _term(rng, kernel, loss, count, points, first):
    d, unit = points.dimension, points.unit
    if loss == "vectors":
        return _term_of_vectors(rng, points(max(1, count // (d + 1))), unit)
    X, kinds = points(count), ["values"]
    if not (first or loss.classification or isinstance(loss, rkhs.losses.Poisson)):
        kinds += ["difference", "nothing"] + ["deviation"] * (2 * isinstance(kernel, rkhs.Gaussian))
        kinds += ["gradient"] * 2 * (kernel.smoothness(d) > 1) + ["laplacian"] * (
            kernel.smoothness(d) > 2 and not isinstance(kernel, rkhs.kernels.Polynomial)
        )
    kind = kinds[rng.integers(len(kinds))]
    match kind:
        case "values":
            family, size = rkhs.Evaluation(np.repeat(X, 2, axis=0)[:count] if rng.random() < 0.15 else X), 1.0
        case "difference":
            family, size = rkhs.Difference(X, points(count)), 1.0
        case "nothing":
            same = points(1)
            family, size = rkhs.stack([rkhs.Difference(same, same), rkhs.Evaluation(X)]), 1.0
        case "deviation":
            family, size = rkhs.functionals.LocalDeviation(X, 0.3 * unit), 1.0
        case "gradient":
            family, size = rkhs.Gradient(X[: max(1, count // d)]), 1 / unit
        case "laplacian":
            family, size = rkhs.functionals.Laplacian(X), 1 / unit**2
    noise = rng.normal(size=family.shape)
    if loss.classification:
        target = np.where(noise > 0, 1.0, -1.0)
    elif isinstance(loss, rkhs.losses.Poisson):
        target = np.floor(np.exp(noise))
    else:
        target = (
            size * (noise if rng.random() < 0.8 else np.ones(family.shape)) * (kind != "gradient" or rng.random() < 0.5)
        )
    weight = float(10 ** rng.uniform(-8, 12)) / (size**2 if kind in ("gradient", "laplacian") else 1)
    if rng.random() < 0.15:
        weight = weight * 10 ** rng.uniform(-3, 3, size=family.shape)
    return rkhs.Term(family, loss, target, weight)


def _term_of_vectors(rng, X, unit):
    """Gradients near those of a field, or classes that hold in balls around the points."""
    weight = float(10 ** rng.uniform(-8, 8))
    if rng.random() < 0.4:
        target = np.zeros((len(X), 1 + X.shape[1]))
        target[:, 0] = np.where(rng.normal(size=len(X)) > 0, 1.0, -1.0)
        radius = unit * float(rng.choice([0.0, 0.1, 1.0]))
        return rkhs.Term(rkhs.functionals.Jet(X), rkhs.losses.RobustHinge(radius), target, weight)
    loss = LENGTHS[rng.integers(len(LENGTHS))]
    target = rng.normal(size=X.shape) * (rng.random() < 0.7) / unit
    return rkhs.Term(
        rkhs.Gradient(X), rkhs.losses.GroupNorm(loss), target, weight * (unit**2 if loss.quadratic else unit)
    )


def about(problem):
    """A problem in one line."""
    terms = "; ".join(
        f"{t.loss!r} on {t.functional!r}, w {np.min(t.weight):.0e}..{np.max(t.weight):.0e}" for t in problem.terms
    )
    return f"{problem.kernel!r}, basis {problem.basis!r}: {terms}"


def solves(problem, seed, every=True, time_limit=3.0, tol=1e-6, kind="plain"):
    """(who, the function that solves, the judge of it), lazily."""
    rng = np.random.default_rng([seed, 78])
    judged = judge.Judge(problem)
    size = sum(t.size for t in problem.terms)
    yield "auto", lambda: problem.solve(tol=tol, time_limit=2 * time_limit), judged
    if size <= 150 or not every:
        names = list(SOLVERS) if every else rng.choice(list(SOLVERS), 3, replace=False)
        for name in names:
            yield name, lambda name=name: problem.solve(SOLVERS[name], tol=tol, time_limit=time_limit), judged
    factors = [1.0, float(10 ** rng.uniform(-3, 3))]
    n, m = problem.terms[0].size, getattr(problem.terms[0].loss, "size", 1)  # vectors are left out as a whole
    half = n // (2 * m) * m
    held = {0: [np.arange(half), np.arange(half, n)]} if half and size <= 150 else None

    def grid():
        return problem.grid({0: factors}, held_out=held, tol=tol, time_limit=2 * time_limit).reshape(-1)

    cells = []
    for factor in factors:
        for rows in held[0] if held else [np.zeros(0, int)]:
            weight = factor * np.asarray(problem.terms[0].weights())[:, 0]
            weight[rows] = 0.0
            weight = np.where(weight > 0, inf, 0.0) if problem.terms[0].loss.hard else weight
            first = problem.terms[0].changed(weight=weight)
            cells.append(judge.Judge(replace(problem, terms=[first, *problem.terms[1:]])))
    yield "grid", grid, cells
    inside = replace(problem, approximation=rkhs.Landmarks(rkhs.stack([t.functional for t in problem.terms])))
    yield "Landmarks, own", lambda: inside.solve(tol=tol, time_limit=2 * time_limit), judged
    if not problem.kernel.order and size <= 150:
        count = int(rng.integers(1, 30))
        X = np.asarray(problem.terms[0].functional.prototype)
        C = X[rng.integers(len(X), size=count)] + 0.1 * np.std(X, axis=0) * rng.normal(size=(count, X.shape[1]))
        if kind == "near":  # landmarks repeat themselves, exactly or nearly
            C = C[rng.integers(max(1, count // 2), size=count)]
            C = C + (rng.random((count, 1)) < 0.7) * 10 ** rng.uniform(-12, -5, size=(count, 1)) * np.std(X, axis=0)
        other = rkhs.Evaluation(C)
        span = replace(problem, approximation=rkhs.Landmarks(other))
        yield "Landmarks, other", lambda: span.solve(tol=tol, time_limit=2 * time_limit), judge.Judge(problem, other)
    if kind == "wide" and size <= 150 and _stationary(problem.kernel):
        features = rkhs.FourierFeatures(int(rng.integers(1, 60)))
        grid = rkhs.FourierGrid(float(10 ** rng.uniform(-6, -1)), modes=MODES)
        for approximation in (features, grid):
            waves = replace(problem, approximation=approximation)
            try:
                space = approximation.choose(problem.kernel, [t.functional for t in problem.terms], None)
            except MemoryError:  # the kernel needs more frequencies
                continue
            name = type(approximation).__name__
            yield (
                name,
                lambda waves=waves: waves.solve(tol=tol, time_limit=2 * time_limit),
                judge.Judge(problem, waves=space),
            )


def _stationary(kernel):
    return all(isinstance(part, rkhs.Gaussian | rkhs.Matern) for _, part in kernel.summands())


def verdicts(problem, seed, **options):
    """Every solve of a problem, judged."""
    line, solved, infeasible = about(problem), [], []
    for who, solve, judges in solves(problem, seed, **options):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = solve()
        except (rkhs.exceptions.NotApplicableError, rkhs.exceptions.UnattainedError):
            continue
        except rkhs.exceptions.PrimalInfeasible as error:
            if isinstance(judges, judge.Judge) and judges.span is None:
                infeasible.append(who)
                broken = () if judge.contradicts(problem, error.alpha) else ("proof",)
                yield Verdict(seed, who, "infeasible", "", broken, False, True, bool(broken), line)
            continue
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {str(error)[:80]} ({where.filename.split('/')[-1]}:{where.lineno})"
            yield Verdict(seed, who, text, "", ("error",), False, True, True, line)
            continue
        pairs = [(found, judges)] if isinstance(judges, judge.Judge) else zip(found, judges, strict=True)
        solved += [(who, solution, judged, judged.value(solution.function)) for solution, judged in pairs]
    for who, solution, judged, true in solved:  # when the smallest J that any of them has found is known
        if any(t.loss.hard for t in judged.terms):
            same = [(s, v) for _, s, j, v in solved if j is judged and s.status == "converged"]
            yield hard_verdict(seed, who, solution, judged, true, line, [] if who == "grid" else same, infeasible)
        else:
            yield verdict(seed, who, solution, judged, true, line)


def hard_verdict(seed, who, solution, judged, true, line, same, infeasible):
    """What is wrong with a solution of a problem with constraints; `same` are the solutions that have converged."""
    rounding = float(np.sum(solution.certificate.rounding + solution.certificate.shift))
    slack, broken, violation = rounding + SLACK * abs(solution.primal), [], float(judged.violation(solution.function))
    converged = solution.status == "converged"
    if isnan(solution.primal) or isnan(float(true)):
        broken.append("error")
    if solution.primal < inf and not abs(solution.primal - true) <= slack + SLACK * abs(true) + 1e-150:
        broken.append("primal")
    if converged and not violation <= 1.01 * max(solution.certificate.violation.max(), 1e-9):
        broken.append("hold")
    spread = [abs(float(true - v)) - 2e-6 * abs(float(v)) - s.certificate.rounding.sum() - slack for s, v in same]
    if converged and max(spread, default=0.0) > 1e-150:
        broken.append("agree")
    if converged and infeasible and who != "grid":
        broken.append("proof")
    claim = f"J {solution.primal:.9g} rel {solution.relative_gap:.1e} rounding {rounding:.1e} {solution.status}"
    truth = f"J {float(true):.9g} violation {violation:.1e}"
    return Verdict(seed, who, claim, truth, tuple(broken), converged, True, bool(broken), line)


def verdict(seed, who, solution, judged, true, line):
    """What is wrong with a solution, whose J is `true`."""
    with np.errstate(all="ignore"):
        lower, upper = judged.bounds
        upper = max(min(upper, judged.least), lower, 0.0)  # J >= min J >= 0, and the judge rounds as well
        primal, dual, relative = solution.primal, solution.dual, solution.relative_gap
        rounding = float(np.sum(getattr(solution.certificate, "rounding", 0.0)))
        nothing = ZERO * float(judged.risk(np.zeros(judged.family.size, judge.Real)))
        rounding += float(np.sum(solution.certificate.shift))
        slack = rounding + SLACK * abs(primal) + nothing + 1e-150  # squares of smaller numbers underflow
        broken = []
        if isnan(primal) or isnan(dual) or isnan(float(true)):
            broken.append("error")
        told = not (solution.span and "numerical rank" in solution.span)  # the span is that of the others then
        if (
            told
            and solution.status == "converged"
            and not true - upper <= relative * max(abs(primal), abs(dual)) + slack
        ):
            broken.append("gap")
        if primal < inf and not abs(primal - true) <= slack + SLACK * abs(true):
            broken.append("primal")
        if told and not dual <= upper + slack:
            broken.append("dual")
        worst = max(float(true - upper) - relative * abs(primal), float(abs(primal - true)), float(dual - upper))
        severe = worst > 1e-6 * abs(float(upper)) + 1e-12 * float(judged.risk(np.zeros(judged.family.size, judge.Real)))
    claim = f"J {primal:.9g} D {dual:.9g} rel {relative:.1e} rounding {rounding:.1e} {solution.status}"
    truth = f"J {float(true):.9g} min {float(lower):.9g}..{float(upper):.9g}"
    decided = bool(upper - lower <= SLACK * abs(upper) + rounding) or judged.span is not None
    return Verdict(seed, who, claim, truth, tuple(broken), solution.status == "converged", decided, bool(severe), line)


def run(seeds, largest=400, seconds=inf, show=print, kind="plain", **options):
    """The campaign; returns all verdicts."""
    found, started, done = [], time.perf_counter(), 0
    for seed in seeds:
        if time.perf_counter() - started > seconds:
            break
        for one in verdicts(draw(seed, largest, kind), seed, kind=kind, **options):
            found.append(one)
            if one.broken:
                show(one)
        done += 1
    wrong = [v for v in found if v.broken]
    show(
        f"{done} problems, {len(found)} solves, {sum(v.converged for v in found)} converged, {len(wrong)} violations; "
        f"{sum(not v.decided for v in found)} solves where the judge's bounds are wider than the slack"
    )
    show("by kind: " + str(dict(Counter(k for v in wrong for k in v.broken))))
    show("by kind, severe (!): " + str(dict(Counter(k for v in wrong if v.severe for k in v.broken))))
    show("by solver: " + str(dict(Counter(v.solver for v in wrong))))
    show("by solver, severe (!): " + str(dict(Counter(v.solver for v in wrong if v.severe))))
    show("of solves: " + str(dict(Counter(v.solver for v in found))))
    return found


if __name__ == "__main__":
    numbers = [float(a) for a in sys.argv[1:5]] + [None] * 4
    count, first = int(numbers[0] or 1000), int(numbers[1] or 0)
    kind = sys.argv[5] if len(sys.argv) > 5 else "plain"
    result = run(range(first, first + count), int(numbers[2] or 400), numbers[3] or inf, kind=kind)
    sys.exit(any(v.broken for v in result))
