"""Length scales and metrics of kernels: the one place where the estimators decide them.

A scale that is given stays; "median" is the median distance of the points (`as_kernel`).  By word they are learned:

"evidence", "loo"       one for each feature, as by `Problem.tune`, all losses taken as squared
"cv"                    the best of `WIDTHS` times the median distance, of features as they are and divided by their
                        deviations, by the loss of held-out labels, a fifth at a time
"agop"                  directions in which f changes much count more (`learn_metric`), "agop-diagonal" features

The automatic search (`_selection`) compares `WIDTHS` times the median of each of the `feature_maps`

    all features            x
    principal components    the first few directions in which points differ most
    decorrelated features   S^-1/2 x  with the covariance S, so that points differ by the same in every direction

of features as they are or divided by their deviations, all found from labeled and unlabeled points, and scales for
each feature learned by evidence (`ScaleLearner`).  In many noisy features distances say little.  Where classes are
clusters they differ along the first components, which is what unlabeled points are worth most for (cluster kernels:
Chapelle, Weston and Scholkopf 2003).  Where features are many measurements of few things, with classes in what is left,
as in brain signals, decorrelated ones are what classical discriminants look at (Mahalanobis 1936).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.model_selection import KFold

from rkhs import kernels
from rkhs._backend.arrays import Array, Matrix, Vector, like, taken, to_numpy
from rkhs._calculus.function_spaces import Constant
from rkhs._estimators.cross_validation import dealt, fold_values
from rkhs._estimators.data import Sample
from rkhs._estimators.options import ModelConfig, quoted
from rkhs._estimators.scoring import SCALES, Candidate, Labeled, falls, leave_group_out, leave_one_out, mean_fall
from rkhs._finite.term import Term
from rkhs._learning.tuning import CRITERIA
from rkhs._problem import Problem
from rkhs.functionals import Evaluation, Gradient
from rkhs.invariances._graph import principal_directions
from rkhs.kernels import Kernel, Tunable, median_scale
from rkhs.losses import Squared

KERNELS: dict[str, Callable[[Any], Kernel]] = {
    "gaussian": lambda scale: kernels.Gaussian(scale=scale),
    "laplace": lambda scale: kernels.Laplace(scale=scale),
    "matern": lambda scale: kernels.Matern(nu=2.5, scale=scale),
    "rational_quadratic": lambda scale: kernels.RationalQuadratic(alpha=1.0, scale=scale),
    "polynomial": lambda scale: kernels.Polynomial(degree=3, offset=1.0),
    "linear": lambda scale: kernels.Linear(),
}
SCALED = ("gaussian", "laplace", "matern", "rational_quadratic")
AGOP = ("agop", "agop-diagonal")
LEARNED = (*CRITERIA, "cv", *AGOP)  # words for scales that are learned from labels
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the median distance
COMPONENTS = (3, 10, 30)  # principal ones, of more features
FEWEST_LABELS = 30  # from which scales are learned for each feature

KernelOf = Callable[[Any, Any], Any]  # from a kernel or its name, and a scale, to the kernel
ProblemOf = Callable[[Sample, Kernel], Problem]


def as_kernel(kernel: Any, scale: Any, X: Array) -> Kernel:
    """Return a kernel object as it is, or the named one with the given scale; "median" is that of the distinct X."""
    if not isinstance(kernel, Kernel):
        if kernel not in KERNELS:
            raise ValueError(f"kernel must be an rkhs kernel or one of {quoted(KERNELS)}, got {kernel!r}.")
        if isinstance(scale, str) and scale in LEARNED:
            raise ValueError(
                f"scale={scale!r} is learned from labels, which only InvariantRegressor and InvariantClassifier do: "
                'give a number, or "median".'
            )
        if isinstance(scale, str) and scale != "median":
            raise ValueError(
                f"scale must be positive, one per feature, or one of {quoted(('median', *LEARNED))}, got {scale!r}."
            )
        index = getattr(scale, "index", ())  # of a series; a method of texts, lists and tuples
        if not callable(index) and any(isinstance(name, str) for name in index):
            raise ValueError(
                "scale is a series with names, and scales are those of the features in their order: pass "
                "scale[X.columns].to_numpy()."
            )
        kernel = KERNELS[kernel](scale)
    left = any(isinstance(value, str) for value in kernel.parameters().values())
    return kernel.resolved(np.unique(to_numpy(X), axis=0)) if left else kernel


def is_learned(config: ModelConfig) -> bool:
    """Return whether the length scales are learned from labels."""
    return isinstance(config.scale, str) and config.scale in LEARNED


def resolve_kernel(config: ModelConfig, sample: Sample, problem_of: ProblemOf) -> tuple[Kernel, Matrix | None]:
    """Return the kernel with its scale and metric, and the metric if it was learned; `problem_of` is for fits."""
    if not is_learned(config):
        return as_kernel(config.kernel, config.scale, sample.X), None
    if config.scale in AGOP:
        T = learn_metric(config, sample, problem_of)
        return _in_metric(config, sample.apart(), T), T.T @ T
    if config.kernel not in SCALED:
        raise ValueError(
            f"scale={config.scale!r} is for kernels given by name that have one, {', '.join(SCALED)}, got "
            f"kernel={config.kernel!r}: use Problem.tune, or a number."
        )
    if config.scale == "cv":
        return _cross_validated_kernel(config, sample, problem_of), None
    terms = [
        Term(one.functional, Squared(), one.told, weight=Tunable() * to_numpy(one.weights())[:, 0])
        for one in config.observed_terms(sample.apart())
    ]
    problem = Problem(KERNELS[config.kernel](Tunable(each=True)), terms, config.basis)
    return problem.tune(config.scale, verbose=config.verbose).kernel, None


def deviations(X: Matrix) -> Vector:
    """Return the standard deviations of the features, 1 for constant ones."""
    spread = X.std(axis=0)
    return np.where(spread > 0, spread, 1.0)


def _cross_validated_kernel(config: ModelConfig, sample: Sample, problem_of: ProblemOf) -> Kernel:
    """Return the named kernel with the scale of the least mean loss of labels held out, a fifth at a time."""
    if sample.slopes is not None:
        raise ValueError(
            'scale="cv" leaves labels out, and slopes that were measured at their points would tell them: use '
            'scale="loo", which leaves whole points out.'
        )
    sample = sample.apart()  # rows are left out one by one
    random, most = np.random.default_rng(0), 1000  # labeled rows, and as many others
    kinds = [np.flatnonzero(sample.labeled), np.flatnonzero(~sample.labeled)]
    some = [rows if len(rows) <= most else random.choice(rows, most, replace=False) for rows in kinds]
    sample = sample.take(np.sort(np.concatenate(some)))
    X = to_numpy(sample.X).astype(np.float64)
    make: Callable[[Any], Any] = KERNELS[config.kernel]
    candidates: list[Kernel] = []
    units: list[Any] = [1.0, deviations(X)] if X.shape[1] > 1 else [1.0]
    for features in map(FeatureMap, units):
        median = median_scale(features.points(X), distance=make(1.0).distance)
        candidates += [make(features.scale(width * median)) for width in WIDTHS]
    losses = []
    for problem in (problem_of(sample, kernel) for kernel in candidates):
        term = problem.terms[0]
        count = np.ones(term.size, dtype=int)
        left_out = dealt(KFold(min(5, term.size), shuffle=True, random_state=0), count)
        values, rows, _ = fold_values(problem, left_out, count, 'Scales by "cv"')
        target, weight = to_numpy(term.target)[rows], to_numpy(term.weights())[rows, 0]
        each = to_numpy(term.loss.value(values, target)).reshape(len(rows), -1).sum(axis=1)
        losses.append(np.nan_to_num(np.average(each, weights=weight), nan=np.inf))
    return candidates[int(np.argmin(losses))]


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """A map of features: what features are divided by, a number or one each, and a linear map (m, n) of them."""

    unit: Any
    linear: Matrix | None = None  # None for the features themselves
    components: int | None = None  # the number of principal components that the map leaves, if it leaves these

    def points(self, X: Matrix) -> Matrix:
        """Return the points (t, m) whose Euclidean distances are meant."""
        scaled = X / self.unit
        return scaled if self.linear is None else scaled @ self.linear.T

    def scale(self, width: float) -> float | tuple[float, ...]:
        """Return the length scale of features, one or one each, that is a width in these distances."""
        each = np.asarray(width * self.unit)
        return float(each) if each.ndim == 0 else tuple(each.tolist())

    def kernel(self, kernel: Any, width: float, kernel_of: KernelOf) -> tuple[Any, Any]:
        """Return the equivalent parameters `kernel` and `scale` of an estimator."""
        if self.linear is not None:
            return kernel_of(kernel, width) @ (self.linear / self.unit), width
        return kernel, self.scale(width)


def feature_maps(X: Matrix) -> Iterator[FeatureMap]:
    """Yield the maps to try for points X (t, n): features themselves first."""
    t, n = X.shape
    spread, rounding = deviations(X), 1e-6  # share below which deviations, and their differences, are rounding
    alike = np.ptp(spread) <= rounding * spread.max()
    units: list[Any] = [1.0] if alike else [1.0, spread]
    yield from map(FeatureMap, units)
    for unit in units if min(t, n) > min(COMPONENTS) else []:
        directions = principal_directions(X / unit, max(COMPONENTS) + 1)
        along = (X / unit @ directions.T).std(axis=0)
        rank = int(np.sum(along > rounding * along[0]))  # of features that repeat others
        yield from (FeatureMap(unit, directions[:count], count) for count in COMPONENTS if count < rank)
    if 1 < n <= 500 and t > 1:  # an eigendecomposition of n x n
        yield FeatureMap(spread, decorrelating(X / spread))


def decorrelating(X: Matrix) -> Matrix:
    """Return (S + s I)^-1/2 with the covariance S of points X (t, n).

    s = tr S / t is about the error of each variance estimated from t points.  It does not change when a feature is
    split into equal ones that together carry the same information.
    """
    variances, U = scipy.linalg.eigh(np.cov(X.T, bias=True))
    variances = np.clip(variances, 0.0, None)
    least = max(float(variances.sum()) / len(X), np.finfo(float).tiny)
    return np.asarray((U / np.sqrt(variances + least)) @ U.T)


@dataclass(frozen=True, eq=False)
class ScaleLearner:
    """Learns a length scale for each feature by evidence, where that predicts labels it has not seen.

    Evidence with a prior that draws the logarithms of scales to their mean finds which features matter (theory, section
    9).  It has seen all labels, so that leave-one-out errors flatter it.  It is scored by labels that it has not seen:
    those of each of three folds, by scales learned from the two others, compared label by label with the best candidate
    that has no learned scales.  The points X (l, n) are all labeled.
    """

    X: Matrix
    labeled: Labeled
    kernel_of: KernelOf
    Cs: Sequence[float]
    intercept: bool

    def candidate(self, first: Candidate, base: Candidate) -> Candidate | None:
        """Return a candidate with scales learned from those of `first` if it beats `base` on unseen labels."""
        everything, folds = np.arange(len(self.X)), list(self.folds())
        scale = self.learned(first, everything)
        if scale is None:
            return None
        C, values = self._best(first.kernel, scale, everything)
        without = np.zeros_like(self.labeled.target)
        K = self.kernel_of(base.kernel, base.scale)(self.X)
        for group, _ in folds:
            without[group] = leave_group_out(K, self.labeled, base.C, self.intercept, group)
        before, weight = self.labeled.squares(without), self.labeled.weight
        if not falls(before, self.labeled.squares(values), weight):  # not even where the scales have seen the labels
            return None
        found = without.copy()
        for group, rest in folds:
            own = self.learned(first, rest)
            if own is None:
                return None
            K = self.kernel_of(first.kernel, own)(self.X)
            own_C = self._best(first.kernel, own, rest)[0]
            found[group] = leave_group_out(K, self.labeled, own_C, self.intercept, group)
            if self.labeled.loss(found) > self.labeled.loss(without):  # worse so far
                return None
        if not falls(before, self.labeled.squares(found), weight):
            return None
        return Candidate(SCALES, first.kernel, scale, None, 0.0, C, *self.labeled.scored(found))

    def learned(self, first: Candidate, rows: Vector) -> tuple[float, ...] | None:
        """Return the scales that make the labels of some rows most likely; None where these say nothing."""
        some, X = self.labeled.take(rows), self.X[rows]
        if len(np.unique(X, axis=0)) < 2:
            return None
        spread = deviations(X)
        start = float(np.exp(np.mean(np.log(np.asarray(first.scale) / spread))))
        kernel = self.kernel_of(first.kernel, Tunable(start=start, each=True))
        term = Term(Evaluation(X / spread), Squared(), some.target, weight=Tunable(start=first.C) * some.weight)
        problem = Problem(kernel, [term], Constant() if self.intercept else None)
        iterations = 100 if self.labeled.classes is None else 30  # values may have no noise, classes do
        most = min(600, max(FEWEST_LABELS, int((5e7 / X.shape[1]) ** 0.5)))  # labels: half a second of a core a step
        tuned: Any = problem.tune(starts=1, prior=1.0, functionals=most, iterations=iterations)
        return tuple((spread * tuned.kernel.scale).tolist()) if np.isfinite(tuned.tuning.value) else None

    def folds(self) -> Iterator[tuple[Vector, Vector]]:
        """Yield the labels of each of three folds, and the others, whatever the order and the units of points are."""
        order = np.lexsort(self.X.T)
        classes = np.zeros(len(order), int) if self.labeled.classes is None else self.labeled.classes[order]
        shuffled = np.random.default_rng(0).permutation(len(order))
        shuffled = shuffled[np.argsort(classes[shuffled], kind="stable")]  # so that each fold has its share of a class
        fold = np.empty(len(order), int)
        fold[order[shuffled]] = np.arange(len(order)) % 3
        for k in range(3):
            yield np.flatnonzero(fold == k), np.flatnonzero(fold != k)

    def _best(self, kernel: Any, scale: Any, rows: Vector) -> tuple[float, Matrix]:
        """Return the C of the least leave-one-out error of some rows, and its predictions."""
        some = self.labeled.take(rows)
        K = self.kernel_of(kernel, scale)(self.X[rows])
        found = list(leave_one_out(K, some.target, some.weight, self.Cs, self.intercept))
        best = int(np.argmin([some.loss(values) for values in found]))
        return self.Cs[best], found[best]


def learn_metric(config: ModelConfig, sample: Sample, problem_of: ProblemOf) -> Matrix:
    """Return the map T (n, n) of a kernel k(Tx, Ty), learned from the slopes of f itself.

    With G = mean over points of (grad f)(grad f)', the average gradient outer product (AGOP), the next kernel is
    k(Tx, Ty), T = G^(1/2), and f is learned again: the recursive feature machine of Radhakrishnan, Beaglehole, Pandit
    and Belkin (Science, 2024).  Features are first divided by their deviations, and T has a fixed size, so that units
    do not matter.  A round may also do harm: slopes of a poor f point anywhere.  So a fifth of the labels is held out,
    and a round is kept only where their losses fall significantly (`improves`).
    """
    sample = sample.apart()
    own = np.flatnonzero(sample.labeled)
    if len(own) < 20:
        raise ValueError(
            f"scale={config.scale!r} holds out a fifth of the labels to see whether it helps, and there are only "
            f'{len(own)}: it needs 20. Use scale="median".'
        )
    held = np.random.default_rng(0).permutation(own)[: len(own) // 5]
    labeled = sample.labeled.copy()
    labeled[held] = False
    part, held_out = replace(sample, labeled=labeled), sample.take(np.sort(held))
    term = replace(config, C=1.0).label_term(held_out)
    weight, target = to_numpy(term.weights())[:, 0], to_numpy(term.target).reshape(len(held), -1)
    points = taken(sample.X, np.sort(np.random.default_rng(0).permutation(sample.size)[:4000]))  # slopes are averaged
    spread = deviations(to_numpy(sample.X).astype(np.float64))

    def fitted(T: Matrix) -> tuple[Any, Vector]:
        problem = problem_of(part, _in_metric(config, part, T))
        f = problem.solve(config.options.method, tol=config.tol, verbose=config.verbose).function
        values = to_numpy(f(held_out.X)).reshape(target.shape)
        return f, weight * np.sum(to_numpy(term.loss.value(values, target)), axis=1)

    best = np.diag(1 / spread)
    f, before = fitted(best)
    for _ in range(6):
        slopes = to_numpy(Gradient(points)(f)).astype(np.float64)  # (t, n), or (t, n, outputs)
        along = np.moveaxis(slopes.reshape(*slopes.shape[:2], -1), 2, 0).reshape(-1, len(spread)) * spread
        G = along.T @ along / len(slopes)
        size = np.mean(np.diag(G))  # by which the diagonal of T'T, in units of `spread`, has the mean one
        if config.scale == "agop-diagonal":  # each feature keeps a tenth of its weight, whatever its slopes are
            T = np.diag(np.sqrt(0.9 * (np.diag(G) / size) + 0.1)) / spread
        else:
            values, axes = np.linalg.eigh(G)
            T = (axes * np.sqrt(np.clip(values, 0, None))) @ axes.T / np.sqrt(size) / spread
        if not np.all(np.isfinite(T)):
            break
        f, after = fitted(T)
        if not improves(before, after):
            break
        best, before = T, after
    return best


def _in_metric(config: ModelConfig, sample: Sample, T: Matrix) -> Kernel:
    return as_kernel(config.kernel, "median", sample.X @ like(T.T, sample.X)) @ T


def improves(before: Vector, after: Vector) -> bool:
    """Return whether losses fall significantly: their mean by a standard error, or most of them.

    Most of them: so many more fall than rise that it is two standard errors of a fair coin, and the mean falls.  Where
    few labels have most of the loss, the mean says nothing about all others.
    """
    mean, error = mean_fall(before, after, np.ones(len(before)))
    most = float(np.mean(np.sign(before - after))) * len(before) ** 0.5 > 2.0
    return mean > error or (most and mean > 0)
