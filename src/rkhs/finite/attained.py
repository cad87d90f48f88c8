"""Is there a minimiser at all?

The basis is not penalised.  If one of its functions p has b_i L_i(p) >= 0 wherever the logistic loss is, with one
strict inequality, and costs nothing elsewhere, then J falls along p for ever: the minimum is at infinity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # which imports scipy.optimize when it is first used

from rkhs.backend.arrays import to_numpy
from rkhs.finite.system import System

Matrix = np.ndarray[Any, Any]


def recedes(system: System, output: int) -> bool:
    """Whether some function of the basis lowers the losses without end (a linear program in its coefficients).

    Maximise sum_i t_i over the rows of losses without a minimum, 0 <= t_i <= s_i v_i and t_i <= 1, where v = Q c and
    s_i = +1 or -1 is the direction in which the loss does not grow; rows that grow in both directions need v_i = 0.
    """
    Q = to_numpy(system.Q).astype(np.float64)
    if Q.shape[1] == 0 or all(t.loss.attained for t in system.terms):
        return False
    falling: list[Matrix] = []
    level: list[Matrix] = []
    still: list[Matrix] = []
    for t in system.terms:
        low, high = (to_numpy(end)[:, 0] for end in t.loss.domain(t.target[:, output : output + 1]))
        rows = Q[t.rows]
        seen = np.any(rows != 0, axis=1)
        free = (high == 0) | (low == 0)
        still.append(rows[seen & ~free])
        signed = rows[seen & free] * np.where(high == 0, 1.0, -1.0)[seen & free, None]
        (level if t.loss.attained else falling).append(signed)
    down, flat, fixed = (np.concatenate(m) if m else np.zeros((0, Q.shape[1])) for m in (falling, level, still))
    if len(down) == 0:
        return False
    k, r = len(down), Q.shape[1]
    above = np.concatenate([np.hstack([np.eye(k), -down]), np.hstack([np.zeros((len(flat), k)), -flat])])
    found = scipy.optimize.linprog(
        np.concatenate([-np.ones(k), np.zeros(r)]),
        A_ub=above,
        b_ub=np.zeros(len(above)),
        A_eq=np.hstack([np.zeros((len(fixed), k)), fixed]) if len(fixed) else None,
        b_eq=np.zeros(len(fixed)) if len(fixed) else None,
        bounds=[(0, 1)] * k + [(None, None)] * r,
        method="highs",
    )
    return bool(found.status == 0 and -found.fun > 0.5)
