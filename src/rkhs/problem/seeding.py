"""Points that are far from each other, drawn as k-means++ draws its first centres.

Arthur and Vassilvitskii (2007), with their greedy variant: of some candidates, drawn with probabilities like their
squared distances from what was chosen, the one is taken that leaves the smallest sum of these.  The choice is that of
scikit-learn's `kmeans_plusplus`, number by number; but it tells how far it is and can be ended, and scikit-learn takes
two seconds to import.
"""

from __future__ import annotations

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._progress import tick


def spread_out(points: Matrix, count: int, seed: int) -> Matrix:
    """The numbers (count,) of points (t, n) that are far apart, the best first.

    Examples
    --------
    >>> spread_out(np.array([[0.0], [0.1], [5.0], [5.1]]), 2, seed=0)
    array([2, 1])
    """
    random = np.random.RandomState(seed)
    points = (points - points.mean(axis=0)).astype(np.float64)
    norms = np.einsum("ij,ij->i", points, points)
    trials = 2 + int(np.log(count))

    def squares(some: Matrix) -> Matrix:
        """Squared distances (k, t) of some points from all."""
        return np.maximum(norms[some][:, None] - 2 * points[some] @ points.T + norms, 0.0)

    t = len(points)
    chosen = [int(random.choice(t, p=np.full(t, 1 / t)))]
    nearest = squares(np.array(chosen))[0]
    total = nearest.sum()
    for k in range(1, count):
        tick(k / count)
        drawn = np.searchsorted(np.cumsum(nearest), random.uniform(size=trials) * total)
        candidates = np.minimum(drawn, t - 1)
        left = np.minimum(squares(candidates), nearest)
        totals = left.sum(axis=1)
        best = int(np.argmin(totals))
        nearest, total = left[best], totals[best]
        chosen.append(int(candidates[best]))
    return np.array(chosen)
