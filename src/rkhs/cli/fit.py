"""`rkhs fit`: from a table to a model file, with its error beside a plain SVM's."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

import rkhs
from rkhs.cli.cells import Column
from rkhs.cli.columns import Kinds, encoder, kinds, prepared
from rkhs.cli.errors import CommandError, reason
from rkhs.cli.learning import FOLDS, LANDMARKS, Learnt, Settings, learn
from rkhs.cli.outputs import check_outputs
from rkhs.cli.picture import check_format, draw
from rkhs.cli.plain import plain_error
from rkhs.cli.progress import step
from rkhs.cli.report import finite
from rkhs.cli.sample import Points
from rkhs.cli.summary import columns_read
from rkhs.cli.tables import labels, read
from rkhs.invariances.named import NAMED

MANY = 50  # classes, beyond which a numeric target is likely meant for --regression


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line."""

    data: Path
    target: str
    out: Path
    invariance: str
    cv: bool
    C: float
    nu: float
    regression: bool
    ignore: tuple[str, ...]
    as_text: tuple[str, ...]
    missing: tuple[str, ...]
    picture: Path | None
    force: bool

    def outputs(self) -> dict[str, Path]:
        """The files to write by their options; the picture is beside the model if nothing else is said."""
        return {"--out": self.out, "--picture": self.picture or Path(os.path.splitext(self.out)[0] + ".png")}

    def settings(self) -> Settings:
        """The machine that is asked for; without --cv a grid of one cell, so that its error is cross-validated too."""
        if self.invariance not in (*NAMED, "none"):
            raise CommandError(f"--invariance must be one of {', '.join(NAMED)} and none, got {self.invariance!r}.")
        if not 0 < self.C < inf:
            raise CommandError(f"--C must be a finite number > 0, got {self.C}.")
        if not 0 <= self.nu < inf:
            raise CommandError(f"--nu must be a finite number >= 0, got {self.nu}.")
        nus = [0.0] if self.invariance == "none" else (5 if self.cv else [self.nu])
        return Settings(self.regression, self.invariance, 5 if self.cv else [self.C], nus)


def run(request: Request, tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Read, tell what was read, learn, compare, save, draw; all facts."""
    start = perf_counter()
    settings, outputs = request.settings(), request.outputs()
    picture = outputs["--picture"]
    check_outputs(outputs, [request.data], request.force)
    check_format(picture)
    with step("reading"):
        points, names, found = points_of(request)
        points.check_folds(request.target, FOLDS)
        if len(points.features.drop_duplicates()) < 2:
            raise CommandError(f"All rows of {request.data} are the same in the columns to learn from.")
        columns = encoder(names).fit(points.features)
    tell(found)
    with step("learning, C and nu by cross-validation" if request.cv else "learning"):
        learnt = learn(settings, points, columns.transform)
    few = learnt.chosen_on
    encoded = columns.transform(few.features)
    with step("a plain SVM beside it"):
        scale = learnt.search.function_.kernel.scale
        plain = plain_error(encoded[few.labelled], few.y[few.labelled], scale, request, few.folds(FOLDS))
    facts = found | _facts(request, learnt, plain) | names.notes()
    with step("saving"):
        request.out.parent.mkdir(parents=True, exist_ok=True)
        pipeline = Pipeline([("columns", columns), ("machine", learnt.machine)])
        rkhs.save(pipeline, request.out, notes=finite(facts))
    with step("drawing"):
        try:
            draw(picture, learnt.search, encoded, few, facts)
        except OSError as error:
            raise CommandError(f"The model is in {request.out}, but {reason(error)}.") from error
    return facts | {"model": str(request.out), "picture": str(picture), "seconds": round(perf_counter() - start, 1)}


def points_of(request: Request) -> tuple[Points, Kinds, dict[str, Any]]:
    """The rows of the table, the kinds of its columns, and what to tell about them."""
    table = read(request.data, request.missing)
    answers = table.column(request.target)
    names = kinds(table, (request.target, *request.ignore), request.as_text)
    ready = prepared(table, names)
    y = _amounts(answers) if request.regression else labels(answers)
    points = Points(ready, y, request.regression)
    if not request.regression and len(points.counts()) > MANY and _numeric(y):
        raise CommandError(
            f"Column {request.target!r} has {len(points.counts())} different numbers: predict it with --regression."
        )
    known = int(points.labelled.sum())
    found = {
        "table": columns_read(table, names, ready, request.target),
        "rows": points.size,
        "rows with a target": known,
        "rows without a target": points.size - known,
        "classes": None if request.regression else points.counts(),
    }
    return points, names, found


def _amounts(answers: Column) -> np.ndarray[Any, Any]:
    try:
        return answers.numbers()
    except CommandError as error:
        raise CommandError(f"{error} Without --regression classes are predicted.") from error


def _numeric(y: np.ndarray[Any, Any]) -> bool:
    try:
        np.array([text for text in y if text], dtype=float)
    except ValueError:
        return False
    return True


def _facts(request: Request, learnt: Learnt, plain: float) -> dict[str, Any]:
    """What is printed, and kept in the model file."""
    search, machine = learnt.search, learnt.machine
    measure = "root mean squared error" if request.regression else "error"
    ours = np.sqrt(-search.best_score_) if request.regression else 1 - search.best_score_
    name = "ours" if request.invariance == "none" else f"with {request.invariance}"
    solution, span = machine.solution_, "" if machine is search else f", in the span of {LANDMARKS} landmarks"
    return {
        "target": request.target,
        "regression": request.regression,
        "missing": list(request.missing),
        "rows learnt from": learnt.learnt_from.size,
        "rows for cross-validation": learnt.chosen_on.size,
        "kernel": repr(machine.function_.kernel),
        "invariance": request.invariance,
        "C": float(search.C_),
        "nu": float(search.nu_),
        "solution": f"{solution.status}, relative gap {solution.relative_gap:.1e}{span}",
        "representers": int(machine.function_.active),
        "cross-validated": [{"machine": name, measure: float(ours)}, {"machine": "plain SVM", measure: plain}],
    }
