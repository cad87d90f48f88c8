"""Kernels from a user's function k(x, y), differentiated by PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from rkhs._backend.arrays import Array, like, to_numpy
from rkhs._calculus.atoms import AllPairs, Atoms, Pairing
from rkhs.kernels._base import Kernel


@dataclass(frozen=True)
class AutodiffKernel(Kernel):
    """A kernel from any function that PyTorch can differentiate.

        k(x, y) = fn(x, y)

    The derivatives come from forward-mode differentiation.  They are correct wherever fn is differentiable *as
    written*: a norm |x - y| inside fn has no derivative at x = y and yields NaN there, even where k is smooth.  Write
    such kernels as functions of |x - y|^2, or as a `FormKernel` (see "add a kernel").

    Parameters
    ----------
    fn : callable
        The function of two PyTorch vectors of shape (n,) that returns a scalar.
    smooth : float, default=inf
        Derivatives of order below this are bounded functionals; it is not checked.
    order : int, default=0
        The order of conditional positive definiteness; it is not checked.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> k = rkhs.kernels.AutodiffKernel(lambda x, y: (x @ y + 1.0) ** 2)
    >>> rkhs.gram(k, rkhs.Gradient(np.array([[1.0, 2.0]])), rkhs.Evaluation(np.array([[3.0, 1.0]]))).dense()
    array([[36.],
           [12.]])
    """

    fn: Callable[[Any, Any], Any]
    smooth: float = inf
    order: int = 0

    def smoothness(self, dimension: int) -> float:
        return self.smooth

    def pair(self, pairing: Pairing) -> Array:
        try:
            import torch
        except ImportError:
            raise ImportError("AutodiffKernel needs PyTorch: pip install 'rkhs[gpu]'.") from None
        left, right = pairing.left, pairing.right
        native = is_torch_array(left.points)

        def tensor(array: Array) -> Any:
            return array if native else torch.tensor(np.ascontiguousarray(array))  # PyTorch has no negative strides

        def flat(atoms: Atoms) -> tuple[Any, Any]:
            """Return the points (size, n) and the directions (size, m, n) of the atoms."""
            t, k, m, n = atoms.points.shape[0], atoms.per_point, atoms.order, atoms.dimension
            points = tensor(atoms.points)[:, None, :].expand(t, k, n)
            return points.reshape(t * k, n), tensor(atoms.directions).expand(t, k, m, n).reshape(t * k, m, n)

        def single(x: Any, us: Any, y: Any, vs: Any) -> Any:
            return _directional(self.fn, x, list(us.unbind(0)), y, list(vs.unbind(0)))

        (x, us), (y, vs) = flat(left), flat(right)
        mapped = torch.func.vmap(single)
        if isinstance(pairing, AllPairs):
            mapped = torch.func.vmap(torch.func.vmap(single, in_dims=(None, None, 0, 0)), in_dims=(0, 0, None, None))
        values = mapped(x, us, y, vs)
        return values if native else like(to_numpy(values), left.points)


def _directional(fn: Callable[[Any, Any], Any], x: Any, us: list[Any], y: Any, vs: list[Any]) -> Any:
    """Return D_us on the first argument and D_vs on the second of fn, by nested Jacobian-vector products."""
    import torch

    if us:
        return torch.func.jvp(lambda s: _directional(fn, s, us[1:], y, vs), (x,), (us[0],))[1]
    if vs:
        return torch.func.jvp(lambda s: _directional(fn, x, us, s, vs[1:]), (y,), (vs[0],))[1]
    return fn(x, y)
