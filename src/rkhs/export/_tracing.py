"""Recording of array operations: the formulas of kernels are those of `rkhs.kernels`, run on a symbol for the point x.

A `Symbol` stands for an array that depends on the point x at which f is to be computed, and all operations on it are
written to a `Graph`.  The graph is its array namespace, so that code for any array library runs on it; arrays that do
not depend on x stay NumPy arrays, and what is computed from them alone becomes a constant.  A recorded operation has a
first axis more than its symbol, the rows of X, so that the graph computes f at all of them.

Operations have the names and the meaning of ONNX.  Indexing, broadcasting and stacking with static shapes are all a
`Gather` of flat entries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from math import inf, prod
from typing import Any

import numpy as np

from rkhs._core.calculus.atoms import Pairing
from rkhs.export._reader import OPERATIONS
from rkhs.extend import Array, Matrix, Vector

FLOAT = np.dtype(np.float64)
UFUNCS = {f: name for name, f in OPERATIONS.items() if isinstance(f, np.ufunc) and f is not np.matmul}
Node = tuple[str, str, list[str], dict[str, Any]]  # name, operation, names of its inputs, options


def _operators(operation: str) -> tuple[Callable[[Symbol, Any], Array], Callable[[Symbol, Any], Array]]:
    """Return the methods of an operator with the symbol on the left and on the right."""
    return (
        lambda self, other: self.graph.elementwise(operation, self, other),
        lambda self, other: self.graph.elementwise(operation, other, self),
    )


def _function(operation: str) -> Callable[..., Array]:
    return lambda self, *inputs: self.elementwise(operation, *inputs)


@dataclass(eq=False)
class Symbol:
    """An array of a given shape that depends on x."""

    graph: Graph
    name: str
    shape: tuple[int, ...]
    dtype: Any = FLOAT
    device = "cpu"
    __add__, __radd__ = _operators("Add")
    __sub__, __rsub__ = _operators("Sub")
    __mul__, __rmul__ = _operators("Mul")
    __truediv__, __rtruediv__ = _operators("Div")
    __pow__, __rpow__ = _operators("Pow")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __array_namespace__(self, api_version: str | None = None) -> Graph:
        return self.graph

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Record a function of NumPy, such as `np.exp(symbol)` or `array * symbol`."""
        if method != "__call__" or options:
            return NotImplemented
        if ufunc is np.log1p:
            return self.graph.log1p(self)
        return self.graph.elementwise(UFUNCS[ufunc], *inputs) if ufunc in UFUNCS else NotImplemented

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("its formula converts x to a NumPy array")

    def __bool__(self) -> bool:
        raise TypeError("its formula depends on a comparison of values")

    def __neg__(self) -> Symbol:
        return self.graph.record("Neg", self.shape, self)

    def __abs__(self) -> Symbol:
        return self.graph.abs(self)

    def __matmul__(self, matrix: Matrix) -> Symbol:
        return self.graph.record("MatMul", (*self.shape[:-1], matrix.shape[-1]), self, matrix)

    def __getitem__(self, key: Any) -> Symbol:
        return self.graph.gathered(self, _positions(self.shape)[key])

    def __setitem__(self, key: Any, value: Symbol) -> None:
        if key is not Ellipsis or value.shape != self.shape:
            raise TypeError("its formula assigns to a part of an array")
        self.name = value.name


@dataclass(eq=False)
class Graph:
    """A list of operations on the rows of its inputs, and the namespace of its symbols."""

    inputs: dict[str, tuple[type, int]] = field(default_factory=dict)  # float or str, and the number of columns
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Vector] = field(default_factory=dict)
    known: dict[Any, str] = field(default_factory=dict)  # names by content: nothing is recorded twice
    __name__ = "rkhs.export"  # array-api-compat asks for it
    zeros = staticmethod(np.zeros)
    exp, log, sqrt, abs = map(_function, ("Exp", "Log", "Sqrt", "Abs"))
    sin, cos, round, fmod = map(_function, ("Sin", "Cos", "Round", "Mod"))
    float64, finfo, any, all = np.float64, staticmethod(np.finfo), staticmethod(np.any), staticmethod(np.all)

    x: Any = None  # the point as the only row of an array (1, n), as functionals have their points

    def input(self, name: str, kind: type, columns: int = 1) -> Symbol:
        """Return an input (columns,) of numbers or texts; one column has one kind."""
        if self.inputs.setdefault(name, (kind, columns)) != (kind, columns):
            raise TypeError(f"column {name!r} is read as a number and as a text")
        return Symbol(self, name, (columns,))

    def with_point(self, features: Symbol) -> Symbol:
        """Make features (n,) the point of the graph, and return it."""
        self.x = self.record("Reshape", (1, *features.shape), features)
        return self.x

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name} has no counterpart in ONNX")

    def record(self, operation: str, shape: tuple[int, ...], *inputs: Any, **options: Any) -> Symbol:
        """Add an operation with symbols and constants as inputs, and return its result of the given shape."""
        if operation == "Reshape":
            options = {"shape": [-1, *shape]}
        names = [self._named(value) for value in inputs]
        name = self.known.setdefault((operation, *names, repr(options)), f"#v{len(self.nodes)}")
        if name == f"#v{len(self.nodes)}":  # new; no column of a table has such a name
            self.nodes.append((name, operation, names, options))
        return Symbol(self, name, shape)

    def _named(self, value: Any) -> str:
        if isinstance(value, Symbol):
            return value.name
        array = np.asarray(value)
        name = self.known.setdefault((array.dtype.str, array.shape, array.tobytes()), f"#c{len(self.constants)}")
        self.constants[name] = array
        return name

    def elementwise(self, operation: str, *inputs: Any) -> Symbol:
        """Add an operation on corresponding entries of arrays that broadcast against each other."""
        shape = np.broadcast_shapes(*(np.shape(a) for a in inputs))
        inputs = tuple(float(a) if isinstance(a, int) else a for a in inputs)
        aligned = (
            self.reshape(a, (1,) * (len(shape) - a.ndim) + a.shape) if isinstance(a, Symbol) else a for a in inputs
        )
        return self.record(operation, shape, *aligned)

    def gathered(self, a: Symbol, flat: Vector) -> Symbol:
        """Return an array of the entries of `a` whose flat indices are given."""
        if flat.size != prod(a.shape) or np.any(flat.reshape(-1) != np.arange(flat.size)):
            flattened = self.reshape(a, (prod(a.shape),))
            a = self.record("Gather", (flat.size,), flattened, flat.reshape(-1).astype(np.int64), axis=-1)
        return self.reshape(a, flat.shape)

    def reduced(self, operation: str, a: Symbol, axis: int) -> Symbol:
        """Add an operation that removes an axis."""
        axis = axis if axis < 0 else axis - a.ndim
        shape = (*a.shape[: a.ndim + axis], *a.shape[a.ndim + axis + 1 :])
        # onnxruntime keeps the axis if X has no rows; for all other X the Reshape changes nothing.
        return self.record("Reshape", shape, self.record(operation, shape, a, axis=axis))

    def lifted(self, a: Array) -> Symbol:
        """Return a constant as a symbol."""
        return a if isinstance(a, Symbol) else 0.0 * self.sum(self.x[0], axis=-1) + a

    def outputs(self, given: Mapping[str, Vector], symbols: dict[str, Symbol]) -> dict[str, Vector]:
        """Compute the values of symbols from those of inputs, or of other symbols, by name."""
        known: dict[str, Any] = {**self.constants, **given}
        for name, operation, inputs, options in self.needed(symbols, given).nodes:
            known[name] = OPERATIONS[operation](*(known[i] for i in inputs), **options)
        return {output: known[symbol.name] for output, symbol in symbols.items()}

    def needed(self, symbols: dict[str, Symbol], given: Collection[str] = ()) -> Graph:
        """Return the graph without operations and constants that the symbols do not depend on, `given` others."""
        used, nodes = {symbol.name for symbol in symbols.values()}, []
        for node in reversed(self.nodes):
            if node[0] in used and node[0] not in given:
                used.update(node[2])
                nodes.append(node)
        constants = {name: value for name, value in self.constants.items() if name in used}
        return Graph(self.inputs, nodes[::-1], constants)

    # The functions of the array API that formulas of kernels call.

    def asarray(self, a: Any, **_: Any) -> Array:
        return a if isinstance(a, Symbol) else np.asarray(a, dtype=np.float64)

    def reshape(self, a: Array, shape: tuple[int, ...]) -> Array:
        if not isinstance(a, Symbol):
            return np.reshape(a, shape)
        shape = tuple(np.empty(a.shape, dtype=bool).reshape(shape).shape)  # resolves -1
        return a if shape == a.shape else self.record("Reshape", shape, a)

    def broadcast_to(self, a: Array, shape: tuple[int, ...]) -> Array:
        if not isinstance(a, Symbol):
            return np.broadcast_to(a, shape)
        return self.gathered(a, np.broadcast_to(_positions(a.shape), shape))

    def concat(self, arrays: Any, axis: int = 0) -> Array:
        parts = [self.lifted(a) for a in arrays if 0 not in a.shape]
        sizes = np.cumsum([0, *(prod(a.shape) for a in parts)])
        flat = self.record("Concat", (int(sizes[-1]),), *(self.reshape(a, (-1,)) for a in parts), axis=-1)
        positions = [_positions(a.shape) + start for a, start in zip(parts, sizes, strict=False)]
        return self.gathered(flat, np.concatenate(positions, axis=axis))

    def stack(self, arrays: Any, axis: int = 0) -> Array:
        parts = map(self.lifted, arrays)
        return self.concat([self.gathered(a, np.expand_dims(_positions(a.shape), axis)) for a in parts], axis=axis)

    def sum(self, a: Array, axis: int) -> Array:
        if not isinstance(a, Symbol):
            return np.sum(a, axis=axis)
        return self.reduced("ReduceSum", a, axis)

    def mean(self, a: Array, axis: int) -> Array:
        return self.sum(a, axis) / a.shape[axis]

    def vecdot(self, a: Array, b: Array, axis: int = -1) -> Array:
        return self.sum(a * b, axis)

    def clip(self, a: Array, low: float, high: float | None = None) -> Array:
        if high is not None:
            raise TypeError("its formula has an upper bound")
        return self.elementwise("Max", a, low)

    def log1p(self, a: Array) -> Array:
        total = a + 1.0
        return self.log(total) + (a - (total - 1.0)) / total  # the second term is the rounding error of the first

    def is_nan(self, a: Symbol) -> Symbol:
        return self.record("IsNaN", a.shape, a)

    def isfinite(self, a: Array) -> Vector:
        return np.ones(a.shape, dtype=bool)

    def full_like(self, a: Array, value: float) -> Vector:
        return np.full(a.shape, value)

    def ones_like(self, a: Array) -> Vector:
        return np.ones(a.shape)

    def zeros_like(self, a: Array) -> Vector:
        return np.zeros(a.shape)


def _positions(shape: tuple[int, ...]) -> Vector:
    return np.arange(prod(shape)).reshape(shape)


class PointPairs(Pairing):
    """The evaluation at x, on the left, paired with each of the right atoms, whose points are constants or x."""

    @property
    def largest(self) -> float:
        if isinstance(self.right.points, Symbol):
            return inf
        return float(np.max(np.sum(self.right.points**2, axis=1), initial=0.0))

    def between(self, p: Array, q: Array) -> Array:
        graph, n = p.graph, p.shape[-1]
        if not isinstance(q, Symbol) and p.shape[:2] == (1, 1):
            return graph.reshape(graph.reshape(p, (n,)) @ q.reshape(-1, n).T, q.shape[:2])
        if not isinstance(q, Symbol) and p.shape[1] == q.shape[0] == 1:
            return p[:, 0, :] @ q[0].T
        return graph.sum(p * q, axis=-1)

    def within_left(self, p: Array, q: Array) -> Array:
        return self.left.points.graph.sum(p * q, axis=-1)

    within_right = within_left

    def flat(self, values: Array) -> Array:
        graph, right = self.left.points.graph, self.right
        shape = (int(right.points.shape[0]), right.per_point)
        return graph.reshape(graph.broadcast_to(values, shape), (right.size,))
