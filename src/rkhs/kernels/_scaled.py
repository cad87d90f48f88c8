"""Kernels with length scales: a positive number, one per feature, "median" until the data are known, or `Tunable`.

`Laplace`, the kernel of the L1 distance, is the one that is no function of the Euclidean distance: a rough kernel, axis
by axis, that suits tabular data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, cast

import numpy as np
import scipy  # imports scipy.spatial lazily

from rkhs._core.backend.arrays import Array, Matrix, Vector, as_points, as_real, inner, like, namespace, to_numpy
from rkhs._core.backend.sparse import SparseVectors, inner_products
from rkhs._core.calculus.atoms import AllPairs, Pairing, check_map
from rkhs._core.calculus.forms import Form, RadialDerivatives
from rkhs._core.limits import limits
from rkhs.kernels._algebra import Product
from rkhs.kernels._base import FormKernel, Kernel, Tunable, check_known

MOST_SPARSE = 2000  # the same for sparse points, whose distances are computed from inner products
LEAST = float(np.finfo(np.float64).tiny ** 0.5)  # the square of a smaller length scale underflows
Scale = float | tuple[float, ...] | str | Tunable


def median_scale(X: Array, random_state: int = 0, distance: str = "euclidean") -> float:
    """Return the median distance between distinct points, a common choice of the length scale.

    Above 5,000 points (2,000 if there are 5,000 features, or if they are sparse) it is the median over a random sample
    of the points.

    Parameters
    ----------
    X : array-like or SciPy sparse matrix of shape (t, n)
        The points.
    random_state : int, default=0
        The seed of the sample.
    distance : str, default="euclidean"
        The name of a distance of `scipy.spatial.distance.pdist`.

    Returns
    -------
    float
        The median distance.

    Examples
    --------
    >>> from rkhs.kernels import median_scale
    >>> median_scale([[0.0], [1.0], [3.0]])
    2.0
    """
    X = as_points(X, sparse=True)
    sparse = isinstance(X, SparseVectors)
    points: Any = X if sparse else to_numpy(X)
    dense_limit = min(
        limits().median_points, int((2e10 / X.shape[1]) ** 0.5)
    )  # 1e10 coordinate differences take ten seconds
    limit = MOST_SPARSE if sparse else dense_limit
    if len(points) > limit:
        points = points[np.random.default_rng(random_state).choice(len(points), limit, replace=False)]
    distances = (_sparse_distances if sparse else scipy.spatial.distance.pdist)(points, distance)
    distances = distances[distances > 0]
    if distances.size == 0:
        raise ValueError(
            f"The median distance of {len(points)} points is undefined: fewer than two of them are distinct. "
            "Give the scale as a number."
        )
    return float(np.median(distances))


def _sparse_distances(X: SparseVectors, distance: str) -> Vector:
    """Return the Euclidean distances of all pairs of sparse points."""
    if distance != "euclidean":
        raise TypeError(f"The points are sparse, and their {distance} distances need dense ones: pass X.toarray().")
    squares = inner(X, X)
    # |x - y|^2 = |x|^2 + |y|^2 - 2 <x, y>
    above = squares[:, None] + squares - 2 * inner_products(X, X)
    rounding = 8 * np.finfo(X.dtype).eps * (squares[:, None] + squares)  # equal rows
    upper = np.triu_indices(len(X), 1)
    return np.asarray(np.sqrt(np.where(above > rounding, above, 0.0)[upper]))


class HasLengthScale(Kernel):
    """A kernel of x / scale; subclasses have a field `scale`."""

    scale: Scale
    positive: ClassVar[tuple[str, ...]] = ("scale",)
    distance: ClassVar[str] = "euclidean"  # the distance behind scale="median"
    decreasing: ClassVar[bool] = False  # whether k is known to decrease with this distance

    def __post_init__(self) -> None:
        if not hasattr(self, "scale"):
            raise TypeError(f"{type(self).__name__} has no length scale: declare the field `scale: float = 1.0` in it.")
        scale: Any = self.scale
        if scale is None or (isinstance(scale, str) and scale != "median"):
            raise ValueError(f'scale must be positive, one per feature, or "median", got {scale!r}.')
        if isinstance(scale, (str, Tunable)):
            return
        if isinstance(scale, list | tuple) and any(isinstance(one, Tunable) for one in scale):
            raise ValueError(
                f"scale={scale!r} is written Tunable(each=True), for Problem.tune; estimators learn a length scale for "
                'each feature with scale="evidence".'
            )
        values = np.asarray(to_numpy(as_real(scale, "scale")), dtype=np.float64)
        if values.ndim > 1 or values.size == 0 or not np.all((values > 0) & np.isfinite(values)):
            raise ValueError(f"scale must be positive and finite, a number or one per feature, got {scale!r}.")
        if not np.all((values >= LEAST) & (values <= 1 / LEAST)):
            raise ValueError(
                f"scale must be between {LEAST:.1e} and {1 / LEAST:.1e}, got {scale!r}: its square overflows or "
                "underflows; rescale the features."
            )
        object.__setattr__(self, "scale", float(values) if values.ndim == 0 else tuple(values.tolist()))

    def linear(self, dimension: int) -> Vector:
        """Return the map x -> x / scale as one factor per feature."""
        if isinstance(self.scale, str):
            raise ValueError(
                f"{self!r} has no scale yet: call kernel.resolved(X) with the data, or give the scale as a number."
            )
        if isinstance(self.scale, Tunable):
            check_known(self)
        factors = 1.0 / np.asarray(self.scale, dtype=np.float64)
        return np.full(dimension, factors) if factors.ndim == 0 else factors

    def resolved(self, X: Array) -> Kernel:
        if self.scale != "median":
            return self
        return replace(cast(Any, self), scale=median_scale(X, distance=self.distance))


@dataclass(frozen=True)
class SpectralDensity(ABC):
    """The spectral density of a radial kernel whose length scale is 1.

        phi(|r|) = integral of S(|w|) exp(2 pi i <w, r>) dw

    The frequencies w in R^d are in cycles.
    `rkhs.FourierGrid` needs `density` and `frequency`, `rkhs.FourierFeatures` needs `sample`.  Set `decay` if phi(r)
    falls only as a power r^-decay, which must be integrable on a grid: decay > d.

    Parameters
    ----------
    kernel : ScaledKernel
        The kernel.
    dimension : int
        The number d of features.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Gaussian().spectral_density(2).density(np.array([0.0, 1.0]))  # 2 pi exp(-2 pi^2 w^2)
    array([6.28318531e+00, 1.68093302e-08])
    """

    kernel: Any
    dimension: int

    @property
    def decay(self) -> float:
        """The largest power with which phi falls; infinite if it falls exponentially."""
        return inf

    @property
    def faster(self) -> str:
        """A kernel that falls fast enough for a Fourier grid; error messages quote it."""
        return f"a decay above {self.dimension}: use another kernel"

    @abstractmethod
    def density(self, squares: Vector) -> Vector:
        """Return S at frequencies with the given squares |w|^2.

        Parameters
        ----------
        squares : ndarray
            The squares |w|^2.

        Returns
        -------
        ndarray
            The densities, of the same shape.
        """

    @abstractmethod
    def frequency(self, share: float, order: int) -> float:
        """Return the frequency above which a share of the variance of derivatives of an order lies.

        The variance is the integral of |2 pi w|^(2 order) S(|w|) dw.

        Parameters
        ----------
        share : float
            The share of the variance, between 0 and 1.
        order : int
            The order of the derivatives.

        Returns
        -------
        float
            The frequency, infinite if the integral is.
        """

    @abstractmethod
    def sample(self, count: int, random: np.random.Generator) -> Matrix:
        """Draw frequencies from the density.

        Parameters
        ----------
        count : int
            The number of frequencies.
        random : numpy.random.Generator
            The source of randomness.

        Returns
        -------
        ndarray of shape (count, d)
            The frequencies 2 pi w.
        """


class ScaledKernel(HasLengthScale, FormKernel):
    """A radial kernel with length scales; subclasses implement `radial_derivatives`.

    The kernel is phi(q) of x / scale with q = -|x - y|^2 / 2.  Subclasses are dataclasses that declare a field `scale`.
    Set `smooth` to False, and implement `smoothness`, if phi is not smooth at q = 0; derivatives of phi that are
    infinite there return any finite number, which is multiplied by zero.

    Attributes
    ----------
    smooth : bool
        Whether phi is smooth in q at q = 0.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import rkhs
    >>> from rkhs.extend import namespace
    >>> @dataclass(frozen=True)
    ... class SquaredExponential(rkhs.extend.ScaledKernel):
    ...     scale: float = 1.0
    ...
    ...     def radial_derivatives(self, q, orders):
    ...         return dict.fromkeys(orders, namespace(q).exp(q))
    >>> SquaredExponential(scale=2.0)([[0.0]], [[2.0]])
    array([[0.60653066]])
    """

    smooth: ClassVar[bool] = True

    @abstractmethod
    def radial_derivatives(self, q: Array, orders: range) -> dict[int, Array]:
        """Return the derivatives of phi at q.

        Parameters
        ----------
        q : array
            The values of the form, minus half the squared scaled distances; may be overwritten.
        orders : range
            The orders of the derivatives.

        Returns
        -------
        dict of int to array
            The arrays phi^(k)(q) for k in orders.
        """

    def smoothness(self, dimension: int) -> float:
        return inf

    def form(self, dimension: int) -> Form:
        return Form(1, self.radial_derivatives, self.smooth, self.linear(dimension))

    def spectral_density(self, dimension: int) -> SpectralDensity | None:
        """Return the spectral density of the kernel with length scale 1, if it is known.

        Parameters
        ----------
        dimension : int
            The number of features.

        Returns
        -------
        SpectralDensity or None
            The density, with which `rkhs.FourierGrid` and `rkhs.FourierFeatures` represent the kernel.
        """
        return None

    def parameter_tangent(self, name: str, feature: int | None) -> Kernel:
        return ScaleTangent(self, feature)


@dataclass(frozen=True, eq=False)
class ExplicitFormKernel(FormKernel):
    """The kernel phi(q) of a given form."""

    given: Form

    def smoothness(self, dimension: int) -> float:
        return inf

    def form(self, dimension: int) -> Form:
        return self.given


@dataclass(frozen=True, eq=False)
class LinearCombination(Kernel):
    """The linear combination sum_i c_i k_i with coefficients c_i of any sign."""

    parts: tuple[tuple[float, Kernel], ...]

    def smoothness(self, dimension: int) -> float:
        return min(k.smoothness(dimension) for _, k in self.parts)

    def summands(self) -> tuple[tuple[float, Kernel], ...]:
        return tuple((c * weight, part) for c, k in self.parts for weight, part in k.summands())

    def pair(self, pairing: Pairing) -> Array:
        return sum(c * k.pair(pairing) for c, k in self.parts)


@dataclass(frozen=True)
class ScaleTangent(Kernel):
    """The derivative of a radial kernel in the logarithm of its scale, or of the scale of one feature.

    With z = x / s a radial kernel is phi(q), q = sum_j q_j, q_j = -(z_j - z'_j)^2 / 2, and dq_j / dlog s_j = -2 q_j.
    So

        dk / dlog s_j  =  phi'(q) * (-2 q_j)

    is a product of two forms, which Leibniz's rule differentiates.  For one scale shared by all features it is
    -2 q phi'(q), a function of q alone.  For rough kernels phi' is not finite at q = 0, but its product with q_j is.
    """

    kernel: Any  # a ScaledKernel
    feature: int | None = None

    def smoothness(self, dimension: int) -> float:
        return float(self.kernel.smoothness(dimension))

    def form(self, dimension: int) -> Form | None:
        if self.feature is not None:
            return None
        form: Form = self.kernel.form(dimension)
        return replace(form, radial_derivatives=derivatives_in_log_scale(form.radial_derivatives))

    def pair(self, pairing: Pairing) -> Array:
        form = self.form(pairing.left.dimension)
        if form is not None:
            return form(pairing)
        given: Form = self.kernel.form(pairing.left.dimension)
        row = np.zeros((1, pairing.left.dimension))
        row[0, self.feature] = np.asarray(given.linear)[self.feature]
        # dk / dlog s_j = phi'(q) * (-2 q_j), a product of two kernels
        slope = replace(given, radial_derivatives=derivatives_of_derivative(given.radial_derivatives))
        return Product((ExplicitFormKernel(slope), squared_distance(row))).pair(pairing)

    def blurred(self, covariance: Matrix) -> Kernel:
        """Return the sum of the blurred tangents of the Gaussians in the mixture that the kernel is."""
        mixture = self.kernel.gaussians(len(covariance))
        return LinearCombination(tuple((w, k.blurred_tangent(covariance, self.feature)) for w, k in mixture))


def squared_distance(A: Matrix) -> Kernel:
    """Return |A (x - y)|^2 as a kernel."""

    def radial_derivatives(q: Array, orders: range) -> dict[int, Array]:
        xp = namespace(q)
        values = {0: -2 * q, 1: xp.full_like(q, -2.0)}
        return {k: values[k] if k < 2 else xp.zeros_like(q) for k in orders}

    return ExplicitFormKernel(Form(1, radial_derivatives, smooth=False, linear=A))


def derivatives_of_derivative(radial_derivatives: RadialDerivatives) -> RadialDerivatives:
    """Return the derivatives of phi', given those of phi."""

    def phi(q: Array, orders: range) -> dict[int, Array]:
        derivatives = radial_derivatives(q, range(orders[0] + 1, orders[-1] + 2))
        return {k: derivatives[k + 1] for k in orders}

    return phi


def derivatives_in_log_scale(radial_derivatives: RadialDerivatives) -> RadialDerivatives:
    """Return the derivatives of -2 q phi'(q), which are -2 (q phi^(k+1) + k phi^(k))."""

    def phi(q: Array, orders: range) -> dict[int, Array]:
        # (-2 q phi')^(k) = -2 (q phi^(k+1) + k phi^(k)), by Leibniz's rule
        values = namespace(q).asarray(q, copy=True)  # radial_derivatives may overwrite q
        derivatives = radial_derivatives(q, range(orders[0], orders[-1] + 2))
        return {k: -2 * (values * derivatives[k + 1] + k * derivatives[k]) for k in orders}

    return phi


@dataclass(frozen=True)
class Laplace(HasLengthScale):
    """The Laplace kernel of the L1 distance, for point evaluations only.

        k(x, y) = exp(-sum_j |x_j - y_j| / scale_j)

    It is the product of exp(-|x_j - y_j| / scale_j) over the features.  Its functions may have kinks along each axis,
    as those of trees have steps; derivatives are not bounded functionals.

    Parameters
    ----------
    scale : float, tuple of float, "median" or Tunable, default=1.0
        The length scale, or one per feature.  "median" is the median L1 distance of the points.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.kernels.Laplace(scale=2.0)([[0.0, 0.0], [1.0, -1.0]])
    array([[1.        , 0.36787944],
           [0.36787944, 1.        ]])
    """

    scale: Scale = 1.0
    distance: ClassVar[str] = "cityblock"
    decreasing: ClassVar[bool] = True

    def smoothness(self, dimension: int) -> float:
        return 0.5

    def smoother(self, order: int, dimension: int) -> str | None:
        return "Gaussian()"

    def pair(self, pairing: Pairing) -> Array:
        distance = distances(pairing, self.linear(pairing.left.dimension))
        return _flat(pairing, namespace(distance).exp(-distance))

    def parameter_tangent(self, name: str, feature: int | None) -> Kernel:
        return LaplaceTangent(self, feature)


@dataclass(frozen=True)
class LaplaceTangent(Kernel):
    """The derivative of the Laplace kernel in the logarithm of its scale, or of the scale of one feature."""

    kernel: Laplace
    feature: int | None = None

    def smoothness(self, dimension: int) -> float:
        return self.kernel.smoothness(dimension)

    def pair(self, pairing: Pairing) -> Array:
        factors = self.kernel.linear(pairing.left.dimension)
        distance = distances(pairing, factors)
        along_feature = distance
        if self.feature is not None:
            along_feature = distances(pairing, np.where(np.arange(len(factors)) == self.feature, factors, 0.0))
        # dk / dlog s_j = k |x_j - y_j| / s_j
        return _flat(pairing, along_feature * namespace(distance).exp(-distance))


def distances(pairing: Pairing, factors: Vector) -> Array:
    """Return the weighted L1 distances sum_j factor_j |x_j - y_j| of the paired points, (t, s) or (t,).

    They are computed from the differences, so that near points far from the origin lose no accuracy.
    """
    check_map(factors, pairing.left.dimension)
    x, y = pairing.left.points, pairing.right.points
    if isinstance(x, np.ndarray) and isinstance(pairing, AllPairs):
        if 0 in (len(x), len(y)):
            return np.zeros((len(x), len(y)), dtype=x.dtype)
        return like(scipy.spatial.distance.cdist(x, y, "cityblock", w=factors), x)
    xp = namespace(x)
    if not isinstance(pairing, AllPairs):
        return xp.sum(xp.abs(x - y) * like(factors, x), axis=-1)
    total = xp.zeros((x.shape[0], y.shape[0]), dtype=x.dtype, device=x.device)
    for j, factor in enumerate(factors.tolist()):
        if factor:
            # sum_j |x_j - y_j| / s_j, one feature at a time
            total = total + factor * xp.abs(x[:, j, None] - y[None, :, j])
    return total


def _flat(pairing: Pairing, values: Array) -> Array:
    """Expand one value per pair of points to one per pair of atoms."""
    return pairing.flat(values[:, None, :, None] if isinstance(pairing, AllPairs) else values[:, None])
