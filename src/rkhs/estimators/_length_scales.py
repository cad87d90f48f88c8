"""Length scales and metrics of the kernels of the estimators.

A scale can be a number, one number for each feature, "median", the median distance of the points, or "auto", the median
distance after each feature was divided by its own unit (`as_kernel`).
These names select a rule that learns it from the labels:

"evidence", "loo"         one scale for each feature by `Problem.tune`, with all losses replaced by squared ones
"cv"                      the best of `WIDTHS` times the median distance, of raw and of standardized features, by the
                          loss of held-out labels in five folds
"agop"                    a metric of directions, from the gradients of f (`learn_metric`)

The automatic search (`selection`) compares `WIDTHS` times the median distance of each of the `feature_maps`

    all features            x
    principal components    the projection on the first few principal directions
    decorrelated features   S^-1/2 x with the covariance S, so that the variance is the same in every direction

of features divided by their ranges and by their deviations (`units_of`), so that units do not matter, all estimated
from labeled and unlabeled points, and one scale for each feature learned by evidence (`ScaleLearner`).  If classes are
clusters they differ along the first components, and these are the main benefit of unlabeled points (cluster kernels:
Chapelle, Weston and Scholkopf 2003).  If features are many correlated measurements of few quantities, and classes
differ in directions of small variance, as in brain signals, decorrelated features are those of classical discriminants
(Mahalanobis 1936).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, cast

import numpy as np
import scipy.linalg

from rkhs import kernels
from rkhs._core.backend.arrays import Array, Matrix, Vector, double, like, row_keys, take_rows, to_numpy, unique_rows
from rkhs._core.backend.sparse import SparseVectors
from rkhs._core.finite.term import Term
from rkhs._core.graphs.neighbor_graph import principal_directions
from rkhs._core.learning.tuning import CRITERIA
from rkhs._core.problem import Problem
from rkhs._core.progress import seconds_left
from rkhs.estimators._data import Sample
from rkhs.estimators._folds import fold_values, left_out_by_folds
from rkhs.estimators._formulation import Formulation, ModelConfig, WeightNormalization, quoted
from rkhs.estimators.search._search import Outcome, choose, paired_test, row_losses
from rkhs.exceptions import warn
from rkhs.functionals import Gradient
from rkhs.kernels import Kernel, Tunable, median_scale
from rkhs.kernels._scaled import HasLengthScale
from rkhs.losses import Squared

KERNELS: dict[str, Callable[[Any], Kernel]] = {
    "gaussian": lambda scale: kernels.Gaussian(scale=scale),
    "laplace": lambda scale: kernels.Laplace(scale=scale),
    "matern": lambda scale: kernels.Matern(nu=2.5, scale=scale),
    "rational_quadratic": lambda scale: kernels.RationalQuadratic(alpha=1.0, scale=scale),
    "polynomial": lambda scale: kernels.Polynomial(degree=3, offset=1.0),
    "linear": lambda scale: kernels.Linear(),
}
FOREIGN_KERNELS = {  # those of scikit-learn by name
    "rbf": 'exp(-gamma |x - y|^2) is kernel="gaussian" with scale = 1 / sqrt(2 gamma)',
    "poly": "(gamma <x, y> + coef0)^degree is kernel=rkhs.kernels.Polynomial(degree, coef0 / gamma) times gamma^degree",
}
SCALED = ("gaussian", "laplace", "matern", "rational_quadratic")
OF_INNER_PRODUCTS = tuple(name for name in KERNELS if name != "laplace")  # those that accept sparse points
LEARNED = (*CRITERIA, "cv", "agop")  # names of rules that learn scales from labels
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # length scales to try, in units of the median distance
COMPONENTS = (3, 10, 30)  # numbers of principal components to try
LEAST_VALUES, OF_SLOPES = 10, 3000  # values, and functionals at most, by which slopes are compared with none
FEWEST_COMPARED, MOST_COMPARED = 12, 3000  # labels by which learned scales are compared with the median scale
ROUNDING = 1e-6  # relative size below which deviations, and their differences, are rounding


def as_kernel(kernel: Any, scale: Any, X: Array) -> Kernel:
    """Return the named kernel with the given scale; a kernel object is returned with its open scales resolved.

    The scale "median" is the median distance of the distinct rows of X.  "auto" is one for each feature, in units of
    `feature_units`: the median distance in these units.

    Parameters
    ----------
    kernel : str or Kernel
        The argument `kernel` of an estimator.
    scale : float, array-like of shape (n,) or str
        The argument `scale`.
    X : array of shape (t, n)
        The points.

    Returns
    -------
    Kernel
        The kernel.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.extend.as_kernel("gaussian", "median", np.array([[0.0], [1.0], [3.0]]))
    Gaussian(scale=2.0)
    """
    if not isinstance(kernel, Kernel):
        if kernel not in KERNELS:
            foreign = FOREIGN_KERNELS.get(kernel) if isinstance(kernel, str) else None
            hint = "" if foreign is None else f" scikit-learn's {kernel!r}, {foreign}."
            raise ValueError(f"kernel must be an rkhs kernel or one of {quoted(KERNELS)}, got {kernel!r}.{hint}")
        if isinstance(scale, str) and scale in LEARNED:
            raise ValueError(
                f"scale={scale!r} is learned from labels, which only InvariantRegressor and InvariantClassifier do: "
                'pass a number, or "median".'
            )
        if isinstance(scale, str) and scale not in ("auto", "median"):
            names = quoted(("auto", "median", *LEARNED))
            raise ValueError(f"scale must be positive, one per feature, or one of {names}, got {scale!r}.")
        if isinstance(scale, str) and scale == "auto":
            scale = _scale_in_units(kernel, X)
        index = getattr(scale, "index", ())  # a pandas series has one; strings, lists and tuples have a method
        if not callable(index) and any(isinstance(name, str) for name in index):
            raise ValueError(
                "scale is a series with names, which are not matched with the features: pass them in the order of the "
                "features, as scale[X.columns].to_numpy()."
            )
        kernel = KERNELS[kernel](scale)
    if not any(isinstance(value, str) for value in kernel.parameters().values()):
        return kernel  # no scale is open
    if isinstance(X, SparseVectors):
        return kernel.resolved(X[np.sort(np.unique(row_keys(X), return_index=True)[1])])
    return kernel.resolved(unique_rows(to_numpy(X))[0])


def _scale_in_units(kernel: str, X: Array) -> Any:
    """Return the scale "auto"; it is "median" for sparse points, whose features have a common unit."""
    if isinstance(X, SparseVectors) or kernel not in SCALED or X.shape[1] == 1:
        return "median"
    points = unique_rows(double(X))[0]
    units, made = feature_units(points), cast(HasLengthScale, KERNELS[kernel](1.0))
    return tuple((units * median_scale(points / units, distance=made.distance)).tolist())


def feature_units(X: Matrix) -> Vector:
    """Return the geometric means (n,) of standard deviation and range of the features.

    By the standard deviation alone, a feature that is nearly always zero, such as a pixel at the margin of an image,
    would count as much as all others; by the range alone, one outlier would hide a feature.  Constant features get a
    mean unit, 1 if all are constant: slopes in them do not change the mean size of slopes.
    """
    units = np.sqrt(X.std(axis=0) * np.ptp(X, axis=0))
    varies = units > 0
    return np.where(varies, units, np.mean(units[varies] ** -2.0) ** -0.5 if np.any(varies) else 1.0)


def is_learned(config: ModelConfig) -> bool:
    """Return whether the length scales are learned from labels."""
    return isinstance(config.scale, str) and config.scale in LEARNED


@dataclass(frozen=True, eq=False)
class NormalizedKernels:
    """Makes positive definite kernels with the mean k(x, x) = 1 at training points."""

    estimator: str  # the name of its class, for messages
    sample: Sample

    def __call__(self, kernel: Any, scale: Any) -> Kernel:
        """Return the kernel, given as a name or an object, with a scale."""
        made = as_kernel(kernel, scale, self.sample.X)
        if made.order:
            raise ValueError(
                f'{self.estimator} with invariance="auto" needs a positive definite kernel, and {made!r} is '
                f"conditionally positive definite of order {made.order}: use another kernel, such as Gaussian(), or "
                'state an invariance, such as invariance="gradient".'
            )
        if isinstance(kernel, str) and kernel in SCALED:  # k(x, x) = 1 for these
            return made
        return made * (1 / self.variance(made))

    def variance(self, kernel: Kernel) -> float:
        """Return the mean of k(x, x) at training points."""
        return WeightNormalization.at(kernel, self.sample.X, self.sample.weight).variance


def formulate(config: ModelConfig, sample: Sample) -> Formulation:
    """Determine the kernel, and everything else that a problem needs, from training points and their labels."""
    if config.learns_noise and sample.slopes is not None:
        config = with_learned_noise(config, sample)
    if not is_learned(config):
        return Formulation.at(config, sample, as_kernel(config.kernel, config.length_scale, sample.X))
    if config.scale == "agop":
        T = learn_metric(config, sample)
        return Formulation.at(config, sample, _kernel_in_metric(config, sample, T), T.T @ T)
    if config.kernel not in SCALED:
        raise ValueError(
            f"scale={config.scale!r} can be learned for the named kernels {', '.join(SCALED)}, got "
            f"kernel={config.kernel!r}: use Problem.tune, or a number."
        )
    if config.scale == "cv":
        return Formulation.at(config, sample, _cross_validated_kernel(config, sample))
    return formulate(_learned_or_median(config, sample), sample)


def _learned_or_median(config: ModelConfig, sample: Sample) -> ModelConfig:
    """Return the configuration with learned length scales, or with the median scale if that has smaller errors.

    Scales that are learned from few labels, or from features with heavy tails, may be worse than none.  Both predict
    the labels of three folds, and the scales are learned again without those of each fold.  With measured slopes there
    is no comparison, since these determine the scales.
    """
    open_C = config.learns_noise and config.label_loss.quadratic  # C is that of squared losses
    learned = with_learned_noise(config, sample, open_C)
    labeled = sample.take(sample.labeled).drawn(MOST_COMPARED)
    if sample.slopes is not None or labeled.size < FEWEST_COMPARED:
        return learned
    plain: dict[str, Any] = {"loss": "squared", "invariance": None, "nu": 0.0, "approximation": None}
    median, errors = replace(config, scale="median", learns_noise=False), np.zeros(2)
    for fold in left_out_by_folds(3, labeled.groups, None if config.classes is None else labeled.y, least=2).T:
        rest, left_out = labeled.take(~fold), labeled.take(fold)
        term = replace(config, C=1.0, **plain).label_term(left_out)
        for k, one in enumerate((median, with_learned_noise(config, rest, open_C))):
            f = formulate(replace(one, **plain), rest).problem(rest)[0].solve(verbose=config.verbose).function
            losses = row_losses(term.loss, to_numpy(f(left_out.X)), to_numpy(term.target))
            errors[k] += float(np.nan_to_num(to_numpy(term.weights())[:, 0] @ losses, nan=inf))
    if errors[1] <= errors[0]:
        return learned
    more = 100 * (np.sqrt(errors[1] / errors[0]) - 1)
    warn(
        f"Length scales learned by scale={config.scale!r} have {more:.0f} % larger errors at left-out labels than the "
        'median scale, which is used. Pass scale="median" to do so without a comparison, or more labels.'
    )
    return median


def tuned_problem(config: ModelConfig, sample: Sample, kernel: Kernel, open_C: bool = False, **options: Any) -> Any:
    """Return the tuned problem of squared losses of all observations, with the settings of the kernel open.

    With `open_C` so is the weight of values, and that of slopes if the configuration does not give it.  All scales that
    are learned from all rows are learned here, and those of the automatic search in `ScaleLearner.learned`.
    """
    terms = []
    for term, _ in config.observed_terms(sample.drawn()):
        weight: Any = to_numpy(term.weights())[:, 0]
        if open_C and (not term.functional.order or config.gradient_weight is None):
            weight = Tunable() * weight
        terms.append(Term(term.functional, Squared(), term.observed_target, weight))
    problem = Problem(kernel, terms, config.basis, approximation=config.approximation)
    return problem.tune(**{"verbose": config.verbose, **options})


def settings_of(config: ModelConfig, sample: Sample, tuned: Any) -> dict[str, Any]:
    """Return the values of C, kernel, scale and the weights of slopes (n,) that correspond to a tuned problem.

    C and the weights of slopes are those for a kernel of variance one.
    """
    kernel = tuned.kernel
    variance = WeightNormalization.at(kernel, sample.X, sample.weight).variance
    settings = {"C": config.C, "kernel": kernel, "scale": getattr(kernel, "scale", 1.0)}
    for k, term in enumerate(tuned.terms):
        factor = tuned.tuning.parameters.get(f"terms[{k}].weight")
        if factor is not None and term.functional.order:
            settings["gradient_weight"] = factor * variance * config.slope_weights(sample)
        elif factor is not None:
            # noise of 1e-12 of the variance of f: below, rounding would be fitted, also by a kernel of large variance
            settings["C"] = min(factor * variance * config.C, 5e11)
    return settings


@dataclass(frozen=True, eq=False)
class EvidenceScorer:
    """Scores kernels by the logarithm of the evidence minus the number of learned settings (Akaike's criterion).

    The loss of all observations is replaced by the squared one; C and the weights of slopes are learned.  The family of
    an outcome is its kernel with open parameters.
    """

    config: ModelConfig
    sample: Sample
    options: Mapping[str, Any]  # of `Problem.tune`

    def __call__(self, kernel: Kernel) -> list[Outcome]:
        tuned = tuned_problem(self.config, self.sample, kernel, True, **self.options)
        score = tuned.tuning.value - len(tuned.tuning.parameters)  # log evidence - q: minus half of Akaike's criterion
        params = {**settings_of(self.config, self.sample, tuned), "nu": 0.0, "invariance": None}
        loss = -score if np.isfinite(score) else inf  # without time for one evaluation, settings are those of the start
        each = self.sample.X.shape[1] > 1 and any("scale" in name for name in tuned.tuning.parameters)
        kind = "scales" if each else "none"
        return [Outcome(params, loss, np.array([score]), tuned.tuning.status, kind=kind, family=kernel, problem=tuned)]


def with_learned_noise(config: ModelConfig, sample: Sample, open_C: bool = True) -> ModelConfig:
    """Return the configuration with C, the weights of slopes and the length scales of maximum evidence.

    Length scales given as numbers, and a given weight of slopes, are kept; without `open_C` so is C.
    """
    if is_learned(config) and config.scale not in CRITERIA:  # another rule, which needs C
        return config
    is_open = isinstance(config.scale, str) and config.scale in ("auto", "median", *CRITERIA)
    kernel = as_kernel(config.kernel, Tunable(each=True) if is_open else config.scale, sample.X)
    criterion = config.scale if is_learned(config) else "evidence"
    tuned = tuned_problem(replace(config, approximation=None), sample, kernel, open_C, criterion=criterion)
    return replace(config, learns_noise=False, **settings_of(config, sample, tuned))


def left_out_values(config: ModelConfig, sample: Sample) -> Matrix:
    """Return the squared leave-one-out errors of the values (l,), in units of their variance.

    A point is left out with its slopes, as they are not known at new points either.
    """
    config = replace(config, loss="squared", approximation=None, invariance=None)
    found = formulate(config, sample).problem(sample)[0].leave_out("points")
    y = sample.y[sample.labeled].reshape(int(sample.labeled.sum()), -1)
    return np.mean(to_numpy(found.residuals[0]).reshape(y.shape) ** 2 / np.maximum(y.var(axis=0), 1e-300), axis=1)


def errors_by_slopes(
    config: ModelConfig, sample: Sample, without: Callable[[Sample], ModelConfig | None]
) -> tuple[str, bool] | None:
    """Compare errors at left-out values with measured slopes, by a configuration, and without, by another one.

    Return a sentence with both, and whether they are significantly smaller without; None if there is no time, or if
    there are too few values.  `without` chooses the configuration for a sample without slopes, at most `OF_SLOPES`
    functionals, or returns None.
    """
    rows = max(LEAST_VALUES, OF_SLOPES // (1 + int(sample.X.shape[1])))
    part = sample.take(np.sort(np.random.default_rng(0).permutation(sample.size)[:rows]))
    if seconds_left() <= 0 or part.labeled.sum() < LEAST_VALUES:
        return None
    alone = replace(part, slopes=None)
    other = without(alone)
    if other is None:
        return None
    errors = left_out_values(config, part), left_out_values(other, alone)
    of_both, of_values = (f"{100 * float(np.sqrt(np.mean(squares))):.3g} %" for squares in errors)
    sentence = f"errors at left-out values are {of_both} of the spread with the gradients and {of_values} without"
    return sentence, paired_test(*errors)


def deviations(X: Matrix) -> Vector:
    """Return the standard deviations of the features, with 1 for constant features."""
    spread = X.std(axis=0)
    return np.where(spread > 0, spread, 1.0)


def scaled_kernels(name: str, X: Matrix) -> Iterator[tuple[float, Kernel]]:
    """Yield widths and the named kernel of that width, in median distances of raw and of standardized points.

    Parameters
    ----------
    name : str
        "gaussian", "laplace", "matern" or "rational_quadratic".
    X : ndarray of shape (t, n)
        The points.

    Yields
    ------
    width : float
        The factor on the median distance.
    kernel : Kernel
        The kernel.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> widths = [width for width, _ in rkhs.extend.scaled_kernels("gaussian", np.array([[0.0], [1.0], [3.0]]))]
    >>> min(widths) < 1 < max(widths)
    True
    """
    if name not in SCALED:
        raise ValueError(f'scale="cv" needs one of the kernels {", ".join(SCALED)}, got kernel={name!r}.')
    make: Callable[[Any], Any] = KERNELS[name]
    units: list[Any] = [1.0, deviations(X)] if X.shape[1] > 1 else [1.0]
    for features in map(FeatureTransform, units):
        median = median_scale(features.points(X), distance=make(1.0).distance)
        yield from ((width, make(features.scale(width * median))) for width in WIDTHS)


def _cross_validated_kernel(config: ModelConfig, sample: Sample) -> Kernel:
    """Return the named kernel with the scale of the smallest mean held-out loss, by five folds."""
    if sample.slopes is not None:
        raise ValueError(
            'scale="cv" leaves out labels, which slopes measured at the same points would reveal: use scale="loo", '
            "which leaves out whole points."
        )
    random, most = np.random.default_rng(0), 1000  # labeled rows, and as many unlabeled ones
    kinds = [np.flatnonzero(sample.labeled), np.flatnonzero(~sample.labeled)]
    subsets = [rows if len(rows) <= most else random.choice(rows, most, replace=False) for rows in kinds]
    sample = sample.take(np.sort(np.concatenate(subsets)))

    def score(kernel: Kernel) -> list[Outcome]:
        problem = Formulation.at(config, sample, kernel).problem(sample)[0]
        term = problem.terms[0]
        left_out = left_out_by_folds(5, sample.take(sample.labeled).groups, least=2)
        values, rows = fold_values(problem, left_out, 'Scales by "cv"')
        losses = row_losses(term.loss, values, to_numpy(term.target)[rows])
        loss = float(np.nan_to_num(np.average(losses, weights=to_numpy(term.weights())[rows, 0]), nan=np.inf))
        return [Outcome({"kernel": kernel}, loss, np.array([-loss]))]

    kernels = [kernel for _, kernel in scaled_kernels(config.kernel, double(sample.X))]
    return choose([lambda scorer, found: ([kernel] for kernel in kernels)], score).best.params["kernel"]


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

    def kernel(self, kernel: Any, width: float, kernels: NormalizedKernels) -> tuple[Any, Any]:
        """Return the parameters `kernel` and `scale` of an estimator that are equivalent to `width` after the map."""
        if self.linear is not None:
            return kernels(kernel, width) @ (self.linear / self.unit), 1.0  # a kernel without an open length scale
        return kernel, self.scale(width)


def units_of(X: Matrix, one_unit: bool = False) -> list[Vector]:
    """Return the units (n,) of features to try: their ranges, and their deviations if these are not proportional.

    Ranges keep what the pixels of an image have in common; deviations do not depend on a single outlier.  With
    `one_unit`, features are tried as they are instead of their ranges: all are measured in the same unit.
    """
    spread, width = deviations(X), np.ptp(X, axis=0)
    width = np.ones(X.shape[1]) if one_unit else np.where(width > 0, width, 1.0)
    ratio = width / spread
    return [spread] if np.ptp(ratio) <= ROUNDING * ratio.max() else [width, spread]


def feature_maps(X: Matrix, one_unit: bool = False) -> Iterator[FeatureTransform]:
    """Yield the maps to try for points X (t, n), the identity first; `one_unit` is that of `units_of`."""
    t, n = X.shape
    units, spread = units_of(X, one_unit), deviations(X)
    yield from map(FeatureTransform, units)
    for unit in units if min(t, n) > min(COMPONENTS) else []:
        directions = principal_directions(X / unit, max(COMPONENTS) + 1)
        along = (X / unit @ directions.T).std(axis=0)
        rank = int(np.sum(along > ROUNDING * along[0]))  # below n if features repeat others
        yield from (FeatureTransform(unit, directions[:count], count) for count in COMPONENTS if count < rank)
    if 1 < n <= 500 and t > 1:  # larger eigendecompositions take too long
        yield FeatureTransform(spread, decorrelating(X / spread))


def decorrelating(X: Matrix) -> Matrix:
    """Return the whitening matrix (S + s I)^-1/2 with the covariance S of points X (t, n).

    s = tr S / t is about the error of a variance that is estimated from t points.  It does not change if a feature is
    split into equal ones with the same total variance.
    """
    # S = U diag(variances) U', (S + s I)^-1/2 = U diag((variances + s)^-1/2) U'
    variances, U = scipy.linalg.eigh(np.cov(X.T, bias=True))
    variances = np.clip(variances, 0.0, None)
    least = max(float(variances.sum()) / len(X), np.finfo(float).tiny)
    return np.asarray((U / np.sqrt(variances + least)) @ U.T)


def learn_metric(config: ModelConfig, sample: Sample) -> Matrix:
    """Return the matrix T (n, n) of a kernel k(Tx, Ty), learned from the gradients of f.

    With the average gradient outer product (AGOP) G = mean over points of (grad f)(grad f)', the next kernel is
    k(Tx, Ty) with T = G^(1/2), and f is learned again: the recursive feature machine of Radhakrishnan, Beaglehole,
    Pandit and Belkin (Science, 2024).  Features are standardized and T is normalized, so that units do not matter.
    Gradients of a poor f may mislead.  A fifth of the labels is therefore held out, and a round is accepted only if
    their losses fall significantly (`paired_test`).
    """
    rows = np.flatnonzero(sample.labeled)
    if len(rows) < 20:
        raise ValueError(
            f"scale={config.scale!r} holds out a fifth of the labels to check the metric and needs at least 20 labels, "
            f'got {len(rows)}: use scale="median".'
        )
    held = rows[left_out_by_folds(5, sample.groups[rows], least=2)[:, 0]]
    labeled = sample.labeled.copy()
    labeled[held] = False
    training, held_out = replace(sample, labeled=labeled), sample.take(np.sort(held))
    term = replace(config, C=1.0).label_term(held_out)
    weight, target = to_numpy(term.weights())[:, 0], to_numpy(term.target).reshape(len(held), -1)
    weight = weight / weight.mean()
    points = take_rows(sample.X, np.sort(np.random.default_rng(0).permutation(sample.size)[:4000]))  # enough for a mean
    spread = deviations(double(sample.X))

    def score(T: Matrix) -> list[Outcome]:
        """Return the outcome of the metric T, with its f and the losses of the held-out labels."""
        problem, _ = Formulation.at(config, training, _kernel_in_metric(config, training, T)).problem(training)
        f = problem.solve(config.options.method, tol=config.tol, verbose=config.verbose).function
        losses = weight * row_losses(term.loss, to_numpy(f(held_out.X)).reshape(target.shape), target)
        return [Outcome({"metric": T}, float(losses.mean()), -losses.mean(keepdims=True), values=(f, losses))]

    def improved(found: list[Outcome]) -> bool:
        before, after = found[-2:]
        return paired_test(before.values[1], after.values[1], least=0.0, signs=True)

    def metrics(scorer: Any, found: list[Outcome]) -> Iterator[list[Matrix]]:
        yield [np.diag(1 / spread)]
        for _ in range(6):
            slopes = double(Gradient(points)(found[-1].values[0]))  # (t, n), or (t, n, outputs)
            along = np.moveaxis(slopes.reshape(*slopes.shape[:2], -1), 2, 0).reshape(-1, len(spread)) * spread
            G = along.T @ along / len(slopes)  # mean of (grad f)(grad f)', in units of `spread`
            size = np.mean(np.diag(G))  # normalizes the diagonal of T'T, in units of `spread`, to the mean one
            values, axes = np.linalg.eigh(G)
            T = (axes * np.sqrt(np.clip(values, 0, None))) @ axes.T / np.sqrt(size) / spread  # G^(1/2)
            if not np.all(np.isfinite(T)):
                return
            yield [T]
            if not improved(found):
                return

    found = choose([metrics], score).found
    return found[-1 if len(found) == 1 or improved(found) else -2].params["metric"]


def _kernel_in_metric(config: ModelConfig, sample: Sample, T: Matrix) -> Kernel:
    return as_kernel(config.kernel, "median", sample.X @ like(T.T, sample.X)) @ T
