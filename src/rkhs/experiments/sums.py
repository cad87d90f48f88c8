"""The papers' weights, which are of sums over slopes, as weights of estimators, which have no units (`units`)."""

from __future__ import annotations

from typing import Any

from rkhs.losses import Loss


def of_sum(nu: float, loss: Loss, points: int, scale: float) -> dict[str, Any]:
    """Options of an estimator with a Gaussian kernel and gradients, whose term is  nu sum_ij loss(df/dx_j (x_i)).

    An estimator takes  nu mean_i sum_j loss(scale df/dx_j):  so a width of the loss is one of values.

    Examples
    --------
    >>> from rkhs import EpsilonInsensitive
    >>> of_sum(0.1, EpsilonInsensitive(epsilon=0.01), points=200, scale=0.5)
    {'nu': 40.0, 'invariance_loss': EpsilonInsensitive(epsilon=0.005)}
    """
    found = loss.in_units(scale)
    assert found is not None
    own, factor = found  # loss(slope) = factor * own(scale * slope)
    return {"nu": nu * points * factor, "invariance_loss": own}
