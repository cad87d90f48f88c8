"""A grid of frequencies: the space in which every functional is a multiplier, for up to three dimensions.

For a stationary kernel with the spectral density S, and a grid of frequencies h j with |j_a| <= m_a,

    k(x, y) = sum_j D_j^2 exp(2 pi i <h j, x - y>) + error,        D_j^2 = h_1 .. h_d S(h j)

The error has two parts (Barnett, Greengard and Rachh 2023, Uniform approximation of common Gaussian process kernels
using equispaced Fourier grids).  *Aliasing*: the sum is periodic with the periods 1 / h_a, and contains the values of k
at all images of x - y.  These are small if the periods exceed the extent of the data by the range of k.  Beyond the box
of the data the error grows, and further away than half of the range f is set to zero.  *Truncation*: frequencies
outside of the grid are missing, at most k(0) plus its images minus the sum over the grid.
`FourierGridSpace.kernel_error` is the sum of both, a bound for all pairs of points in the box.  The variance of missing
frequencies is independent at points that are not close together: with squared losses it is added to the noise of
values and derivatives, as in FITC (Quinonero-Candela and Rasmussen 2005), and to posterior variances (`missing`).

Real functions are f = sum_j tau_j D_j cas(theta_j),  cas = cos + sin,  theta_j = 2 pi <h j, x - center>  (Hartley),
with |f|^2 = |tau|^2.  Their complex coefficients are c_j = D_j ((tau_j + tau_-j) - i (tau_j - tau_-j)) / 2, on which

    d/dx_a  is  2 pi i h_a j_a,        a Gaussian average  exp(-2 pi^2 w'Cw)  with w = h j

A field with one potential is such a function too: its components are derivatives of the potential, so that functionals
of the field are pushed to the potential before anything else (`pushed_parts`).

`rkhs.maps._toeplitz` evaluates such functionals and multiplies with their normal matrices.

Spectral densities of stationary kernels on R^d, and how far a kernel and its density reach.

    k(r) = integral of S(w) exp(2 pi i <w, r>) dw

with frequencies w in cycles.  For k(r) = phi(|A r|) the density is S(w) = S_phi(|A^-T w|) / |det A|, where S_phi is
that of phi on R^d, which kernels declare (`ScaledKernel.spectral_density`).  An integral of |2 pi w|^2m S over all
frequencies above a limit is the share of the variance of derivatives of order m that these frequencies contribute.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy  # imports scipy.optimize lazily
import scipy.sparse
import scipy.special

from rkhs import Term, gram
from rkhs.extend import (
    Approximation,
    Array,
    Atoms,
    Functional,
    Kernel,
    Matrix,
    Part,
    ScaledKernel,
    SpectralDensity,
    Vector,
    check_bounded,
    check_count,
    corners,
    free_memory,
    to_numpy,
)
from rkhs.kernels import CurlFree, DivergenceFree, LinearTransform
from rkhs.maps._nufft import package
from rkhs.maps._search import spatial_sample
from rkhs.maps._toeplitz import Channels, Grid, Normal, ToeplitzSums, Waves

Push = Callable[[Atoms], tuple[Atoms, ...]]  # the push-forward of atoms: a sum of one or several lists of atoms
FIELDS = (CurlFree, DivergenceFree)
EPS = float(np.finfo(np.float64).eps)

SHELLS = 100  # shells of periodic images that are summed up


@dataclass(frozen=True, eq=False)
class RadialSpectrum:
    """The spectral density of one summand weight * phi(|A r|) of a kernel on R^d."""

    unit: SpectralDensity  # that of phi
    weight: float
    matrix: Matrix  # A (d, d)

    def unit_values(self, distances: Vector) -> Vector:
        """Return phi at distances (s,)."""
        phi: Vector = self.unit.kernel.radial_derivatives(-(np.asarray(distances) ** 2) / 2, range(1))[0]
        return phi

    def unit_radius(self, value: float) -> float:
        """Return the distance at which phi has fallen to a value below 1."""
        largest = 1.0
        while self.unit_values(np.array([largest]))[0] > value:
            largest *= 2
        return float(
            scipy.optimize.brentq(lambda r: self.unit_values(np.array([r]))[0] / value - 1, 0.0, largest, xtol=1e-6)
        )

    def density(self, frequencies: list[Vector]) -> Vector:
        """Return the density on a grid, given by the frequencies along each axis."""
        inverse, squares = np.linalg.inv(self.matrix).T, np.zeros(())
        axes = np.meshgrid(*frequencies, indexing="ij", sparse=True)
        for row in inverse:
            squares = squares + sum((c * w for c, w in zip(row, axes, strict=True) if c), np.zeros(())) ** 2
        # S(w) = weight S_phi(|A^-T w|) / |det A|
        return self.weight / abs(float(np.linalg.det(self.matrix))) * self.unit.density(np.asarray(squares))

    def frequencies(self, share: float, order: int) -> Vector:
        """Return the half sides (d,) of a box of frequencies that contains all but a share of the variance."""
        return self.unit.frequency(share, order) * np.linalg.norm(self.matrix, axis=0)

    def images(self, gaps: Vector, periods: Vector) -> float:
        """Return a bound on the sum of weight * phi over the periodic images of a point.

        Along axis a the nearest images are at least gaps_a away, and further ones a multiple of periods_a more.
        """
        reach, shell = np.linalg.norm(np.linalg.inv(self.matrix), axis=1), np.arange(1, SHELLS + 1)
        distances = np.min((gaps + np.outer(shell - 1, periods)) / reach, axis=1)
        # the shell s has (2 s + 1)^d - (2 s - 1)^d images
        counts = (2.0 * shell + 1) ** self.unit.dimension - (2.0 * shell - 1) ** self.unit.dimension
        values = counts * self.unit_values(distances)
        return self.weight * float(values.sum() + self.further_shells * values[-1])

    @property
    def all_shells(self) -> float:
        """The sum of phi over all shells of periodic images relative to the nearest; 1 if phi falls exponentially.

        Shell s has about s^(d-1) images, at which phi falls as s^-decay.
        """
        return float(scipy.special.zeta(self.unit.decay - self.unit.dimension + 1))

    @property
    def further_shells(self) -> float:
        """The sum of phi over shells beyond `SHELLS` relative to the last one; 0 if phi falls exponentially."""
        return 1.01 * SHELLS / (self.unit.decay - self.unit.dimension)

    def ranges(self, value: float, order: int) -> Vector:
        """Return the half sides (d,) of a box outside of which phi, summed over all shells of images, is below a value.

        The derivatives of order 2m, relative to those at zero, fall later: by a factor of at most r^2m for a Gaussian.
        """
        value = value / self.all_shells
        radius = self.unit_radius(value / max(1.0, self.unit_radius(value)) ** (2 * order))
        return radius * np.linalg.norm(np.linalg.inv(self.matrix), axis=1)


def spectra(kernel: Kernel, dimension: int) -> list[RadialSpectrum]:
    """Return the spectral densities of the summands of a kernel on R^d, or raise ValueError if one has none."""
    return [_spectrum(summand, weight, np.eye(dimension), kernel) for weight, summand in kernel.summands()]


def _spectrum(kernel: Kernel, weight: float, matrix: Matrix, whole: Kernel) -> RadialSpectrum:
    d = len(matrix)
    if isinstance(kernel, LinearTransform):
        linear = np.diag(kernel.linear) if kernel.linear.ndim == 1 else kernel.linear
        if linear.shape == matrix.shape and np.linalg.matrix_rank(linear) == d:
            return _spectrum(kernel.kernel, weight, linear @ matrix, whole)
    unit = kernel.spectral_density(d) if isinstance(kernel, ScaledKernel) else None
    if unit is None:
        raise ValueError(
            f"The spectrum of {whole!r} is not known: FourierGrid supports Gaussian, Matern and RationalQuadratic "
            "kernels, others with a spectral_density, their sums, multiples and invertible linear changes of input. "
            "Use rkhs.Landmarks, which supports any kernel."
        )
    if unit.decay <= d:
        raise ValueError(
            f"{kernel!r} falls too slowly for a Fourier grid in {d} dimensions, which needs {unit.faster}, or "
            "rkhs.Landmarks."
        )
    return RadialSpectrum(unit, weight, unit.kernel.linear(d)[:, None] * matrix)


ACCURACY = 1e-4  # default accuracy of the kernel, relative to k(0)
DERIVATIVES = 100.0  # factor on the default accuracy for derivatives
FEWEST_MODES, MODES = 2**16, 2**22  # the range of the default limit, which is twice the number of functionals
COARSEST = 0.1  # accuracy above which a grid of MODES frequencies is refused
FINEST = 1e-14  # smallest relative error of non-uniform Fourier transforms
BYTES = 200  # memory for each frequency: a dozen grids, and FFTs of twice the size along each axis


@dataclass(frozen=True)
class FourierGrid(Approximation):
    """Approximation by a grid of frequencies: millions of points in one to three dimensions.

    For Gaussian, Matern and rational quadratic kernels, with one scale per feature, linear changes of input, and sums,
    and for fields with one potential of such a kernel: `CurlFree`, and `DivergenceFree` in the plane.
    The kernel is approximated up to a stated error, and any functional and loss is supported.  Squared losses of
    millions of values and derivatives take seconds, since their normal matrix is a Toeplitz matrix.  It needs ducc0 or
    finufft: ``pip install 'rkhs[maps]'``.

    Parameters
    ----------
    accuracy : float, optional
        The largest error of the kernel relative to k(x, x), and of the inner products of derivatives, which determines
        the spacing and the number of frequencies.  By default 1e-4 (1e-2 for derivatives), or what twice as many
        frequencies as functionals permit, as for rough kernels.
    modes : int, optional
        The largest number of frequencies.
    box : tuple of array-like, optional
        The lower and upper corners of a box that contains all points, also those of predictions; by default that of
        the data.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.random.default_rng(0).uniform(size=(20_000, 2))
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(9 * X[:, 0]) * X[:, 1], weight=100.0)
    >>> solution = rkhs.Problem(rkhs.Matern(2.5, scale=0.3), [term], approximation=rkhs.FourierGrid()).solve()
    >>> solution.status, bool(abs(solution.function([[0.5, 0.5]])[0] - np.sin(4.5) / 2) < 1e-2)
    ('converged', True)
    """

    stored, needs_spectrum = False, True
    accuracy: float | None = None
    modes: int | None = None
    box: Any = None

    def __post_init__(self) -> None:
        if self.accuracy is not None and not 0 < self.accuracy < 1:
            raise ValueError(f"accuracy of a FourierGrid must be between 0 and 1, got {self.accuracy!r}.")
        if self.modes is not None:
            check_count(self.modes, "modes of a FourierGrid")

    def choose(self, kernel: Kernel, families: Sequence[Functional], pilot: Any = None) -> FourierGridSpace:
        """Choose the grid for a problem.

        Parameters
        ----------
        kernel : Kernel
            The kernel of the problem.
        families : sequence of Functional
            The functionals of all terms, which determine the extent and the highest order of derivatives.
        pilot : callable, optional
            Not used.

        Returns
        -------
        FourierGridSpace
            The space of functions on the grid of frequencies.
        """
        package()
        scalar, push = potential(kernel, families[0].dimension)
        atoms = [part.atoms for family in families for part in pushed_parts(family, push)]
        dimension = atoms[0].dimension
        if dimension > 3:
            raise ValueError(f"A FourierGrid is for at most three features, got {dimension}: use rkhs.Landmarks.")
        parts = spectra(scalar, dimension)
        low, high = corners(atoms)
        if self.box is not None:
            low, high = self._checked_box(low, high)
        center, extent = (low + high) / 2, high - low
        order, blur = max(one.order for one in atoms), _widths(atoms)

        def grid(accuracy: float) -> tuple[Vector, Vector]:
            """Return the spacings and the limits m."""
            value = accuracy / (2 * 3**dimension)
            averages = 2 * blur * np.log(1 / value) ** 0.5  # the variance of differences is 2 blur^2
            # the period 1 / h is the extent plus the distance at which images of the kernel have fallen below the value
            spacing = 1 / (extent + averages + np.max([part.ranges(value, order) for part in parts], axis=0))
            shares = {0: accuracy / 2}
            if order:
                shares[order] = min(accuracy * (1.0 if self.accuracy else DERIVATIVES), 0.5) / 2
            highest = [part.frequencies(share, m) for part in parts for m, share in shares.items()]
            # all but a share of the variance has frequencies below h m, for values and for the highest derivatives
            return spacing, np.ceil(np.max(highest, axis=0) / spacing)

        accuracy = ACCURACY if self.accuracy is None else self.accuracy
        memory = int(free_memory(np.zeros(0)) / BYTES)
        values = sum(family.size for family in families)
        useful = min(max(2 * values, FEWEST_MODES), MODES)
        most = min(self.modes or (useful if self.accuracy is None else memory), memory)
        if _size(grid(accuracy)[1]) > most and (self.accuracy is None or self.modes is not None):
            accuracies = [*np.geomspace(accuracy, 10**-0.1, 200).tolist(), 1.0]
            reached = accuracies[bisect_left(accuracies, True, hi=200, key=lambda a: _size(grid(a)[1]) <= most)]
        else:
            reached = accuracy
        if _size(grid(min(reached, 0.99))[1]) > most or (reached > COARSEST and self.modes is None):
            needed = _size(grid(accuracy)[1])
            raise MemoryError(
                f"{kernel!r} on points with the extent {extent.tolist()} needs {needed:,.0f} frequencies for an "
                f"accuracy of {accuracy:g}, and {most:,} fit: use a larger length scale, a smoother kernel, a larger "
                "`accuracy`, or rkhs.Landmarks."
            )
        spacing, limits = grid(reached)
        return FourierGridSpace(
            kernel, center, extent, spacing, tuple(int(m) for m in limits), reached, min(1e-9, 1e-3 * reached)
        )

    def tuning_sample(self, terms: Sequence[Term], most: int, random: np.random.Generator) -> list[Term]:
        return spatial_sample(terms, most, random)

    @property
    def needs_extent(self) -> bool:
        return self.box is None

    @property
    def sample_size(self) -> int:
        return super().sample_size if self.needs_extent else 0

    def in_box(self, low: Vector, high: Vector) -> FourierGrid:
        return replace(self, box=(low, high))

    def _checked_box(self, low: Vector, high: Vector) -> tuple[Vector, Vector]:
        """Return the corners of `box`, which has to contain the points between `low` and `high`."""
        try:
            corners = np.asarray(self.box, dtype=np.float64)
        except (TypeError, ValueError):
            corners = np.zeros(0)
        if corners.shape != (2, len(low)) or not np.all(corners[0] <= corners[1]) or not np.all(np.isfinite(corners)):
            raise ValueError(
                f"box of a FourierGrid must be its lower and upper corner in {len(low)} dimensions, got {self.box!r}."
            )
        if np.any(low < corners[0]) or np.any(high > corners[1]):
            raise ValueError(
                f"box {self.box!r} of a FourierGrid does not contain all points, which lie between {low.tolist()} and "
                f"{high.tolist()}: enlarge the box, or leave it out."
            )
        return corners[0], corners[1]


def potential(kernel: Kernel, dimension: int) -> tuple[Kernel, Push | None]:
    """Return the kernel of the potential of a kernel of fields, and how functionals are pushed to it.

    Other kernels are returned as they are, without a push-forward.
    """
    parts = kernel.summands()
    fields = [part for _, part in parts if isinstance(part, FIELDS)]
    if not fields:
        return kernel, None
    pushes = [push for _, push, _ in fields[0].pushes() if push is not None]
    if len(parts) > 1 or (isinstance(fields[0], DivergenceFree) and dimension > 4):
        raise ValueError(
            f"The fields of {kernel!r} have several potentials: a FourierGrid supports CurlFree, and DivergenceFree in "
            "the plane, one at a time. Use rkhs.Landmarks."
        )
    return parts[0][0] * fields[0].kernel, pushes[0]


def pushed_parts(functional: Functional, push: Push | None) -> tuple[Part, ...]:
    """Return the parts of a functional, as functionals of the potential where the functions are fields."""
    if push is None:
        return functional.parts
    return tuple(replace(part, atoms=atoms) for part in functional.parts for atoms in push(part.atoms))


def _widths(atoms: Sequence[Atoms]) -> Any:
    """Return the largest standard deviations (d,) of Gaussian averages, 0.0 if there are none."""
    blurs = [one.blur for one in atoms if one.blur is not None]
    return np.max([np.sqrt(C if C.ndim == 1 else np.diag(C)) for C in blurs], axis=0, initial=0.0)


def _size(limits: Vector) -> float:
    return float(np.prod(2 * limits + 1))


@dataclass(frozen=True, eq=False)
class FourierGridSpace(Waves):
    """The functions whose frequencies lie on a grid.

        f = sum_j tau_j D_j cas(2 pi <h j, x - center>),        |f|^2 = |tau|^2

    Parameters
    ----------
    kernel : Kernel
        The kernel that the waves approximate.
    center : ndarray of shape (d,)
        The middle of the box of all points.
    extent : ndarray of shape (d,)
        The sides of the box.
    spacing : ndarray of shape (d,)
        The distances h of frequencies, in cycles.
    limits : tuple of int
        The largest index m of a frequency along each axis.
    accuracy : float
        The accuracy for which the grid was chosen.
    transform_error : float
        The relative error of non-uniform Fourier transforms.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> space = rkhs.FourierGrid(1e-6).choose(rkhs.Gaussian(0.2), [rkhs.Evaluation(X)])
    >>> space.size, bool(space.kernel_error < 1e-6)
    (19, True)
    """

    @property
    def dimension(self) -> int:
        return len(self.limits) if self._push is None else 2 * len(self.limits)

    @cached_property
    def _spectra(self) -> list[RadialSpectrum]:
        return spectra(self._potential[0], len(self.limits))

    @cached_property
    def _potential(self) -> tuple[Kernel, Push | None]:
        fields = any(isinstance(part, FIELDS) for _, part in self.kernel.summands())
        return potential(self.kernel, (2 if fields else 1) * len(self.limits))

    @property
    def _push(self) -> Push | None:
        return self._potential[1]

    def parts(self, functional: Functional) -> tuple[Part, ...]:
        """Return the parts of a functional on the function of the grid, which is the potential of a field."""
        return pushed_parts(functional, self._push)

    @property
    def prototype(self) -> Array:
        return np.zeros(0)

    def like(self, prototype: Array) -> FourierGridSpace:
        return self  # transforms are computed by NumPy, on the CPU

    @property
    def gram(self) -> scipy.sparse.dia_array:
        return scipy.sparse.eye_array(self.size)

    @property
    def box(self) -> tuple[Vector, Vector]:
        """The corners of the box of all points, a little larger because of rounding."""
        half = 0.5 * (1 + 1e-9) * self.extent + 8 * EPS * np.abs(self.center)
        return self.center - half, self.center + half

    def outside_of_box(self, families: Sequence[Functional]) -> str | None:
        low, high = corners([part.atoms for family in families for part in self.parts(family)])
        if np.all(np.maximum(self.center - low, high - self.center) <= 0.5001 * self.extent):
            return None
        return (
            f"has points between {low.tolist()} and {high.tolist()}, outside of the box of the FourierGrid: pass "
            "rkhs.FourierGrid(box=(lower, upper)) with the corners of a box that contains all points"
        )

    @cached_property
    def amplitudes(self) -> Grid:
        """The square roots D of the spectral density times the volume of a cell."""
        density = sum(part.density(self.frequencies) for part in self._spectra)
        return np.sqrt(np.prod(self.spacing) * density)

    @cached_property
    def kernel_error(self) -> float:
        """A bound on |k - approximation| for all pairs of points in the box, relative to k(x, x); of the potential."""
        parts, periods = self._spectra, 1 / self.spacing
        total = sum(part.weight for part in parts)
        # sum of k over all images of x - y, of which the nearest are 1 / h - extent away
        aliasing = sum(part.images(periods - self.extent, periods) for part in parts)
        at_zero = sum(part.images(periods, periods) for part in parts)
        # sum of S over frequencies outside of the grid = k(0) + its images - sum_j D_j^2  (Poisson summation)
        truncation = max(total + at_zero - float(np.sum(self.amplitudes**2)), 0.0)
        return (aliasing + truncation) / total + 8 * EPS

    # Hartley and complex coefficients: real grids (.., 2m + 1, ..) with any leading axes.

    def _complex(self, tau: Grid) -> Grid:
        """Return the complex coefficients of functions on the grid."""
        reverse: Any = (..., *(slice(None, None, -1) for _ in self.limits))
        mirrored = tau[reverse]
        return 0.5 * self.amplitudes * ((tau + mirrored) - 1j * (tau - mirrored))

    def _hartley(self, coefficients: Grid) -> Grid:
        """Return the adjoint of `_complex`."""
        return self.amplitudes * (coefficients.real - coefficients.imag)

    # Functionals.

    def rows(self, functional: Functional) -> Array:
        """Return the matrix (size, p), for small problems and tests; `apply` and `adjoint` are products with it."""
        return self.adjoint(functional, np.eye(functional.size)).T

    def apply(self, functional: Functional, tau: Array) -> Matrix:
        check_bounded(self.kernel, functional)
        coefficients = self._complex(self.grids(np.asarray(tau).reshape(self.size, -1)))
        result = np.zeros((functional.size, len(coefficients)))
        for part in self.parts(functional):
            channels = Channels.of(self, part.atoms)
            values = np.stack([channels.values(c) for c in coefficients], axis=1)
            result[part.rows] += part.forward(values)
        return result.reshape(functional.size, *np.shape(tau)[1:])

    def adjoint(self, functional: Functional, alpha: Matrix) -> Matrix:
        result = np.zeros((alpha.shape[1], *self.shape))
        for part in self.parts(functional):
            channels, on_atoms = Channels.of(self, part.atoms), part.adjoint(alpha)
            for k, column in enumerate(on_atoms.T):
                result[k] += self._hartley(channels.sums(column))
        return self.columns(result)

    def summed(self, functional: Functional, weight: Vector, known: list[Any]) -> ToeplitzSums | None:
        return ToeplitzSums.of(self, functional, weight, known)

    def normal_of(self, summed: Sequence[ToeplitzSums]) -> Normal:
        return Normal(self, summed)

    @property
    def product_error(self) -> float:
        return self.transform_error

    @property
    def finer(self) -> FourierGridSpace | None:
        return replace(self, transform_error=FINEST) if self.transform_error > FINEST else None

    def coarser(self, most: int, families: Sequence[Functional]) -> FourierGridSpace:
        if self.size <= most:
            return self
        return FourierGrid(modes=most, box=self.box).choose(self.kernel, families)

    @property
    def summary(self) -> str:
        """The shape of the grid, and the error of the kernel."""
        return f"{' x '.join(map(str, self.shape))} frequencies, kernel to {self.kernel_error:.0e}"

    def outside(self, functional: Functional) -> Vector:
        inside = [float(np.sum(self.adjoint(functional, e[:, None]) ** 2)) for e in np.eye(functional.size)]
        return np.clip(to_numpy(gram(self.kernel, functional).diagonal()) - np.array(inside), 0, None)

    def missing(self, functional: Functional) -> Vector:
        """Return the squared norms (N,) of the parts of functionals outside of the space, as far as they are known.

        They are for values and derivatives at single points.  For families that combine several of these they are
        returned as zero, except at points that are far from the box, where f is zero and all of the norm is missing.
        """
        parts = self.parts(functional)
        if not functional.size or not parts:
            return np.zeros(functional.size)
        part, atoms = parts[0], parts[0].atoms
        if len(parts) > 1 or part.matrix is not None:
            return self._missing_far_away(functional, parts)
        channels, near = Channels.of(self, atoms), self.near(atoms.points)
        kept = 1.0 if near is None else np.repeat(near, atoms.per_point)
        waves = [self.amplitudes * np.broadcast_to(m, self.shape) for m in channels.multipliers]
        products = part.weight**2 * np.array([[float(np.sum((np.conj(a) * b).real)) for a in waves] for b in waves])
        if channels.coefficients is None:  # the same at all points
            count = functional.size // atoms.per_point
            norms = np.tile(to_numpy(gram(self.kernel, functional.take(np.arange(atoms.per_point))).diagonal()), count)
            inside = np.tile(np.diag(products), count)
        else:
            norms, c = to_numpy(gram(self.kernel, functional).diagonal()), channels.coefficients
            inside = np.sum((c @ products) * c, axis=2).reshape(-1)
        # |L|^2 - sum_qs c_q <m_q D, m_s D> c_s
        return np.clip(norms - kept * inside, 0.0, None)

    def _missing_far_away(self, functional: Functional, parts: Sequence[Part]) -> Vector:
        """Return the squared norms of functionals that refer to points far from the box, and zero for the others."""
        far = np.zeros(functional.size, dtype=bool)
        for part in parts:
            near = self.near(part.atoms.points)
            if near is not None:
                away = np.repeat(~near, part.atoms.per_point).astype(np.float64)
                far[part.rows] |= np.asarray(abs(part.as_matrix()) @ away) > 0
        result, rows = np.zeros(functional.size), np.flatnonzero(far)
        if len(rows):
            result[rows] = to_numpy(gram(self.kernel, functional.take(rows)).diagonal())
        return result
