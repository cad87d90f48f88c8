"""Where to observe a function next, given a model of it with standard deviations.

Bayesian optimization looks for the minimum (`suggest`).  With the posterior mean m and standard deviation s of f(x) and
the smallest value so far, b, the *expected improvement* of an evaluation at x (Jones, Schonlau and Welch 1998) is

    EI(x) = E max(b - f(x), 0) = s h(z),        z = (b - m) / s,        h(z) = phi(z) + z Phi(z)

It is zero to rounding where an improvement is unlikely, so that its logarithm is maximized (Ament et al. 2023).  Slopes
follow from the joint posterior of values and slopes, since the slope of the variance is  ds^2/dx = 2 cov(f(x), df/dx).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import erfcx, ndtr
from scipy.stats import qmc

from rkhs.extend import Matrix, Vector, as_points, to_numpy
from rkhs.functionals import Evaluation, Gradient, stack
from rkhs.results import Posterior, Solution

__all__ = ["log_expected_improvement", "suggest"]
DRAWN, STARTS = 512, 5  # points that are compared, and the best of them, from which L-BFGS starts
TOGETHER = 16  # points whose joint covariances are computed at once


def log_expected_improvement(model: Any, X: Any, best: float, return_gradient: bool = False) -> Any:
    """Return the logarithm of the expected improvement at points, for minimization, and its slopes.

    Parameters
    ----------
    model : FunctionalRegressor, InvariantRegressor, Solution or Posterior
        A fitted model of one output with squared losses, or the posterior of f.
    X : array-like of shape (t, n)
        The points.
    best : float
        The smallest value so far, b.
    return_gradient : bool, default=False
        Whether to return the partial derivatives with respect to X as well; the kernel must be differentiable.

    Returns
    -------
    ndarray of shape (t,)
        The logarithms; with `return_gradient` a pair of these and of their slopes (t, n).

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[0.0], [0.4], [1.0]])
    >>> values = rkhs.Measurement(rkhs.Evaluation(X), [1.0, 0.2, 0.8], noise=0.01)
    >>> model = rkhs.FunctionalRegressor(scale=0.3).fit(values)
    >>> at = rkhs.acquisition.log_expected_improvement(model, [[0.4], [0.5], [0.9]], best=0.2)
    >>> int(np.argmax(at))
    1
    """
    posterior, points = _of_one_output(_posterior(model)), as_points(X)
    if not return_gradient:
        values = Evaluation(points)
        mean, std = to_numpy(posterior.mean(values)), to_numpy(posterior.std(values))
        std = _bounded(std, mean, best)
        return np.log(std) + _log_h((best - mean) / std)[0]
    pieces = [_with_gradient(posterior, points[i : i + TOGETHER], best) for i in range(0, len(points), TOGETHER)]
    return tuple(np.concatenate(part) for part in zip(*pieces, strict=True))


def suggest(model: Any, bounds: Any, incumbent: Any, *, random_state: Any = 0) -> Vector:
    """Return the point of a box at which the expected improvement is largest.

    The best of quasi-random points of the box, and of points near the incumbent, are improved by L-BFGS.

    Parameters
    ----------
    model : FunctionalRegressor, InvariantRegressor, Solution or Posterior
        As in `log_expected_improvement`, with a differentiable kernel.
    bounds : array-like of shape (n, 2)
        The lower and upper bounds of each feature.
    incumbent : array-like of shape (n,)
        The best point so far.  The improvement is that over the posterior mean there.
    random_state : int or Generator, default=0
        The seed.

    Returns
    -------
    ndarray of shape (n,)
        The point to evaluate next.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[0.0], [0.4], [1.0]])
    >>> values = rkhs.Measurement(rkhs.Evaluation(X), [1.0, 0.2, 0.8], noise=0.01)
    >>> model = rkhs.FunctionalRegressor(scale=0.3).fit(values)
    >>> rkhs.acquisition.suggest(model, [(0, 1)], X[1]).round(1)
    array([0.6])
    """
    low, high = np.asarray(bounds, dtype=np.float64).T
    if not np.all(low < high) or not np.all(np.isfinite(high - low)):
        raise ValueError(f"bounds must be finite pairs (low, high) with low < high, got {bounds!r}.")
    center = np.asarray(incumbent, dtype=np.float64)
    if center.shape != low.shape:
        raise ValueError(f"incumbent has shape {center.shape}, but bounds are for {len(low)} features.")
    posterior = _of_one_output(_posterior(model))
    best = float(to_numpy(posterior.mean(Evaluation(center[None])))[0])
    rng = np.random.default_rng(random_state)
    spread = 10.0 ** rng.uniform(-4, -0.5, (DRAWN // 4, 1)) * rng.standard_normal((DRAWN // 4, len(low)))
    drawn = np.concatenate([qmc.Sobol(len(low), rng=rng).random(DRAWN), (center - low) / (high - low) + spread])
    drawn = np.clip(drawn, 0, 1)  # in units of the box
    starts = drawn[np.argsort(-log_expected_improvement(posterior, low + (high - low) * drawn, best))[:STARTS]]

    def cost(flat: Vector) -> tuple[float, Vector]:  # the sum over all starts, which are improved together
        points = low + (high - low) * flat.reshape(starts.shape)
        values, slopes = log_expected_improvement(posterior, points, best, return_gradient=True)
        return -float(np.sum(values)), -((high - low) * slopes).reshape(-1)

    found = minimize(cost, starts.reshape(-1), jac=True, method="L-BFGS-B", bounds=[(0, 1)] * starts.size)
    ends = low + (high - low) * np.concatenate([starts, found.x.reshape(starts.shape)])
    return ends[np.argmax(log_expected_improvement(posterior, ends, best))]


def _posterior(model: Any) -> Posterior:
    """Return the posterior of a fitted model."""
    if isinstance(model, Posterior):
        return model
    if not isinstance(model, Solution) and not hasattr(model, "_posterior"):
        raise TypeError(
            f"The choice of observations needs a regressor of rkhs, a Solution or a Posterior, got {model!r}."
        )
    return model.posterior if isinstance(model, Solution) else model._posterior()


def _of_one_output(posterior: Posterior) -> Posterior:
    """Return the posterior, or raise ValueError if it has several outputs."""
    if np.ndim(posterior.amplitude):
        raise ValueError("The expected improvement is that of a single function, and the model has several outputs.")
    return posterior


def _bounded(std: Vector, mean: Vector, best: float) -> Vector:
    """Return standard deviations that are not zero, as rounding may leave them at observed points: z >= -1e9."""
    return np.maximum(std, 1e-9 * np.abs(best - mean) + np.finfo(float).tiny)


def _with_gradient(posterior: Posterior, points: Matrix, best: float) -> tuple[Vector, Matrix]:
    """Return log EI (t,) and its slopes (t, n)."""
    t, n = points.shape
    both = stack([Evaluation(points), Gradient(points)])
    means, table = to_numpy(posterior.mean(both)), to_numpy(posterior.cov(both))
    mean, slopes = means[:t], means[t:].reshape(t, n)
    std = _bounded(np.sqrt(np.clip(np.diag(table)[:t], 0, None)), mean, best)[:, None]
    across = table[:t, t:].reshape(t, t, n)[np.arange(t), np.arange(t)]  # cov(f(x_i), df/dx_j (x_i))
    log_h, upper, density = _log_h((best - mean[:, None]) / std)
    return (np.log(std) + log_h)[:, 0], density * across / std**2 - upper * slopes / std


def _log_h(z: Vector) -> tuple[Vector, Vector, Vector]:
    """Return log h(z), Phi(z) / h(z) and phi(z) / h(z), accurate for all z.

    With R = Phi / phi, h = phi (1 + zR).  For z < -100 the bracket cancels, and its asymptotic series is used.
    """
    near, far = np.maximum(z, -1.0), np.minimum(z, -1.0)
    phi = np.exp(-(near**2) / 2) / np.sqrt(2 * np.pi)
    h = phi + near * ndtr(near)
    ratio = np.sqrt(np.pi / 2) * erfcx(-far / np.sqrt(2))
    u = 1 / far**2
    bracket = np.where(far > -100, 1 + far * ratio, u * (1 - u * (3 - u * (15 - u * 105))))
    log_far = -(far**2) / 2 - np.log(2 * np.pi) / 2 + np.log(bracket)
    is_near = z > -1
    return (
        np.where(is_near, np.log(h), log_far),
        np.where(is_near, ndtr(near) / h, ratio / bracket),
        np.where(is_near, phi / h, 1 / bracket),
    )
