"""The base of estimators that learn one function from one term of observations, such as counts or comparisons.

An observation is a functional of f with a loss, a target and a weight; it refers to one training point (a count, the
position of a class relative to a threshold) or to two of them (a comparison).  C and the length scale can be chosen by
folds of the training points: a fold leaves out every observation that refers to one of its points, and is scored on
the observations that refer to its points only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils.validation import validate_data

from rkhs._backend.arrays import Array, Matrix, Vector, double, to_numpy
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._estimators.base import BaseKernelEstimator, accepted_formats, array_kind, check_finite, dense
from rkhs._estimators.length_scales import KERNELS, SCALED, WIDTHS, as_kernel, deviations
from rkhs._estimators.normalization import WeightNormalization
from rkhs._estimators.options import check_number
from rkhs._finite.solution import CONVERGED
from rkhs._finite.term import Term
from rkhs._problem import Problem
from rkhs._spaces import Landmarks
from rkhs._warnings import warn
from rkhs.functionals import Evaluation, Functional
from rkhs.kernels import Kernel, median_scale
from rkhs.losses import Loss

MOST_EXACT = 5_000  # observations of single points up to which f is learned without landmarks: 0.2 GB
FUNCTIONS = 1_000  # landmarks for more of them, and if several observations refer to each point
SEARCH_ROWS = 1_000  # observations refer to at most this many points while C and the scale are chosen
SEARCH_FUNCTIONS = 150  # landmarks of the search
GRID = tuple(10.0**k for k in range(-3, 4))  # the values of C for C="cv"
FOLD_TOL = 1e-3  # relative duality gap of the models of the folds


@dataclass(frozen=True, eq=False)
class ObservationSet:
    """Functionals of f with targets, and the points that each of them refers to."""

    X: Matrix  # (t, n) the training points
    points: Matrix  # (t, n + m) the points as arguments of f, with m more coordinates that the kernel ignores
    functional: Functional  # (N,)
    loss: Loss
    target: Vector  # (N,)
    weight: Vector  # (N,) factors on C
    rows: Matrix  # (N, 1) or (N, 2) the indices of the points of each functional
    basis: FunctionSpace | None
    classes: Vector | None = None  # (t,) for stratified folds

    def problem(self, kernel: Kernel, C: float, approximation: Landmarks | None) -> tuple[Problem, float]:
        """Return the problem, and the mean of k(x, x), by which its weights are divided."""
        norms = WeightNormalization.at(kernel, self.X, np.ones(len(self.X)))
        term = norms.observed(Term(self.functional, self.loss, target=self.target, weight=C * self.weight))
        n, more = self.X.shape[1], self.points.shape[1] - self.X.shape[1]
        lifted = kernel if more == 0 else kernel @ np.eye(n, n + more)
        return Problem(lifted, [term], self.basis, approximation=approximation), norms.variance

    def landmarks(self, most: int | None) -> Landmarks | None:
        """Return landmarks at `most` points, by default at FUNCTIONS of them; None if no landmarks are needed.

        Representers of all functionals are in the span of the kernel at all points: with a landmark at each the result
        is exact, and the problem has one variable for each point instead of each functional.
        """
        count = min(FUNCTIONS if most is None else most, len(self.points))
        single = self.rows.shape[1] == 1 and self.functional.size == len(self.X) and self.points is self.X
        if most is None and single and self.functional.size <= MOST_EXACT:
            return None
        chosen = self.points
        if count < len(self.points):
            from sklearn.cluster import kmeans_plusplus  # imported here because it takes a second

            shifted = (self.X - self.X.mean(axis=0)) / deviations(self.X)
            chosen = self.points[kmeans_plusplus(shifted, count, random_state=0)[1]]
        return Landmarks(Evaluation(chosen))

    def folds(self) -> Vector:
        """Return the fold of each point: five folds, or fewer if a class or the sample is smaller."""
        size = len(self.X) if self.classes is None else int(np.bincount(self.classes).min())
        count = max(2, min(5, size, len(self.X)))
        splitter: Any = KFold if self.classes is None or size < 2 else StratifiedKFold
        fold = np.zeros(len(self.X), dtype=int)
        split = splitter(count, shuffle=True, random_state=0).split(self.X, self.classes)
        for k, (_, test) in enumerate(split):
            fold[test] = k
        return fold

    def held_out_losses(self, kernel: Kernel, Cs: list[float], approximation: Landmarks | None) -> Vector:
        """Return for each C the mean loss of observations in folds that were left out; infinity where none is known."""
        fold = self.folds()[self.rows]  # (N, 1) or (N, 2)
        count = int(fold.max()) + 1
        problem, _ = self.problem(kernel, 1.0, approximation)
        left_out = [np.any(fold == k, axis=1) for k in range(count)]
        solutions = problem.grid({0: Cs}, held_out={0: left_out}, tol=FOLD_TOL)
        losses, weights = np.zeros(len(Cs)), np.zeros(len(Cs))
        for k in range(count):
            scored = np.flatnonzero(np.all(fold == k, axis=1))
            if not len(scored):
                continue
            L, target, weight = self.functional.take(scored), self.target[scored], self.weight[scored]
            for c in range(len(Cs)):
                if solutions[c, k].status == CONVERGED:
                    losses[c] += weight @ self.loss.value(to_numpy(L(solutions[c, k].function)), target)
                    weights[c] += weight.sum()
        complete = weights >= (1 - 1e-9) * weights.max()  # candidates are compared on the same observations
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.nan_to_num(np.where(complete, losses / weights, np.inf), nan=np.inf)


@dataclass(eq=False, repr=False)
class ObservationEstimator(BaseKernelEstimator):
    """The base of estimators of `ObservationSet`, which document its parameters."""

    kernel: Any = "gaussian"
    _: KW_ONLY
    scale: Any = "median"
    C: Any = 1.0
    approximation: Any = None
    tol: float = 1e-4
    verbose: bool = False

    def _landmark_count(self) -> int | None:
        """Return the number of landmarks that the user asks for; None for the default."""
        if self.approximation is None:
            return None
        if not isinstance(self.approximation, Landmarks) or isinstance(self.approximation.functionals, Functional):
            raise ValueError(
                f"approximation of {type(self).__name__} must be None or rkhs.Landmarks(p) with a number p, got "
                f"{self.approximation!r}."
            )
        return int(self.approximation.functionals)

    def _fit_observations(self, observe: Callable[[Vector], ObservationSet], count: int) -> None:
        """Choose C and the length scale if the parameters ask for it, and solve the problem.

        `observe` returns the observations of some of the `count` points, given by their indices.
        """
        most, data = self._landmark_count(), observe(np.arange(count))
        kernel, C = self._chosen(observe, data)
        landmarks = data.landmarks(most)
        if most is None and landmarks is not None and len(data.points) > FUNCTIONS:
            warn(
                f"{type(self).__name__} approximates f by {FUNCTIONS} landmarks, because there are "
                f"{len(data.points)} points. Pass approximation=rkhs.Landmarks(p) for another number."
            )
        problem, variance = data.problem(kernel, C, landmarks)
        self.C_ = C
        self._solve(problem, variance)

    def _chosen(self, observe: Callable[[Vector], ObservationSet], data: ObservationSet) -> tuple[Kernel, float]:
        """Return the kernel and C; those of the smallest held-out loss for the names "cv"."""
        X = data.X
        search_scale = _is_cv(self.scale) and not isinstance(self.kernel, Kernel)
        Cs = list(GRID) if _is_cv(self.C) else [check_number(self.C, 'C (unless it is "cv")')]
        kernels = _scaled_kernels(self.kernel, X) if search_scale else [as_kernel(self.kernel, self.scale, X)]
        if len(Cs) * len(kernels) == 1:
            return kernels[0], Cs[0]
        if len(X) < 4:
            raise ValueError(f'{type(self).__name__} needs at least 4 points for C="cv" or scale="cv".')
        if len(X) > SEARCH_ROWS:
            data = observe(np.sort(np.random.default_rng(0).choice(len(X), SEARCH_ROWS, replace=False)))
        landmarks = data.landmarks(SEARCH_FUNCTIONS if len(data.points) > SEARCH_FUNCTIONS else None)
        tried: dict[tuple[int, int], float] = {}
        first, near = kernels[len(kernels) // 2], range(len(Cs))
        for kernel in [first, *(kernel for kernel in kernels if kernel is not first)]:
            found = data.held_out_losses(kernel, [Cs[c] for c in near], landmarks)
            tried |= {(kernels.index(kernel), c): float(loss) for c, loss in zip(near, found, strict=True)}
            best = min(tried, key=tried.__getitem__)  # other scales are tried with the best C and its neighbors
            near = range(max(best[1] - 1, 0), min(best[1] + 2, len(Cs)))
        if not np.isfinite(tried[best]):
            raise ValueError(
                f'{type(self).__name__} cannot choose by "cv": no model of a fold was solved and had observations to '
                "be scored on. Pass numbers for C and scale."
            )
        return kernels[best[0]], Cs[best[1]]

    def _checked_points(self, X: Any, y: Any) -> tuple[Matrix, Any]:
        """Validate X and y; return the points as a float64 copy, and y."""
        points, _, y, _ = self._validated(X, y, own=False, sparse=False)
        return np.array(to_numpy(points), dtype=np.float64), y

    def _points_without_targets(self, X: Any) -> Matrix:
        """Validate X, and return the points as a float64 copy."""
        X, accepted = accepted_formats(X)
        X = validate_data(self, X, ensure_min_samples=2, **accepted)
        self._kind = array_kind(X)
        return np.array(to_numpy(dense(X)), dtype=np.float64)

    def _utilities(self, X: Any, method: str) -> tuple[Vector, Array]:
        """Return the values of f at the rows of X in NumPy, and the validated X."""
        validated = self._validated_input(X, method)
        points = double(dense(validated))
        return to_numpy(check_finite(Evaluation(points)(self.function_))), validated


def _is_cv(value: Any) -> bool:
    return isinstance(value, str) and value == "cv"


def _scaled_kernels(name: str, X: Matrix) -> list[Kernel]:
    """Return the named kernel with multiples of the median distance of raw and of standardized features."""
    if name not in SCALED:
        raise ValueError(f'scale="cv" needs one of the kernels {", ".join(SCALED)}, got kernel={name!r}.')
    make: Any = KERNELS[name]
    distance = make(1.0).distance
    units = [np.ones(X.shape[1]), deviations(X)] if X.shape[1] > 1 else [np.ones(1)]
    median = [unit * median_scale(X / unit, distance=distance) for unit in units]
    return [make(tuple(width * scale)) for width in WIDTHS for scale in median]
