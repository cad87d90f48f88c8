"""The base of `InvariantClassifier` and `InvariantRegressor`: fits to rows in memory, and rows that come and go."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from rkhs._backend.arrays import immutable_copy, to_numpy
from rkhs._estimators.base import BaseKernelEstimator, as_input_type, transactional
from rkhs._estimators.data import Sample, as_numpy
from rkhs._estimators.formulation import Formulation, depends_on_row_order
from rkhs._estimators.graph_kernels import graphs_in, warn_of_unreached
from rkhs._estimators.length_scales import OF_INNER_PRODUCTS, formulate, is_learned
from rkhs._estimators.options import SolverOptions, quoted
from rkhs._problem import Problem
from rkhs._problem.updates import Solved, functional_keys, represented_keys
from rkhs._shapes.fitting import shape_of
from rkhs.functionals import Functional
from rkhs.invariances._base import as_invariances
from rkhs.kernels import Kernel
from rkhs.kernels._base import FormKernel


@dataclass(frozen=True, eq=False)
class Training:
    """The rows of a model, the settings that its first fit determined, and its last update."""

    rows: Sample  # a point for each row
    formulation: Formulation
    settings: dict[str, Any]  # the parameters of the estimator
    last: Solved | None = None

    def solved(self, sample: Sample, estimator: Any) -> tuple[Problem, Solved]:
        """Formulate and solve the problem of another sample, most of which is that of the last solution."""
        problem, keys = self._keyed(sample)
        last = self.last
        if last is None:
            earlier, earlier_keys = self._keyed(estimator._merged(self.rows))
            last = Solved(estimator.solution_, represented_keys(earlier, earlier_keys))
        method = SolverOptions.of(estimator.solver).method
        return problem, last.following(problem, keys, method, estimator.tol, estimator.verbose)

    def _keyed(self, sample: Sample) -> tuple[Problem, list[Any]]:
        """Return the problem of a sample, and the keys of the functionals of each term."""
        problem, points = self.formulation.problem(sample)
        keys = sample.keys
        terms = zip(problem.terms, points, strict=True)
        return problem, [functional_keys(k, term.size, keys[which]) for k, (term, which) in enumerate(terms)]


def updatable(estimator: BaseEstimator) -> bool:
    """Return True if an estimator has `partial_fit`; otherwise raise an AttributeError that explains why not."""
    return estimator.approximation is not None or in_memory(estimator)


def in_memory(estimator: Any) -> bool:
    """Return True if an estimator keeps rows, which can be added and removed; otherwise raise an AttributeError."""
    reasons = (
        (estimator.approximation is not None, f"approximation={estimator.approximation!r}", "keeps sums, not rows"),
        (estimator._is_precomputed, 'kernel="precomputed"', "has no kernel values of other rows"),
        (shape_of(estimator) is not None, f"shape={estimator.shape!r}", "has to be proved anew"),
        (
            depends_on_row_order(estimator.invariance),
            f"invariance={estimator.invariance!r}",
            "refers to rows by index",
        ),
    )
    for applies, setting, reason in reasons:
        if applies:
            raise AttributeError(
                f"{type(estimator).__name__} with {setting}, which {reason}, cannot add or remove rows: call fit with "
                "all rows."
            )
    return True


@dataclass(eq=False, repr=False)
class InvariantEstimator(BaseKernelEstimator):
    """The base of `InvariantClassifier` and `InvariantRegressor`, which document its parameters."""

    kernel: Any = "gaussian"
    _: KW_ONLY
    scale: Any = "median"
    loss: Any = "squared"
    C: float | None = 1.0
    invariance: Any = "gradient"
    nu: float = 0.03
    shape: Any = None
    fit_intercept: bool = True
    unlabeled: Any = None
    approximation: Any = None
    solver: Any = "auto"
    tol: float = 1e-4
    verbose: bool = False

    def _needs_dense(self) -> tuple[str, str] | None:
        kernel, device = self.kernel, SolverOptions.of(self.solver).device
        if isinstance(kernel, str) and kernel not in OF_INNER_PRODUCTS:
            return f"kernel={kernel!r}", f"use one of {quoted(OF_INNER_PRODUCTS)}"
        if isinstance(kernel, Kernel) and not all(isinstance(k, FormKernel) for _, k in kernel.summands()):
            return repr(kernel), "use a kernel of the distance or of the dot product, such as Gaussian or Polynomial"
        for item in as_invariances(self.invariance) if self.nu else ():
            if not getattr(item.maker, "takes_sparse", False):
                prior = item.functional if isinstance(item.functional, str) else getattr(item.maker, "__name__", item)
                return f"invariance={prior!r}", "pass invariance=None, or rkhs.invariances.WordSubstitution"
        for name, used in (("approximation", self.approximation), ("shape", self.shape), ("device", device)):
            if used is not None:
                return f"{name}={used!r}", f"leave the {name} out"
        return (f"scale={self.scale!r}", 'pass a number, or "median"') if is_learned(self._config()) else None

    def _fit_rows(self, rows: Sample) -> Problem:
        """Fit the estimator to rows in memory, and return the problem."""
        sample = self._merged(rows)
        formulation = formulate(self._config(), sample)
        problem, _ = formulation.problem(sample)
        self.C_ = formulation.config.C
        self._learn(problem, sample, formulation.norms.variance)
        for graph in graphs_in(self.kernel):
            warn_of_unreached(graph, sample.X, sample.labeled)
        if formulation.metric is not None:
            self.metric_ = formulation.metric
        if self.approximation is None:
            self._training = Training(rows, formulation, parameters(self))
        return problem

    def _add_rows(self, data: tuple[Any, ...], *classes: Any) -> None:
        """Learn from the rows of the last fit and the given ones: X, y, sample weights, and perhaps slopes."""
        training: Training | None = getattr(self, "_training", None)
        if training is None:
            self._fit_rows(self._rows(*data, *classes, least=1))
            return
        check_unchanged(self, training.settings)
        check_same_classes(self, *classes)
        rows = self._rows(*data, earlier=training.rows, least=0)
        if not rows.size:
            return
        if rows.slopes is not None and training.rows.slopes is None:
            raise ValueError(
                "gradients were not given to the first call, which determines their weights: pass all rows to fit."
            )
        self._update(training, training.rows.followed_by(rows))

    def _update(self, training: Training, rows: Sample) -> None:
        """Learn from other rows with the settings of the first fit, and most of the rows of the last one."""
        observed = rows.labeled if rows.slopes is None else np.ones(rows.size, dtype=bool)
        if not np.any(observed & (rows.weight > 0)):
            raise ValueError(f"{type(self).__name__} would have no labels left: keep some, or fit other rows.")
        sample = self._merged(rows)
        problem, solved = training.solved(sample, self)
        self._learn(problem, sample, training.formulation.norms.variance, solution=solved.solution)
        self.labeled_ = as_input_type(rows.labeled, self.labeled_)
        self._training = replace(training, rows=rows, last=solved)

    @available_if(in_memory)
    @transactional
    def forget(self, indices: Any) -> Any:
        """Remove rows, without another fit: the result is that of the other rows, with the settings of the first fit.

        It takes as long as `partial_fit` without an approximation.

        Parameters
        ----------
        indices : array-like of int or bool
            The rows, in the order in which `fit` and `partial_fit` were given them, without those that were removed
            before: the rows that are left are those of `numpy.delete(X, indices, axis=0)`.

        Returns
        -------
        estimator
            The estimator, which has learned from the other rows.

        Examples
        --------
        >>> import rkhs
        >>> model = rkhs.InvariantRegressor(scale=1.0).fit([[0.0], [1.0], [2.0]], [0.0, 50.0, 0.0])
        >>> model.forget([1]).predict([[1.0]]).round(3)
        array([0.])
        """
        check_is_fitted(self)
        training: Training | None = getattr(self, "_training", None)
        if training is None:
            raise ValueError(f"{type(self).__name__} was fitted with an approximation and kept no rows: call fit.")
        check_unchanged(self, training.settings)
        removed = np.asarray(as_numpy(indices))
        if not removed.size and removed.dtype != bool:
            removed = removed.astype(np.intp)  # an empty list has no type of its own
        if removed.dtype.kind not in "iub":
            raise TypeError(
                f"forget takes the integer indices of rows, or a mask of all {training.rows.size} rows, got values of "
                f"type {removed.dtype}: pass numpy.flatnonzero(mask), or indices as integers."
            )
        kept = np.delete(np.arange(training.rows.size), removed)
        if len(kept) < training.rows.size:
            self._update(training, training.rows.take(kept))


def check_same_classes(estimator: InvariantEstimator, classes: Any = None) -> None:
    """Raise ValueError if other classes are given to `partial_fit` than to the first call."""
    if classes is not None and not np.array_equal(np.unique(classes), estimator.classes_):
        raise ValueError(
            f"classes={classes!r} differ from those of the first partial_fit, {estimator.classes_.tolist()}: start "
            "anew with sklearn.base.clone(estimator) and all classes that any block will have."
        )


def parameters(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the parameters of an estimator, with copies of lists, dictionaries and arrays."""

    def copied(value: Any) -> Any:
        if is_array_api_obj(value):
            return immutable_copy(value)
        return copy(value) if isinstance(value, list | dict) else value

    return {name: copied(value) for name, value in estimator.get_params(deep=False).items()}


def check_unchanged(estimator: BaseEstimator, before: dict[str, Any]) -> None:
    """Raise an error that names the parameters which have changed since the first `partial_fit`."""
    now = parameters(estimator)
    free = ("tol", "verbose")  # the sums over rows do not depend on these
    changed = [name for name in now if name not in free and not same(now[name], before[name])]
    if changed:
        changes = "; ".join(f"{name} was {before[name]!r} and is {now[name]!r}" for name in changed)
        raise ValueError(
            f"Parameters have changed since {type(estimator).__name__} learned from earlier rows: {changes}. "
            "Set them back, or start anew with sklearn.base.clone(estimator)."
        )


def same(first: Any, second: Any) -> bool:
    """Return whether two parameters are equal, comparing arrays and dataclasses by value."""
    if first is second:
        return True
    if is_array_api_obj(first) or is_array_api_obj(second):
        return is_array_api_obj(first) == is_array_api_obj(second) and np.array_equal(to_numpy(first), to_numpy(second))
    if isinstance(first, float) and first != first:
        return isinstance(second, float) and second != second
    if type(first) is not type(second):
        return bool(first == second)  # numbers of different types may be equal
    if isinstance(first, Mapping):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, Functional):
        return same((first.shape, first.parts), (second.shape, second.parts))
    if issparse(first):
        return first.shape == second.shape and (first != second).nnz == 0
    if is_dataclass(first):
        return all(same(getattr(first, field.name), getattr(second, field.name)) for field in fields(first))
    return bool(first == second)
