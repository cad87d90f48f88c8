"""The base class of all estimators: input validation, fitting by a `Problem`, and values of the fitted f."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass, replace
from functools import wraps
from math import inf, sqrt
from numbers import Real
from typing import Any, TypeVar, cast

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, is_numpy_array, is_torch_array
from scipy.sparse import csr_array, issparse
from sklearn import get_config
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from rkhs import Shape
from rkhs._core.backend import arrays
from rkhs._core.backend.arrays import Array, Vector, check_number, like, to_numpy
from rkhs._core.backend.frames import check_numeric, frame_columns
from rkhs._core.backend.memory import free_memory
from rkhs._core.backend.sparse import SparseVectors
from rkhs._core.calculus.maps import Map
from rkhs._core.finite.function import Pullback
from rkhs._core.finite.monitor import Monitor, Stopped, displayed
from rkhs._core.finite.solution import ABSOLUTE, CONVERGED, LOCAL, TIME_LIMIT, Solution
from rkhs._core.problem import Problem
from rkhs._core.progress import interrupts_raised, with_time_limit
from rkhs.estimators._data import Sample, as_numpy, check_columns_of, fill_missing
from rkhs.estimators._formulation import ModelConfig, SolverOptions, depends_on_row_order
from rkhs.estimators._length_scales import FOREIGN_KERNELS
from rkhs.exceptions import NotInTimeError, warn
from rkhs.functionals import Evaluation, Functional
from rkhs.invariances._base import as_invariances
from rkhs.kernels import Kernel, Precomputed
from rkhs.results import ShapeCertificate
from rkhs.streams._blocks import Blocks

SHAPES = ("increasing", "decreasing", "monotonic_cst")  # parameters of the command and of scikit-learn
OF_NO_SCALE = ("linear", "polynomial", "precomputed")  # kernels by name without a length scale
SPARSE = 0.1  # share of nonzero entries above which sparse X is stored as a dense array, whose products are faster

ENTRY = re.compile(r"^    (?P<names>\w+(?:, \w+)*) : (?P<type>.*)\n(?P<text>(?: {8}.*\n)+)", re.M)  # of numpydoc
Idle = tuple[str, bool, str]  # the name of a parameter, whether it has no effect, and the reason
Method = TypeVar("Method", bound=Callable[..., Any])


def documented_by(*sources: Any) -> Callable[[Any], Any]:
    """Return a class decorator that fills in what a docstring leaves to those of other classes.

    The text "As in `Source`." is replaced by that of the class.  If the type is "object", so are the type and default.
    So a parameter is described in one place, and `help` shows all of them.

    Parameters
    ----------
    *sources : type
        The classes.

    Returns
    -------
    callable
        The decorator.

    Examples
    --------
    >>> import rkhs
    >>> @rkhs.extend.documented_by(rkhs.InvariantRegressor)
    ... class Model:
    ...     '''A model.
    ...
    ...     Parameters
    ...     ----------
    ...     tol : object
    ...         As in `InvariantRegressor`.
    ...     '''
    >>> "tol : float" in Model.__doc__
    True
    """

    def decorate(cls: Any) -> Any:
        for source in (one for one in sources if cls.__doc__ and one.__doc__):  # python -OO has no docstrings
            entries = {name: one for one in ENTRY.finditer(source.__doc__) for name in one["names"].split(", ")}

            def filled(
                found: re.Match[str], marker: str = f"As in `{source.__name__}`.", entries: Any = entries
            ) -> str:
                names = found["names"].split(", ")
                if found["text"].strip() != marker:
                    return found[0]
                if found["type"] != "object":
                    return found[0].replace(found["text"], entries[names[0]]["text"])
                return "".join(dict.fromkeys(entries[name][0] for name in names))

            cls.__doc__ = ENTRY.sub(filled, cls.__doc__)
        return cls

    return decorate


def _translate_parameters(given: Mapping[str, Any], known: Collection[str], owner: str) -> None:
    """Raise a TypeError that says what to write instead of a parameter of scikit-learn."""
    which = "scales" if "scales" in known else "scale"
    for name, value in given.items():
        other = next((one for one in known if name not in known and one.rstrip("s") == name.rstrip("s")), None)
        if other is not None:
            what = "a list of values to choose from" if other.endswith("s") else "one value"
            raise TypeError(f"{owner} has no parameter {name!r}: use {other}, {what}.")
        if name == "gamma" and name not in known and which in known:
            scale = isinstance(value, Real) and 0 < float(value) < inf and f"{1 / sqrt(2 * float(value)):.6g}"
            here = f", here {which}={f'[{scale}]' if which == 'scales' else scale}" if scale else ""
            raise TypeError(
                f"{owner} has no parameter 'gamma': scikit-learn's kernel {FOREIGN_KERNELS['rbf']}{here}. "
                f"Without {which} the length scale is chosen."
            )
        if name in SHAPES and name not in known and "shape" in known:
            word = "decreasing" if name == "decreasing" else "increasing"
            raise TypeError(
                f"{owner} has no parameter {name!r}: use shape={{column: {word!r}}}, with columns by name or number."
            )


def refuse_idle(model: Any, table: Iterable[Idle]) -> None:
    """Raise a ValueError for a parameter that was given, and has no effect beside the others for the stated reason.

    Defaults are accepted, and so are the values of `best_params_` for what a search left out: scales of 1 and nu = 0.
    """
    for name, applies, why in table:
        value, default = getattr(model, name, None), getattr(type(model), name, None)
        neutral: Any = {"scale": 1, "scales": 1, "nu": 0, "nus": 0}.get(name, default)
        if applies and not any(same(value, accepted) for accepted in (default, neutral, [neutral])):
            raise ValueError(f"{name}={value!r} of {type(model).__name__} has no effect: {why}. Leave it out.")


def same(first: Any, second: Any) -> bool:
    """Return whether two parameters are equal, comparing arrays and dataclasses by value."""
    if first is second:
        return True
    if is_array_api_obj(first) or is_array_api_obj(second):
        return is_array_api_obj(first) == is_array_api_obj(second) and np.array_equal(to_numpy(first), to_numpy(second))
    if isinstance(first, float) and first != first:
        return isinstance(second, float) and second != second
    if type(first) is not type(second):
        return bool(np.all(first == second))  # numbers of different types may be equal; a Series compares values
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


def transactional(fit: Method) -> Method:
    """Make a fitting method transactional: it works on a copy, whose state the estimator takes over at the end.

    Any exception, Ctrl-C included, leaves the estimator unchanged.  Its `time_limit`, if any, covers the whole call,
    and so does the display of progress of a `verbose` one.

    Parameters
    ----------
    fit : callable
        The method.

    Returns
    -------
    callable
        The method that does not leave an estimator half fitted.

    Examples
    --------
    >>> from rkhs.extend import transactional
    >>> class Model:
    ...     @transactional
    ...     def fit(self, X):
    ...         self.first_ = X[0]
    ...         self.last_ = X[5]
    ...         return self
    >>> model = Model()
    >>> try:
    ...     model.fit([1, 2])
    ... except IndexError:
    ...     print(hasattr(model, "first_"))
    False
    """

    @wraps(fit)
    def wrapper(self: Any, *args: Any, **options: Any) -> Any:
        copy = object.__new__(type(self))
        vars(copy).update(vars(self))
        if fit.__name__ == "fit":
            idle = getattr(type(self), "_idle", BaseKernelEstimator._idle)  # some estimators have another base
            refuse_idle(self, idle(self, options.get("gradients") is not None))
        limit, name = getattr(self, "time_limit", None), f"{type(self).__name__}.{fit.__name__}"
        limited_time = with_time_limit(None if limit is None else check_number(limit, "time_limit"))
        with interrupts_raised(), limited_time, displayed(name, bool(getattr(self, "verbose", False))):
            fit(copy, *args, **options)
        self.__dict__ = vars(copy)
        return self

    return cast(Method, wrapper)


def limited(predict: Method) -> Method:
    """Apply the `time_limit` of an estimator, if any, to a predicting method, and show its progress if it is `verbose`.

    A partial prediction is meaningless: after the limit a TimeoutError is raised.
    """

    @wraps(predict)
    def wrapper(self: Any, *args: Any, **options: Any) -> Any:
        limit, name = getattr(self, "time_limit", None), f"{type(self).__name__}.{predict.__name__}"
        verbose = bool(getattr(self, "verbose", False))
        monitor = Monitor(0.0, limit, verbose=verbose)
        try:
            with displayed(name, verbose), closing(monitor), with_time_limit(limit), monitor.showing(name):
                return predict(self, *args, **options)
        except Stopped:
            raise NotInTimeError(
                f"{name} could not be computed within time_limit={limit}: pass fewer rows, ask for predictions alone, "
                "or set a larger time_limit by set_params."
            ) from None

    return cast(Method, wrapper)


def shape_of(estimator: BaseEstimator) -> Shape | None:
    """Combine the `shape` of an estimator and the hard constraints of its invariances; return None without any."""
    parameter, invariance = getattr(estimator, "shape", None), getattr(estimator, "invariance", None)
    used = invariance if getattr(estimator, "nu", 1.0) > 0 and not isinstance(invariance, str) else None
    hard = [one.shape_constraint for one in as_invariances(used) if one.shape_constraint is not None]
    if parameter is None and not hard:
        return None
    shape = Shape.of({} if parameter is None else parameter)
    if not hard or not isinstance(shape.constraints, Mapping):
        return shape
    merged: dict[Any, list[Any]] = {}
    for constraints in [*hard, shape.constraints]:
        for key, value in constraints.items():
            merged.setdefault(key, []).append(value)
    for key, values in merged.items():
        words = [word for value in values for word in ([value] if isinstance(value, str) else value)]
        merged[key] = values[0] if len(values) == 1 else words
    return replace(shape, constraints=merged)


def warn_unless_converged(model: Any, solution: Solution, shape: ShapeCertificate | None = None) -> None:
    """Warn if a solution is not certified to the tolerance: why, what to do, and that a proof of its shape holds.

    Parameters
    ----------
    model : object
        The estimator, whose `tol` was to be reached.  Remedies refer to those of `C`, `solver` and `approximation` that
        it has.
    solution : Solution
        The solution.
    shape : ShapeCertificate, optional
        The proof of the shape of f.

    Examples
    --------
    >>> import rkhs
    >>> term = rkhs.Term(rkhs.Evaluation([[0.0]]), rkhs.Squared(), target=1.0)
    >>> model = rkhs.InvariantRegressor(tol=1e-4)
    >>> solution = rkhs.Problem(rkhs.Gaussian(), [term]).solve(tol=model.tol)
    >>> rkhs.extend.warn_unless_converged(model, solution)  # it has
    """
    if solution.status in (CONVERGED, ABSOLUTE, LOCAL):
        return
    smaller_C = ", or a smaller C" if hasattr(model, "C") else ""
    remedy = f"a larger tol{smaller_C}{', or another solver' if hasattr(model, 'solver') else ''}"
    what = f"stopped before tol={model.tol:g}"
    if solution.status == TIME_LIMIT:
        remedy = "more time" + (", or an approximation" if hasattr(model, "approximation") else "")
    elif solution.relative_gap <= model.tol:
        enough = f"{1.05 * (solution.relative_gap + solution.certificate.uncertain):.2g}"
        remedy = f"tol={enough}{smaller_C}"
        what = f"reached tol={model.tol:g}, but rounding errors may hide a gap of {enough}"
    proved = " The proof of its shape holds for the f that was found." if shape is not None and shape.proved else ""
    warn(f"{type(model).__name__} {what}: {solution}. Give it {remedy}.{proved}", ConvergenceWarning)


@dataclass(eq=False, repr=False)
class BaseKernelEstimator(BaseEstimator):
    """An estimator with a learned function.

    Sparse X stays sparse if all parts of the estimator accept it, and becomes a dense array otherwise.  With
    scikit-learn's array API dispatch, tensors stay tensors: the problem is solved on their device, and predictions are
    tensors on that device.

    `fit` of a subclass is `transactional`.  It calls ``self._validated(X, y)`` for the points, and
    ``self._solve(problem, variance)``, which sets `solution_`, `function_` and `problem_` and warns unless the solution
    has converged.  Predicting methods call ``self._values(X, method)``.

    Attributes
    ----------
    tol : float, default=1e-4
        The relative duality gap to reach.
    verbose : bool, default=False
        Whether to print progress to standard error.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np, rkhs
    >>> from rkhs.extend import BaseKernelEstimator, transactional
    >>> @dataclass(eq=False, repr=False)
    ... class Smoother(BaseKernelEstimator):
    ...     scale: float = 1.0
    ...
    ...     @transactional
    ...     def fit(self, X, y):
    ...         points, _, y, _ = self._validated(X, y)
    ...         term = rkhs.Term(rkhs.Evaluation(points), rkhs.Squared(), target=y, weight=100.0)
    ...         self._solve(rkhs.Problem(rkhs.Gaussian(self.scale), [term]))
    ...         return self
    ...
    ...     def predict(self, X):
    ...         return self._values(X, "predict")[0]
    >>> X = np.linspace(0, 1, 9)[:, None]
    >>> Smoother(scale=0.3).fit(X, X[:, 0] ** 2).predict([[0.5]]).round(1)
    array([0.3])
    """

    _: KW_ONLY
    tol: float = 1e-4
    verbose: bool = False

    def __new__(cls, *_: Any, **given: Any) -> Any:
        _translate_parameters(given, cls._get_param_names(), cls.__name__)
        return super().__new__(cls)

    def set_params(self, **params: Any) -> Any:
        """Set parameters, as in scikit-learn; errors translate names of its other estimators."""
        _translate_parameters(params, self._get_param_names(), type(self).__name__)
        return super().set_params(**params)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self._is_precomputed
        tags.array_api_support = getattr(self, "approximation", None) is None
        return tags

    @property
    def _is_precomputed(self) -> bool:
        """Whether X is a kernel matrix."""
        return same(getattr(self, "kernel", None), "precomputed")

    def _idle(self, slopes: bool) -> list[Idle]:
        """Return which parameters may have no effect beside the others, with or without measured slopes, and why."""
        kernel, space = getattr(self, "kernel", None), getattr(self, "approximation", None)
        fixed, free = f"kernel={kernel!r} has no open length scale", getattr(kernel, "order", 0)
        without = isinstance(kernel, Kernel) or kernel in OF_NO_SCALE
        slopeless = same(kernel, "precomputed") and same(getattr(self, "invariance", None), "gradient")
        slopeless = slopeless and getattr(self, "nu", None) != 0
        options = SolverOptions.of(getattr(self, "solver", "auto"))
        elsewhere = options.device not in (None, "cpu") or get_config().get("array_api_dispatch")  # as X may be
        on_cores, chosen = str(options.precision).startswith("tf32"), not same(options.method, "auto")
        return [
            ("scale", without, fixed),
            ("scales", without, fixed),
            ("fit_intercept", free > 0, f"the null space of {kernel!r} has a constant"),
            ("approximation", same(kernel, "precomputed"), 'the matrix of kernel="precomputed" is known'),
            ("invariance", slopeless, 'the matrix of kernel="precomputed" has no derivatives'),
            ("solver", space is not None and chosen, f"the problem of approximation={space!r} is solved directly"),
            ("solver", on_cores and not elsewhere, "TF32 is the arithmetic of tensor cores, which a CPU lacks"),
        ]

    def _config(self, **changes: Any) -> ModelConfig:
        """Return the parameters that determine the problem, with `changes` in place of some of them."""
        names = {field.name for field in fields(ModelConfig)}
        values = {name: value for name, value in self.get_params(deep=False).items() if name in names}
        if values.get("C", 1.0) is None and type(self).C is None:
            values |= {"C": 10.0, "learns_noise": True}
        if self._is_precomputed:
            changes["kernel"] = getattr(self, "_matrix", self.kernel)
        classes, names_of_columns = getattr(self, "classes_", None), getattr(self, "feature_names_in_", None)
        return ModelConfig(**{**values, "classes": classes, "feature_names": names_of_columns, **changes})

    def _rows(self, X: Any, y: Any, sample_weight: Any, *more: Any, **options: Any) -> Sample:
        """Validate X and y, with sample weights and perhaps slopes or classes; return a point for each row."""
        raise NotImplementedError

    def _sample(self, *data: Any) -> Sample:
        """Validate the data as `_rows` does; return the merged training points."""
        return self._merged(self._rows(*data))

    def _merged(self, rows: Sample) -> Sample:
        """Merge equal rows, unless an invariance refers to rows by index."""
        return rows.merged(merge=not depends_on_row_order(getattr(self, "invariance", None)))

    def _learn(self, problem: Problem, sample: Sample, variance: float = 1.0, **options: Any) -> None:
        """Solve the problem of a sample, whose first term holds the labels, and prepare held-out predictions."""
        raise NotImplementedError

    def _validated(
        self, X: Any, y: Any, own: bool = True, sparse: bool = True, earlier: Sample | None = None, least: int = 2
    ) -> tuple[Array, Array, Vector, Vector]:
        """Validate X and y; return the training points, the validated X, y in NumPy, and the mask of missing targets.

        With `own` the points are a copy, so that the model does not change when the caller's X does.  Without `sparse`
        they are dense.  X and y must be of the kind of the `earlier` rows, if any, and have the `least` number of rows.
        """
        if isinstance(X, Blocks):
            raise TypeError(
                f"{type(self).__name__} needs all rows in memory, got {type(X).__name__}: InvariantClassifier and "
                "InvariantRegressor take blocks with an approximation, such as rkhs.Landmarks(500)."
            )
        X, accepted = accepted_formats(X)
        y, missing = (None, np.zeros(0)) if y is None else self._fill_missing(y)
        multi_output = y is not None and y.ndim == 2
        copy = own and not issparse(X)  # `dense` copies sparse matrices anyway
        options = {"ensure_min_samples": least, "multi_output": multi_output, "copy": copy, "reset": earlier is None}
        X, y = validate_data(self, X, y, **options, **accepted)
        if is_classifier(self):
            check_classification_targets(y)
        if earlier is not None:
            self._check_kind(X, "partial_fit")
            points = arrays.as_points(csr_array(X), sparse=True) if isinstance(earlier.X, SparseVectors) else dense(X)
            return arrays.immutable_copy(points), X, y, missing
        self._kind = array_kind(X)
        if self._is_precomputed:
            self._matrix = self._as_matrix(X)
            return arrays.frozen(like(self._matrix.points, X[:0])), X, y, missing
        points = self._stored(X) if sparse else dense(X)
        return arrays.frozen(points) if own else points, X, y, missing

    def _needs_dense(self) -> tuple[str, str] | None:
        """Return what needs dense points and the remedy, or None if the estimator accepts sparse ones."""
        return type(self).__name__, "InvariantClassifier and InvariantRegressor accept sparse X"

    def _stored(self, X: Array) -> Array:
        """Return the training points, sparse if X is and the estimator accepts it."""
        if not issparse(X) or X.nnz > SPARSE * X.shape[0] * X.shape[1]:
            return dense(X)
        obstacle, needed = self._needs_dense(), X.dtype.itemsize * X.shape[0] * X.shape[1]
        if obstacle is None:
            return arrays.immutable_copy(arrays.as_points(X, sparse=True))
        if needed > free_memory(X.data) / 2:
            raise MemoryError(
                f"X is sparse, and {obstacle[0]} needs dense points, which take {needed / 1e9:,.0f} GB of memory: "
                f"{obstacle[1]}."
            )
        return dense(X)

    def _as_points(self, X: Array) -> Array:
        """Return validated rows as the points of the fitted function, sparse or dense."""
        functionals = getattr(self.function_, "functionals", None)  # some approximations have none
        sparse = functionals is not None and functionals.sparse
        return arrays.as_points(csr_array(X), sparse=True) if sparse else dense(X)

    def _as_matrix(self, X: Array) -> Precomputed:
        """Return the kernel of the training objects for ``kernel="precomputed"``, for which X is its matrix."""
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                'With kernel="precomputed", fit needs the square kernel matrix of the training objects as X, got '
                f"shape {tuple(X.shape)}."
            )
        return Precomputed(dense(X))

    def _fill_missing(self, y: Any) -> tuple[Vector, Vector]:
        return fill_missing(y, getattr(self, "unlabeled", None), classes=is_classifier(self))

    def _labeled_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Return the rows that have a label, by which predictions are scored."""
        if getattr(self, "unlabeled", None) is None:
            return X, y, sample_weight
        filled, missing = self._fill_missing(y)
        if not missing.any():
            return X, y, sample_weight
        rows = np.flatnonzero(~missing)
        if not len(rows):
            raise ValueError(f"{type(self).__name__}.score needs rows with a label; every y is {self.unlabeled!r}.")
        weight = None if sample_weight is None else _safe_indexing(sample_weight, rows)
        return _safe_indexing(X, rows), filled[rows], weight

    def _solve(
        self, problem: Problem, variance: float = 1.0, solution: Solution | None = None, atol: float = 0.0
    ) -> None:
        """Solve the problem, subject to the `shape` if there is one, and keep the solution, or the given one.

        The weights of the problem have been divided by `variance`, the mean of k(x, x).  `atol` is that of
        `Problem.solve`.
        """
        if solution is not None:
            self._keep(problem, solution, variance)
            return
        shape, method = shape_of(self), SolverOptions.of(getattr(self, "solver", "auto")).method
        if shape is None:
            self._keep(problem, problem.solve(method, tol=self.tol, verbose=self.verbose, atol=atol), variance)
            return
        if problem.terms[0].outputs is not None:
            raise ValueError(
                "shape constrains a single function, but y has several outputs or more than two classes: fit one model "
                "for each output, or leave the shape out."
            )
        check_columns_of(shape.box, self, "the box of a Shape")
        names = getattr(self, "feature_names_in_", None)
        shaped = shape.solve(problem, method, names=names, tol=self.tol, atol=atol, verbose=self.verbose)
        self._keep(shaped.problem, shaped.solution, variance, shaped.certificate)
        self.function_, self.shape_certificate_ = shaped.function, shaped.certificate

    def _keep(self, problem: Any, solution: Solution, variance: float = 1.0, certificate: Any = None) -> None:
        """Store a solution as the fitted state, replacing that of an earlier fit; warn if it has not converged."""
        for earlier in ("shape_certificate_", "_held_out", "_tau", "_stretch", "_training"):
            self.__dict__.pop(earlier, None)
        self.problem_: Any = None if problem is None else replace(problem)  # a copy without cached properties
        self.solution_, self.function_ = solution, solution.function
        warn_unless_converged(self, solution, certificate)

    def _input_map(self) -> Map | None:
        """Return the map from rows of X to the points of the problem; None if these are the rows."""
        return None

    def _refer_to_columns(self) -> None:
        """Let f be a function of the columns of X, if the points of the problem are others."""
        phi = self._input_map()
        if phi is not None:
            self.solution_ = replace(self.solution_, function=Pullback(self.function_, phi))
            self.function_ = self.solution_.function

    def _validated_input(self, X: Any, method: str) -> Array:
        """Validate the X of a predicting method: its columns, array library and device must be those of `fit`."""
        check_is_fitted(self)
        X, accepted = accepted_formats(X)
        validated = validate_data(self, X, reset=False, **accepted)
        self._check_kind(validated, method)
        return validated

    def _check_kind(self, X: Array, method: str) -> None:
        """Raise ValueError if the array library or the device of X is not that of `fit`."""
        if array_kind(X) != self._kind:
            raise ValueError(
                f"Inputs passed to {type(self).__name__}.{method}() must use the same namespace and the same device "
                f"as those passed to fit(): {' on '.join(self._kind)}, not {' on '.join(array_kind(X))}."
            )

    def _values(self, X: Any, method: str, family: Callable[[Array], Functional] = Evaluation) -> tuple[Array, Array]:
        """Return the values of f, or of another family of functionals, at the rows of X, and the validated X."""
        X = self._validated_input(X, method)
        if not self._is_precomputed:
            return check_finite(family(self._as_points(X))(self.function_)), X
        kernel = self._matrix.extended(dense(X))
        new = like(kernel.points[self._matrix.size :], X[:0])
        return check_finite(family(new)(replace(self.function_, kernel=kernel))), X


def check_finite(values: Array) -> Array:
    """Return the values of f; raise an error that names the first row where they are not finite.

    Parameters
    ----------
    values : array of shape (t, ..)
        The values at the rows of X.

    Returns
    -------
    array
        The same array.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.extend.check_finite(np.ones(2))
    array([1., 1.])
    """
    finite = arrays.namespace(values).isfinite(values)
    if not bool(arrays.namespace(values).all(finite)):
        row = int(np.argwhere(~to_numpy(finite))[0, 0])
        raise ValueError(
            f"f is not finite at row {row} of X: the kernel overflowed there. Rescale the features, in fit and here, "
            "or choose another length scale."
        )
    return values


def accepted_formats(X: Any) -> tuple[Any, dict[str, Any]]:
    """Return X, with dask collections computed, and the options for `validate_data`.

    Masked arrays and frames without columns are refused here, since `validate_data` accepts them, and so are columns of
    frames that are no numbers, since its error does not name them.
    """
    X = X.compute() if hasattr(X, "__dask_graph__") else X
    arrays.check_unmasked(X, "X")
    check_numeric(frame_columns(X) or {}, "X")
    shape: Any = getattr(X, "shape", ())
    if len(shape) == 2 and shape[1] == 0:
        raise ValueError(
            f"X has 0 feature(s) (shape={tuple(shape)}) while a minimum of 1 is required: add at least one column."
        )
    dispatched = get_config().get("array_api_dispatch") and is_array_api_obj(X) and not issparse(X)
    xp = array_namespace(X) if dispatched else np
    return X, {"accept_sparse": "csr", "dtype": [xp.float64, xp.float32]}


def as_input_type(values: Any, X: Array) -> Array:
    """Return the values as an array of the library and on the device of X.

    Parameters
    ----------
    values : array
        The values.
    X : array
        The input of a predicting method.

    Returns
    -------
    array
        The values; for sparse X in NumPy.

    Examples
    --------
    >>> import torch, rkhs
    >>> type(rkhs.extend.as_input_type(torch.ones(2), np.ones(2))).__name__
    'ndarray'
    """
    if issparse(X) or is_numpy_array(X):
        return as_numpy(values)
    if is_torch_array(values):
        return values.to(device(X))
    return array_namespace(X).asarray(values, device=device(X))


def array_kind(X: Array) -> tuple[str, str]:
    """Return the names of the array namespace and of the device of X."""
    if issparse(X) or is_numpy_array(X):
        return "numpy", "cpu"
    return array_namespace(X).__name__.split(".")[-1], str(device(X))


def dense(X: Array) -> Array:
    """Return X as a NumPy array or a tensor, the two kinds of arrays that kernels are computed with."""
    if issparse(X):
        return X.toarray()
    return X if is_torch_array(X) else as_numpy(X)
