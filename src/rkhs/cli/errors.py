"""Errors of the command: a sentence each, and all of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class CommandError(Exception):
    """What went wrong and what to do, for somebody at a terminal; one sentence for each problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


class Problems:
    """Problems of a table and of options, gathered so that all of them can be told at once.

    Examples
    --------
    >>> problems = Problems()
    >>> with problems.gathered():
    ...     raise CommandError("The first.")
    >>> problems.check()
    Traceback (most recent call last):
    rkhs.cli.errors.CommandError: The first.
    """

    def __init__(self) -> None:
        self._found: list[str] = []

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Let a block end where it finds a problem, which is kept."""
        try:
            yield
        except CommandError as error:
            self._found += [one for one in error.problems if one not in self._found]

    def check(self) -> None:
        """Raise what was found, if anything was."""
        if self._found:
            raise CommandError(*self._found)


def reason(error: Exception) -> str:
    """What an error says, without the number of a system error."""
    if isinstance(error, MemoryError):
        return f"There is not enough memory ({error}): use fewer rows or columns"
    return error.strerror if isinstance(error, OSError) and error.filename is None and error.strerror else str(error)


def meant(name: str, names: Iterable[str]) -> str:
    """A question about the nearest of some names, with a space before it; nothing if none is near.

    Examples
    --------
    >>> meant("lable", ["label", "width"])
    " Did you mean 'label'?"
    """
    known = {one.casefold(): one for one in names}
    near = get_close_matches(name.casefold(), known, n=1, cutoff=0.75)
    return f" Did you mean {known[near[0]]!r}?" if near else ""
