"""Maps, which are regressions with many points in at most three dimensions: candidates, their errors, error bars.

*Evidence proposes.*  Kernels of different smoothness, and a sum of two with different length scales, are compared by
the evidence of a spatial sample, part of which lies in a few neighborhoods.  Samples of distant points alone would
favor kernels that are too smooth.

*Errors decide.*  Evidence under a wrong stationary model explains strong local anomalies by noise, where interpolation
is better.  So the proposed kernel competes with powers of the distance, which have no length scale, each with several
levels of noise, by errors at rows that are left out at three distances (`HeldOutRows`):

    points      single rows
    stretches   runs of rows that are near each other, such as parts of a track
    blocks      the rows of whole regions

One set of rows is left out for all of them.  A map is wanted near its data and in gaps, so that the loss is the
geometric mean of the three root mean squared errors, which needs no units.  Outcomes are learned by neighborhoods
first (`rkhs.Neighbors`), at a few rows and then at more.  Unless a power of the distance is significantly better than
the proposed kernel, the latter is also learned from all rows together: exactly if they are few, otherwise on a Fourier
grid.  The grid is chosen if its errors are significantly smaller, and not clearly larger at any of the distances.

*Error bars.*  Standard deviations are those given the neighborhoods, however f is learned: upper bounds, since further
functionals can only lower them.  The ratio of left-out errors to deviations, as a function of the deviation, corrects
the amplitude and what a stationary model misses (`MapSpread`).  Errors within one region resemble each other, and few
regions are left out at a time, so this is repeated with other regions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from math import inf
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from rkhs._core.backend.arrays import Matrix, Vector, double, to_numpy, unique_rows
from rkhs._core.finite.solution import CONVERGED, TIME_LIMIT
from rkhs._core.limits import limits
from rkhs._core.problem import Problem
from rkhs._core.progress import seconds_left
from rkhs.estimators._data import Sample
from rkhs.estimators._formulation import ModelConfig, WeightNormalization
from rkhs.estimators._length_scales import EvidenceScorer, formulate
from rkhs.estimators.search._search import Choice, Outcome, best_of, choose, paired_test, report
from rkhs.exceptions import warn
from rkhs.functionals import Evaluation, Functional
from rkhs.kernels import Gaussian, Kernel, Matern, Multiple, Polyharmonic, Sum, Tunable
from rkhs.losses import Squared
from rkhs.maps import FourierGrid, LocalFunction, Neighbors

DIMENSIONS = 3  # features of a map at most

POWERS = (0.5, 1.0, 1.5, 2.0, 3.0)  # of the distance; 1 is linear, and 2 the thin plate r^2 log r
NOISE = (1e-4, 0.1, 1.0, 10.0)  # variances of noise in units of the variogram at the distance of near points
PROPOSED_NOISE = (1.0, 10.0)  # and in units of that of maximum evidence
NEAREST, WIDER = Neighbors(24, far=4), Neighbors(40, far=6)  # neighborhoods that are compared, and of error bars
FIRST, MORE, KEPT = 300, 1500, 4  # rows of each distance, first and for the best candidates
SHARES = {"points": (0.08, 0.0), "stretches": (0.05, 0.001), "blocks": (0.08, 0.01)}  # of the rows, and of each region
LEAST_AGAINST = 0.1  # by which squared errors of a power must fall below those of the proposed kernel to rule it out
LEAST_GAIN = 0.02  # by which squared errors must fall for a model of all rows, in addition to significance
BINS, PER_BIN, COVERED = 6, 250, 0.95  # of the correction of standard deviations; the coverage that it restores
PER_REPEAT = 600  # rows of each distance that are left out at a time for that correction
AROUND, FAR = 12, 8.0  # neighbors of a row, and the robust deviations from their median beyond which it is a spike
SPIKED, MOSTLY = 0.05, 0.9  # share of rows that are few, and share of the variance that is nearly all of it
NORMAL_MAD = 0.67449  # median absolute deviation of a normal variable
NORMAL = 1.959964  # deviations that a normal variable exceeds with probability 1 - COVERED


def can_map(dimension: int) -> bool:
    """Return whether points of a dimension can be mapped on a grid with the installed packages."""
    return dimension <= DIMENSIONS and any(find_spec(name) is not None for name in ("ducc0", "finufft"))


def is_representable(problem: Any) -> bool:
    """Return whether the kernel fits on the Fourier grid of a problem, if it has one.

    The grid of a sum of kernels has the spacing of the longest length scale and the limits of the shortest one.
    """
    if isinstance(problem.approximation, FourierGrid):
        try:
            problem.approximation.choose(problem.kernel, [term.functional for term in problem.terms], None)
        except MemoryError:
            return False
    return True


def spikes(X: Matrix, y: Matrix) -> Vector:
    """Return whether the values y (t,) or (t, outputs) at each point are far from those of their neighbors.

    The unit is the median absolute deviation around a point, or that around most points if it is larger.
    """
    y, near = y.reshape(len(X), -1), KDTree(X).query(X, min(AROUND + 1, len(X)))[1]
    middle = np.median(y[near], axis=1)
    spread = np.median(np.abs(y[near] - middle[:, None]), axis=1)
    unit = np.maximum(spread, np.median(spread, axis=0)) / NORMAL_MAD
    return np.any((np.abs(y - middle) > FAR * unit) & (unit > 0), axis=1)


def without_spikes(config: ModelConfig, sample: Sample, name: str) -> Sample:
    """Return the rows by which a map is chosen: without spikes if its loss is robust; otherwise warn about them.

    Evidence is that of the squared loss, in which a few wrong values can make up all that there is to explain.
    """
    far = spikes(double(sample.X), sample.y)
    if not 0 < np.mean(far) <= 5 * SPIKED:
        return sample
    if np.all(np.isfinite(config.label_loss.domain(np.zeros(1)))):
        return sample.take(~far)
    squares = (sample.y - np.median(sample.y, axis=0)).reshape(sample.size, -1) ** 2
    share = float(np.max(squares[far].sum(axis=0) / np.maximum(squares.sum(axis=0), 1e-300)))
    if np.mean(far) <= SPIKED and share > MOSTLY:
        warn(
            f"{name}: {far.sum()} of {sample.size} targets are far from those around them and make up {share:.1%} of "
            'the variance. If they are errors, leave them out, or pass loss="absolute".'
        )
    return sample


def by_evidence(config: ModelConfig, sample: Sample) -> tuple[list[Outcome], Outcome, str]:
    """Compare kernels by the evidence of the values, or of a sample of them.

    Returns the candidates, the best one, and the status of the search.  The last kernel is a sum of two kernels of the
    best order with different length scales, as in the nested variograms of geostatistics.  Kernels that need too many
    frequencies for a grid come last.  The best one is tuned again, with a larger sample if there is one.
    """
    scale = Tunable(each=True)
    kernels: list[Kernel] = [*(Matern(nu, scale=scale) for nu in (0.5, 1.5, 2.5)), Gaussian(scale=scale)]
    limit = None if seconds_left() == inf else 0.4 * max(seconds_left(), 0.0) / (2 + len(kernels))
    options = {"starts": 1, "time_limit": limit, "verbose": config.verbose, "functionals": limits().map_compared}
    scorer = EvidenceScorer(config, sample, options)

    def nested(scorer: EvidenceScorer, found: list[Outcome]) -> Iterator[list[Kernel]]:
        single = best_of(found).family
        yield [Sum((Multiple(Tunable(), single), single))]

    choice = choose([lambda scorer, found: [kernels], nested], scorer)
    found = sorted(choice.found, key=lambda one: (not is_representable(one.problem), one.loss))
    first = best = found[0]
    if len(sample.y) > limits().map_compared:
        [best] = EvidenceScorer(config, sample, {**options, "functionals": limits().map_tuned})(first.family)
    if not np.isfinite(best.loss) or (is_representable(first.problem) and not is_representable(best.problem)):
        best = first
    return found, best, choice.status


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Rows that are left out together, by the distance from the rest at which they lie."""

    rest: Vector  # the rows that are left
    ways: dict[str, Vector]

    @classmethod
    def of(cls, X: Matrix, seed: int = 0) -> HeldOutRows:
        """Draw rows of the points X (t, n): random ones, and the nearest ones of random centers."""
        random, size, tree = np.random.default_rng(seed), len(X), KDTree(X)
        ways, used = {}, np.zeros(size, dtype=bool)
        for name in ("blocks", "stretches", "points"):
            share, each = SHARES[name]
            count = max(4, round(each * size)) if each else 1
            centers = random.permutation(size)[: max(1, round(share * size / count))]
            if name == "stretches":  # those at the ends of the map reveal kernels that cannot extrapolate
                centers = np.concatenate([centers, X.argmin(axis=0), X.argmax(axis=0)])
            found = np.unique(centers if count == 1 else tree.query(X[centers], count)[1])
            found = found[~used[found]]
            used[found], ways[name] = True, random.permutation(found)
        return cls(np.flatnonzero(~used), ways)

    def drawn(self, most: int) -> tuple[Vector, Vector]:
        """Return at most `most` rows of each way, and the number of the way of each row."""
        parts = [rows[:most] for rows in self.ways.values()]
        return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])

    def regions(self, way: Vector) -> Vector:
        """Return the number of left-out regions for each row that is drawn, given the numbers of their ways."""
        regions = [share / each if each else np.inf for share, each in (SHARES[name] for name in self.ways)]
        return np.minimum(1.0, np.array(regions) / np.maximum(np.bincount(way, minlength=len(regions)), 1))[way]


@dataclass(frozen=True, eq=False)
class MapErrors:
    """Scores settings of a map by errors at held-out rows."""

    config: ModelConfig
    sample: Sample
    held_out: HeldOutRows
    most: int  # rows of each way

    @cached_property
    def rest(self) -> Sample:
        """The rows that are left."""
        return self.sample.take(self.held_out.rest)

    @cached_property
    def rows(self) -> tuple[Vector, Vector]:
        """The held-out rows, and the number of the way of each."""
        return self.held_out.drawn(self.most)

    def problem(self, params: dict[str, Any]) -> Problem:
        """Return the problem of the rest."""
        return formulate(replace(self.config, **params), self.rest).problem(self.rest)[0]

    def __call__(self, params: dict[str, Any]) -> list[Outcome]:
        """Return the candidate with its errors (t,) or (t, outputs) as values."""
        rows, way = self.rows
        if seconds_left() <= 0:
            return [Outcome(params, inf, np.array([-inf]), TIME_LIMIT)]
        solution = self.problem(params).solve(tol=1e-3, verbose=self.config.verbose)
        errors = to_numpy(solution.function(double(self.sample.X)[rows])) - self.sample.y[rows]
        squares = self.normalized(errors)
        by_way = np.sqrt([np.mean(squares[way == k]) for k in np.unique(way)])
        loss = float(np.exp(np.mean(np.log(np.maximum(by_way, 1e-300)))))
        return [Outcome(params, loss if np.isfinite(loss) else inf, -by_way, values=errors)]

    def normalized(self, errors: Matrix) -> Vector:
        """Return squared errors in units of the variance of the targets, averaged over outputs."""
        y = self.sample.y.reshape(self.sample.size, -1)
        variance = np.maximum(y.var(axis=0), 1e-300)
        return np.mean(errors.reshape(len(errors), -1) ** 2 / variance, axis=1)

    def falls(self, before: Outcome, after: Outcome, least: float = LEAST_GAIN) -> bool:
        """Return whether errors fall significantly; each way counts as much as the others."""
        if not (np.isfinite(after.loss) and after.loss < before.loss):
            return False
        if before.values is None:  # there was no time for it
            return True
        _, way = self.rows
        first, second = self.normalized(before.values), self.normalized(after.values)
        size = np.array([np.mean(first[way == k]) * np.sum(way == k) for k in np.unique(way)])[way]
        return paired_test(first / size, second / size, least=least)

    def improves(self, before: Outcome, after: Outcome) -> bool:
        """Return whether errors fall significantly, and nowhere increase by more than a hundredth."""
        return self.falls(before, after) and bool(np.all(-after.scores <= 1.01 * -before.scores))


def near_weight(kernel: Kernel, sample: Sample, noise: float) -> float:
    """Return C for noise in units of the variogram at the median distance of a point to its fourth neighbor."""
    X = unique_rows(double(sample.X))[0]
    rows = np.random.default_rng(0).permutation(len(X))[:1000]
    distance = KDTree(X).query(X[rows], min(5, len(X)))[0][:, -1]
    near = float(np.median(distance[distance > 0])) if np.any(distance > 0) else 1.0
    variance = WeightNormalization.at(kernel, sample.X, sample.weight).variance
    assert isinstance(kernel, Polyharmonic)
    # 1 / (2 C) = noise * near^power / variance, since the variogram is the power of the distance
    return variance / (2 * noise * near**kernel.power)


@dataclass(frozen=True, eq=False, kw_only=True)
class MapChoice(Choice):
    """The choice of a map."""

    settings: Outcome  # those of the map, of which errors are compared for a stand-in if it is exact
    errors: MapErrors | None = None  # None if errors have not been compared

    @property
    def sentence(self) -> str:
        """A sentence about the errors of the chosen candidate, and of the best one with another approximation."""

        def described(one: Outcome) -> str:
            approximation = one.params["approximation"]
            return f"{one.params['kernel']!r} {'exactly' if approximation is None else f'with {approximation!r}'}"

        found, best = self.found, self.best
        assert self.errors is not None
        pairs = zip(self.errors.held_out.ways, best.scores, strict=True)
        shares = ", ".join(f"{100 * -score:.1f} % for {way}" for way, score in pairs)
        text = f"Errors at left-out rows decided: {described(best)} has {shares}, in deviations of the targets."
        others = [one for one in found if one.params["approximation"] != best.params["approximation"]]
        other = min(others or [one for one in found if one is not best], key=lambda one: one.loss, default=None)
        if other is None or not np.isfinite(other.loss):
            return text
        return f"{text} The mean error of {described(other)} differs by {100 * (other.loss / best.loss - 1):+.1f} %."

    def report(self) -> dict[str, Any]:
        """Return `selection_report_`."""
        assert self.errors is not None
        ways = list(self.errors.held_out.ways)
        columns = {"error": "geometric mean of errors at left-out rows"}

        def known(one: Outcome) -> dict[str, Any]:
            return {"error": one.loss, **dict(zip(ways, -one.scores, strict=False))}

        return report(self.sentence, replace(self.best, scores=np.array([-self.best.loss])), columns, self.found, known)


def chosen_map(config: ModelConfig, sample: Sample, most_exact: int) -> MapChoice:
    """Choose the kernel, the noise and the approximation of a map; exact ones are for at most `most_exact` rows."""
    large = sample.size > most_exact
    grid = large and can_map(int(sample.X.shape[1]))
    whole = FourierGrid() if grid else None
    settings = replace(config, approximation=whole if grid or not large else Neighbors())
    proposals, best, status = by_evidence(settings, sample)
    proposed = {**best.params, "approximation": whole}
    if sample.size < limits().map_fewest or not isinstance(config.label_loss, Squared):
        return MapChoice(proposals, status, lambda found: found[0], settings=replace(best, params=proposed))
    held_out = HeldOutRows.of(double(sample.X))
    first, more = (MapErrors(config, sample, held_out, most) for most in (FIRST, MORE))
    open_settings: list[dict[str, Any]] = []
    for power in POWERS:
        kernel = Polyharmonic(power)
        open_settings += [{"kernel": kernel, "C": near_weight(kernel, sample, noise)} for noise in NOISE]
    open_settings += [{"kernel": best.params["kernel"], "C": best.params["C"] / noise} for noise in PROPOSED_NOISE]
    common = {"nu": 0.0, "invariance": None, "scale": 1.0, "approximation": NEAREST}
    quick = [candidate for params in open_settings for candidate in first({**common, **params})]
    quick.sort(key=lambda candidate: candidate.loss)
    stationary = [one for one in quick if not one.params["kernel"].order]
    powers = [one for one in quick if one.params["kernel"].order]
    found = [more(dict(one.params))[0] for one in (*powers[: KEPT - 1], stationary[0])]
    local, stand_in = min(found, key=lambda candidate: candidate.loss), found[-1]
    chosen, may_be_stationary = local, not more.falls(stand_in, local, LEAST_AGAINST)
    if may_be_stationary and not large:  # neighborhoods of its kernel stand for the exact problem
        found[-1] = chosen = replace(stand_in, params={**proposed, "C": stand_in.params["C"]})
    elif may_be_stationary and grid and is_representable(best.problem):
        found += more(proposed)
        chosen = found[-1] if more.improves(local, found[-1]) else local
    if chosen is local:
        found += more({**local.params, "approximation": WIDER})
        chosen = found[-1] if found[-1].loss < 0.99 * local.loss else local
    if not np.isfinite(chosen.loss):  # no time was left to compare errors, and neighborhoods take none to be learned
        near = replace(best, params={**proposed, "approximation": NEAREST})
        return MapChoice(proposals, TIME_LIMIT, lambda found: found[0], settings=near)
    solved = [one for one in found if np.isfinite(one.loss)]
    limited = any(one.status == TIME_LIMIT for one in (*quick, *found))
    status = TIME_LIMIT if limited else CONVERGED
    return MapChoice(solved, status, lambda _: chosen, settings=chosen, errors=more)


@dataclass(frozen=True, eq=False)
class MapSpread:
    """Standard deviations of new values of a map, with an amplitude that depends on them.

    At left-out rows the predicted share of errors is within the deviations: in each of several ranges of deviations the
    factor is the quantile of the ratios of errors to them, and between these it is interpolated.
    """

    function: LocalFunction
    knots: Vector  # logarithms of deviations, in units of tau
    factors: Matrix  # (knots, outputs) logarithms of the amplitudes there

    @classmethod
    def of(cls, problem: Problem, errors: MapErrors, params: dict[str, Any], residuals: Matrix) -> MapSpread:
        """Return the deviations for the problem of all rows, for f with the given residuals at left-out rows.

        Neighborhoods are calibrated by their residuals, and multiplied by the mean ratio of those of f to them.  For a
        new region, quantiles of residuals from K others are those of the level (1 + 1/K) COVERED, as in hierarchical
        conformal prediction (Dunn, Wasserman and Ramdas 2023).
        """
        X, y, nearest = double(errors.sample.X), errors.sample.y, {**params, "approximation": NEAREST}

        def left_out(errors: MapErrors) -> tuple[Matrix, Vector, Vector]:
            (rows, way), function = errors.rows, errors.problem(nearest).solve().function
            values, variance = function.with_variance(Evaluation(X[rows]))
            found, s = (values - y[rows]).reshape(len(rows), -1), np.sqrt(variance + np.median(function.noise))
            return found, s, errors.held_out.regions(way)

        def size(found: Matrix) -> Vector:  # the mean of logarithms over the ways, for each output
            squares = [np.mean(found[errors.rows[1] == k] ** 2, axis=0) for k in np.unique(errors.rows[1])]
            return np.mean(np.log(np.maximum(squares, 1e-300)), axis=0) / 2

        change = size(residuals.reshape(len(residuals), -1)) - size(left_out(errors)[0])
        parts: list[tuple[Matrix, Vector, Vector]] = []
        for seed in range(1, 1 + limits().map_repeats):
            if not parts or seconds_left() > 0:
                parts.append(left_out(replace(errors, held_out=HeldOutRows.of(X, seed), most=PER_REPEAT)))
        found, s, regions = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.argsort(s[np.isfinite(s)], kind="stable")
        known = np.flatnonzero(np.isfinite(s))[order]
        bins = np.array_split(known, max(1, min(BINS, len(known) // PER_BIN)))
        ratios = np.abs(found) / s[:, None]
        knots = [float(np.mean(np.log(s[part]))) for part in bins]
        # the level (1 + 1/K) COVERED for K regions
        levels = [min(1.0, COVERED * (1 + 1 / np.sum(regions[part]))) for part in bins]
        # |e| <= 1.96 factor s with the probability of the level
        factors = [np.quantile(ratios[part], level, axis=0) / NORMAL for part, level in zip(bins, levels, strict=True)]
        whole = replace(problem, approximation=NEAREST).solve().function
        return cls(whole, np.array(knots), np.log(np.maximum(factors, 1e-300)) + change)

    def std(self, points: Functional, weight: float, noise: bool) -> Matrix:
        """Return the deviations (t,) or (t, outputs) of new values of a weight, or without their noise."""
        variance = self.function.variance(points)
        s = np.sqrt(variance + 1 / (2 * weight))
        amplitude = np.exp([np.interp(np.log(s), self.knots, column) for column in self.factors.T])
        spread = (amplitude * (s if noise else np.sqrt(variance))).T
        return spread[:, 0] if self.function.outputs is None else spread
