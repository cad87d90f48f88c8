"""What was asked for on the command line, and what is wrong with it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from rkhs.cli.columns import Kinds
from rkhs.cli.errors import CommandError, Problems, meant
from rkhs.cli.learning import AUTO, NONE, WIDTHS, Settings
from rkhs.cli.tables import Format
from rkhs.invariances.graph import NAMED

C = 10.0  # weight of labels, where nothing chooses it,
NU = {
    "gradient": 1.0,
    "local_average": 1.0,
    "laplacian": 30.0,
    "graph": 100.0,
}  # and of prior knowledge, where it is mild
SIGN = re.compile(r"\s*(?P<name>.+?)\s*=\s*(?P<sign>[+-]?1|[+-])\s*(,|$)")


@dataclass(frozen=True)
class Request:
    """The options of `rkhs fit`."""

    data: Path
    target: str
    out: Path = Path("model.skops")
    invariance: str = AUTO
    cv: bool = False
    C: float | None = None
    nu: float | None = None
    monotone: str = ""
    regression: bool = False
    ignore: tuple[str, ...] = ()
    as_text: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    form: Format = field(default_factory=Format)
    picture: Path | None = None
    report: Path | None = None
    force: bool = False

    def outputs(self) -> dict[str, Path]:
        """The files to write by their options; picture and report are beside the model if nothing else is said."""
        stem = os.path.splitext(self.out)[0]
        picture, report = self.picture or Path(stem + ".png"), self.report or Path(stem + ".html")
        return {"--out": self.out, "--picture": picture, "--report": report}

    def check(self) -> None:
        """Refuse options that make no sense, whatever the table; all at once."""
        problems, names = Problems(), (AUTO, *NAMED, NONE)
        with problems.gathered():
            if self.invariance not in names:
                raise CommandError(
                    f"--invariance must be one of {', '.join(names)}, got {self.invariance!r}."
                    + meant(self.invariance, names)
                )
        with problems.gathered():
            if self.C is not None and not 0 < self.C < inf:
                raise CommandError(f"--C must be a finite number > 0, got {self.C}: 10 is a good start.")
        with problems.gathered():
            if self.nu is not None and not 0 <= self.nu < inf:
                raise CommandError(f"--nu must be a finite number >= 0, got {self.nu}: 1 is a good start.")
        with problems.gathered():
            signs_in(self.monotone)
        problems.check()

    def settings(self, kinds: Kinds, classes: int) -> Settings:
        """The model that is asked for; without --cv a named kind of knowledge has a grid of one cell."""
        signs = self._signs(kinds, classes)
        if self.invariance == AUTO:
            fixed: dict[str, Any] = {} if self.C is None else {"Cs": [self.C]}
            fixed |= {} if self.nu is None else {"nus": [self.nu]}
            return Settings(self.regression, AUTO, signs=signs, **fixed)
        nu = NU.get(self.invariance, 0.0) if self.nu is None else self.nu
        nus: Any = [0.0] if self.invariance == NONE else 5 if self.cv else [nu]
        Cs: Any = 5 if self.cv else [C if self.C is None else self.C]
        return Settings(self.regression, self.invariance, Cs, nus, WIDTHS if self.cv else None, signs)

    def _signs(self, kinds: Kinds, classes: int) -> Mapping[int, int]:
        """The signs of monotone columns, by the number of their feature."""
        problems, found = Problems(), {}
        for name, sign in signs_in(self.monotone).items():
            with problems.gathered():
                if name not in kinds.amounts:
                    why = "is no column of numbers or dates" if name in kinds.features else "is no column to learn from"
                    raise CommandError(
                        f"--monotone {name}: {name!r} {why}; those are {', '.join(kinds.amounts) or 'none'}."
                        + meant(name, kinds.amounts)
                    )
                found[kinds.amounts.index(name)] = sign
        with problems.gathered():
            if found and not self.regression and classes > 2:
                raise CommandError(
                    f"--monotone needs two classes or numbers to predict, and column {self.target!r} has {classes} "
                    "classes: leave it out, or predict numbers with --regression."
                )
        problems.check()
        return found


def signs_in(text: str) -> dict[str, int]:
    """The names of columns and their signs.

    Examples
    --------
    >>> signs_in("age=+1, size, in cm=-1")
    {'age': 1, 'size, in cm': -1}
    """
    found: dict[str, int] = {}
    start = 0
    while start < len(text.rstrip()):
        match = SIGN.match(text, start)
        if match is None:
            raise CommandError(
                f"--monotone takes columns with +1 (f rises) or -1 (f falls), as in age=+1,income=-1, got {text!r}."
            )
        if match["name"] in found:
            raise CommandError(f"--monotone names column {match['name']!r} twice: give it one sign.")
        found[match["name"]] = -1 if match["sign"].startswith("-") else 1
        start = match.end()
    return found
