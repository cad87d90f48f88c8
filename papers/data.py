"""Say of each data set of the papers whether it is here, and whether it is the one of the committed results.

    python -m papers.data [NAME ...]

`rkhs.datasets.load` reads NAME.npz from the folder of RKHS_DATA, and otherwise downloads the set from OpenML if that
has it.  A checksum is that of the numbers, and not of a file, so that all sources are comparable: SHA-256 of X in
float64 and y in int64, little-endian and row by row.  A second one, of sorted rows, finds sets whose rows are the same
in another order: with these the random draws differ.  `checksums.json` is the committed list, with the public place
that our file was made from.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from papers.experiment import Array
from rkhs.datasets import NAMES, Dataset, MissingDataError, load, path_of

COMMITTED = Path(__file__).with_name("checksums.json")


def checksum(X: Array, y: Array) -> str:
    """Return the SHA-256 of points and labels.

    Examples
    --------
    >>> checksum(np.array([[0.0], [1.0]]), np.array([-1, 1]))[:8] == checksum(np.array([[-0.0], [1]]), [-1.0, 1.0])[:8]
    True
    """
    numbers = np.ascontiguousarray(X, dtype="<f8") + 0.0  # which makes -0 to 0
    return hashlib.sha256(numbers.tobytes() + np.ascontiguousarray(y, dtype="<i8").tobytes()).hexdigest()


def checksums(data: Dataset) -> dict[str, str]:
    """Return the checksums of a set with its rows in their order, and sorted.

    Examples
    --------
    >>> one = Dataset("two points", np.array([[0.0], [1.0]]), np.array([-1, 1]))
    >>> other = Dataset("the same", one.X[::-1], one.y[::-1])
    >>> [checksums(one)[name] == checksums(other)[name] for name in ("sha256", "sorted")]
    [False, True]
    """
    order = np.lexsort((*data.X.T, data.y))
    return {"sha256": checksum(data.X, data.y), "sorted": checksum(data.X[order], data.y[order])}


def state(name: str) -> tuple[bool, str]:
    """Return whether a set is the one of the committed results, and a sentence that says so.

    Examples
    --------
    >>> state("sonar")  # doctest: +SKIP
    (True, 'as in the committed results, from OpenML')
    """
    expected, path = json.loads(COMMITTED.read_text())[name], path_of(name)
    try:
        found = checksums(load(name))
    except MissingDataError as missing:
        return False, f"missing. {missing} Our file was made from {expected['source']}."
    except ValueError as other:
        return False, f"another version. {other}"
    where = "OpenML" if path is None else str(path)
    if found["sha256"] == expected["sha256"]:
        return True, f"as in the committed results, from {where}"
    if found["sorted"] == expected["sorted"]:
        return False, f"the same rows in another order, from {where}: random draws are others"
    return False, f"other numbers than in the committed results, from {where}"


def main() -> None:
    """Print a line for each set; exit with 1 if one is missing or differs."""
    parser = argparse.ArgumentParser(prog="python -m papers.data", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)}; all if none is given")
    names = parser.parse_args().names or NAMES
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"There is no data set {unknown[0]!r}; there are {', '.join(NAMES)}.")
    complete = True
    for name in names:
        same, sentence = state(name)
        complete &= same
        print(f"{name}: {sentence}", flush=True)
    sys.exit(not complete)


if __name__ == "__main__":
    main()
