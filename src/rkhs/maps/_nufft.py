"""Non-uniform fast Fourier transforms, by ducc0 or finufft.

For points x_i in one to three dimensions, given as phases (N, d) in radians, and frequencies j with |j_a| <= m_a,

    to_points:  values_i = sum_j c_j exp(i <j, x_i>),        to_modes:  c_j = sum_i v_i exp(-i <j, x_i>)

in O(N + p log p) operations for N points and p frequencies.  All arrays of coefficients have the shape
(2 m_1 + 1, .., 2 m_d + 1), with the frequency zero in the middle.  Both transforms are real on real functions, whose
coefficients satisfy c_-j = conj(c_j): two of them are computed in one complex transform.

References: Barnett, Magland and af Klinteberg (2019), A parallel non-uniform fast Fourier transform library based on an
"exponential of semicircle" kernel; Reinecke, Belkner and Carron (2023), Improved cosmic microwave background
(de-)lensing using general spherical harmonic transforms.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from rkhs.extend import Matrix, Vector, cores

Grid = np.ndarray[Any, Any]
MISSING = "Fourier grids need non-uniform Fourier transforms, of ducc0 or finufft: pip install 'rkhs[maps]'."
LEAST_ERROR = 2e-14  # relative error of a transform in float64; ducc0 refuses less in three dimensions


@cache
def package() -> str:
    """Return the name of the installed package, or raise ImportError with the remedy."""
    for name in ("ducc0", "finufft"):
        if find_spec(name) is not None:
            return name
    raise ImportError(MISSING)


def to_points(coefficients: Grid, phases: Matrix, error: float) -> Vector:
    """Return the complex values (N,) at points from complex coefficients."""
    error = max(error, LEAST_ERROR)
    if not len(phases):
        return np.zeros(0, dtype=np.complex128)
    if package() == "ducc0":
        from ducc0.nufft import u2nu

        coefficients = np.ascontiguousarray(coefficients, dtype=np.complex128)
        return np.asarray(u2nu(grid=coefficients, coord=phases, forward=False, epsilon=error, nthreads=cores(phases)))
    import finufft

    transform = getattr(finufft, f"nufft{phases.shape[1]}d2")
    return np.asarray(transform(*_columns(phases), np.asarray(coefficients, dtype=np.complex128), isign=1, eps=error))


def to_modes(values: Vector, phases: Matrix, shape: tuple[int, ...], error: float) -> Grid:
    """Return the complex coefficients of a given shape from complex values (N,)."""
    error = max(error, LEAST_ERROR)
    if not len(phases):
        return np.zeros(shape, dtype=np.complex128)
    values = np.ascontiguousarray(values, dtype=np.complex128)
    if package() == "ducc0":
        from ducc0.nufft import nu2u

        out = np.empty(shape, dtype=np.complex128)
        nu2u(points=values, coord=phases, forward=True, epsilon=error, nthreads=cores(phases), out=out)
        return out
    import finufft

    transform = getattr(finufft, f"nufft{phases.shape[1]}d1")
    return np.asarray(transform(*_columns(phases), values, shape, isign=-1, eps=error))


def _columns(phases: Matrix) -> list[Vector]:
    """Return the columns of the phases as contiguous arrays between -pi and pi, as finufft needs them."""
    return [np.ascontiguousarray(column) for column in np.remainder(phases + np.pi, 2 * np.pi).T - np.pi]
