"""Where a problem is solved."""

from __future__ import annotations

import warnings

from array_api_compat import is_torch_array

from rkhs._backend.arrays import Array, namespace


def placed(data: Array, device: str | None, precision: str | None) -> Array | None:
    """An empty array like which all numbers of a problem are to be, or None if they are to stay as they are.

    A precision of products says nothing about vectors, which are then in float64.
    """
    if device is not None and _there(device):
        import torch

        dtype = torch.float64 if precision is not None or "64" in str(data.dtype) else torch.float32
        return torch.empty(0, dtype=dtype, device=device)
    if precision is None:
        return None
    xp = namespace(data)
    return xp.astype(data[:0], xp.float64)


def in_one_place(one: Array, other: Array) -> bool:
    """Whether two arrays are both NumPy's, or tensors on one device."""
    if not (is_torch_array(one) and is_torch_array(other)):
        return is_torch_array(one) == is_torch_array(other)
    return bool(one.device == other.device)


def _there(device: str) -> bool:
    """Whether PyTorch has such a device; warns if not."""
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
            return True
        missing = "PyTorch sees no GPU here"
    warnings.warn(f"device={device!r}: {missing}, so the problem is solved on the CPU.", UserWarning, stacklevel=2)
    return False
