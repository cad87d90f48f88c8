"""Is there a minimiser at all?

The basis is not penalised.  If one of its functions p has b_i L_i(p) >= 0 wherever the logistic loss is, with one
strict inequality, and costs nothing elsewhere, then J falls along p for ever: the minimum is at infinity.
"""

from __future__ import annotations

import numpy as np
import scipy  # which imports scipy.optimize when it is first used

from rkhs._backend.arrays import Matrix, to_numpy
from rkhs._finite.problem import FiniteProblem

FALLS = 1e-5  # of the size of a typical row, a fall that is one: linear programs are solved to 1e-7


def recedes(system: FiniteProblem, output: int) -> bool:
    """Whether some function of the basis lowers the losses without end (a linear program in its coefficients).

    Maximise the sum of s_i v_i over the rows of losses without a minimum, all of them >= 0, where v = Q c, |c_j| <= 1,
    and s_i = +1 or -1 is the direction in which the loss does not grow; rows that grow in both directions need v_i = 0.
    """
    Q = to_numpy(system.Q).astype(np.float64) * system.size**0.5
    if Q.shape[1] == 0 or all(t.loss.attained for t in system.terms):
        return False
    falling: list[Matrix] = []
    level: list[Matrix] = []
    still: list[Matrix] = []
    for t in system.terms:
        low, high = (to_numpy(end)[:, 0] for end in t.loss.domain(t.target[:, output : output + 1]))
        rows = Q[t.rows]
        free = (high == 0) | (low == 0)
        still.append(rows[~free])
        signed = rows[free] * np.where(high == 0, 1.0, -1.0)[free, None]
        (level if t.loss.attained else falling).append(signed)
    down, flat, fixed = (np.concatenate(m) if m else np.zeros((0, Q.shape[1])) for m in (falling, level, still))
    if len(down) == 0:
        return False
    above = np.concatenate([down, flat])
    zero = np.linalg.qr(fixed, mode="r")  # as many equations as unknowns say the same
    found = scipy.optimize.linprog(
        -np.mean(down, axis=0),
        A_ub=-above,
        b_ub=np.zeros(len(above)),
        A_eq=zero,
        b_eq=np.zeros(len(zero)),
        bounds=(-1, 1),
    )
    return bool(found.status == 0 and np.max(down @ found.x) > FALLS)
