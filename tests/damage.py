"""Model files with some bytes changed: `ModelFileError` with the file's name, or the same predictions.

    PYTHONPATH=src python tests/damage.py 1000 [seed]

Each file has 1 to 8 bytes changed, or is cut off, or has bytes inserted or left out.
"""

import random
import sys
import warnings
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rkhs
from rkhs.export import notes_of

X = np.random.default_rng(0).standard_normal((30, 3))


def saved(path: Path):
    """A pipeline in a file, and its decisions."""
    estimator = rkhs.InvariantClassifier(loss="squared_hinge", scale=1.0, invariance="gradient", tol=1e-2)
    model = make_pipeline(StandardScaler(), estimator).fit(X, np.arange(30) % 3)
    rkhs.save(model, path, notes={"target": "y", "classes": ["a", "b"]})
    return model.decision_function(X)


def changed(data: bytes, chance: random.Random) -> bytes:
    """Other bytes at 1 to 8 places, seldom another length."""
    other, kind = bytearray(data), chance.random()
    if kind < 0.05:
        return bytes(other[: chance.randrange(len(data))])
    if kind < 0.1:
        start = chance.randrange(len(data))
        other[start : start + chance.randrange(3)] = chance.randbytes(chance.randrange(1, 4))
        return bytes(other)
    near_end = chance.random() < 0.5  # where the directory of the archive is
    for _ in range(chance.randint(1, 8)):
        place = chance.randrange(len(data) * 2 // 3 if near_end else 0, len(data))
        other[place] ^= chance.randrange(1, 256)
    return bytes(other)


def load_damaged(folder: Path, times: int, seed: int, checksum: bool = True) -> Counter:
    """How the loads ended; asserts that none ended otherwise.  Without a checksum, as early versions wrote files."""
    path, chance, ends = folder / "model.skops", random.Random(seed), Counter()
    expected = saved(path)
    if not checksum:
        without_checksum(path)
    data = path.read_bytes()
    for _ in range(times):
        path.write_bytes(changed(data, chance))
        attempt(notes_of, path)
        model = attempt(rkhs.load, path)
        assert model is None or np.array_equal(model.decision_function(X), expected)
        ends["refused" if model is None else "the same"] += 1
    return ends


def attempt(read, path: Path):
    """What is read, or None if it is refused by an error that names the file."""
    with warnings.catch_warnings(), suppress(rkhs.exceptions.ModelFileError):
        warnings.simplefilter("ignore")  # scikit-learn's, if a version was changed
        try:
            return read(path)
        except rkhs.exceptions.ModelFileError as error:
            if str(path) in str(error):
                raise
            raise AssertionError(f"{error} does not name the file") from error
    return None


def without_checksum(path: Path) -> None:
    import json
    from zipfile import ZIP_DEFLATED, ZipFile

    with ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    note = json.loads(contents["rkhs.json"])
    del note["sha256"]
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, content in {**contents, "rkhs.json": json.dumps(note).encode()}.items():
            archive.writestr(name, content)


if __name__ == "__main__":
    times, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with TemporaryDirectory() as place:
        print(f"{times} damaged files: {dict(load_damaged(Path(place), times, seed))}")
        print(f"{times} without a checksum: {dict(load_damaged(Path(place), times, seed + 1, checksum=False))}")
