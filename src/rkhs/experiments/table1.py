"""Zhang et al. 2013, Table 1: few labels, nine sets, SVM, LapSVM and InvSVM (hinge, squared gradients everywhere).

And what `InvariantClassifierCV()` makes of the same draws, nothing set.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter

import numpy as np

from rkhs._calculus.function_spaces import Constant
from rkhs._finite.term import Term
from rkhs.estimators import InvariantClassifierCV
from rkhs.experiments.experiment import Cell, Experiment, Record, Result
from rkhs.experiments.protocol import DRAWS, LABELS, SETS, Array, Points, cells, labelled_points, points_of, test_error
from rkhs.experiments.table1_page import DEFAULT, MACHINES, draw, page
from rkhs.experiments.warped import candidates, chosen_machine
from rkhs.functionals import Evaluation, Gradient
from rkhs.kernels import Gaussian
from rkhs.losses import Squared, SquaredHinge
from rkhs.problem import Problem
from rkhs.solvers import LBFGS

RACED = ("heart", "australian", "bci", "usps_ssl")  # where the papers' solver is timed
PATIENCE = 60.0  # seconds that it gets
RACE_TOL = 1e-3


def plan(normalised: str, quick: bool, _: list[Record]) -> list[Cell]:
    """All machines on all draws; and the papers' solver on a sample."""
    if quick:
        return cells(("heart",), LABELS[:1], 1, (*MACHINES, DEFAULT), normalised)
    race = cells(RACED, LABELS[-1:], 1, ("L-BFGS",), normalised)
    return [*cells(SETS, LABELS, DRAWS, (*MACHINES, DEFAULT), normalised), *race]


def compute(cell: Cell) -> Result:
    """The test error in percent, and what was chosen."""
    machine = cell["machine"]
    if machine == "L-BFGS":
        return raced(cell)
    points = points_of(cell["set"], cell["normalised"])
    labelled = labelled_points(points.y, cell["labels"], cell["draw"])
    if machine == DEFAULT:
        return by_default(points, labelled)
    predicted, options = chosen_machine(candidates(machine, cell["set"], cell["normalised"]), points.y, labelled)
    return {"error": test_error(predicted, points.y, labelled), "chosen": options}


def by_default(points: Points, labelled: Array) -> Result:
    """The model that chooses all by itself, and what it chose."""
    few = np.full(len(points.y), -1)
    few[labelled] = points.y[labelled] > 0
    model = InvariantClassifierCV().fit(points.X, few)
    predicted = np.where(model.predict(points.X) > 0, 1, -1)
    chosen = {"knowledge": model.knowledge_report_["chosen"]["knowledge"]}
    return {"error": test_error(predicted, points.y, labelled), "chosen": chosen}


def raced(cell: Cell) -> Result:
    """One machine by the papers' L-BFGS and by ours, to the same gap; squared hinge, since L-BFGS needs a gradient."""
    points = points_of(cell["set"], cell["normalised"])
    labelled = labelled_points(points.y, cell["labels"], cell["draw"])
    terms = [
        Term(Evaluation(points.X[labelled]), SquaredHinge(), target=points.y[labelled], weight=10.0),
        Term(Gradient(points.X), Squared(), weight=0.1),
    ]
    problem = Problem(Gaussian(points.scale), terms, Constant())
    ours, own = _seconds(lambda: problem.solve(tol=RACE_TOL).relative_gap)
    solver = LBFGS(max_iterations=100_000)
    theirs, gap = _seconds(lambda: problem.solve(solver, tol=RACE_TOL, time_limit=PATIENCE).relative_gap)
    return {"ours": ours, "our gap": own, "L-BFGS": theirs, "its gap": gap, "reached": bool(gap <= RACE_TOL)}


def _seconds(work: Callable[[], float]) -> tuple[float, float]:
    start = perf_counter()
    found = work()
    return round(perf_counter() - start, 3), found


TABLE1 = Experiment("table1", "Few labels (Zhang et al. 2013, Table 1)", partial(plan, "columns"), compute, page, draw)
TABLE1_ROWS = Experiment(
    "table1-rows",
    "Few labels, rows of unit length (Zhang et al. 2013, Table 1)",
    partial(plan, "rows"),
    compute,
    page,
    draw,
)
