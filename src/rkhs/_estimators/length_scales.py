"""Length scales and metrics of the kernels of the estimators.

A scale can be a number, one number for each feature, or "median", the median distance of the points (`as_kernel`).
These names select a rule that learns it from the labels:

"evidence", "loo"         one scale for each feature by `Problem.tune`, with all losses replaced by squared ones
"cv"                      the best of `WIDTHS` times the median distance, of raw and of standardized features, by the
                          loss of held-out labels in five folds
"agop", "agop-diagonal"   a metric of directions, or of features, from the gradients of f (`learn_metric`)

The automatic search (`selection`) compares `WIDTHS` times the median distance of each of the `feature_maps`

    all features            x
    principal components    the projection on the first few principal directions
    decorrelated features   S^-1/2 x with the covariance S, so that the variance is the same in every direction

of raw and of standardized features, all estimated from labeled and unlabeled points, and one scale for each feature
learned by evidence (`ScaleLearner`).  If classes are clusters they differ along the first components, and these are
the main benefit of unlabeled points (cluster kernels: Chapelle, Weston and Scholkopf 2003).  If features are many
correlated measurements of few quantities, and classes differ in directions of small variance, as in brain signals,
decorrelated features are those of classical discriminants (Mahalanobis 1936).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.model_selection import KFold

from rkhs import kernels
from rkhs._backend.arrays import Array, Matrix, Vector, double, like, row_keys, take_rows, to_numpy, unique_rows
from rkhs._backend.sparse import SparseVectors
from rkhs._backend.threads import map_in_threads, single_blas
from rkhs._calculus.function_spaces import Constant
from rkhs._estimators.cross_validation import fold_values, rows_per_fold
from rkhs._estimators.data import Sample
from rkhs._estimators.options import ModelConfig, quoted
from rkhs._estimators.scoring import (
    SCALES,
    Candidate,
    Labeled,
    falls_significantly,
    leave_group_out,
    leave_one_out,
    mean_fall,
)
from rkhs._finite.term import Term
from rkhs._graphs.neighbors import principal_directions
from rkhs._learning.tuning import CRITERIA
from rkhs._problem import Problem
from rkhs.functionals import Evaluation, Gradient
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
OF_INNER_PRODUCTS = tuple(name for name in KERNELS if name != "laplace")  # those that accept sparse points
AGOP = ("agop", "agop-diagonal")
LEARNED = (*CRITERIA, "cv", *AGOP)  # names of rules that learn scales from labels
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # length scales to try, in units of the median distance
COMPONENTS = (3, 10, 30)  # numbers of principal components to try
FEWEST_LABELS = 30  # labels needed to learn one scale for each feature
FEW = 300  # labels by whose evidence kernels with learned scales are compared
MANY = 400  # labels from which length scales are learned

KernelOf = Callable[[Any, Any], Any]  # maps a kernel or its name, and a scale, to the kernel
ProblemOf = Callable[[Sample, Kernel], Problem]


def as_kernel(kernel: Any, scale: Any, X: Array) -> Kernel:
    """Return the named kernel with the given scale; a kernel object is returned with its open scales resolved.

    The scale "median" is the median distance of the distinct rows of X.
    """
    if not isinstance(kernel, Kernel):
        if kernel not in KERNELS:
            raise ValueError(f"kernel must be an rkhs kernel or one of {quoted(KERNELS)}, got {kernel!r}.")
        if isinstance(scale, str) and scale in LEARNED:
            raise ValueError(
                f"scale={scale!r} is learned from labels, which only InvariantRegressor and InvariantClassifier do: "
                'pass a number, or "median".'
            )
        if isinstance(scale, str) and scale != "median":
            raise ValueError(
                f"scale must be positive, one per feature, or one of {quoted(('median', *LEARNED))}, got {scale!r}."
            )
        index = getattr(scale, "index", ())  # a pandas series has one; strings, lists and tuples have a method
        if not callable(index) and any(isinstance(name, str) for name in index):
            raise ValueError(
                "scale is a series with names, which are not matched with the features: pass them in the order of the "
                "features, as scale[X.columns].to_numpy()."
            )
        kernel = KERNELS[kernel](scale)
    unresolved = any(isinstance(value, str) for value in kernel.parameters().values())
    if not unresolved:
        return kernel
    if isinstance(X, SparseVectors):
        return kernel.resolved(X[np.sort(np.unique(row_keys(X), return_index=True)[1])])
    return kernel.resolved(unique_rows(to_numpy(X))[0])


def is_learned(config: ModelConfig) -> bool:
    """Return whether the length scales are learned from labels."""
    return isinstance(config.scale, str) and config.scale in LEARNED


def resolve_kernel(config: ModelConfig, sample: Sample, problem_of: ProblemOf) -> tuple[Kernel, Matrix | None]:
    """Return the kernel with its scale and metric, and the metric (n, n), or None if it was not learned.

    `problem_of(sample, kernel)` formulates the problems that have to be solved to learn them.
    """
    if not is_learned(config):
        return as_kernel(config.kernel, config.scale, sample.X), None
    if config.scale in AGOP:
        T = learn_metric(config, sample, problem_of)
        return _kernel_in_metric(config, sample.apart(), T), T.T @ T
    if config.kernel not in SCALED:
        raise ValueError(
            f"scale={config.scale!r} can be learned for the named kernels {', '.join(SCALED)}, got "
            f"kernel={config.kernel!r}: use Problem.tune, or a number."
        )
    if config.scale == "cv":
        return _cross_validated_kernel(config, sample, problem_of), None
    terms = [
        Term(term.functional, Squared(), term.observed_target, weight=Tunable() * to_numpy(term.weights())[:, 0])
        for term, _ in config.observed_terms(sample.apart())
    ]
    problem = Problem(KERNELS[config.kernel](Tunable(each=True)), terms, config.basis)
    return problem.tune(config.scale, verbose=config.verbose).kernel, None


def deviations(X: Matrix) -> Vector:
    """Return the standard deviations of the features, with 1 for constant features."""
    spread = X.std(axis=0)
    return np.where(spread > 0, spread, 1.0)


def _cross_validated_kernel(config: ModelConfig, sample: Sample, problem_of: ProblemOf) -> Kernel:
    """Return the named kernel with the scale of the smallest mean held-out loss, by five folds."""
    if sample.slopes is not None:
        raise ValueError(
            'scale="cv" leaves out labels, which slopes measured at the same points would reveal: use scale="loo", '
            "which leaves out whole points."
        )
    sample = sample.apart()  # folds leave out single rows
    random, most = np.random.default_rng(0), 1000  # labeled rows, and as many unlabeled ones
    kinds = [np.flatnonzero(sample.labeled), np.flatnonzero(~sample.labeled)]
    subsets = [rows if len(rows) <= most else random.choice(rows, most, replace=False) for rows in kinds]
    sample = sample.take(np.sort(np.concatenate(subsets)))
    X = double(sample.X)
    make: Callable[[Any], Any] = KERNELS[config.kernel]
    candidates: list[Kernel] = []
    units: list[Any] = [1.0, deviations(X)] if X.shape[1] > 1 else [1.0]
    for features in map(FeatureTransform, units):
        median = median_scale(features.points(X), distance=make(1.0).distance)
        candidates += [make(features.scale(width * median)) for width in WIDTHS]
    losses = []
    for problem in (problem_of(sample, kernel) for kernel in candidates):
        term = problem.terms[0]
        count = np.ones(term.size, dtype=int)
        left_out = rows_per_fold(KFold(min(5, term.size), shuffle=True, random_state=0), count)
        values, rows, _ = fold_values(problem, left_out, count, 'Scales by "cv"')
        target, weight = to_numpy(term.target)[rows], to_numpy(term.weights())[rows, 0]
        row_losses = to_numpy(term.loss.value(values, target)).reshape(len(rows), -1).sum(axis=1)
        losses.append(np.nan_to_num(np.average(row_losses, weights=weight), nan=np.inf))
    return candidates[int(np.argmin(losses))]


@dataclass(frozen=True, eq=False)
class FeatureTransform:
    """A linear map of points: features are divided by `unit`, then mapped by the matrix `linear`."""

    unit: Any  # a number, or one for each feature
    linear: Matrix | None = None  # (m, n); None for the identity
    components: int | None = None  # the number of principal components, if the map projects on these

    def points(self, X: Matrix) -> Matrix:
        """Return the mapped points (t, m)."""
        scaled = X / self.unit
        return scaled if self.linear is None else scaled @ self.linear.T

    def scale(self, width: float) -> float | tuple[float, ...]:
        """Return the length scale of the raw features, or one for each, that corresponds to `width` after the map."""
        scales = np.asarray(width * self.unit)
        return float(scales) if scales.ndim == 0 else tuple(scales.tolist())

    def kernel(self, kernel: Any, width: float, kernel_of: KernelOf) -> tuple[Any, Any]:
        """Return the parameters `kernel` and `scale` of an estimator that are equivalent to `width` after the map."""
        if self.linear is not None:
            return kernel_of(kernel, width) @ (self.linear / self.unit), width
        return kernel, self.scale(width)


def feature_maps(X: Matrix) -> Iterator[FeatureTransform]:
    """Yield the maps to try for points X (t, n), the identity first."""
    t, n = X.shape
    spread, rounding = deviations(X), 1e-6  # relative size below which deviations, and their differences, are rounding
    standardized = np.ptp(spread) <= rounding * spread.max()
    units: list[Any] = [1.0] if standardized else [1.0, spread]
    yield from map(FeatureTransform, units)
    for unit in units if min(t, n) > min(COMPONENTS) else []:
        directions = principal_directions(X / unit, max(COMPONENTS) + 1)
        along = (X / unit @ directions.T).std(axis=0)
        rank = int(np.sum(along > rounding * along[0]))  # below n if features repeat others
        yield from (FeatureTransform(unit, directions[:count], count) for count in COMPONENTS if count < rank)
    if 1 < n <= 500 and t > 1:  # larger eigendecompositions take too long
        yield FeatureTransform(spread, decorrelating(X / spread))


def decorrelating(X: Matrix) -> Matrix:
    """Return the whitening matrix (S + s I)^-1/2 with the covariance S of points X (t, n).

    s = tr S / t is about the error of a variance that is estimated from t points.  It does not change if a feature is
    split into equal ones with the same total variance.
    """
    variances, U = scipy.linalg.eigh(np.cov(X.T, bias=True))
    variances = np.clip(variances, 0.0, None)
    least = max(float(variances.sum()) / len(X), np.finfo(float).tiny)
    return np.asarray((U / np.sqrt(variances + least)) @ U.T)


@dataclass(frozen=True, eq=False)
class ScaleLearner:
    """Learns a length scale for each feature by evidence, and accepts it if it predicts unseen labels better.

    The prior shrinks the logarithms of the scales towards their mean (theory, section 9).  Since the scales depend on
    all labels, leave-one-out errors would be optimistic.  Scales are therefore scored in three folds: the labels of
    each fold are predicted with scales learned from the other two, and the errors are compared label by label with
    those of the best candidate without learned scales.  Of several kernels for values only the one with the largest
    evidence is scored; classes are no values with noise, and the evidence of their labels would not compare kernels.
    The points X (l, n) are all labeled.
    """

    X: Matrix
    labeled: Labeled
    kernel_of: KernelOf
    Cs: Sequence[float]

    def candidate(self, starts: Sequence[Candidate], base: Candidate) -> Candidate | None:
        """Return the best candidate with scales learned from one of the starts, if it beats `base`; else None."""
        every, regression = np.arange(len(self.X)), self.labeled.classes is None
        learned = map_in_threads(lambda first: self.learned(first, every, FEW if regression else MANY), starts)
        found = list(zip(learned, starts, strict=True))
        if regression:
            _, first = best = max(found, key=lambda pair: pair[0][0])
            found = [best if len(every) <= FEW else (self.learned(first, every), first)]
        scored = [self._scored(first, scale, base) for (evidence, scale), first in found if evidence > -inf]
        return min((one for one in scored if one is not None), key=lambda one: one.loss, default=None)

    def _scored(self, first: Candidate, scale: tuple[float, ...], base: Candidate) -> Candidate | None:
        """Return the candidate with these scales, learned from a start, if it beats `base`; else None."""
        C, values = self._best(first.kernel, scale, np.arange(len(self.X)))
        folds = list(self.folds())
        baseline = np.zeros_like(self.labeled.target)
        K = self.kernel_of(base.kernel, base.scale)(self.X)
        for group, _ in folds:
            baseline[group] = leave_group_out(K, self.labeled, base.C, group)
        before, weight = self.labeled.squares(baseline), self.labeled.weight
        if not falls_significantly(before, self.labeled.squares(values), weight):
            return None  # not even with scales that have seen the labels

        def predicted(fold: tuple[Vector, Vector]) -> Matrix | None:
            """Return the predictions for the labels of a fold, None if the other labels determine no scales."""
            evidence, scale = self.learned(first, fold[1])
            if evidence == -inf:
                return None
            C = self._best(first.kernel, scale, fold[1])[0]
            return leave_group_out(self.kernel_of(first.kernel, scale)(self.X), self.labeled, C, fold[0])

        predictions = baseline.copy()
        for (group, _), values_of_fold in zip(folds, map_in_threads(predicted, folds), strict=True):
            if values_of_fold is None:
                return None
            predictions[group] = values_of_fold
            if self.labeled.loss(predictions) > self.labeled.loss(baseline):  # already worse after these folds
                return None
        if not falls_significantly(before, self.labeled.squares(predictions), weight):
            return None
        return Candidate(SCALES, first.kernel, scale, C, *self.labeled.scored(predictions))

    def learned(self, first: Candidate, rows: Vector, most: int = MANY) -> tuple[float, tuple[float, ...]]:
        """Return the logarithm of the maximum evidence for the labels of these rows, and its scales.

        It is minus infinity if the labels determine no scales.  At most `most` labels are used.
        """
        subset, X = self.labeled.take(rows), self.X[rows]
        if len(unique_rows(X)[0]) < 2:
            return -inf, ()
        spread = deviations(X)
        start = float(np.exp(np.mean(np.log(np.asarray(first.scale) / spread))))
        kernel = self.kernel_of(first.kernel, Tunable(start=start, each=True))
        term = Term(Evaluation(X / spread), Squared(), subset.target, weight=Tunable(start=first.C) * subset.weight)
        problem = Problem(kernel, [term], Constant())
        iterations = 100 if self.labeled.classes is None else 30  # targets without noise need more than classes do
        most = min(most, max(FEWEST_LABELS, int((5e7 / X.shape[1]) ** 0.5)))  # labels; half a second per step on a core
        with single_blas():  # threads gain little at this size, and with 16 cores take ten times as long
            tuned: Any = problem.tune(starts=1, prior=1.0, functionals=most, iterations=iterations)
        evidence = float(tuned.tuning.value)
        return evidence if np.isfinite(evidence) else -inf, tuple((spread * tuned.kernel.scale).tolist())

    def folds(self) -> Iterator[tuple[Vector, Vector]]:
        """Yield the test and training indices of three folds, which depend neither on the order of rows nor on units.

        The folds are stratified: each has its share of every class.
        """
        order = np.lexsort(self.X.T)
        classes = np.zeros(len(order), int) if self.labeled.classes is None else self.labeled.classes[order]
        shuffled = np.random.default_rng(0).permutation(len(order))
        shuffled = shuffled[np.argsort(classes[shuffled], kind="stable")]
        fold = np.empty(len(order), int)
        fold[order[shuffled]] = np.arange(len(order)) % 3
        for k in range(3):
            yield np.flatnonzero(fold == k), np.flatnonzero(fold != k)

    def _best(self, kernel: Any, scale: Any, rows: Vector) -> tuple[float, Matrix]:
        """Return the C with the smallest leave-one-out error on these rows, and its predictions."""
        subset = self.labeled.take(rows)
        K = self.kernel_of(kernel, scale)(self.X[rows])
        predictions = list(leave_one_out(K, subset.target, subset.weight, self.Cs))
        best = int(np.argmin([subset.loss(values) for values in predictions]))
        return self.Cs[best], predictions[best]


def learn_metric(config: ModelConfig, sample: Sample, problem_of: ProblemOf) -> Matrix:
    """Return the matrix T (n, n) of a kernel k(Tx, Ty), learned from the gradients of f.

    With the average gradient outer product (AGOP) G = mean over points of (grad f)(grad f)', the next kernel is
    k(Tx, Ty) with T = G^(1/2), and f is learned again: the recursive feature machine of Radhakrishnan, Beaglehole,
    Pandit and Belkin (Science, 2024).  Features are standardized and T is normalized, so that units do not matter.
    Gradients of a poor f may mislead.  A fifth of the labels is therefore held out, and a round is accepted only if
    their losses fall significantly (`improves`).
    """
    sample = sample.apart()
    rows = np.flatnonzero(sample.labeled)
    if len(rows) < 20:
        raise ValueError(
            f"scale={config.scale!r} holds out a fifth of the labels to check the metric and needs at least 20 labels, "
            f'got {len(rows)}: use scale="median".'
        )
    held = np.random.default_rng(0).permutation(rows)[: len(rows) // 5]
    labeled = sample.labeled.copy()
    labeled[held] = False
    training, held_out = replace(sample, labeled=labeled), sample.take(np.sort(held))
    term = replace(config, C=1.0).label_term(held_out)
    weight, target = to_numpy(term.weights())[:, 0], to_numpy(term.target).reshape(len(held), -1)
    points = take_rows(sample.X, np.sort(np.random.default_rng(0).permutation(sample.size)[:4000]))  # enough for a mean
    spread = deviations(double(sample.X))

    def fitted(T: Matrix) -> tuple[Any, Vector]:
        """Return f, learned with the metric T, and the losses of the held-out labels."""
        problem = problem_of(training, _kernel_in_metric(config, training, T))
        f = problem.solve(config.options.method, tol=config.tol, verbose=config.verbose).function
        values = to_numpy(f(held_out.X)).reshape(target.shape)
        return f, weight * np.sum(to_numpy(term.loss.value(values, target)), axis=1)

    best = np.diag(1 / spread)
    f, before = fitted(best)
    for _ in range(6):
        slopes = double(Gradient(points)(f))  # (t, n), or (t, n, outputs)
        along = np.moveaxis(slopes.reshape(*slopes.shape[:2], -1), 2, 0).reshape(-1, len(spread)) * spread
        G = along.T @ along / len(slopes)
        size = np.mean(np.diag(G))  # normalizes the diagonal of T'T, in units of `spread`, to the mean one
        if config.scale == "agop-diagonal":  # each feature keeps a tenth of its weight, however small its slopes are
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


def _kernel_in_metric(config: ModelConfig, sample: Sample, T: Matrix) -> Kernel:
    return as_kernel(config.kernel, "median", sample.X @ like(T.T, sample.X)) @ T


def improves(before: Vector, after: Vector) -> bool:
    """Return whether losses (l,) fall significantly, by the mean or by a sign test.

    Either the mean falls by more than its standard error, or it falls and the number of losses that fall exceeds the
    number that rise by two standard deviations of a fair coin.  The sign test matters if few labels dominate the mean.
    """
    mean, error = mean_fall(before, after, np.ones(len(before)))
    sign_test = float(np.mean(np.sign(before - after))) * len(before) ** 0.5 > 2.0
    return mean > error or (sign_test and mean > 0)
