"""An independent oracle: kernels and their derivatives in 30-digit arithmetic.

Nothing here knows of derivatives in q, matchings or atoms.  A kernel is a plain function k(x, y) of two lists of
mpmath numbers, written as in a textbook; the inner product of two representers is the limit that defines
it, a mixed derivative at 0 of

    g(s_1, s_2, .., t_1, t_2, ..)  =  k(x + s_1 u_1 + s_2 u_2 + .., y + t_1 v_1 + t_2 v_2 + ..)

by `mpmath.diff`, which raises the working precision until the differences are good to `DIGITS`.  A
functional is a list of terms (coefficient, point, directions).
"""

import numpy as np
from mpmath import mp

DIGITS = 30
# At coincident points k may have a kink: r^2.5 leaves an error of sqrt(step) in its mixed derivative.
DIGITS_AT_KINKS = 65


# Kernels: each returns a function of two lists of numbers.


def gaussian(scale):
    return _scaled(lambda x, y: mp.exp(-_squared_distance(x, y) / 2), scale)


def laplace(scale):
    return _scaled(lambda x, y: mp.exp(-mp.fsum(abs(a - b) for a, b in zip(x, y, strict=True))), scale)


def matern(nu, scale):
    """In closed form; `matern_by_bessel` is the definition."""
    p = int(nu - 0.5)

    def k(x, y):
        z = mp.sqrt(2 * mp.mpf(nu) * _squared_distance(x, y))
        terms = (
            mp.factorial(p + i) / (mp.factorial(i) * mp.factorial(p - i)) * (2 * z) ** (p - i) for i in range(p + 1)
        )
        return mp.factorial(p) / mp.factorial(2 * p) * mp.fsum(terms) * mp.exp(-z)

    return _scaled(k, scale)


def matern_by_bessel(nu, scale):
    def k(x, y):
        z = mp.sqrt(2 * mp.mpf(nu) * _squared_distance(x, y))
        return z**nu * mp.besselk(nu, z) * 2 ** (1 - mp.mpf(nu)) / mp.gamma(nu)

    return _scaled(k, scale)


def rational_quadratic(alpha, scale):
    return _scaled(lambda x, y: (1 + _squared_distance(x, y) / (2 * mp.mpf(alpha))) ** -mp.mpf(alpha), scale)


def polynomial(degree, offset=1.0):
    return lambda x, y: (_dot(x, y) + mp.mpf(offset)) ** degree


def linear():
    return lambda x, y: _dot(x, y)


def polyharmonic(power):
    """(-1)^ceil(b/2) r^b, or (-1)^(m+1) r^2m log r for an even power 2m."""
    if power % 2:
        return lambda x, y: (-1) ** int(mp.ceil(power / 2)) * mp.sqrt(_squared_distance(x, y)) ** mp.mpf(power)

    def k(x, y):
        s = _squared_distance(x, y)
        return (-1) ** (power // 2 + 1) * s ** (power // 2) * mp.log(s) / 2 if s else mp.mpf(0)

    return k


def thin_plate(order, dimension):
    return polyharmonic(2 * order - dimension)


def total(*kernels):
    return lambda x, y: mp.fsum(k(x, y) for k in kernels)


def product(*kernels):
    return lambda x, y: mp.fprod(k(x, y) for k in kernels)


def multiple(factor, k):
    return lambda x, y: mp.mpf(factor) * k(x, y)


def pullback(k, matrix):
    """k(A x, A y) for a matrix A (m, n), or one factor per feature."""
    rows = exact(np.diag(matrix) if np.ndim(matrix) == 1 else matrix)
    return lambda x, y: k([_dot(row, x) for row in rows], [_dot(row, y) for row in rows])


def constant():
    return lambda x, y: mp.mpf(1)


def periodic(period, scale):
    def k(x, y):
        waves = (mp.sin(mp.pi * (a - b) / mp.mpf(period)) ** 2 for a, b in zip(x, y, strict=True))
        return mp.exp(-((mp.mpf(period) / mp.pi) ** 2) * mp.fsum(waves) / (2 * mp.mpf(scale) ** 2))

    return k


def composed(k, phi):
    """k(phi(x), phi(y)) for a function of lists of numbers."""
    return lambda x, y: k(phi(x), phi(y))


def symmetrized(k, group):
    """The mean over both sides of the group, which is its definition."""
    return lambda x, y: mp.fsum(k(g(x), h(y)) for g in group for h in group) / len(group) ** 2


def slopes(scale, turns):
    """sum over M of D_Me D_Me' of a Gaussian, at (x, e) and (y, e')."""

    def k(x, y):
        n, s = len(x) // 2, mp.mpf(scale) ** 2
        away = [a - b for a, b in zip(x[:n], y[:n], strict=True)]
        value = mp.exp(-_dot(away, away) / (2 * s))

        def entry(M):
            u, v = ([_dot(row, side[n:]) for row in M] for side in (x, y))
            return (_dot(u, v) / s - _dot(u, away) * _dot(v, away) / s**2) * value

        return mp.fsum(entry(exact(M)) for M in turns)

    return k


# Derivatives, functionals and averages.


def derivative(k, x, us, y, vs):
    """D_us on the first argument and D_vs on the second of k, at (x, y), to `DIGITS`."""
    us, vs = [list(u) for u in us], [list(v) for v in vs]
    if not us and not vs:
        return k(x, y)

    def g(*steps):
        s, t = steps[: len(us)], steps[len(us) :]
        return k(_moved(x, s, us), _moved(y, t, vs))

    n = len(us) + len(vs)
    return mp.diff(g, (0,) * n, (1,) * n)


def inner(k, L, M):
    """<z_L, z_M> of two functionals, lists of terms (coefficient, point, directions)."""
    with mp.workdps(DIGITS):
        found = mp.mpf(0)
        for a, x, us in L:
            for b, y, vs in M:
                x, y, us, vs = exact(x), exact(y), exact(us), exact(vs)
                with mp.workdps(DIGITS_AT_KINKS if x == y else DIGITS):
                    found += mp.mpf(a) * mp.mpf(b) * derivative(k, x, us, y, vs)
        return +found


def gaussian_mean(f, center, width):
    """E f(z), z ~ N(center, width^2), f entire: the trapezoidal rule converges like exp(-2 (pi width / step)^2)."""
    step = mp.mpf(1) / 3
    steps = [j * step for j in range(-36, 37)]
    return step * mp.fsum(f(center + mp.mpf(width) * s) * mp.npdf(s) for s in steps)


def hermite_grid(n, nodes):
    """A product grid (nodes^n, n) of Gauss-Hermite nodes for N(0, I_n) with its weights, in double precision."""
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    grid, weights = (np.stack(np.meshgrid(*[a] * n), axis=-1).reshape(-1, n) for a in (z, w / w.sum()))
    return grid, weights.prod(axis=1)


def distance_mean(phi, distance, variance, n):
    """E phi(|d + z|) for |d| = distance and z ~ N(0, variance I_n): the distance has a noncentral chi distribution."""
    D, t, half = mp.mpf(distance), mp.mpf(variance), mp.mpf(n) / 2

    def density(r):
        bessel = (r / D) ** (half - 1) * mp.besseli(half - 1, r * D / t)
        return r / t * mp.exp(-(r**2 + D**2) / (2 * t)) * bessel

    far = D + 14 * mp.sqrt(t)
    return mp.quad(lambda r: phi(r) * density(r), mp.linspace(0, far, 9))


def exact(values):
    """Floats, or nested sequences of them, as exact mpmath numbers."""
    return [exact(v) for v in values] if np.ndim(values) or isinstance(values, list | tuple) else mp.mpf(float(values))


def _scaled(k, scale):
    def of_ratios(x, y):
        scales = [mp.mpf(s) for s in np.broadcast_to(scale, (len(x),)).tolist()]
        return k([a / s for a, s in zip(x, scales, strict=True)], [b / s for b, s in zip(y, scales, strict=True)])

    return of_ratios


def _dot(x, y):
    return mp.fdot(x, y)


def _squared_distance(x, y):
    return mp.fsum((a - b) ** 2 for a, b in zip(x, y, strict=True))


def _moved(x, steps, directions):
    return [a + mp.fsum(s * u[i] for s, u in zip(steps, directions, strict=True)) for i, a in enumerate(x)]
