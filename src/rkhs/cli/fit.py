"""`rkhs fit`: from a table to a model file, with its error beside a plain SVM's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

import rkhs
from rkhs.cli.columns import encoder, kinds, prepared
from rkhs.cli.errors import CommandError
from rkhs.cli.learning import FOLDS, Learnt, Settings, learn
from rkhs.cli.picture import draw
from rkhs.cli.plain import plain_error
from rkhs.cli.progress import step
from rkhs.cli.sample import Points
from rkhs.cli.tables import check_writable, column, labels, numbers, read
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
    picture: Path | None

    def settings(self) -> Settings:
        """The machine that is asked for; without --cv a grid of one cell, so that its error is cross-validated too."""
        if self.invariance not in (*NAMED, "none"):
            raise CommandError(f"--invariance must be one of {', '.join(NAMED)} and none, got {self.invariance!r}.")
        nus = [0.0] if self.invariance == "none" else (5 if self.cv else [self.nu])
        return Settings(self.regression, self.invariance, 5 if self.cv else [self.C], nus)


def run(request: Request) -> dict[str, Any]:
    """Read, learn, compare, save, draw; the facts to print."""
    start = perf_counter()
    settings = request.settings()
    check_writable(request.out)
    picture = request.picture or request.out.with_suffix(".png")
    with step("reading"):
        points, numeric, categorical = _points(request)
        points.check_folds(request.target, FOLDS)
        if len(points.features.drop_duplicates()) < 2:
            raise CommandError(f"All rows of {request.data} are the same in the columns to learn from.")
        columns = encoder(numeric, categorical).fit(points.features)
    with step("learning, C and nu by cross-validation" if request.cv else "learning"):
        learnt = learn(settings, points, columns.transform)
    few = learnt.chosen_on
    encoded = columns.transform(few.features)
    with step("a plain SVM beside it"):
        scale = learnt.search.function_.kernel.scale
        plain = plain_error(encoded[few.labelled], few.y[few.labelled], scale, request, few.folds(FOLDS))
    facts = _facts(request, points, learnt, plain) | {
        "numeric columns": numeric,
        "categorical columns": categorical,
        "regression": request.regression,
    }
    with step("saving"):
        request.out.parent.mkdir(parents=True, exist_ok=True)
        pipeline = Pipeline([("columns", columns), ("machine", learnt.machine)])
        rkhs.save(pipeline, request.out, notes=facts)
    with step("drawing"):
        draw(picture, learnt.search, encoded, few, facts)
    return facts | {"model": str(request.out), "picture": str(picture), "seconds": round(perf_counter() - start, 1)}


def _points(request: Request) -> tuple[Points, list[str], list[str]]:
    """The rows of the table, and the names of its numeric and categorical columns."""
    frame = read(request.data, None if request.regression else request.target)
    answers = column(frame, request.target, request.data)
    for name in request.ignore:
        column(frame, name, request.data)
    features = frame.drop(columns=[request.target, *request.ignore])
    numeric, categorical = kinds(features)
    ready = prepared(features, numeric, categorical, str(request.data))
    if request.regression:
        return Points(ready, numbers(answers, request.target), True), numeric, categorical
    y = labels(answers)
    if len(set(y)) > MANY and _numeric(y):
        raise CommandError(
            f"Column {request.target!r} has {len(set(y))} different numbers: predict it with --regression."
        )
    return Points(ready, y, False), numeric, categorical


def _numeric(y: np.ndarray[Any, Any]) -> bool:
    try:
        np.array([text for text in y if text], dtype=float)
    except ValueError:
        return False
    return True


def _facts(request: Request, points: Points, learnt: Learnt, plain: float) -> dict[str, Any]:
    """What is printed, and kept in the model file."""
    search, machine = learnt.search, learnt.machine
    measure = "root mean squared error" if request.regression else "error"
    ours = np.sqrt(-search.best_score_) if request.regression else 1 - search.best_score_
    name = "ours" if request.invariance == "none" else f"with {request.invariance}"
    return {
        "target": request.target,
        "rows": points.size,
        "rows with a target": int(points.labelled.sum()),
        "rows learnt from": learnt.learnt_from.size,
        "rows for cross-validation": learnt.chosen_on.size,
        "classes": None if request.regression else points.counts(),
        "kernel": repr(machine.function_.kernel),
        "invariance": request.invariance,
        "C": float(search.C_),
        "nu": float(search.nu_),
        "solution": f"{machine.solution_.status}, relative gap {machine.solution_.relative_gap:.1e}",
        "representers": int(machine.function_.active),
        "cross-validated": [{"machine": name, measure: float(ours)}, {"machine": "plain SVM", measure: plain}],
    }
