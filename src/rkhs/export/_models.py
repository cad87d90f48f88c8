"""What a fitted model computes at a point x, recorded in a `Graph`: values, probabilities, deviations, intervals.

The graph is written to files in ONNX, and in JSON that `rkhs.export._reader` reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.base import BaseEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from rkhs import FunctionalRegressor, QuantileRegressor, counts as observations
from rkhs._core.backend.arrays import apply_matrix
from rkhs._core.finite.features import FeatureCovariance
from rkhs._core.finite.function import FeatureFunction, Function
from rkhs._core.gram.blocks import blocks_of_parts
from rkhs._core.linalg.saddle import Saddle
from rkhs.exceptions import ExportError
from rkhs.export._steps import Column, Data, Table, features, recorded_step, refuse, takes_columns
from rkhs.export._tracing import Graph, Node, PointPairs, Symbol
from rkhs.extend import (
    Array,
    Atoms,
    Classifier,
    FourierSpace,
    FunctionSpace,
    Matrix,
    Part,
    Regressor,
    Vector,
    as_loss,
    double,
    import_optional,
    replacing,
    to_numpy,
)
from rkhs.functionals import Evaluation, Functional
from rkhs.geometry import ForceFieldRegressor
from rkhs.kernels import Kernel
from rkhs.losses import Logistic
from rkhs.preprocessing import TableEncoder
from rkhs.solvers._conditioned import ConditionedGram

CHECKED = 20  # points of each kind of functional at which the recorded formula is compared with f
TOL = 1e-3  # largest difference there, relative to the largest value of f: formulas in float32 differ by their rounding
STD_TOL = 1e-2  # largest relative difference of a standard deviation there
LARGEST = 4000  # functionals up to which the inverse of their matrix is exported, 128 MB
FEWER = "use an approximation such as rkhs.Landmarks(500), or leave return_std out"
VALUED = (  # models whose only prediction is f(x), or its exponential
    *(Function, FeatureFunction, Regressor, FunctionalRegressor),
    *(observations.PreferenceRegressor, observations.SurvivalRanker, observations.KernelPoissonRegressor),
)
TEXTS, TEXTS_OPSET = "ai.onnx.ml", 3  # the domain of operations on texts
OPSET, IR = 18, 8  # versions of operations and of the file format, of ONNX 1.13 (2022), which all later runtimes read
ATTRIBUTES = {
    "ReduceSum": {"keepdims": 0},
    "ReduceMax": {"keepdims": 0},
    "ArgMax": {"keepdims": 0},
    "Mod": {"fmod": 1},
    "Cast": {"to": 11},  # double
}
BEYOND = 1e300  # a finite number in place of infinity, which JSON does not have


def recorded(model: Any, return_std: bool, coverage: float | None) -> tuple[Graph, dict[str, Symbol]]:
    """Record the outputs of a model.

    Parameters
    ----------
    model : estimator, Pipeline or Function
        The fitted model.
    return_std : bool
        Whether to add the standard deviations of `predict`.
    coverage : float or None
        The coverage of the intervals to add.

    Returns
    -------
    Graph
        The operations.
    dict of str to Symbol
        `label` and `probabilities` or `scores` of a classifier; `variable`, `std`, `lower` and `upper` of others.
    """
    graph = Graph()
    model = model.best_estimator_ if isinstance(model, BaseSearchCV) and hasattr(model, "best_estimator_") else model
    if isinstance(model, (Function, FeatureFunction)):
        dimension = model.functionals.dimension if isinstance(model, Function) else model.features.dimension
    else:
        if not isinstance(model, BaseEstimator):
            refuse(f"{type(model).__name__}", "it is not an estimator of rkhs", "pass a fitted estimator")
        check_is_fitted(model)
        if isinstance(model, ForceFieldRegressor):
            refuse(
                "ForceFieldRegressor", "its points are geometries", "export `function_`, the energy of flat positions"
            )
        dimension = model.n_features_in_
    steps: Any = None
    if isinstance(model, Pipeline):
        steps, model = model[:-1], model[-1]
    elif isinstance(model, TableEncoder):  # by sklearn-onnx, which converts the steps of a pipeline one by one
        steps, model = model, None
    names = getattr(steps, "feature_names_in_", [f"x{k}" for k in range(dimension)])
    columns = Table([Column(graph, str(name)) for name in names])
    data: Data = columns if takes_columns(steps) else graph.input("X", float, dimension)
    x = features(data if steps is None else recorded_step(steps, data))
    symbols = {"variable": x} if model is None else _outputs(model, graph.with_point(x), return_std, coverage)
    if clash := sorted(graph.inputs.keys() & symbols.keys()):
        refuse(f"The column {clash[0]!r}", "an output has this name", "rename the column")
    return graph.needed(symbols), symbols


def _outputs(model: Any, x: Symbol, return_std: bool, coverage: float | None) -> dict[str, Symbol]:
    graph, name = x.graph, type(model).__name__
    if getattr(model, "_is_precomputed", False):
        refuse(f'{name} with kernel="precomputed"', "there is no formula for the kernel at new points")
    if getattr(model, "features_", None) is not None:
        refuse(name, f"it computes features by {model.features_!r}", "leave `features` out")
    if getattr(model, "coordinates_", None) is not None:
        refuse(
            f"{name} with coordinates={model.coordinates!r}",
            "the points of the problem are positions",
            "export `function_.function`, whose points are `coordinates_(X)`",
        )
    if return_std and not isinstance(model, (Regressor, FunctionalRegressor)):
        refuse(f"A standard deviation of {name}", "the model has none", "leave return_std out")
    if coverage is not None and not isinstance(model, Regressor):
        refuse(f"An interval of {name}", "the model has none", "leave coverage out")
    if isinstance(model, Classifier):
        return _classifier_outputs(model, _function(model.function_, x))
    if isinstance(model, observations.OrdinalClassifier):
        return _ordinal_outputs(model, _function(model.function_, x))
    if isinstance(model, QuantileRegressor):
        return {"variable": graph.stack([_function(f, x) for f in model.functions_])}
    if not isinstance(model, VALUED):
        refuse(name, "it is not an estimator of rkhs", "sklearn-onnx exports those of scikit-learn")
    values = _function(getattr(model, "function_", model), x)
    outputs = {"variable": graph.exp(values) if isinstance(model, observations.KernelPoissonRegressor) else values}
    if return_std:
        outputs["std"] = _deviation(model, x)
    if isinstance(model, Regressor) and coverage is not None:
        widths = model._interval_widths(coverage)
        if not np.all(np.isfinite(widths)):
            refuse(f"An interval of {name}", f"it is infinite for coverage={coverage}", "use a smaller coverage")
        width = widths if values.ndim else float(widths[0])
        outputs |= {"lower": values - width, "upper": values + width}
    return outputs


def _function(f: Function | FeatureFunction, x: Symbol) -> Array:
    """Record f(x), of shape () or (outputs,)."""
    if not isinstance(f, (Function, FeatureFunction)):
        refuse("f", "it is learned anew at each point, from neighbors that a file cannot search")
    f = f.compress() if isinstance(f, Function) else f
    graph, tau = x.graph, double(f.coefficients).reshape(-1, f.outputs or 1)
    total: Array = np.zeros(tau.shape[1])
    if isinstance(f, Function):
        for values, part in _representers(f.kernel, f.functionals, x):
            total = total + values @ part.adjoint(tau)
    else:
        total = _features(f.features, x) @ tau
    if f.basis is not None:
        coefficients = double(f.basis_coefficients).reshape(-1, f.outputs or 1)
        total = total + _on_basis(f.basis, x) @ coefficients
    values = graph.reshape(graph.lifted(total), () if f.outputs is None else (f.outputs,))
    points = _checked_points(f)
    found = graph.outputs({x.name: points[:, None, :]}, {"f": values})
    expected = to_numpy(f(points))
    if not np.max(np.abs(found["f"] - expected), initial=0.0) <= TOL * np.max(np.abs(expected), initial=0.0):
        refuse(getattr(f, "kernel", f), "its recorded formula does not reproduce f")
    return values


def _checked_points(f: Function | FeatureFunction) -> Matrix:
    """Return the points (k, n) at which recorded formulas are compared with the model."""
    if isinstance(f, Function):
        return np.concatenate([part.atoms.points[:CHECKED] for part in _parts(f.functionals)])
    return np.random.default_rng(0).standard_normal((CHECKED, f.features.dimension))


@contextmanager
def _recording(what: Any) -> Iterator[None]:
    """Raise an ExportError that names the object whose formula is recorded in the block, if that fails."""
    try:
        yield
    except ExportError:
        raise
    except Exception as error:  # a formula may do anything that cannot be recorded
        refuse(what, f"its formula cannot be recorded ({error})")


def _parts(functionals: Functional) -> tuple[Part, ...]:
    if functionals.sparse:
        refuse(functionals, "its points are sparse", "fit the model to X.toarray()")
    return functionals.like(np.zeros(0)).parts  # in float64, on the CPU


def _representers(kernel: Kernel, functionals: Functional, x: Symbol) -> list[tuple[Array, Part]]:
    """Record the values (atoms,) at x of the representers of atoms, for each part of functionals."""
    with _recording(kernel):
        return [
            (block.kernel.pair(PointPairs(left.atoms, part.atoms)), replace(part, weight=block.weight * part.weight))
            for block in blocks_of_parts(kernel, (Part(Atoms.values(x)),), _parts(functionals))
            for left, part in product(block.lefts, block.rights)
        ]


def _cross(kernel: Kernel, functionals: Functional, x: Symbol) -> Array:
    """Record the values (size,) at x of the representers of functionals."""
    total: Array = np.zeros(functionals.size)
    for values, part in _representers(kernel, functionals, x):
        mapped = values if part.matrix is None else values @ apply_matrix(part.matrix, np.eye(part.atoms.size)).T
        before, after = np.zeros(part.start), np.zeros(functionals.size - part.rows.stop)
        total = total + x.graph.concat([before, mapped * np.full(part.size, part.weight), after])
    return total


def _on_basis(space: FunctionSpace | None, x: Symbol) -> Array:
    """Record the values (r,) at x of basis functions."""
    if space is None:
        return np.zeros(0)
    with _recording(space):
        return x.graph.reshape(space.on(Atoms.values(x)), (-1,))


def _features(space: Any, x: Symbol) -> Array:
    """Record the values (p,) at x of the functions of a finite-dimensional space."""
    if space.representers is not None:
        return _cross(space.kernel, space.representers, x)
    if not isinstance(space, FourierSpace):
        refuse(type(space).__name__, "there are too many functions in it", "use rkhs.Landmarks or rkhs.FourierFeatures")
    point = x[0] if space.center is None else x[0] - space.center
    return x.graph.cos(point @ space.W.T + space.b) * space.amplitudes


def _deviation(model: Any, x: Symbol) -> Array:
    """Record the standard deviation of `predict`, that of new targets or of f, of shape () or (outputs,)."""
    name, regressor = f"The standard deviation of {type(model).__name__}", isinstance(model, Regressor)
    if model.solution_.source is None:
        refuse(name, "it needs squared losses")
    posterior = model._calibrated_posterior() if regressor else model._posterior()
    noise = 1 / (2 * model.target_weight_) if regressor else 0.0
    graph = x.graph
    deviation = graph.sqrt(graph.clip(_variance(posterior.spread, x), 0.0) + noise) * np.asarray(posterior.amplitude)
    points = _checked_points(posterior.function)
    points = np.concatenate([points, (points[1:] + points[:-1]) / 2])
    found = graph.outputs({x.name: points[:, None, :]}, {"std": deviation})["std"]
    L = Evaluation(points)
    expected = to_numpy(model._deviations(L, True) if regressor else model.apply(L, return_std=True)[1])
    if not np.all(np.abs(found - expected) <= STD_TOL * expected):
        refuse(
            name,
            f"it would differ from that of predict by up to {np.max(np.abs(found / expected - 1)):.1%}, by rounding",
            "leave return_std out, or fit with a smaller C",
        )
    return deviation


def _variance(spread: Any, x: Symbol) -> Array:
    """Record the posterior variance of f(x) in units of tau^2: a quadratic form, and the variance outside of it."""
    graph = x.graph
    if isinstance(spread, ConditionedGram):
        problem, quadratic, basis = spread.represented, spread.quadratic, spread.represented.basis
        if quadratic.system.size > LARGEST or not isinstance(quadratic._solver, Saddle):
            refuse("The standard deviation", f"it needs the inverse of a matrix of {quadratic.system.size} rows", FEWER)
        if basis.rank < basis.size or quadratic.split[2].shape[1]:
            refuse("The standard deviation", "the data do not determine all basis functions", "leave return_std out")
        saddle = quadratic._solver
        U, T, L = saddle.U, saddle.T, np.tril(saddle.halves.factor)
        inverse = scipy.linalg.solve_triangular(L, np.eye(len(L)), lower=True, check_finite=False)
        r = _cross(problem.kernel, problem.functionals.take(problem.system.quadratic_rows), x) * saddle.scale
        prior = variance = _prior(problem.kernel, x)
        if U.shape[1]:  # as in `Saddle.quadratic_forms`
            z = _on_basis(basis.space, x) @ (basis.back @ to_numpy(quadratic.split[1]) @ saddle.back)
            variance = variance - graph.vecdot(r @ (2 * U) - z @ (T.T @ U), z)
            r = r - z @ T.T
            r = r - (r @ U) @ U.T
        # k(x, x) - r' A^-1 r = k(x, x) - |L^-1 r|^2 for A = L L'
        half = r @ inverse.T
        half = half + (r - half @ L.T) @ inverse.T  # the residual makes it as accurate as a triangular solution
        return graph.elementwise("Max", variance - graph.vecdot(half, half), spread.rounding * prior)
    if not isinstance(spread, FeatureCovariance) or len(spread.space.constraints) or spread.curvature.unseen.shape[1]:
        refuse("The standard deviation", "it is known for positive definite kernels only here", "leave return_std out")
    psi = _features(spread.space, x)
    # var f(x) = |root(E)|^2 + (k(x, x) - |R' psi(x)|^2)_+ for E = (p(x), R' psi(x)): in the span, and outside of it
    inside = psi @ spread.R
    E = graph.concat([_on_basis(spread.basis, x), inside])
    root = E @ spread.curvature.roots(np.eye(E.shape[0]))
    variance = graph.vecdot(root, root)
    if not spread.space.defines_kernel:
        variance = variance + graph.clip(_prior(spread.space.kernel, x) - graph.vecdot(inside, inside), 0.0)
    return variance


def _prior(kernel: Kernel, x: Symbol) -> Array:
    """Record k(x, x)."""
    atoms = Atoms.values(x)
    with _recording(kernel):
        return x.graph.reshape(x.graph.lifted(kernel.pair(PointPairs(atoms, atoms))), ())


def _classifier_outputs(model: Classifier, values: Array) -> dict[str, Symbol]:
    graph = values.graph
    # one score of two classes is their difference: (-f/2, f/2)
    scores = values if values.ndim else graph.stack([-values / 2, values / 2])
    if model.discriminant_ is not None:
        scores = scores @ model.discriminant_.matrix.T + model.discriminant_.offset
    calibration, count = model._calibration, len(model.classes_)
    # P(c) = (1 - n q) exp(a f_c) / sum_d exp(a f_d) + q, with the largest exponent subtracted from all
    logits = scores * np.full(count, calibration.slope)
    shifted = graph.exp(logits - graph.reshape(graph.reduced("ReduceMax", logits, -1), (1,)))
    softmax = shifted / graph.reshape(graph.sum(shifted, axis=-1), (1,))
    probabilities = softmax * np.full(count, 1 - count * calibration.least) + calibration.least
    return {"label": _label(scores, model.classes_), "probabilities": probabilities}


def _label(scores: Array, classes: Vector) -> Array:
    values = np.asarray(classes.tolist())
    label = scores.graph.record("Gather", (), values, scores.graph.reduced("ArgMax", scores, -1), axis=0)
    return replace(label, dtype=values.dtype)


def _ordinal_outputs(model: observations.OrdinalClassifier, values: Array) -> dict[str, Symbol]:
    graph = values.graph
    ends = np.concatenate([[-BEYOND], model.thresholds_, [BEYOND]])
    # class k is between the thresholds t_k < f < t_{k+1}
    above, below = values - ends[:-1], -values + ends[1:]
    if not isinstance(as_loss(model.loss, observations.LOSSES, "loss"), Logistic):
        scores = -graph.elementwise("Max", -above, -below)
        return {"label": _label(scores, model.classes_), "scores": scores}

    def log_expit(a: Array) -> Array:
        return -graph.clip(-a, 0.0) - graph.log1p(graph.exp(-abs(a)))

    # log P(k) = log s(f - t_k) + log s(t_{k+1} - f) + log(1 - exp(t_k - t_{k+1})), s(a) = 1 / (1 + exp(-a))
    with np.errstate(divide="ignore"):
        gaps = np.maximum(np.log(-np.expm1(-np.diff(ends))), -BEYOND)
    scores = log_expit(above) + log_expit(below) + gaps
    return {"label": _label(scores, model.classes_), "probabilities": graph.exp(scores)}


def to_json(
    model: Any, path: str | Path | None = None, *, return_std: bool = False, coverage: float | None = None
) -> str | None:
    """Export a fitted model to JSON: arrays, and a list of operations that NumPy has.

    The guide has a reader of 20 lines, which needs NumPy only.  Predictions agree with those of the model up to
    rounding.

    Parameters
    ----------
    model : estimator, Pipeline or Function
        The fitted model, as in `to_onnx`.
    path : str or Path, optional
        The file to write.
    return_std, coverage : object
        As in `to_onnx`.

    Returns
    -------
    str or None
        The JSON text if there is no path.

    Examples
    --------
    >>> import json, rkhs
    >>> f = rkhs.results.Function(rkhs.Gaussian(), rkhs.Evaluation([[2.0]]), [1.0])
    >>> exported = json.loads(rkhs.to_json(f))
    >>> "Exp" in [operation for _, operation, *_ in exported["nodes"]], list(exported["outputs"])
    (True, ['variable'])
    """
    graph, symbols = recorded(model, return_std, coverage)
    outputs = {output: symbol.name for output, symbol in symbols.items()}
    constants = {name: value.tolist() for name, value in graph.constants.items()}
    written = {"constants": constants, "nodes": graph.nodes, "outputs": outputs}
    if "X" not in graph.inputs:
        written["columns"] = {name: "number" if kind is float else "text" for name, (kind, _) in graph.inputs.items()}
    text = json.dumps(written, allow_nan=False)
    if path is None:
        return text
    with replacing(path) as file:
        file.write_text(text, encoding="utf-8")
    return None


def to_onnx(
    model: Any, path: str | Path | None = None, *, return_std: bool = False, coverage: float | None = None
) -> Any:
    """Export a fitted model to ONNX in float64, for onnxruntime and other runtimes without Python.

    The input is X, of shape (t, n).  Outputs have the names of sklearn-onnx and the shapes that the model returns:
    `label` and `probabilities` of classifiers (`scores` if there are no probabilities), and `variable` of all others.
    This needs onnx: ``pip install 'rkhs[onnx]'``.

    Parameters
    ----------
    model : estimator, Pipeline or Function
        The fitted model: an estimator of rkhs, a pipeline of `StandardScaler` and one, or an `rkhs.results.Function`.
    path : str or Path, optional
        The file to write.
    return_std : bool, default=False
        Whether to add the output `std`, the standard deviations that `predict` returns with `return_std=True`.
    coverage : float, optional
        The coverage of prediction intervals, which are added as the outputs `lower` and `upper`.

    Returns
    -------
    onnx.ModelProto or None
        The ONNX model if there is no path.

    Raises
    ------
    ExportError
        If a part of the model has no formula for new points that can be exported; the message names it.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = rkhs.InvariantRegressor(C=10.0).fit(X, np.sin(X[:, 0]))
    >>> [output.name for output in rkhs.to_onnx(model, coverage=0.9).graph.output]
    ['variable', 'lower', 'upper']
    """
    onnx = import_optional("onnx", "ONNX files need onnx: pip install 'rkhs[onnx]'.")
    graph, symbols = recorded(model, return_std, coverage)
    make, as_tensor = onnx.helper, onnx.numpy_helper.from_array
    nodes, results = [], []
    operations, constants = onnx_operations(graph)
    for name, operation, inputs, options in operations:
        domain = {"domain": TEXTS} if operation == "LabelEncoder" else {}
        nodes.append(make.make_node(operation, inputs, [name], **options, **domain))
    for output, symbol in symbols.items():
        nodes.append(make.make_node("Identity", [symbol.name], [output]))
        kind = make.np_dtype_to_tensor_dtype(_onnx_dtype(symbol.dtype))
        results.append(make.make_tensor_value_info(output, kind, [None, *symbol.shape]))
    kinds = {float: onnx.TensorProto.DOUBLE, str: onnx.TensorProto.STRING}
    given = [
        make.make_tensor_value_info(name, kinds[kind], [None, count]) for name, (kind, count) in graph.inputs.items()
    ]
    tensors = [as_tensor(value.astype(_onnx_dtype(value.dtype)), name) for name, value in constants.items()]
    onnx_graph = make.make_graph(nodes, "rkhs", given, results, tensors)
    opsets = [make.make_opsetid("", OPSET), make.make_opsetid(TEXTS, TEXTS_OPSET)]
    versions = {"opset_imports": opsets if "X" not in graph.inputs else opsets[:1], "ir_version": IR}
    exported = make.make_model(onnx_graph, producer_name="rkhs", **versions)
    if path is None:
        return exported
    with replacing(path) as file:
        file.write_bytes(exported.SerializeToString())
    return None


def onnx_operations(graph: Graph) -> tuple[list[Node], dict[str, Vector]]:
    """Return the nodes with the options that ONNX has for them, and the constants, some of which are such options."""
    nodes, constants = [], dict(graph.constants)
    for name, operation, inputs, options in graph.nodes:
        if operation == "WordCounts":
            refuse(
                "A column of sentences",
                "words and lower case depend on the computer that runs an ONNX file",
                "use rkhs.to_json, or leave the column out",
            )
        if operation in ("Reshape", "ReduceSum", "ReduceMax"):  # their options are inputs in ONNX
            constants[f"{name}_option"] = np.array([*options.values()], dtype=np.int64).reshape(-1)
            inputs, options = [*inputs, f"{name}_option"], {}
        elif operation == "LabelEncoder":
            keys, values, default = options.values()
            options = {"keys_strings": keys, "values_int64s": values, "default_int64": default}
        nodes.append((name, operation, inputs, options | ATTRIBUTES.get(operation, {})))
    return nodes, constants


def _onnx_dtype(dtype: Any) -> Any:
    return np.dtype(object) if dtype.kind in "US" else dtype  # strings are objects for onnx
