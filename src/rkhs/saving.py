"""Saving models to files that can be opened without running anybody's code.

A model file is a zip archive in the format of skops: the names of types, their attributes, and arrays.  Loading builds
only objects of types that we list here (our own values and estimators, and scikit-learn's); a file that asks for
anything else is refused before any of it is built.  `archives` sees to damage, `writing` to what is on the disk.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import sklearn

from rkhs.archives import note_in, opened, packed
from rkhs.errors import ModelFileError
from rkhs.portable import in_numpy
from rkhs.writing import replacing

OURS = (
    "rkhs._calculus",
    "rkhs.estimators",
    "rkhs._finite",
    "rkhs.functionals",
    "rkhs._gram",
    "rkhs.invariances",
    "rkhs.kernels",
    "rkhs.learning",
    "rkhs._linalg",
    "rkhs.losses",
    "rkhs.preprocessing",
    "rkhs.problem",
    "rkhs._shapes",
    "rkhs.solvers",
    "rkhs.spaces",
    "rkhs.streams",
)
THEIRS = (
    "numpy.dtype",
    "scipy.sparse._coo.coo_array",
    "scipy.sparse._csc.csc_array",
    "scipy.sparse._csr.csr_array",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.compose._column_transformer._RemainderColsList",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.utils._bunch.Bunch",
)
UNASKED = tuple(f"sklearn.externals.array_api_compat.{library}" for library in ("cupy", "dask", "torch"))


def save(model: Any, path: str | Path, *, notes: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model to a file that `rkhs.load` opens on another computer, without running foreign code.

    A model that was fitted with tensors, on whatever device, is stored with NumPy arrays: after `load` it takes and
    returns NumPy arrays.  A file of that name is replaced when the new one is complete: whatever happens, the old model
    or the new one is there.

    Parameters
    ----------
    model : an estimator of ours, or a scikit-learn pipeline around one
    path : the file to write
    notes : anything that JSON can hold, to be read again with `rkhs.saving.notes_of`

    Examples
    --------
    >>> import numpy as np, rkhs, tempfile, pathlib
    >>> f = rkhs.Function(rkhs.Gaussian(scale=1.0), rkhs.Evaluation([[0.0]]), [2.0])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.skops"
    >>> rkhs.save(f, path)
    >>> rkhs.load(path)([[0.0]])
    array([2.])
    """
    skops = _skops()
    try:
        data = skops.dumps(in_numpy(model))
    except (TypeError, RuntimeError) as error:  # open files, generators; tensors, and lists that hold themselves
        raise ModelFileError(
            f"{type(model).__name__} holds something that cannot be saved ({error}): what a file can hold is arrays of "
            "NumPy, numbers, texts, and classes of rkhs and scikit-learn."
        ) from error
    foreign = _foreign(skops, data)
    if foreign:
        raise ModelFileError(
            f"{type(model).__name__} holds {', '.join(foreign)}, which a file for others must not contain: use classes "
            "of rkhs and scikit-learn only, or pickle it for yourself."
        )
    note = {
        "rkhs": version("rkhs"),
        "scikit-learn": sklearn.__version__,
        "numpy": numpy.__version__,
        "model": type(model).__name__,
        "notes": dict(notes or {}),
    }
    whole = packed(data, note)
    with replacing(path) as file:
        file.write_bytes(whole)


def load(path: str | Path) -> Any:
    """The model in a file written by `rkhs.save`.

    A file that was written by another version, or not by `rkhs.save`, that is damaged, or that holds types other than
    ours and scikit-learn's is refused with a `ModelFileError`.  So is one that unpacks to more than 64 MiB and to more
    than 50 times its size, which `rkhs.save` never writes.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from tempfile import TemporaryDirectory
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = rkhs.InvariantClassifier(invariance=None).fit(X, [0, 0, 1, 1])
    >>> with TemporaryDirectory() as folder:
    ...     rkhs.save(model, folder + "/model.skops")
    ...     rkhs.load(folder + "/model.skops").predict([[2.5]])
    array([1])
    """
    _check_version(path, notes_of(path)["rkhs"])
    note, data = opened(path)
    skops = _skops()
    try:
        foreign = _foreign(skops, data)
        model = None if foreign else skops.loads(data, trusted=trusted_types())
    except Exception as error:  # types are built from whatever the file says: anything can be raised
        theirs = f"scikit-learn {note.get('scikit-learn')} and NumPy {note.get('numpy')}"
        raise ModelFileError(
            f"{path} cannot be opened ({type(error).__name__}: {error}): it is damaged, or {theirs}, with which it was "
            f"written, are too far from {sklearn.__version__} and {numpy.__version__}, which are here."
        ) from error
    if foreign:
        raise ModelFileError(
            f"{path} holds {', '.join(foreign)}, which is none of ours: it was not opened, because that could run "
            "foreign code."
        )
    return model


def notes_of(path: str | Path) -> dict[str, Any]:
    """Who wrote a model file, and the notes in it; nothing of the model is built, or looked at."""
    return note_in(path)


def _check_version(path: str | Path, theirs: str) -> None:
    """Refuse the file of another version: before 1.0 each second number may change what models hold."""
    ours = version("rkhs")
    if theirs.split(".")[:2] != ours.split(".")[:2]:
        raise ModelFileError(
            f"{path} was saved by rkhs {theirs} and this is rkhs {ours}: install rkhs=={theirs} to open it, or fit the "
            "model again."
        )


@cache
def trusted_types() -> list[str]:
    """The full names of all types that a model file may hold beside those that skops itself trusts."""
    ours = {
        f"{module.__name__}.{name}"
        for package in OURS
        for module in _modules(importlib.import_module(package))
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__
    }
    named = {f"{make.__module__}.{make.__qualname__}" for make in _named()}
    return sorted(ours | named) + list(THEIRS)


def _named() -> list[Any]:
    """Our functions X -> functionals, which models refer to by name."""
    from rkhs.functionals import LocalDeviation
    from rkhs.invariances.graph import NAMED

    return [*(make for make in NAMED.values() if hasattr(make, "__qualname__")), LocalDeviation]


def _modules(package: ModuleType) -> list[ModuleType]:
    names = [info.name for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
    return [package, *(importlib.import_module(name) for name in names)]


def _foreign(skops: Any, data: bytes) -> list[str]:
    return sorted(set(skops.get_untrusted_types(data=data)) - set(trusted_types()))


def _skops() -> Any:
    """skops, which asks scikit-learn for all estimators: a walk over its packages, PyTorch's and Dask's doors included.

    Those are seconds of imports that nobody asked for; behind a closed door the walk goes on, and it finds the same.
    """
    shut = [door for door in UNASKED if door not in sys.modules]
    modules: dict[str, Any] = sys.modules
    modules.update(dict.fromkeys(shut))  # None: an import of it is an ImportError, which the walk passes over
    try:
        import skops.io
    except ImportError:
        raise ImportError("Model files need skops: pip install 'rkhs[save]'.") from None
    finally:
        for door in shut:
            sys.modules.pop(door, None)
    return skops.io
