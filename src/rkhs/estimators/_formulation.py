"""Formulate the `Problem` of an estimator from its configuration and training points, with weights that have no units.

A priori f is a Gaussian process with covariance k: a value f(x) has the variance k(x, x), and L(f) has the variance
|L|^2, the squared norm of L in the RKHS.  With the means over the training points and over the functionals of an
invariance,

    v = mean of k(x_i, x_i),        s^2 = mean of |L_ij|^2 / v

L_ij(f) / s is typically as large as a value of f, in any units of the features.  The problem of the estimators is

    1/2 |f|^2  +  C / v  sum_i loss(f(x_i); y_i)  +  nu / v  mean_i sum_j loss(L_ij(f) / s; target / s)

The mean is over the first axis of the family, which is that of the points, or of edges; the sum is over all functionals
at one point, such as all its slopes.  The Gaussian kernel has v = 1, and its gradients have s = 1 / scale, so their
squared loss is nu scale^2 mean_i |grad f(x_i)|^2.  Multiples of the kernel, other units, duplicated features, and
repeated or additional rows do not change the meaning of C and nu.  Only this module converts them to weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from numbers import Integral
from typing import Any

import numpy as np

from rkhs import losses
from rkhs._core.backend.arrays import Array, Matrix, Vector, check_number, double, take_rows, to_numpy
from rkhs._core.backend.sparse import SparseVectors
from rkhs._core.calculus.function_spaces import Constant, FunctionSpace
from rkhs._core.finite.basis import on_basis, orthonormal
from rkhs._core.finite.term import Term
from rkhs._core.gram import gram
from rkhs._core.problem import Problem
from rkhs.estimators._data import ClassPrior, Sample, class_weights, one_vs_rest
from rkhs.functionals import Evaluation, Functional, Gradient, GraphDifference
from rkhs.functionals._base import centered
from rkhs.invariances import Invariance
from rkhs.invariances._base import as_invariances, resolve_columns
from rkhs.kernels import GraphKernel, Kernel, Sum
from rkhs.losses import Loss, Squared

WIDTH = 0.1  # width of named losses that have one, in units of f, as the default epsilon of scikit-learn's SVR
LOSSES: dict[str, Loss] = {
    "hinge": losses.Hinge(),
    "squared_hinge": losses.SquaredHinge(),
    "logistic": losses.Logistic(),
    "squared": losses.Squared(),
    "absolute": losses.Absolute(),
    "huber": losses.Huber(delta=WIDTH),
    "epsilon_insensitive": losses.EpsilonInsensitive(epsilon=WIDTH),
    "squared_epsilon_insensitive": losses.SquaredEpsilonInsensitive(epsilon=WIDTH),
    "quantile": losses.Quantile(tau=0.5),
    "one_sided": losses.OneSided(),
    "squared_one_sided": losses.SquaredOneSided(),
}
CLASSIFICATION = ("hinge", "squared_hinge", "logistic", "squared")
REGRESSION = ("squared", "huber", "epsilon_insensitive", "squared_epsilon_insensitive", "absolute", "quantile")
INVARIANCE = tuple(name for name in LOSSES if name not in ("hinge", "squared_hinge", "logistic", "quantile"))

# Ranges of the default grids, as powers of ten: C and nu chosen by folds, C by leave-one-out errors, and nu of graphs.
C_RANGE, NU_RANGE, WIDE_C_RANGE, GRAPH_RANGE = (0, 3), (0, 2), (-1, 8), (2, 8)


@dataclass(frozen=True)
class SolverOptions:
    """How and where the problem of an estimator is solved; for its parameter `solver`.

    Parameters
    ----------
    method : "auto" or Solver, default="auto"
        "auto", which chooses by estimated cost, or one of `rkhs.solvers`.
    device : str, optional
        A device of PyTorch such as "cuda", to learn there; predictions come back as the kind of array that X is.
        "auto" is "cuda" if PyTorch is installed and sees a GPU, and otherwise the CPU.  The final problem is solved
        there (its points, targets and Gram products); settings are chosen on the CPU.
    precision : str, optional
        The arithmetic of Gram products: "float64", "float32", "tf32x3" or "tf32"; see `rkhs.Problem`.  An approximation
        sums in float64 instead.

    Examples
    --------
    >>> import rkhs
    >>> model = rkhs.InvariantClassifier(solver=rkhs.SolverOptions(precision="float32"))
    """

    method: Any = "auto"
    device: str | None = None
    precision: str | None = None

    @classmethod
    def of(cls, solver: Any) -> SolverOptions:
        """Return `solver` if it is a SolverOptions, otherwise the options with it as the method.

        Parameters
        ----------
        solver : "auto", Solver or SolverOptions
            The parameter `solver` of an estimator.

        Returns
        -------
        SolverOptions
            The options.
        """
        options = solver if isinstance(solver, SolverOptions) else cls(solver)
        return replace(options, device="cuda" if sees_gpu() else None) if options.device == "auto" else options


def sees_gpu() -> bool:
    """Return whether PyTorch is installed and sees a GPU."""
    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def as_loss(loss: Any, names: tuple[str, ...], parameter: str) -> Loss:
    """Return the named loss; a loss object is returned unchanged.

    Parameters
    ----------
    loss : str or Loss
        The argument of an estimator.
    names : tuple of str
        The names that the estimator accepts.
    parameter : str
        The name of the parameter, for errors.

    Returns
    -------
    Loss
        The loss.

    Examples
    --------
    >>> from rkhs.extend import as_loss
    >>> as_loss("hinge", ("hinge", "logistic"), "loss")
    Hinge()
    """
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str) or loss not in names:
        raise ValueError(f"{parameter} must be an rkhs loss or one of {quoted(names)}, got {loss!r}.")
    return LOSSES[loss]


def quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def as_grid(values: Any, parameter: str, powers: tuple[int, int], *, with_zero: bool = False) -> list[float]:
    """Return the values of a grid: those given, or for an integer that many between two powers of ten.

    With `with_zero` the first of these is 0, and zero is a valid value.
    """
    if isinstance(values, Integral) and not isinstance(values, bool):
        if values < 1:
            raise ValueError(f"{parameter} must be a positive number of values, or the values, got {values!r}.")
        count = int(values) - with_zero
        return [0.0] * with_zero + [float(v) for v in np.logspace(*powers, count)]
    return [check_number(v, parameter, or_zero=with_zero) for v in as_list(values)]


def as_list(values: Any) -> list[Any]:
    """Return the values of a grid as a list; a single value makes a list of one."""
    several = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    result = list(values) if several else [values]
    if not result:
        raise ValueError("A grid needs at least one value.")
    return result


MOST_NORMS = 2048  # functionals over which norms are averaged, evenly spaced if there are more


@dataclass(frozen=True, eq=False)
class WeightNormalization:
    """The sizes v and s that make weights dimensionless, for a kernel and training points.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    variance : float
        The mean of k(x, x), which is v.
    points : array of shape (m, n), optional
        Where polynomials are fitted for a conditionally positive definite kernel.

    Examples
    --------
    >>> import rkhs
    >>> X = np.linspace(0, 1, 5)[:, None]
    >>> rkhs.extend.WeightNormalization.at(4 * rkhs.Gaussian(), X, np.ones(5)).variance
    4.0
    """

    kernel: Kernel
    variance: float
    points: Array | None = None

    @classmethod
    def at(cls, kernel: Kernel, X: Array, weight: Vector) -> WeightNormalization:
        """Compute v from points (t, n) and their weights; graph kernels have the mean one over their nodes."""
        points = take_rows(X, spaced(len(X), 256)) if kernel.order else None
        rows, summands = spaced(len(X), MOST_NORMS), kernel.summands()
        graphs = float(sum(factor for factor, k in summands if isinstance(k, GraphKernel)))
        others = [factor * k for factor, k in summands if not isinstance(k, GraphKernel)]
        if not others:
            return cls(kernel, graphs, points)
        rest = Sum(tuple(others)) if graphs else kernel
        squares = _squared_norms(rest, Evaluation(take_rows(X, rows)), points)
        return cls(kernel, graphs + _mean(squares, weight[rows]), points)

    def observed(self, term: Term) -> Term:
        """Return a term of observations with its weight divided by v."""
        return term if self.variance == 1.0 else term.changed(weight=np.asarray(term.weight) / self.variance)

    def size(self, L: Functional, times: Any) -> float:
        """Return s of functionals with the multiplicities `times`."""
        rows, per_row = rows_of(L)
        subset = spaced(rows, max(32, MOST_NORMS // per_row))  # at least 32 points
        index = (subset[:, None] * per_row + np.arange(per_row)).ravel()
        squares = _squared_norms(self.kernel, L if len(index) == L.size else L.take(index), self.points)
        return float(np.sqrt(_mean(squares, np.broadcast_to(times, L.size)[index]) / self.variance))

    def invariance(
        self, L: Functional, loss: Loss, target: float, weight: float, times: Any, size: float, share: float = 1.0
    ) -> Term:
        """Return the term weight / v * mean_i sum_j loss(L_ij(f) / s; target / s), or a block's `share` of it."""
        rows, per_row = rows_of(L)
        total = rows * times if isinstance(times, float) else float(np.sum(times)) / per_row
        if weight == np.inf:  # constraints, but for rows that occur zero times
            mean: Any = np.where(np.asarray(times) > 0, weight, 0.0)
        else:
            mean = weight * share / (self.variance * total) * times if total > 0 else weight * times
        rescaled = loss.in_units(size)
        if rescaled is None:
            return Term(L / size, loss, target=target / size, weight=mean)
        scaled_loss, factor = rescaled
        return Term(L, scaled_loss, target=target, weight=factor * mean)


def rows_of(L: Functional) -> tuple[int, int]:
    """Return the number of rows of a family, and of functionals in each row."""
    rows = int(L.shape[0]) if L.shape else 1
    return rows, max(1, L.size // max(rows, 1))


def spaced(count: int, most: int) -> Vector:
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).round().astype(np.intp)


def _mean(squares: Vector, times: Vector) -> float:
    """Return the weighted mean, or 1 if it is undefined, zero or overflows."""
    total = float(np.sum(times))
    mean = float(np.dot(squares, times)) / total if total > 0 else 0.0
    return mean if 0 < mean < np.inf else 1.0


def _squared_norms(kernel: Kernel, L: Functional, points: Array | None) -> Vector:
    """Return the squared norms |L_j|^2 of functionals.

    A conditionally positive definite kernel has them for functionals that vanish on its polynomials.  Then L is
    replaced by M(f) = L(f) - L(p), p being the least squares polynomial of f at `points`.
    """
    squares = double(gram(kernel, L).diagonal())
    if points is None:
        return squares
    # L(p) = B f(points) with B = L(basis) T Q', where Q = E(basis) T is orthonormal
    E = Evaluation(points)
    space = centered(kernel.null_space, [E])
    Q, transform = orthonormal(on_basis(E, space), float(np.finfo(np.float64).eps))
    B = on_basis(L, space) @ transform @ Q.T  # L(p) = B f(points)
    cross, K = (to_numpy(gram(kernel, left, E).dense()) for left in (L, E))
    # |L - B E|^2 = <L, L> - 2 <L, B E> + <B E, B E>
    return squares - 2 * np.sum(B * cross, axis=1) + np.sum((B @ K) * B, axis=1)


@dataclass(frozen=True, eq=False)
class ModelConfig:
    """The parameters of an estimator that determine its problem, with the classes and the feature names."""

    kernel: Any = "gaussian"  # a name, or a Kernel
    scale: Any = "median"
    loss: Loss | str = "squared"
    C: float = 1.0
    learns_noise: bool = False  # whether C, and what else is open, is learned if there are slopes
    invariance: Any = None
    nu: float = 0.0
    gradient_weight: float | Vector | None = None
    class_weight: Mapping[Any, float] | str | ClassPrior | None = None
    fit_intercept: bool = True
    unlabeled: Any = None  # the y of points without a label
    approximation: Any = None
    solver: Any = "auto"  # "auto", a Solver, or SolverOptions
    tol: float = 1e-4
    verbose: bool = False
    classes: Vector | None = None  # None for regression
    feature_names: Any = None  # of the columns of X

    @property
    def options(self) -> SolverOptions:
        return SolverOptions.of(self.solver)

    @property
    def length_scale(self) -> Any:
        """The scale; "median" instead of "auto" if the features are pixels or samples of one quantity."""
        common = any(getattr(item.maker, "common_unit", False) for item in as_invariances(self.invariance))
        return "median" if common and isinstance(self.scale, str) and self.scale == "auto" else self.scale

    @property
    def basis(self) -> FunctionSpace | None:
        return Constant() if self.fit_intercept else None

    def label_term(self, sample: Sample) -> Term:
        """Return C * sum over the labeled points of class and sample weight * loss(f(x_i); y_i)."""
        labeled = sample.take(sample.labeled)
        target: Vector = labeled.y
        factors: Any = check_number(self.C, "C", or_infinite=True)
        if self.classes is not None:
            factors = factors * class_weights(self.class_weight, self.classes, labeled.y, labeled.weight)
            target = one_vs_rest(labeled.y, len(self.classes))
        return Term(Evaluation(labeled.X), self.label_loss, target=target, weight=factors * labeled.weight)

    @property
    def label_loss(self) -> Loss:
        names = REGRESSION if self.classes is None else CLASSIFICATION
        return as_loss(self.loss, names, "loss")

    def slope_weights(self, sample: Sample) -> Vector:
        """Return the weights (n,) of measured slopes in each feature.

        By default they are C times the variance of the feature: a slope times the standard deviation of its feature has
        the units of the target.
        """
        n = int(sample.X.shape[1])
        if isinstance(self.gradient_weight, np.ndarray):
            return self.gradient_weight
        if self.gradient_weight is not None:
            return np.full(n, check_number(self.gradient_weight, "gradient_weight"))
        X = double(sample.X)
        return check_number(self.C, "C") * np.cov(X.T, ddof=0, aweights=sample.weight).reshape(n, n).diagonal()

    def observed_terms(self, sample: Sample, slope_weights: Vector | None = None) -> list[tuple[Term, Vector]]:
        """Return the terms of labels and of measured slopes with the indices of their points.

        The weights are those for a kernel with k(x, x) = 1.
        """
        pairs = [(self.label_term(sample), np.flatnonzero(sample.labeled))] if np.any(sample.labeled) else []
        if sample.slopes is None:
            return pairs
        which = np.flatnonzero(~np.all(np.isnan(sample.slopes.reshape(sample.size, -1)), axis=1))
        factors = self.slope_weights(sample) if slope_weights is None else slope_weights
        measured = sample.take(which)
        weight = np.outer(measured.weight, factors).reshape(measured.X.shape)
        slopes = Term(Gradient(measured.X), Squared(), target=measured.slopes, weight=weight)
        return [*pairs, (slopes, which)]


@dataclass(frozen=True)
class SlopesInScales:
    """The gradient at points, whose slopes are measured in the length scale of each feature: units do not matter."""

    scales: tuple[float, ...]

    @property
    def factors(self) -> Vector:
        """The factors (n,) on the squared slopes along the features."""
        return np.asarray(self.scales) ** 2

    @classmethod
    def of(cls, kernel: Kernel) -> Any:
        """Return the slopes in the length scales of a kernel, or "gradient" if it has a common one."""
        scales = getattr(kernel, "scale", None)
        return cls(scales) if isinstance(scales, tuple) else "gradient"

    def __call__(self, X: Array) -> Functional:
        return Gradient(X)


@dataclass(frozen=True, eq=False)
class Formulation:
    """The map from points to their problem, with the settings that the points of the first fit determine.

    It also formulates the terms of one of many blocks of points; `totals` are then the weights of all blocks.
    """

    config: ModelConfig
    norms: WeightNormalization
    invariances: tuple[Invariance, ...]
    sizes: tuple[float | None, ...]  # s of each invariance; None if it depends on all points
    slope_weights: Vector | None  # of the slopes in each feature, if slopes are measured
    metric: Matrix | None = None  # of the kernel, if it was learned
    totals: Vector | None = None  # (2,) weights of all labeled and of all unlabeled rows

    @classmethod
    def at(
        cls, config: ModelConfig, sample: Sample, kernel: Kernel, metric: Matrix | None = None, totals: Any = None
    ) -> Formulation:
        """Determine the settings for a kernel at training points, or at a sample of the rows of many blocks."""
        norms = WeightNormalization.at(kernel, sample.X, sample.weight)
        nu, prior = check_number(config.nu, "nu", or_zero=True, or_infinite=True), config.invariance
        if isinstance(prior, str) and prior == "auto":
            unlabeled = not np.all(sample.labeled) if totals is None else totals[1] > 0
            dense = not isinstance(sample.X, SparseVectors)
            smooth = kernel.smoothness(int(sample.X.shape[1])) > 1
            # slopes that were measured are not assumed to be small
            prior = SlopesInScales.of(kernel) if unlabeled and dense and smooth and sample.slopes is None else None
        if sample.slopes is not None and isinstance(prior, str) and prior == "gradient":
            prior = None
        given = [invariance for invariance in as_invariances(prior) if invariance.shape_constraint is None]
        invariances = resolve_columns(given if nu > 0 else [], config.feature_names)
        sizes: list[float | None] = []
        for invariance in invariances:
            points = sample.take(holds_at(invariance, sample))
            if totals is not None and not points.size:  # later blocks may have such points
                points = sample.take(np.arange(1))
            functionals = invariance(points.X) if points.size and not invariance.once else None
            times = None if functionals is None else multiplicity(invariance, functionals, points.weight)
            sizes.append(None if functionals is None else size_of(invariance, functionals, norms, times))
        slope_weights = None if sample.slopes is None else config.slope_weights(sample)
        return cls(replace(config, nu=nu), norms, invariances, tuple(sizes), slope_weights, metric, totals)

    def problem(self, sample: Sample) -> tuple[Problem, list[Vector]]:
        """Return the problem of a sample, and for each term the indices of its points."""
        config, observed = self.config, self.config.observed_terms(sample, self.slope_weights)
        pairs = [(self.norms.observed(term), which) for term, which in observed]
        if isinstance(config.class_weight, ClassPrior) and not np.all(sample.labeled):
            pairs.append((self.norms.observed(proportion_term(config, sample)), np.arange(0)))
        for invariance, size in zip(self.invariances, self.sizes, strict=True):
            which = np.flatnonzero(holds_at(invariance, sample))
            if len(which):
                term = self._invariance_term(invariance, sample.take(which), size)
                pairs += [(term, which)] if term.size and np.any(np.asarray(term.weight) > 0) else []
        options = config.options
        settings = {"device": options.device, "precision": options.precision, "approximation": config.approximation}
        problem = Problem(self.norms.kernel, [term for term, _ in pairs], config.basis, **settings)
        return problem, [which for _, which in pairs]

    def block_terms(self, sample: Sample) -> list[Term]:
        """Return the terms of one of many blocks of points: the labels, then each invariance, which may be empty."""
        terms = [self.norms.observed(self.config.label_term(sample))]
        for invariance, size in zip(self.invariances, self.sizes, strict=True):
            points = sample.take(holds_at(invariance, sample))
            nonempty = points if points.size else sample.take(np.arange(1))  # an empty term needs a functional as well
            # mean over all rows = sum over blocks of (weight of the block / weight of all) * mean over the block
            share = float(points.weight.sum()) / weight_of(invariance, self.totals)
            term = self._invariance_term(invariance, nonempty, size, share)
            terms.append(term if points.size else Term(term.functional.take([]), term.loss, target=invariance.target))
        return terms

    def _invariance_term(self, invariance: Invariance, points: Sample, size: float | None, share: float = 1.0) -> Term:
        """Return the term nu * weight * mean_i sum_j loss(L_ij(f) / s; target / s) of an invariance at points.

        The size s is computed if it is None; `share` is that of one of many blocks of points in the mean.
        """
        functionals = invariance(points.X)
        times = 1.0 if invariance.once else multiplicity(invariance, functionals, points.weight)
        size = size_of(invariance, functionals, self.norms, times) if size is None else size
        loss = as_loss(invariance.loss, INVARIANCE, "The loss of an Invariance")
        weight = self.config.nu * invariance.weight
        return self.norms.invariance(functionals, loss, invariance.target, weight, times, size, share)


def weight_of(invariance: Invariance, totals: Any) -> float:
    """Return the total weight of the rows at which an invariance holds, or 1 if there are none yet."""
    kinds = {"labeled": totals[0], "unlabeled": totals[1], "all": totals.sum()}
    return float(kinds[invariance.on]) or 1.0


def proportion_term(config: ModelConfig, sample: Sample) -> Term:
    """Return the term that the mean of f over all rows, labeled or not, is that of the known class proportions.

    One-against-rest functions that are 1 on a class of share p and -1 elsewhere have the mean 2 p - 1.  The term weighs
    as much as all labels together.
    """
    assert config.classes is not None
    assert isinstance(config.class_weight, ClassPrior)
    # C l (mean_i f_c(x_i) - (2 p_c - 1))^2
    means = 2 * config.class_weight.of(config.classes) - 1
    rows = spaced(sample.size, MOST_NORMS)
    mean = (sample.weight[rows] / sample.weight[rows].sum())[None, :] @ Evaluation(take_rows(sample.X, rows))
    target = means[1:] if len(means) == 2 else means[None, :]
    weight = check_number(config.C, "C") * float(sample.weight[sample.labeled].sum())
    return Term(mean, Squared(), target=target, weight=weight)


def depends_on_row_order(invariance: Any) -> bool:
    """Return whether an invariance refers to rows of X by index, as a graph given by the user does."""
    if isinstance(invariance, str):
        return False
    return any(getattr(item.maker, "graph", None) is not None for item in as_invariances(invariance))


def holds_at(invariance: Invariance, sample: Sample) -> Vector:
    """Return the mask of the points at which an invariance holds: all, the labeled, or the unlabeled ones."""
    every = np.ones(sample.size, dtype=bool)
    return every if invariance.on == "all" else sample.labeled == (invariance.on == "labeled")


def size_of(invariance: Invariance, functionals: Functional, norms: WeightNormalization, times: Any) -> float:
    """Return s.

    The functionals of an invariance of all points together (`once`) are normalized already: on white noise the expected
    sum of their squares is one.
    """
    if invariance.once:
        return float(max(functionals.size, 1) ** -0.5)
    return norms.size(functionals, times) if functionals.size else 1.0


def multiplicity(invariance: Invariance, functionals: Functional, weight: Vector) -> Any:
    """Return the factor on each functional: the weight of its point, w_i w_j for an edge (i, j), else 1."""
    if isinstance(invariance.maker, SlopesInScales):
        return np.outer(weight, invariance.maker.factors).ravel()
    if np.all(weight == 1):
        return 1.0
    if isinstance(functionals, GraphDifference):
        return weight[functionals.edges[:, 0]] * weight[functionals.edges[:, 1]]
    if functionals.shape[0] == len(weight):
        return np.repeat(weight, functionals.size // len(weight))
    return 1.0
