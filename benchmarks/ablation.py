"""What each trick of shared directions is worth: processor seconds without it, in units of those with all.

    python -m benchmarks.ablation [--out DIR]

Single problems of the race, grids of 5 lambda x 5 nu x 5 folds, and ten classes of the USPS digits; one core is enough
(OPENBLAS_NUM_THREADS=1).  The grid on usps_ssl, where products are dear, is timed for the dual point in the span alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rkhs.solvers.sharing import directions, recycling, span_dual

import rkhs
from benchmarks.race import FOLDS, LAMBDAS, NUS, TOL, Setting
from benchmarks.timing import markdown, seconds, show, write
from rkhs.datasets import load


def _kinks_alone(system: Any, others: int, tasks: int, capacity: int) -> int:
    return 0 if system.smooth or others > capacity // 2 else others


WITHOUT: dict[str, tuple[Any, str, Any]] = {
    "norms of gradients": (recycling._Together, "_judge", lambda *_: False),
    "samples of rows": (recycling, "sample", lambda *_: None),
    "moments in closed form": (directions.Directions, "_add_closed_moments", lambda *_: False),
    "leading representers": (recycling, "leading_representers", _kinks_alone),
    "dual point in the span": (span_dual.SpanDual, "serves", lambda *_: False),
    "combined gradients": (recycling, "combinations", lambda *_: None),
}


@contextmanager
def without(trick: str | None) -> Iterator[None]:
    """Everything but one trick."""
    if trick is None:
        yield
    else:
        with patch.object(*WITHOUT[trick]):
            yield


def problems() -> dict[str, Callable[[], Any]]:
    """What is timed, by name."""
    found: dict[str, Callable[[], Any]] = {}
    sets = {name: Setting.of(name) for name in ("australian", "bci", "usps_ssl")}
    galerkin = rkhs.solvers.Galerkin()
    for name, setting in sets.items():
        for loss in (rkhs.SquaredHinge(), rkhs.Hinge()):
            for lam, nu in ((1.0, 0.1), (100.0, 10.0)):
                problem = setting.problem(loss, lam, nu)
                found[f"{name}, {loss!r}, ({lam:g}, {nu:g})"] = lambda p=problem: p.solve(galerkin, tol=TOL)
            if name != "usps_ssl":
                found[f"grid on {name}, {loss!r}"] = lambda s=setting, o=loss: _grid(s, o)
    found["ten classes of usps, SquaredHinge()"] = _ten_classes
    return found


def _grid(setting: Setting, loss: rkhs.Loss) -> Any:
    problem = setting.problem(loss)
    labels, flat = problem.terms
    return problem.grid({labels: LAMBDAS, flat: NUS}, held_out={labels: FOLDS}, tol=TOL)


def _ten_classes() -> Any:
    data = load("usps_digits")
    X, y = data.X[:1500], data.y[:1500]
    target = np.where(y[:100, None] == np.unique(y), 1.0, -1.0)
    labels = rkhs.Term(rkhs.Evaluation(X[:100]), rkhs.SquaredHinge(), target)
    flat = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1)
    kernel = rkhs.Gaussian(rkhs.median_scale(X))
    return rkhs.Problem(kernel, [labels, flat], rkhs.Constant()).solve(rkhs.solvers.Galerkin(), tol=1e-3)


def main() -> None:
    """Run everything with all tricks and without each, print the ratios and write them as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    console, rows = Console(width=170), []
    for name, call in problems().items():
        call()
        whole = seconds(call, process_time)
        row = [name, f"{whole:.2f}"]
        for trick in WITHOUT:
            with without(trick):
                row.append(f"{seconds(call, process_time) / whole:.2f}")
        rows.append(row)
        console.print("  ".join(row))
    usps = Setting.of("usps_ssl")
    times = []
    for off in (None, "dual point in the span"):
        with without(off):
            times.append(seconds(lambda: _grid(usps, rkhs.SquaredHinge()), process_time))
    rows.append(
        ["grid on usps_ssl, SquaredHinge()", f"{times[0]:.2f}", "", "", "", "", f"{times[1] / times[0]:.2f}", ""]
    )
    table = ("Seconds with all, and times as many without", ["problem", "all, s", *WITHOUT], rows)
    show(console, *table)
    write(options.out, "ablation.md", markdown(*table))


if __name__ == "__main__":
    main()
