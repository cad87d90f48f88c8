"""What a command is about to write: never over what it reads, nor over what is there unless that is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from rkhs.cli.errors import CommandError


def check_outputs(outputs: Mapping[str, Path], inputs: Iterable[Path], force: bool) -> None:
    """Refuse, before the work, files that cannot or must not be written; `outputs` are by their options."""
    seen = [(f"the input {path}", path) for path in inputs]
    for option, path in outputs.items():
        for name, other in seen:
            if _same(path, other):
                raise CommandError(f"{path} is {name}: give another name with {option}.")
        _check_writable(path, option)
        if path.exists() and not force:
            raise CommandError(f"{path} is there already: give another name with {option}, or replace it with --force.")
        seen.append((f"the file of {option} too", path))


def _same(path: Path, other: Path) -> bool:
    """Whether two names, with their links, are of the same file."""
    if path.exists() and other.exists():
        return path.samefile(other)
    return os.path.realpath(path) == os.path.realpath(other)


def _check_writable(path: Path, option: str) -> None:
    if path.is_dir():
        raise CommandError(f"{path} is a folder: give the name of a file to write.")
    folder = next((parent for parent in path.absolute().parents if parent.exists()), Path("/"))
    writable = folder.is_dir() and os.access(folder, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))
    if not writable or (path.exists() and not path.is_file()):
        raise CommandError(f"{path} cannot be written: choose another place with {option}.")
