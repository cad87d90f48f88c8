"""The Gaussian kernel, whose derivatives and averages are Gaussian, and mixtures of Gaussians.

Mixtures are Matern kernels of half-integer order, whose derivatives in q are Matern kernels of lower order, and the
rational quadratic kernel, whose derivatives in q are powers of the same base.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, inf, log, pi, prod
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy  # imports scipy.optimize lazily
from scipy.special import betaincinv, digamma, gammaincc, gammainccinv, gammaincinv, gammaln, kve, softmax

from rkhs._core.backend.arrays import EPS, Array, Matrix, Vector, as_real, check_number, namespace, to_numpy
from rkhs._core.calculus.atoms import check_map
from rkhs._core.calculus.forms import Form
from rkhs._core.calculus.maps import Circles
from rkhs.kernels._algebra import Composition, LinearTransform, Multiple, Product, Sum
from rkhs.kernels._base import FormKernel, Kernel, Tunable
from rkhs.kernels._scaled import LinearCombination, Scale, ScaledKernel, SpectralDensity, squared_distance

MAX_NU = 20.5  # beyond this order the kernel is indistinguishable from the Gaussian in double precision
SERIES_ORDERS = 20, 100  # orders of Bessel functions whose power series is used for z < 1; above, Debye's expansion
NODES = 200  # nodes for the distribution of the precisions of the Gaussians, equispaced in its logarithm


@dataclass(frozen=True)
class Gaussian(ScaledKernel):
    """The Gaussian (RBF, squared exponential) kernel.

        k(x, y) = exp(-|x - y|^2 / (2 scale^2))

    Its functions are smooth: derivatives of every order are bounded, and the norm of a first partial derivative is
    1 / scale.

    Parameters
    ----------
    scale : float, tuple of float, "median" or Tunable, default=1.0
        The length scale, or one per feature.  "median" is the median distance of the points.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Gaussian(scale=2.0)([[0.0], [2.0]])
    array([[1.        , 0.60653066],
           [0.60653066, 1.        ]])
    """

    scale: Scale = 1.0
    decreasing: ClassVar[bool] = True

    def radial_derivatives(self, q: Array, orders: range) -> dict[int, Array]:
        return dict.fromkeys(orders, namespace(q).exp(q))  # all derivatives of exp share one array

    def blurred(self, covariance: Matrix) -> Kernel:
        """Return sqrt(det S / det(S + C)) exp(-d'(S + C)^-1 d / 2), with S = diag(scale^2) and C the covariance."""
        factors = self.linear(len(covariance))
        check_map(factors, len(covariance))
        if covariance.ndim == 1:
            # sqrt(det S / det(S + C)) = prod_j (1 + C_j / S_j)^-1/2
            ratio = covariance * factors**2  # C / S
            wider = np.sqrt(1 + ratio) / factors
            same = np.all(wider == wider[0])
            kernel: Kernel = Gaussian(scale=float(wider[0]) if same else wider)
            return Multiple(float(np.exp(-0.5 * np.sum(np.log1p(ratio)))), kernel)
        # S^-1/2 C S^-1/2 = V diag(ratios) V':  (S + C)^-1 = A'A with A = (1 + ratios)^-1/2 V'S^-1/2
        ratios, axes = np.linalg.eigh(np.outer(factors, factors) * covariance)
        ratios[ratios < ratios[-1] * EPS * len(ratios)] = 0.0  # rounding errors of a singular C
        narrower = (axes / np.sqrt(1 + ratios)).T * factors
        return Multiple(float(np.exp(-0.5 * np.sum(np.log1p(ratios)))), LinearTransform(Gaussian(scale=1.0), narrower))

    def spectral_density(self, dimension: int) -> SpectralDensity:
        return GaussianDensity(self, dimension)

    def gaussians(self, dimension: int) -> list[tuple[float, Gaussian]]:
        """Return the kernel as a mixture of Gaussians: itself, with weight one."""
        return [(1.0, self)]

    def blurred_tangent(self, covariance: Matrix, feature: int | None) -> Kernel:
        """Return the derivative of `blurred` in log s_j, or in the logarithm of all scales.

        It is (1 - s_j^2 (M^-1)_jj + s_j^2 (M^-1 d)_j^2) times the blurred kernel, with M = S + C.
        """
        average, factors = self.blurred(covariance), self.linear(len(covariance))
        scales = 1 / factors
        # d/dlog s_j of sqrt(det S / det M) exp(-d'M^-1 d / 2), M = S + C, dM/dlog s_j = 2 s_j^2 e_j e_j'
        inverse = np.linalg.inv(np.diag(scales**2) + (np.diag(covariance) if covariance.ndim == 1 else covariance))
        rows = slice(None) if feature is None else slice(feature, feature + 1)
        constant = float(np.sum((1 - scales**2 * np.diag(inverse))[rows]))
        return LinearCombination(
            ((constant, average), (1.0, Product((average, squared_distance((scales[:, None] * inverse)[rows])))))
        )


class GaussianDensity(SpectralDensity):
    """The spectral density (2 pi)^(d/2) exp(-2 pi^2 w^2) of a Gaussian kernel."""

    def density(self, squares: Vector) -> Vector:
        return (2 * pi) ** (self.dimension / 2) * np.exp(-2 * pi**2 * squares)

    def frequency(self, share: float, order: int) -> float:
        return float((gammainccinv(self.dimension / 2 + order, share) / 2) ** 0.5 / pi)

    def sample(self, count: int, random: np.random.Generator) -> Matrix:
        return random.standard_normal((count, self.dimension))


def Periodic(period: Any, scale: Any = 1.0) -> Composition:
    """Return the kernel of smooth periodic functions, such as those of the hour or of an angle.

        k(x, y) = exp(-d^2 / (2 scale^2)),  d^2 = sum_j (period_j / pi)^2 sin(pi (x_j - y_j) / period_j)^2

    It is the Gaussian kernel of points on circles, whose chordal distance d approaches |x - y| for near points.  With
    l = 2 pi scale / period it is MacKay's exp(-2 sin(pi d / period)^2 / l^2).

    Parameters
    ----------
    period : float or array-like of shape (n,)
        The positive period, or one per feature.
    scale : float, tuple of float, "median" or Tunable, default=1.0
        The length scale of `Gaussian`.

    Returns
    -------
    Composition
        The periodic kernel.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.kernels.Periodic(period=24.0, scale=3.0)([[1.0]], [[1.0], [25.0], [13.0]]).round(4)
    array([[1.    , 1.    , 0.0391]])
    """
    periods = to_numpy(as_real(np.nan if isinstance(period, Tunable) else period, "period"))
    if periods.ndim > 1 or periods.size == 0 or not bool(((periods > 0) & (periods < float("inf"))).all()):
        raise ValueError(f"period must be positive and finite, a number or one per feature, got {period!r}.")
    return Composition(Gaussian(scale), Circles(tuple(map(float, periods.reshape(-1).tolist()))))


class GaussianMixture(ScaledKernel):
    """A radial kernel that is a mixture of Gaussians of all scales.

        k = integral of Gaussian(scale sqrt(v(u))) u^(a-1) e^(-u) du / Gamma(a)

    The averages of Gaussians are known, so the average of k is one integral over u.  In log u the integrand is analytic
    in a strip of half-width pi/2, so the trapezoidal rule converges geometrically: with the step chosen here the error
    is below 1e-13 in every dimension.
    """

    decreasing: ClassVar[bool] = True

    @abstractmethod
    def shape_and_variance(self) -> tuple[float, Callable[[Vector], Vector]]:
        """Return the shape a of the gamma distribution and the variance v(u), in units of the squared scale."""

    def mixture(self, dimension: int) -> tuple[list[tuple[float, Gaussian]], Vector]:
        """Return the quadrature weights with their Gaussians, and the derivatives of the log weights in a."""
        shape, variance = self.shape_and_variance()
        factors = self.linear(dimension)
        # u = e^t: integral of e^(a t - e^t) / Gamma(a) dt by the trapezoidal rule (Trefethen and Weideman 2014)
        step = 0.2 / max(1.0, shape / 4) ** 0.5  # the peak narrows as the shape parameter grows
        log_u = np.arange(-40.0, np.log(shape + 12 * shape**0.5 + 40), step)
        weights = step * np.exp(shape * log_u - np.exp(log_u) - gammaln(shape))
        # d log weight / da = log u - psi(a)
        slopes = log_u - digamma(shape)
        # Below the lowest node the Gaussians no longer change: that node gets the weight of the geometric tail.
        tail = np.exp(-shape * step) / -np.expm1(-shape * step)
        weights[0] += weights[0] * tail
        slopes[0] -= step * tail
        scales = np.sqrt(variance(np.exp(log_u)))[:, None] / factors
        return [(float(w), Gaussian(scale=s)) for w, s in zip(weights, scales, strict=True)], slopes

    def gaussians(self, dimension: int) -> list[tuple[float, Gaussian]]:
        return self.mixture(dimension)[0]

    def blurred(self, covariance: Matrix) -> Kernel:
        averages = [(w, gaussian.blurred(covariance)) for w, gaussian in self.gaussians(len(covariance))]
        parts = [(w * factor, kernel) for w, average in averages for factor, kernel in average.summands()]
        # The threshold is far below rounding because narrow Gaussians have large derivatives.
        threshold = 1e-24 * sum(weight for weight, _ in parts)
        return Sum(tuple(Multiple(weight, kernel) for weight, kernel in parts if weight > threshold))


class MixtureDensity(SpectralDensity):
    """The spectral density of a mixture of Gaussians, from which frequencies are drawn by drawing a Gaussian first."""

    def sample(self, count: int, random: np.random.Generator) -> Matrix:
        # w ~ N(0, I / v(u)) with u ~ Gamma(a): a scale mixture of normal frequencies
        normal = random.standard_normal((count, self.dimension))
        shape, variance = self.kernel.shape_and_variance()
        return normal / np.sqrt(variance(random.standard_gamma(shape, size=(count, 1))))


@dataclass(frozen=True)
class Matern(GaussianMixture):
    """The Matern kernel of half-integer order nu.

        k(x, y) = c z^nu K_nu(z),  z = sqrt(2 nu) |x - y| / scale,  c such that k(x, x) = 1

    For nu = 1/2, 3/2, 5/2 it is exp(-z), (1 + z) exp(-z), (1 + z + z^2/3) exp(-z).  Derivatives of order m are bounded
    functionals iff m < nu.

    Parameters
    ----------
    nu : float
        The order: 0.5, 1.5, ..., 20.5.
    scale : float, tuple of float, "median" or Tunable, default=1.0
        The length scale, or one per feature.  "median" is the median distance of the points.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Matern(nu=1.5).smoothness(dimension=3)
    1.5
    """

    nu: float
    scale: Scale = 1.0
    smooth: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.nu, Real) and 0 < self.nu <= MAX_NU and (self.nu - 0.5) % 1 == 0):
            raise ValueError(
                f"Matern is implemented for nu = 0.5, 1.5, ..., {MAX_NU}, got {self.nu!r}; use Gaussian, the limit of "
                "large nu."
            )
        object.__setattr__(self, "nu", float(self.nu))

    def smoothness(self, dimension: int) -> float:
        return self.nu

    def smoother(self, order: int, dimension: int) -> str | None:
        return f"Matern(nu={order + 0.5})" if order + 0.5 <= MAX_NU else "Gaussian()"

    def radial_derivatives(self, q: Array, orders: range) -> dict[int, Array]:
        """Return phi^(k)(q) for the orders k.

        With m_mu(z) = sqrt(2/pi) z^mu K_mu(z):  phi = m_nu / m_nu(0)  and  d/dq m_mu = 2 nu m_(mu-1).  All derivatives
        follow from exp(-z) by the recursion of Bessel functions,
        phi^(k) = (1 - (k+1)/nu) phi^(k+1) - q/nu phi^(k+2).  Orders k > nu are singular at z = 0, where the derivatives
        of q that multiply them vanish faster: a floor on z keeps the product at its limit, 0.
        """
        xp = namespace(q)
        nu, last, regular = self.nu, orders[-1], ceil(self.nu) - 1
        q *= -1 / nu
        root = xp.sqrt(q)  # z / 2 nu
        # phi^(regular) is a multiple of exp(-z), z = 2 nu root
        top = xp.exp(root * (-2 * nu))  # the last regular derivative, phi^(regular), up to the factor below
        top *= (2 * nu) ** regular / prod(range(1, 2 * regular, 2))  # m_(j+1/2)(0) = 1 * 3 * .. * (2j - 1)
        phi = {regular: top}
        if orders[0] < regular:
            # phi^(regular-1) is one of (1 + z) exp(-z)
            phi[regular - 1] = root + 1 / (2 * nu)
            phi[regular - 1] *= top
            for k in range(regular - 2, orders[0] - 1, -1):
                # phi^(k) = (1 - (k+1)/nu) phi^(k+1) - q/nu phi^(k+2), where q is -q/nu by now
                phi[k] = phi[k + 1] * (1 - (k + 1) / nu)
                phi[k] += q * phi[k + 2]
        if last > regular:
            # the last order divides by z^(2 (last - regular) - 1), which must not underflow
            floor = (2.0**16 * float(xp.finfo(q.dtype).smallest_normal)) ** (1 / (2 * (last - regular) - 1))
            root = xp.clip(root, floor, None)
            phi[regular + 1] = top / root
            root *= root
            for k in range(regular + 2, last + 1):
                phi[k] = phi[k - 1] * ((k - 1) / nu - 1)
                phi[k] += phi[k - 2]
                phi[k] /= root
        return phi

    def shape_and_variance(self) -> tuple[float, Callable[[Vector], Vector]]:
        return self.nu, lambda u: u / self.nu

    def spectral_density(self, dimension: int) -> SpectralDensity:
        return MaternDensity(self, dimension)


class MaternDensity(MixtureDensity):
    """The spectral density of a Matern kernel, which falls as a power of the frequency.

        2^d pi^(d/2) G(nu + d/2) (2 nu)^nu / G(nu) (2 nu + 4 pi^2 w^2)^-(nu + d/2)

    (Rasmussen and Williams, Gaussian processes for machine learning, section 4.2).
    """

    def density(self, squares: Vector) -> Vector:
        nu, d = self.kernel.nu, self.dimension
        log_size = d * log(2) + d / 2 * log(pi) + gammaln(nu + d / 2) - gammaln(nu)
        return np.exp(log_size + nu * log(2 * nu) - (nu + d / 2) * np.log(2 * nu + 4 * pi**2 * squares))

    def frequency(self, share: float, order: int) -> float:
        nu = self.kernel.nu
        if order >= nu:
            return inf
        x = float(betaincinv(nu - order, self.dimension / 2 + order, share))
        return float((2 * nu * (1 / x - 1)) ** 0.5 / (2 * pi))


@dataclass(frozen=True)
class RationalQuadratic(GaussianMixture):
    """The rational quadratic kernel: a mixture of Gaussians of all length scales.

        k(x, y) = (1 + |x - y|^2 / (2 alpha scale^2))^(-alpha)

    Derivatives of every order are bounded.

    Parameters
    ----------
    alpha : float or Tunable
        The positive exponent; the Gaussian kernel is the limit of large alpha.
    scale : float, tuple of float, "median" or Tunable, default=1.0
        The length scale, or one per feature.  "median" is the median distance of the points.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.kernels.RationalQuadratic(alpha=1.0, scale=1.0)([[0.0], [1.0]])[0, 1].round(6)
    np.float64(0.666667)
    """

    alpha: Any  # float or Tunable
    scale: Scale = 1.0
    positive: ClassVar[tuple[str, ...]] = ("alpha", "scale")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.alpha, Tunable):
            check_number(self.alpha, "alpha of RationalQuadratic")

    def radial_derivatives(self, q: Array, orders: range) -> dict[int, Array]:
        """Return phi^(k)(q) for the orders k.

        With b = 1 - q/alpha:  phi = b^-alpha, and each further derivative multiplies by (alpha + k)/alpha / b.
        """
        xp = namespace(q)
        q *= -1 / self.alpha
        # phi^(k) = alpha (alpha + 1) .. (alpha + k - 1) / alpha^k (1 - q/alpha)^-(alpha + k)
        lowest = xp.log1p(q)  # alpha multiplies its rounding error, which for log(1 + q) would be large at near points
        q += 1
        lowest *= -(self.alpha + orders[0])
        lowest = xp.exp(lowest)
        lowest *= prod((self.alpha + k) / self.alpha for k in range(orders[0]))
        phi = {orders[0]: lowest}
        for k in orders[1:]:
            phi[k] = phi[k - 1] / q
            phi[k] *= (self.alpha + k - 1) / self.alpha
        return phi

    def shape_and_variance(self) -> tuple[float, Callable[[Vector], Vector]]:
        return self.alpha, lambda u: self.alpha / u

    def spectral_density(self, dimension: int) -> SpectralDensity:
        return RationalQuadraticDensity(self, dimension)

    def parameter_tangent(self, name: str, feature: int | None) -> Kernel:
        return AlphaTangent(self) if name == "alpha" else super().parameter_tangent(name, feature)


class RationalQuadraticDensity(MixtureDensity):
    """The spectral density of a rational quadratic kernel: a Bessel function, the mean over Gaussian densities."""

    @property
    def decay(self) -> float:
        return float(2 * self.kernel.alpha)

    @property
    def faster(self) -> str:
        return f"alpha > {self.dimension / 2:g}: use a larger alpha"

    def density(self, squares: Vector) -> Vector:
        alpha, order = self.kernel.alpha, self.kernel.alpha - self.dimension / 2
        z = 2 * (2 * pi**2 * alpha * np.maximum(squares, 1e-30)) ** 0.5
        log_size = log(2) + self.dimension / 2 * log(2 * pi) + alpha * log(alpha) - gammaln(alpha)
        return np.exp(log_size - order * log(2 * alpha) + _log_bessel(order, z))

    def frequency(self, share: float, order: int) -> float:
        # Derivatives weight the precisions u by u^order: alpha u is gamma-distributed with the shape alpha + order.
        # the share of |2 pi w|^(2 order) S above w is a mean over u of gammaincc(d/2 + order, 2 pi^2 w^2 / u)
        shape, a = self.kernel.alpha + order, self.dimension / 2 + order
        low, high = gammaincinv(shape, 1e-6), gammainccinv(shape, 1e-25)
        logarithms = np.linspace(np.log(low), np.log(high), NODES)
        u, weights = np.exp(logarithms) / self.kernel.alpha, softmax(shape * logarithms - np.exp(logarithms))

        def excess(logarithm: float) -> float:
            return float(weights @ gammaincc(a, 2 * pi**2 * np.exp(2 * logarithm) / u) / share - 1)

        return float(np.exp(scipy.optimize.brentq(excess, -20.0, 20.0)))


def _log_bessel(order: float, z: Vector) -> Vector:
    """Return log(z^order K_order(z)) for z > 0, also where the Bessel function K overflows or underflows.

    For large orders it is Debye's uniform expansion, and for small z the first terms of the power series (DLMF 10.41.4
    and 10.31.1).
    """
    if order > SERIES_ORDERS[1]:
        # K_order(order y) ~ sqrt(pi p / 2 order) exp(-order eta) sum_k (-1/order)^k U_k(p)
        p = (1 + (z / order) ** 2) ** -0.5
        terms = (
            np.ones_like(p),
            (3 * p - 5 * p**3) / 24,
            (81 * p**2 - 462 * p**4 + 385 * p**6) / 1152,
            (30375 * p**3 - 369603 * p**5 + 765765 * p**7 - 425425 * p**9) / 414720,
        )
        series = np.asarray(sum((-1 / order) ** k * term for k, term in enumerate(terms)))
        exponent = order * (1 / p - np.log(order * (1 + 1 / p)))  # with z^order
        return np.log(series) + 0.5 * np.log(pi * p / (2 * order)) - exponent
    bounded = np.clip(z, 1e-14 if order <= SERIES_ORDERS[0] else 1.0, 1e4)
    result = np.log(kve(order, bounded)) + order * np.log(bounded) - z
    if order > SERIES_ORDERS[0]:
        # z^order K_order(z) ~ 2^(order-1) Gamma(order) sum_k (z/2)^2k / (k! (1-order) .. (k-order))
        total, term = np.zeros_like(z), np.ones_like(z)
        for k in range(8):
            total = total + term
            term = term * np.minimum(z, 1.0) ** 2 / (4 * (k + 1) * (k + 1 - order))
        result = np.where(z < 1, gammaln(order) + (order - 1) * log(2) + np.log(total), result)
    return np.asarray(result)


@dataclass(frozen=True)
class AlphaTangent(FormKernel):
    """The derivative of a rational quadratic kernel in log alpha."""

    kernel: RationalQuadratic

    def smoothness(self, dimension: int) -> float:
        return inf

    def form(self, dimension: int) -> Form:
        return replace(self.kernel.form(dimension), radial_derivatives=self.radial_derivatives)

    def radial_derivatives(self, q: Array, orders: range) -> dict[int, Array]:
        """Return the derivatives of d phi / d log alpha for the orders k.

        With x = -q/alpha they are phi^(k) times  (alpha + k) x/(1 + x) - alpha log(1 + x) - sum_(j<k) j/(alpha + j).
        """
        xp, alpha = namespace(q), self.kernel.alpha
        x = q * (-1 / alpha)
        phi = self.kernel.radial_derivatives(q, orders)
        log, share = alpha * xp.log1p(x), x / (1 + x)
        return {k: phi[k] * ((alpha + k) * share - log - sum(j / (alpha + j) for j in range(k))) for k in orders}

    def blurred(self, covariance: Matrix) -> Kernel:
        """Return the derivative of the blurred mixture in its weights and scales.

        The variances are v = alpha / u, so that d log scale = d log alpha / 2.
        """
        nodes, slopes = self.kernel.mixture(len(covariance))
        parts: list[tuple[float, Kernel]] = []
        for (weight, gaussian), slope in zip(nodes, slopes, strict=True):
            parts.append((weight * self.kernel.alpha * float(slope), gaussian.blurred(covariance)))
            parts.append((weight / 2, gaussian.blurred_tangent(covariance, None)))
        return LinearCombination(tuple(parts))
