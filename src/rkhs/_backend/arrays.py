"""Array namespaces, the array types of the package, and what is accepted as an array.

Everything above computes with ``xp = namespace(a, b, ...)``, the array API namespace of its inputs (NumPy or PyTorch,
through array-api-compat), so that the same code runs in float32 and float64, on the CPU and on any device that PyTorch
knows.  The namespace is derived from the data, never configured.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any

import array_api_compat.numpy
import numpy as np
import scipy.sparse
from array_api_compat import array_namespace, device, is_array_api_obj, is_torch_array

# NumPy and PyTorch share no static type; the array API's own is not published yet.
Array = Any

# NumPy arrays by their axes.  NumPy's static shapes do not survive arithmetic, so the aliases inform readers only.
Vector = np.ndarray[Any, Any]  # (n,)
Matrix = np.ndarray[Any, Any]  # (m, n)
Images = np.ndarray[Any, Any]  # (images, rows, columns)

EPS = float(np.finfo(np.float64).eps)  # the unit of rounding of float64
LARGEST_EXACT = 2**53  # whole numbers up to here, and not all beyond, are numbers of float64


def namespace(*arrays: Array) -> Any:
    """Return the common array API namespace of the arrays; refuse arrays of different libraries."""
    if set(map(type, arrays)) == {np.ndarray}:  # as it is found below, in a tenth of the time
        return array_api_compat.numpy
    try:
        return array_namespace(*arrays)
    except TypeError:
        kinds = sorted({type(a).__module__.split(".")[0] for a in arrays})
        raise TypeError(
            f"Arrays of different libraries cannot be combined: {' and '.join(kinds)}. "
            "Convert one side, for example with torch.from_numpy."
        ) from None


def as_array(values: Any, name: str = "X") -> Array:
    """Return a real floating-point array (float32 or float64), finite, in the library it came from.

    Integers and booleans become float64, half precision becomes float32; lists, data frames and object arrays of
    numbers go through NumPy, and gradients of tensors are not followed.  Complex, sparse, masked, non-numeric and
    non-finite input is refused with the remedy.
    """
    array = as_real(values, name)
    xp = namespace(array)
    finite = xp.isfinite(array)
    if not bool(xp.all(finite)):
        where = tuple(int(i[0]) for i in xp.nonzero(~finite)) if array.ndim else ()
        place = f" (first at index {where})" if where else ""
        raise ValueError(f"{name} contains NaN or infinity{place}: impute or drop those rows first.")
    return array


def as_real(values: Any, name: str = "X") -> Array:
    """Do the same as `as_array` without the check for NaN and infinity."""
    if scipy.sparse.issparse(values):
        raise TypeError(f"{name} is a sparse matrix; dense points are needed: pass {name}.toarray().")
    check_unmasked(values, name)
    if is_torch_array(values):
        values = values.detach()
    if isinstance(values, np.ndarray) or not is_array_api_obj(values):
        values = np.asarray(values)  # also of subclasses such as np.matrix, whose * is not ours
        if values.dtype.kind == "O":
            with suppress(TypeError, ValueError):
                values = values.astype(np.float64)
        if values.dtype.kind not in "biufc":
            raise TypeError(
                f"{name} has dtype {values.dtype} and does not consist of numbers: encode categories and text as "
                "numbers first, for example with sklearn.preprocessing.OneHotEncoder."
            )
    xp = namespace(values)
    if xp.isdtype(values.dtype, "complex floating"):
        raise TypeError(f"{name} is complex; pass real numbers, for example {name}.real.")
    if values.dtype in (xp.float32, xp.float64):
        return values
    half = xp.isdtype(values.dtype, "real floating") and xp.finfo(values.dtype).bits < 32
    return xp.astype(values, xp.float32 if half else xp.float64)


def check_unmasked(values: Any, name: str) -> None:
    """Refuse a masked array, or a list of such rows, in which an entry is masked: NumPy would ignore the mask."""
    rows = values if isinstance(values, list | tuple) else (values,)
    if any(isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row) for row in rows):
        raise ValueError(f"{name} has masked entries: impute or drop those rows first.")


def as_points(points: Any, name: str = "X") -> Array:
    """Return points of R^n as the rows of a (t, n) array: `as_array`, and the shape is checked."""
    array = as_array(points, name)
    if array.ndim != 2:
        hint = f"{name}.reshape(-1, 1) for one feature, {name}.reshape(1, -1) for one point"
        raise ValueError(f"{name} must have shape (points, features), got {tuple(array.shape)}: use {hint}.")
    if array.shape[1] == 0:
        raise ValueError(f"{name} has {array.shape[0]} points but no features.")
    return array


def as_column(values: Any) -> Vector:
    """Return a NumPy array of the values; of objects where NumPy would change those of a list.

    It would make text of a list of texts and others, and floating-point numbers, which are rounded, of whole numbers
    some of which are negative and some too large for 64 bits with a sign.

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


def owned(array: Array) -> Array:
    """Return an array that nobody else can change: the array itself if it is read-only, otherwise a read-only copy.

    All that outlives the call in which it is made (functionals, terms, functions, fitted models) takes its arrays
    through this function, so that a later change of the caller's array does not reach them.  A NumPy array is ours if
    it is read-only, and with it all arrays whose memory it shares; tensors have no such flag and carry a mark.

    Examples
    --------
    >>> X = np.zeros((2, 1))
    >>> own = owned(X)
    >>> X += 1
    >>> own.sum(), owned(own) is own, owned(own[:1]).base is own
    (np.float64(0.0), True, True)
    """
    if is_torch_array(array):
        return array if getattr(array, "_rkhs_owned", False) else frozen(array.clone())
    memory = array
    while isinstance(memory, np.ndarray) and not memory.flags.writeable:
        if memory.base is None:
            return array
        memory = memory.base
    return frozen(np.array(array))


def frozen(array: Array) -> Array:
    """Declare a new array, which nobody else refers to, as `owned`, without a copy."""
    if is_torch_array(array):
        array._rkhs_owned = True
    else:
        array.flags.writeable = False
    return array


def like(values: Any, array: Array) -> Array:
    """Return the values as an array of the namespace, dtype and device of `array`."""
    if isinstance(values, np.ndarray) and is_torch_array(array):
        values = np.require(values, requirements=["C", "W"])  # read-only and negative strides are not PyTorch's
    elif isinstance(array, np.ndarray) and is_torch_array(values):
        values = to_numpy(values)
    return namespace(array).asarray(values, dtype=array.dtype, device=device(array))


def to_numpy(array: Array) -> Matrix:
    """Return a NumPy view or copy of an array of any namespace."""
    return array.numpy(force=True) if is_torch_array(array) else np.asarray(array)


def zeros(shape: tuple[int, ...], array: Array) -> Array:
    """Return zeros of the namespace, dtype and device of `array`."""
    return namespace(array).zeros(shape, dtype=array.dtype, device=device(array))


def identity(array: Array) -> Array:
    """Return the identity matrix of as many columns as an array has, made where the array is."""
    return namespace(array).eye(int(array.shape[1]), dtype=array.dtype, device=device(array))


def indices(rows: Vector, array: Array) -> Array:
    """Return integers as indices of `array`, on its device."""
    return namespace(array).asarray(rows, device=device(array))


def taken(array: Array, rows: Vector) -> Array:
    """Return some rows of an array, in the order given."""
    return namespace(array).take(array, indices(rows, array), axis=0)


def same_kind(*arrays: Array) -> tuple[Array, ...]:
    """Return the arrays in one dtype, the widest among them; one namespace and device is required."""
    xp = namespace(*arrays)
    devices = sorted({str(device(a)) for a in arrays})
    if len(devices) > 1:
        raise ValueError(f"Arrays on different devices cannot be combined: {' and '.join(devices)}. Move one of them.")
    dtype = xp.result_type(*arrays)
    return tuple(a if a.dtype == dtype else xp.astype(a, dtype) for a in arrays)


def clip(x: Array, low: float | None, high: float | None) -> Array:
    """Return x within two numbers; NumPy's own function takes a tenth of the time of the wrapper on small arrays."""
    return np.clip(x, low, high) if isinstance(x, np.ndarray) else namespace(x).clip(x, low, high)


def inner(a: Array, b: Array, axis: int = -1) -> Array:
    """Return the sum of a * b over an axis; on accelerators not by the many small products that `vecdot` is there."""
    if is_torch_array(a) and device(a).type != "cpu":
        return namespace(a).sum(a * b, axis=axis)
    return namespace(a).vecdot(a, b, axis=axis)


def add_at(target: Array, rows: Array, values: Array) -> None:
    """Add values to target[rows] in place, where rows may repeat (the one scatter the array API lacks)."""
    if is_torch_array(target):
        target.index_add_(0, rows, values)
    else:
        np.add.at(target, rows, values)


def apply_matrix(matrix: Any, block: Array) -> Array:
    """Return matrix @ block, where the matrix may be dense or a SciPy sparse array and the block a tensor."""
    if scipy.sparse.issparse(matrix) and is_torch_array(block):
        import torch

        coo = matrix.tocoo()  # PyTorch still warns of its compressed rows
        entries = torch.tensor(coo.data, dtype=block.dtype, device=block.device)
        places = torch.tensor(np.stack(coo.coords), device=block.device)
        matrix = torch.sparse_coo_tensor(places, entries, coo.shape, check_invariants=False)
    return matrix @ block


def compose(outer: Any, inner: Any) -> Any:
    """Return outer @ inner, where each matrix may be dense or a SciPy sparse array."""
    if scipy.sparse.issparse(inner) and not scipy.sparse.issparse(outer):
        return apply_matrix(inner.T, outer.T).T
    return apply_matrix(outer, inner)


def placed(data: Array, device: str | None, precision: str | None) -> Array | None:
    """Return an empty array like which all numbers of a problem are to be, or None if they are to stay as they are.

    A precision of products leaves vectors alone, which are then in float64.  A device that is not there is a warning.
    """
    if device is not None:
        missing = None
        try:
            import torch
        except ImportError:
            missing = "PyTorch is not installed (pip install 'rkhs[gpu]')"
        else:
            try:
                kind = torch.device(device).type
            except (RuntimeError, TypeError):
                raise ValueError(f'device must be one that PyTorch knows, such as "cuda", got {device!r}.') from None
            if kind != "cuda" or torch.cuda.is_available():
                dtype = torch.float64 if precision is not None or "64" in str(data.dtype) else torch.float32
                return torch.empty(0, dtype=dtype, device=device)
            missing = "PyTorch sees no GPU here"
        warnings.warn(f"device={device!r}: {missing}, so the problem is solved on the CPU.", UserWarning, stacklevel=2)
    return None if precision is None else namespace(data).astype(data[:0], namespace(data).float64)


def in_one_place(one: Array, other: Array) -> bool:
    """Return whether two arrays are both NumPy's, or tensors on one device."""
    return bool(is_torch_array(one) == is_torch_array(other) and device(one) == device(other))
