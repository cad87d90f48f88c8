"""Array namespaces, the array types of the package, and the validation of array input.

All numerical code computes with ``xp = namespace(a, b, ...)``, the array API namespace of its inputs (NumPy or PyTorch,
through array-api-compat), so that the same code runs in float32 and float64, on the CPU and on any device that PyTorch
supports.  The namespace is inferred from the data, never configured.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from hashlib import blake2b
from importlib import import_module
from numbers import Integral, Real
from typing import Any

import array_api_compat.numpy
import numpy as np
import scipy.sparse
from array_api_compat import array_namespace, device, is_array_api_obj, is_torch_array

from rkhs._core.backend.sparse import SparseVectors

# NumPy and PyTorch share no static type, and the array API standard does not define one yet.
Array = Any

# NumPy arrays by their axes.  NumPy's static shapes do not survive arithmetic, so the aliases inform readers only.
Vector = np.ndarray[Any, Any]  # (n,)
Matrix = np.ndarray[Any, Any]  # (m, n)
Images = np.ndarray[Any, Any]  # (images, rows, columns)

EPS = float(np.finfo(np.float64).eps)  # machine epsilon of float64
LARGEST_EXACT = 2**53  # float64 represents all integers up to this one exactly


def import_optional(module: str, message: str) -> Any:
    """Import a module of an optional dependency, or raise an ImportError that says how to install it.

    Parameters
    ----------
    module : str
        The name of the module.
    message : str
        The message of the error.

    Returns
    -------
    module
        The module.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.extend.import_optional("math", "This needs math.").pi
    3.141592653589793
    """
    try:
        return import_module(module)
    except ImportError:
        raise ImportError(message) from None


def namespace(*arrays: Array) -> Any:
    """Return the common array API namespace of the arrays.

    Parameters
    ----------
    *arrays : array
        NumPy arrays or PyTorch tensors, all of one library.

    Returns
    -------
    module
        The namespace, as array-api-compat provides it.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.extend import namespace
    >>> xp = namespace(np.zeros(2), np.ones(2))
    >>> xp.concat([np.zeros(2), np.ones(2)])
    array([0., 0., 1., 1.])
    """
    if set(map(type, arrays)) == {np.ndarray}:  # ten times as fast as the general lookup below
        return array_api_compat.numpy
    arrays = tuple(np.empty(0) if isinstance(a, SparseVectors) else a for a in arrays)
    try:
        return array_namespace(*arrays)
    except TypeError:
        kinds = sorted({type(a).__module__.split(".")[0] for a in arrays})
        raise TypeError(
            f"Arrays of different libraries cannot be combined: {' and '.join(kinds)}. "
            "Convert one side, for example with torch.from_numpy."
        ) from None


def as_array(values: Any, name: str = "X") -> Array:
    """Validate the values and return them as a finite float32 or float64 array of the same library.

    Integers and booleans become float64, and half precision becomes float32; lists, data frames and object arrays of
    numbers become NumPy arrays, and tensors are detached.  Complex, sparse, masked, non-numeric and non-finite input
    raises an error that suggests a remedy.

    Parameters
    ----------
    values : array-like
        The values, of any shape.
    name : str, default="X"
        The argument that errors name.

    Returns
    -------
    array
        The values.

    Examples
    --------
    >>> from rkhs.extend import as_array
    >>> as_array([1, 2], "target")
    array([1., 2.])
    """
    array = as_real(values, name)
    xp = namespace(array)
    finite = xp.isfinite(array)
    if not bool(xp.all(finite)):
        where = tuple(int(i[0]) for i in xp.nonzero(~finite)) if array.ndim else ()
        position = f" (first at index {where})" if where else ""
        raise ValueError(f"{name} contains NaN or infinity{position}: impute or drop those rows first.")
    return array


def as_real(values: Any, name: str = "X") -> Array:
    """Return the values as a float32 or float64 array like `as_array`, without the check for NaN and infinity."""
    if scipy.sparse.issparse(values):
        raise TypeError(f"{name} is a sparse matrix; dense points are needed: pass {name}.toarray().")
    check_unmasked(values, name)
    if is_torch_array(values):
        values = values.detach()
    if isinstance(values, np.ndarray) or not is_array_api_obj(values):
        values = np.asarray(values)  # also converts subclasses such as np.matrix, whose * is a matrix product
        if values.dtype.kind == "O":
            with suppress(TypeError, ValueError):
                values = values.astype(np.float64)
        if values.dtype.kind not in "biufc":
            raise TypeError(
                f"{name} has dtype {values.dtype} and does not consist of numbers: encode categories and text as "
                "numbers first, as rkhs.preprocessing.TableEncoder does."
            )
    xp = namespace(values)
    if xp.isdtype(values.dtype, "complex floating"):
        raise TypeError(f"{name} is complex; pass real numbers, for example {name}.real.")
    if values.dtype in (xp.float32, xp.float64):
        return values
    half = xp.isdtype(values.dtype, "real floating") and xp.finfo(values.dtype).bits < 32
    return xp.astype(values, xp.float32 if half else xp.float64)


def check_unmasked(values: Any, name: str) -> None:
    """Raise ValueError if an array, or an array in a list, has masked entries: NumPy would ignore the mask."""
    rows = values if isinstance(values, list | tuple) else (values,)
    if any(isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row) for row in rows):
        raise ValueError(f"{name} has masked entries: impute or drop those rows first.")


def check_number(value: Any, name: str, *, or_zero: bool = False, or_infinite: bool = False) -> float:
    """Return a value as a float, or raise a ValueError unless it is finite and positive.

    Parameters
    ----------
    value : object
        What a user gave.
    name : str
        The name of the parameter, for the message.
    or_zero, or_infinite : bool, default=False
        Whether zero and infinity are allowed.

    Returns
    -------
    float
        The number.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.extend.check_number(3, "C")
    3.0
    """
    valid = isinstance(value, Real) and not isinstance(value, bool) and float(value) >= 0
    if not valid or (float(value) == 0 and not or_zero) or (float(value) == float("inf") and not or_infinite):
        kind = "number" if or_infinite else "finite number"
        raise ValueError(f"{name} must be a {kind} {'>=' if or_zero else '>'} 0, got {value!r}.")
    return float(value)


def check_count(value: Any, name: str, least: int = 1) -> None:
    """Raise a ValueError unless a value is an integer of at least `least`.

    Parameters
    ----------
    value : object
        What a user gave.
    name : str
        The name of the parameter, for the message.
    least : int, default=1
        The smallest count.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.extend.check_count(10, "neighbors")
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        kind = {0: "a nonnegative integer", 1: "a positive integer"}.get(least, f"an integer of at least {least}")
        raise ValueError(f"{name} must be {kind}, got {value!r}.")


def check_choice(value: Any, name: str, *among: str) -> None:
    """Raise a ValueError unless a value is one of several texts.

    Parameters
    ----------
    value : object
        What a user gave.
    name : str
        The name of the parameter, for the message.
    *among : str
        The texts.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.extend.check_choice("knn", "graph", "knn", "radius")
    """
    if not isinstance(value, str) or value not in among:
        listed = ", ".join(f'"{one}"' for one in among[:-1])
        raise ValueError(f'{name} must be {listed} or "{among[-1]}", got {value!r}.')


def as_points(points: Any, name: str = "X", *, sparse: bool = False) -> Array:
    """Validate points, and return them as the rows of an array.

    Parameters
    ----------
    points : array-like of shape (t, n)
        The points; arrays of NumPy and PyTorch keep their library and device.
    name : str, default="X"
        Their name, for messages.
    sparse : bool, default=False
        Whether a SciPy sparse matrix stays sparse.

    Returns
    -------
    array of shape (t, n)
        The points, in floating point.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.extend.as_points([[1, 2]])
    array([[1., 2.]])
    """
    if sparse and (scipy.sparse.issparse(points) or isinstance(points, SparseVectors)):
        return _as_sparse_points(points, name)
    array = as_array(points, name)
    if array.ndim != 2:
        hint = f"{name}.reshape(-1, 1) for one feature, {name}.reshape(1, -1) for one point"
        hint += f", {name}.reshape(len({name}), -1) for images" if array.ndim > 2 else ""
        raise ValueError(f"{name} must have shape (points, features), got {tuple(array.shape)}: use {hint}.")
    if array.shape[1] == 0:
        raise ValueError(f"{name} has {array.shape[0]} points but no features.")
    return array


def _as_sparse_points(points: Any, name: str) -> SparseVectors:
    """Validate a sparse matrix and return its rows."""
    vectors = points if isinstance(points, SparseVectors) else SparseVectors.of(points)
    if vectors.ndim != 2 or vectors.shape[1] == 0:
        raise ValueError(f"{name} must have shape (points, features), got {vectors.shape}.")
    if vectors.dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {vectors.dtype}; pass real numbers.")
    data = vectors.matrix.data
    if not np.all(np.isfinite(data)):
        row = np.searchsorted(vectors.matrix.indptr, np.argmin(np.isfinite(data)), side="right") - 1
        raise ValueError(f"{name} contains NaN or infinity (first at row {row}): impute or drop those rows first.")
    return vectors if vectors.dtype in (np.float32, np.float64) else vectors.astype(np.float64)


def as_column(values: Any) -> Vector:
    """Return the values as a NumPy array, with dtype object for lists that NumPy would not convert faithfully.

    NumPy converts numbers among strings to strings, and rounds integers to float64 if some of them are negative and
    others exceed the range of int64.

    Examples
    --------
    >>> as_column(["a", -1]), as_column([1, 2]), as_column([-1, 2**63 + 1])
    (array(['a', -1], dtype=object), array([1, 2]), array([-1, 9223372036854775809], dtype=object))
    """
    if not isinstance(values, list | tuple):
        return np.asarray(values)
    mixed = 0 < sum(isinstance(v, str) for v in values) < len(values)
    large = any(isinstance(v, int) and abs(v) > LARGEST_EXACT for v in values)
    return np.asarray(values, dtype=object) if mixed or large else np.asarray(values)


def immutable_copy(array: Array) -> Array:
    """Return an immutable array: the array itself if it is read-only already, otherwise a read-only copy.

    Objects that outlive the call that creates them (functionals, terms, functions, fitted models) store their arrays
    through this function, so that later changes of the caller's array do not affect them.  A NumPy array is immutable
    if it is read-only together with all arrays whose memory it shares; tensors have no such flag and get an attribute.

    Examples
    --------
    >>> X = np.zeros((2, 1))
    >>> copy = immutable_copy(X)
    >>> X += 1
    >>> copy.sum(), immutable_copy(copy) is copy, immutable_copy(copy[:1]).base is copy
    (np.float64(0.0), True, True)
    """
    if isinstance(array, SparseVectors):
        return array.immutable_copy()
    if is_torch_array(array):
        return array if getattr(array, "_rkhs_owned", False) else frozen(array.clone())
    memory = array
    while isinstance(memory, np.ndarray) and not memory.flags.writeable:
        if memory.base is None:
            return array
        memory = memory.base
    return frozen(np.array(array))


def frozen(array: Array) -> Array:
    """Mark an array to which there is no other reference as immutable (see `immutable_copy`), without a copy."""
    if isinstance(array, SparseVectors):
        return array.frozen()
    if is_torch_array(array):
        array._rkhs_owned = True
    else:
        array.flags.writeable = False
    return array


def like(values: Any, array: Array) -> Array:
    """Return values as an array of the library, dtype and device of another one.

    Parameters
    ----------
    values : array-like
        The values.
    array : array
        An array of NumPy or PyTorch.

    Returns
    -------
    array
        The values.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.extend.like([1, 2], np.zeros(1, dtype=np.float32))
    array([1., 2.], dtype=float32)
    """
    if isinstance(values, SparseVectors):
        if is_torch_array(array):
            raise TypeError("Sparse points stay on the CPU: pass X.toarray(), or leave the device out.")
        return values.astype(array.dtype)
    if isinstance(values, np.ndarray) and is_torch_array(array):
        values = np.require(values, requirements=["C", "W"])  # PyTorch wants no read-only arrays or negative strides
    elif isinstance(array, np.ndarray) and is_torch_array(values):
        values = to_numpy(values)
    return namespace(array).asarray(values, dtype=array.dtype, device=device(array))


def moved(values: Array, array: Array) -> Array:
    """Return the values as an array of the namespace and on the device of `array`, in their own dtype."""
    if same_device(values, array):
        return values
    return namespace(array).asarray(values, device=device(array)) if is_torch_array(array) else to_numpy(values)


def to_numpy(array: Array) -> Matrix:
    """Return an array of any library in NumPy, without a copy if possible.

    Parameters
    ----------
    array : array
        An array of NumPy or PyTorch, on any device.

    Returns
    -------
    ndarray
        The same values.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.extend.to_numpy(np.ones(2))
    array([1., 1.])
    """
    return array.numpy(force=True) if is_torch_array(array) else np.asarray(array)


def double(array: Array) -> Matrix:
    """Return a copy of an array of any library in NumPy and float64.

    Parameters
    ----------
    array : array
        An array of NumPy or PyTorch, on any device.

    Returns
    -------
    ndarray
        The copy.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.extend.double(np.ones(2, dtype=np.float32)).dtype
    dtype('float64')
    """
    return to_numpy(array).astype(np.float64)


def zeros(shape: tuple[int, ...], array: Array) -> Array:
    """Return zeros of the namespace, dtype and device of `array`.

    Parameters
    ----------
    shape : tuple of int
        The shape.
    array : array
        The array whose kind the zeros have.

    Returns
    -------
    array
        The zeros.

    Examples
    --------
    >>> from rkhs.extend import zeros
    >>> zeros((2,), np.ones(3, dtype=np.float32))
    array([0., 0.], dtype=float32)
    """
    return namespace(array).zeros(shape, dtype=array.dtype, device=device(array))


def identity(array: Array) -> Array:
    """Return the identity matrix of size array.shape[1] in the namespace, dtype and on the device of `array`."""
    return namespace(array).eye(int(array.shape[1]), dtype=array.dtype, device=device(array))


def indices(rows: Vector, array: Array) -> Array:
    """Return integer indices in the namespace and on the device of `array`."""
    return namespace(array).asarray(rows, device=device(array))


def take_rows(array: Array, rows: Vector) -> Array:
    """Return array[rows] for integer indices `rows`."""
    if isinstance(array, SparseVectors):
        return array[rows]
    return namespace(array).take(array, indices(rows, array), axis=0)


def stacked_rows(first: Array, second: Array) -> Array:
    """Return the rows of two arrays, or of two families of sparse vectors (t, n), in the type of the first."""
    if isinstance(first, SparseVectors):
        return SparseVectors.of(scipy.sparse.vstack([first.matrix, second.matrix], dtype=first.dtype))
    return namespace(first).concat([first, like(second, first)], axis=0)


def unique_rows(rows: Matrix) -> tuple[Matrix, Vector, Vector]:
    """Return the distinct rows in lexicographic order, where each comes first, and which of them each row is.

    `numpy.unique` with an axis returns the same by way of a structured dtype, where Ctrl-C becomes a TypeError.

    Parameters
    ----------
    rows : ndarray of shape (t, n)
        The rows.

    Returns
    -------
    tuple of ndarray
        The distinct rows (s, n), the index of the first of each (s,), and the index of each row's distinct row (t,).

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.extend.unique_rows(np.array([[2.0, 1.0], [0.0, 3.0], [2.0, 1.0]]))
    (array([[0., 3.],
           [2., 1.]]), array([1, 0]), array([1, 0, 1]))
    """
    order = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))
    ordered = rows[order]
    is_new = np.ones(len(rows), dtype=bool)
    is_new[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    inverse = np.empty(len(rows), dtype=np.intp)
    inverse[order] = np.cumsum(is_new) - 1
    first = order[is_new]
    return rows[first], first, inverse


def row_keys(rows: Array) -> Vector:
    """Return a 64-bit hash of each row, equal for equal rows; two of a million rows collide with chance 3e-8.

    Examples
    --------
    >>> keys = row_keys(np.array([[1.0, 0.0], [1.0, -0.0], [0.0, 1.0]]))
    >>> keys[0] == keys[1], keys[0] == keys[2]
    (np.True_, np.False_)
    """
    if isinstance(rows, SparseVectors):
        contents = rows.row_bytes()
    else:
        contents = (row.tobytes() for row in np.ascontiguousarray(rows + 0.0))  # the sum replaces -0 by 0
    digests = b"".join(blake2b(content, digest_size=8).digest() for content in contents)
    return np.frombuffer(digests, dtype=np.uint64)


def same_kind(*arrays: Array) -> tuple[Array, ...]:
    """Promote the arrays to their common dtype; they must share a namespace and a device."""
    xp = namespace(*arrays)
    devices = sorted({str(device(a)) for a in arrays})
    if len(devices) > 1:
        raise ValueError(f"Arrays on different devices cannot be combined: {' and '.join(devices)}. Move one of them.")
    dtype = xp.result_type(*(a.dtype for a in arrays))
    return tuple(a.astype(dtype) if isinstance(a, SparseVectors) else xp.astype(a, dtype, copy=False) for a in arrays)


def clip(x: Array, low: float | None, high: float | None) -> Array:
    """Clip x to [low, high]; for small NumPy arrays np.clip is ten times as fast as the namespace's wrapper."""
    return np.clip(x, low, high) if isinstance(x, np.ndarray) else namespace(x).clip(x, low, high)


def inner(a: Array, b: Array, axis: int = -1) -> Array:
    """Return the sum of a * b over an axis.

    On accelerators this avoids `vecdot`, which runs as many small matrix products there.
    """
    if isinstance(a, SparseVectors):
        return (a * b).sum(axis)
    if is_torch_array(a) and device(a).type != "cpu":
        return namespace(a).sum(a * b, axis=axis)
    return namespace(a).vecdot(a, b, axis=axis)


def add_at(target: Array, rows: Array, values: Array) -> None:
    """Add values to target[rows] in place; rows may repeat (the array API has no such scatter operation)."""
    if is_torch_array(target):
        target.index_add_(0, rows, values)
    else:
        np.add.at(target, rows, values)


def apply_matrix(matrix: Any, block: Array) -> Array:
    """Return matrix @ block for a dense matrix or SciPy sparse array and a NumPy array or tensor `block`."""
    return (sparse_like(matrix, block) if scipy.sparse.issparse(matrix) else matrix) @ block


def sparse_like(matrix: Any, array: Array) -> Any:
    """Return a SciPy sparse array as a sparse tensor of the dtype and device of `array`, if that is a tensor."""
    if not is_torch_array(array):
        return matrix
    import torch

    coo = matrix.tocoo()  # PyTorch warns that its CSR support is in beta
    entries = torch.tensor(coo.data, dtype=array.dtype, device=array.device)
    coordinates = torch.tensor(np.stack(coo.coords), device=array.device)
    sparse = torch.sparse_coo_tensor(coordinates, entries, coo.shape, check_invariants=False)
    return sparse.coalesce() if array.device.type == "cuda" else sparse


def compose(outer: Any, inner: Any) -> Any:
    """Return outer @ inner for two matrices, each of them dense or a SciPy sparse array."""
    if scipy.sparse.issparse(inner) and not scipy.sparse.issparse(outer):
        return apply_matrix(inner.T, outer.T).T
    return apply_matrix(outer, inner)


def placed(data: Array, device: str | None, precision: str | None = None) -> Array | None:
    """Return an empty array with the namespace, dtype and device to which a problem's arrays are converted, or None.

    None means that no conversion is needed.  A `precision` concerns matrix products only: vectors are then float64.
    If the device is not available, a warning is issued and the arrays stay on the CPU.

    Parameters
    ----------
    data : array
        An array of the problem.
    device : str or None
        The argument `device` of `Problem`.
    precision : str or None, default=None
        That of its matrix products.

    Returns
    -------
    array or None
        The array, for `like`.

    Examples
    --------
    >>> from rkhs.extend import placed
    >>> placed(np.ones((2, 3)), None) is None
    True
    """
    if device is not None:
        try:
            import torch

            kind = torch.device(device).type
        except ImportError:
            missing = "PyTorch is not installed (pip install 'rkhs[gpu]')"
        except (RuntimeError, TypeError):
            raise ValueError(f'device must be one that PyTorch knows, such as "cuda", got {device!r}.') from None
        else:
            if kind != "cuda" or torch.cuda.is_available():
                dtype = torch.float64 if precision is not None or "64" in str(data.dtype) else torch.float32
                return torch.empty(0, dtype=dtype, device=device)
            missing = "PyTorch sees no GPU here"
        warnings.warn(f"device={device!r}: {missing}, so the problem is solved on the CPU.", UserWarning, stacklevel=2)
    return None if precision is None else namespace(data).astype(data[:0], namespace(data).float64)


def same_device(a: Array, b: Array) -> bool:
    """Return whether two arrays share a library and a device."""
    return bool(is_torch_array(a) == is_torch_array(b) and device(a) == device(b))
