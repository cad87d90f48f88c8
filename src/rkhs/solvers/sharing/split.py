"""Problems with kinks beside curves, which no solver ends exactly, as the outputs of one: `Splitting`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rkhs._backend.arrays import like
from rkhs._finite.certificate import feasible
from rkhs._finite.ledger import Candidate, Ledger
from rkhs._finite.monitor import Monitor, OutOfIterations
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs.solvers.box_dual import BoxDual
from rkhs.solvers.choose import applies
from rkhs.solvers.dense import double, fits, from_memory, in_memory
from rkhs.solvers.sharing.task import Task
from rkhs.solvers.splitting import Splitting

STEPS = 2000  # after which what is not solved is left to others


def worth_splitting(system: FiniteProblem) -> bool:
    """Whether losses are mixed, most rows are not quadratic, and the Gram matrix fits in memory."""
    mixed = not system.smooth and not applies(BoxDual(), system)
    return mixed and 2 * len(system.other_rows) > system.size and (system.gram.stored or fits(system.size))


def split_together(tasks: list[Task], shared: FiniteProblem, monitor: Monitor) -> None:
    """Solve the tasks to the monitor's tolerance, as far as some steps lead; iterates of solved ones are `Checked`."""
    inside = in_memory(shared)
    rows = []
    for k, t in enumerate(inside.terms):
        own = [task.system.terms[k] for task in tasks]
        target, weight = (
            np.concatenate([double(getattr(r, name)) for r in own], axis=1) for name in ("target", "weight")
        )
        rows.append(replace(t, target=target, weight=weight))
    joint = inside.with_rows(tuple(rows), len(tasks))
    monitor.best = joint.start()
    try:
        monitor.best = Splitting(STEPS).run(joint, monitor.best, monitor)
    except OutOfIterations:
        pass
    finally:
        for k, task in enumerate(tasks):
            task.iterate = from_memory(inside, shared, monitor.best.output(k))
    _check(tasks, joint, shared, monitor.best, monitor.tol)


def _check(tasks: list[Task], joint: FiniteProblem, shared: FiniteProblem, found: Iterate, tol: float) -> None:
    """Certify by images from the matrix in memory, if one product with the Gram operator says that they are right."""
    alpha = feasible(joint, found.alpha)
    image, alpha_image = (like(joint.gram @ v, shared.Q) for v in (found.a, alpha))
    candidates = []
    for k, task in enumerate(tasks):
        iterate = from_memory(joint, shared, replace(found, alpha=alpha).output(k))
        one = slice(k, k + 1)
        candidates.append(Candidate(task.system, iterate, image[:, one], alpha_image[:, one]))
    ledger = Ledger(shared.geometry)
    entries = ledger.enter(candidates, tol)
    right = ledger.right(tol)
    for task, entry in zip(tasks, entries, strict=True):
        if entry is not None:
            task.gap = entry.certificate.relative
            task.iterate = ledger.checked(entry) if right else entry.iterate
