"""Problems that are solved, and their bounds from the images that are at hand, all checked by one product."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rkhs.backend.arrays import Array, namespace
from rkhs.finite.certificate import feasible, lower_bound, lower_bound_of, relative_gap, upper_bound
from rkhs.finite.ledger import Ledger
from rkhs.finite.system import Iterate, System
from rkhs.solvers.sharing.task import Task


class Solved:
    """The tasks that were solved, each with its bounds, which it gets when all images have been checked."""

    def __init__(self, shared: System, tol: float) -> None:
        self.ledger, self.tol = Ledger(shared), tol
        self.known: list[tuple[Task, Iterate, tuple[Array, Array]]] = []

    def enter(self, task: Task, iterate: Iterate, image: Array, u: Array, energy: Array | None = None) -> bool:
        """Enter a task with its point and images; whether its bounds, those of a feasible alpha, are near enough.

        The `energy` alpha'G alpha (1,), where that was computed, stands in for the image of alpha.
        """
        task.iterate = iterate
        system, xp = task.system, namespace(u)
        if self.ledger.system.precision is not None or task.alpha is None:  # such images are not exact
            return False
        alpha = feasible(system, task.alpha)
        primal = upper_bound(system, iterate.a, image, u)
        if energy is None:
            dual = lower_bound(system, alpha, task.alpha_image)
        elif bool(xp.all(alpha == task.alpha)):
            dual = lower_bound_of(system, alpha, energy)
        else:
            return False
        if relative_gap(float(primal[0]), float(dual[0]), system.rounding[0]) > self.tol:
            return False
        size = max(abs(float(primal[0])), system.rounding[0])
        length = float(xp.linalg.vector_norm(iterate.a) + xp.linalg.vector_norm(alpha))
        factor = np.full(1, length / size if size else 0.0)
        self.ledger.add(iterate.a, image, factor)
        if energy is None:
            self.ledger.add(alpha, task.alpha_image, factor)
        task.alpha, task.alpha_image = alpha, None
        task.iterate = replace(iterate, alpha=alpha)
        self.known.append((task, task.iterate, (primal, dual)))
        return True

    def close(self) -> None:
        """Give the tasks their bounds, if one product says that all images are right."""
        if self.known and self.ledger.right(self.tol):
            for task, iterate, bounds in self.known:
                task.iterate = replace(iterate, bounds=bounds)
