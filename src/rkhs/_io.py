"""Save models to files that can be opened without running anybody's code.

A model file is a zip archive in the format of skops: the names of types, their attributes, and arrays.  The entry
`rkhs.json` holds notes and a checksum of everything.  Loading builds only objects of the types that are listed here
(our values and estimators, and scikit-learn's); a file that asks for anything else is refused before any of it is
built.

Nothing in a file is trusted: neither its sizes, nor its compression methods, nor its JSON, nor the headers of its
arrays.  Members are arrays in NumPy's format, or archives of such arrays (sparse matrices).  The total size of all
layers is bounded, and an array must have as many bytes as its header says, before any array is made.  Damaged bytes
make zipfile, zlib and json raise a dozen kinds of errors; all of them become a `ModelFileError` that names the file.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import inspect
import io
import json
import os
import pickle
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any, NoReturn
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
import sklearn
from array_api_compat import is_torch_array
from sklearn.base import BaseEstimator

from rkhs._estimators.base import BaseKernelEstimator
from rkhs._files import replacing
from rkhs._finite.function import Function
from rkhs.exceptions import ModelFileError

_OURS = (  # packages of rkhs whose classes a file may hold
    *("_calculus", "_estimators", "_finite", "_gram", "_learning", "_linalg", "_problem", "_shapes", "_spaces"),
    *("functionals", "invariances", "kernels", "losses", "preprocessing", "solvers", "streams"),
)
_THEIRS = (
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
_UNASKED = tuple(f"sklearn.externals.array_api_compat.{library}" for library in ("cupy", "dask", "torch"))
_NOTE, _SCHEMA, _CHECKSUM = "rkhs.json", "schema.json", "sha256"  # our member, that of skops, and an entry of ours
_ARCHIVE = b"PK"  # the first bytes of an archive
_MOST_BYTES, _MOST_TIMES = 2**26, 50  # a file unpacks to at most 64 MiB, or to 50 times its size


def save(model: Any, path: str | Path, *, notes: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model to a file that `rkhs.load` opens on another computer, without running foreign code.

    A model that was fitted with tensors, on whatever device, is stored with NumPy arrays: after `load` it takes and
    returns NumPy arrays.  A file of that name is replaced when the new one is complete: whatever happens, the old model
    or the new one is there.

    Parameters
    ----------
    model : an estimator of ours, or a scikit-learn pipeline around one
    path : the file to write
    notes : anything that JSON can hold; `rkhs._io.notes_of` returns it

    Examples
    --------
    >>> import numpy as np, rkhs, tempfile, pathlib
    >>> f = rkhs.Function(rkhs.Gaussian(scale=1.0), rkhs.Evaluation([[0.0]]), [2.0])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.skops"
    >>> rkhs.save(f, path)
    >>> rkhs.load(path)([[0.0]])
    array([2.])
    """
    skops = _import_skops()
    try:
        data = skops.dumps(_in_numpy(model))
    except (TypeError, RuntimeError) as error:  # open files, generators; tensors, and lists that hold themselves
        raise ModelFileError(
            f"{type(model).__name__} holds something that cannot be saved ({error}): what a file can hold is arrays of "
            "NumPy, numbers, texts, and classes of rkhs and scikit-learn."
        ) from error
    foreign = _foreign_types(skops, data)
    if foreign:
        raise ModelFileError(
            f"{type(model).__name__} holds {', '.join(foreign)}, which a file for others must not contain: use classes "
            "of rkhs and scikit-learn only, or pickle it for yourself."
        )
    note = {
        "rkhs": version("rkhs"),
        "scikit-learn": sklearn.__version__,
        "numpy": np.__version__,
        "model": type(model).__name__,
        "notes": dict(notes or {}),
    }
    packed = _pack(data, note)
    with replacing(path) as file:
        file.write_bytes(packed)


def load(path: str | Path) -> Any:
    """Return the model in a file written by `rkhs.save`.

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
    note, data = _unpack(path)
    skops = _import_skops()
    try:
        foreign = _foreign_types(skops, data)
        model = None if foreign else skops.loads(data, trusted=trusted_types())
    except Exception as error:  # types are built from whatever the file says: anything can be raised
        theirs = f"scikit-learn {note.get('scikit-learn')} and NumPy {note.get('numpy')}"
        raise ModelFileError(
            f"{path} cannot be opened ({type(error).__name__}: {error}): it is damaged, or {theirs}, with which it was "
            f"written, are too far from {sklearn.__version__} and {np.__version__}, which are here."
        ) from error
    if foreign:
        raise ModelFileError(
            f"{path} holds {', '.join(foreign)}, which is none of ours: it was not opened, because that could run "
            "foreign code."
        )
    return model


def notes_of(path: str | Path) -> dict[str, Any]:
    """Return who wrote a model file, and the notes in it; nothing of the model is built or read."""
    with _opened(path) as (archive, size):
        return _read_note(archive, size)


@cache
def trusted_types() -> list[str]:
    """Return the full names of all types that a model file may hold besides those that skops trusts."""
    from rkhs.functionals import LocalDeviation
    from rkhs.invariances._graph import NAMED

    packages = [importlib.import_module(f"rkhs.{name}") for name in _OURS]
    found = {
        info.name for p in packages for info in pkgutil.walk_packages(getattr(p, "__path__", []), p.__name__ + ".")
    }
    modules = [*packages, *(importlib.import_module(name) for name in found)]
    types: list[Any] = [
        one for m in modules for one in vars(m).values() if inspect.isclass(one) and one.__module__ == m.__name__
    ]
    # and our functions X -> functionals, which models refer to by name
    types += [make for make in (*NAMED.values(), LocalDeviation) if hasattr(make, "__qualname__")]
    return sorted({f"{one.__module__}.{one.__qualname__}" for one in types}) + list(_THEIRS)


def _foreign_types(skops: Any, data: bytes) -> list[str]:
    return sorted(set(skops.get_untrusted_types(data=data)) - set(trusted_types()))


def _import_skops() -> Any:
    """Import skops, which walks over all packages of scikit-learn, without those for PyTorch and Dask.

    A None in `sys.modules` makes importing them an ImportError, which the walk passes over; it finds the same types.
    """
    shut = [name for name in _UNASKED if name not in sys.modules]
    modules: dict[str, Any] = sys.modules
    modules.update(dict.fromkeys(shut))
    try:
        import skops.io
    except ImportError:
        raise ImportError("Model files need skops: pip install 'rkhs[save]'.") from None
    finally:
        for name in shut:
            sys.modules.pop(name, None)
    return skops.io


def _in_numpy(model: Any) -> Any:
    """Return the model, or a copy with NumPy arrays in place of the tensors that `fit` left, also within pipelines."""
    if "torch" not in sys.modules:
        return model
    if isinstance(model, Function):
        return _without_tensors(model)
    if isinstance(model, BaseEstimator):
        attributes = dict(vars(model))
        if not isinstance(model, BaseKernelEstimator):
            attributes = {name: _in_numpy(value) for name, value in attributes.items()}
        elif "_kind" in attributes:  # fitted
            learned = {name: attributes[name] for name in attributes.keys() - model.get_params(deep=False).keys()}
            attributes |= _without_tensors(learned) | {"_kind": ("numpy", "cpu")}
        model = copy.copy(model)
        vars(model).update(attributes)
        return model
    if isinstance(model, dict):
        return {name: _in_numpy(value) for name, value in model.items()}
    return type(model)(map(_in_numpy, model)) if type(model) in (list, tuple) else model


class _TensorPickler(pickle.Pickler):
    """Pickle tensors as NumPy arrays."""

    def reducer_override(self, value: Any) -> Any:
        return value.numpy(force=True).__reduce__() if is_torch_array(value) else NotImplemented


def _without_tensors(value: Any) -> Any:
    """Return a deep copy, by pickle, with arrays in place of tensors."""
    buffer = io.BytesIO()
    _TensorPickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return pickle.loads(buffer.getvalue())


def _pack(members: bytes, note: dict[str, Any]) -> bytes:
    """Add a note to an archive of skops.

    What would unpack to more than a reader allows, such as an array of zeros, is stored uncompressed.  Archives within
    it are not compressed themselves, so that there is one layer to unpack.
    """
    try:
        text = json.dumps(note, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"The notes cannot be written as JSON ({error}): use texts and finite numbers.") from error
    contents = _zip_contents(members)
    for name, content in contents.items():
        if content.startswith(_ARCHIVE):
            contents[name] = _zip(_zip_contents(content), ZIP_STORED)
    note = {**json.loads(text), _CHECKSUM: _checksum(contents, json.loads(text))}
    contents[_NOTE] = json.dumps(note, indent=2).encode()
    data = _zip(contents, ZIP_DEFLATED)
    small = sum(map(_unpacked_size, contents.values())) <= _most_bytes(len(data))
    return data if small else _zip(contents, ZIP_STORED)


def _unpack(path: str | Path) -> tuple[dict[str, Any], bytes]:
    """Return the note in a file, and its members as an uncompressed archive, if they are what was written to it."""
    with _opened(path) as (archive, size):
        note = _read_note(archive, size)
        theirs, ours = note["rkhs"], version("rkhs")
        if theirs.split(".")[:2] != ours.split(".")[:2]:  # before 1.0 each second number may change what models hold
            raise ModelFileError(
                f"{path} was saved by rkhs {theirs} and this is rkhs {ours}: install rkhs=={theirs} to open it, or fit "
                "the model again."
            )
        contents = _read_members(archive, archive.infolist(), size)
        _check_members(contents, size)
    stated = note.pop(_CHECKSUM, None)  # files of early versions have none
    del contents[_NOTE]
    if stated is not None and stated != _checksum(contents, note):
        raise ModelFileError(f"{path} is damaged: it is not what was written to it. Save the model again.")
    return note, _zip(contents, ZIP_STORED)


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[ZipFile, int]]:
    """Open the archive of a model file and provide it with its size; whatever is wrong is a `ModelFileError`."""
    if Path(path).is_dir():
        raise ModelFileError(f"{path} is a folder, not a model file.")
    if not Path(path).is_file():
        raise ModelFileError(f"There is no file {path}.")
    with Path(path).open("rb") as file:
        try:
            yield ZipFile(file), os.fstat(file.fileno()).st_size
        except ModelFileError:
            raise
        except Exception as error:
            reason = str(error).strip("'\"") or type(error).__name__
            raise ModelFileError(
                f"{path} is not a model file of rkhs, or is damaged ({reason}): save models with rkhs.save or "
                "`rkhs fit`."
            ) from error


def _read_note(archive: ZipFile, size: int) -> dict[str, Any]:
    def refuse(name: str) -> NoReturn:
        raise ValueError(f"its {_NOTE} has {name}, which is no number")

    (content,) = _read_members(archive, [archive.getinfo(_NOTE)], size).values()
    note = json.loads(content, parse_constant=refuse)
    if not isinstance(note, dict) or not isinstance(note.get("rkhs"), str):
        raise ValueError(f"its {_NOTE} names no version of rkhs")
    if not isinstance(note.setdefault("notes", {}), dict):
        raise ValueError(f"the notes in its {_NOTE} are no table of names")
    return note


def _read_members(archive: ZipFile, members: list[ZipInfo], size: int) -> dict[str, bytes]:
    """Read members by name; refuse what a file of `size` bytes must not unpack to before anything is unpacked."""
    for info in members:
        if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise ValueError(f"{info.filename} is packed by method {info.compress_type}, which rkhs.save does not use")
    unpacked = sum(info.file_size for info in members)
    if unpacked > _most_bytes(size):
        raise ValueError(
            f"its {size} bytes unpack to {unpacked}, more than {_most_bytes(size)} (64 MiB, or {_MOST_TIMES} times its "
            "size), which rkhs.save never writes"
        )
    contents = {}
    for info in members:
        with archive.open(info) as member:  # ZipFile.read would unpack all of it and then cut it off
            contents[info.filename] = member.read(info.file_size)
    if len(contents) < len(members):
        raise ValueError("two of its members have the same name")
    return contents


def _check_members(contents: dict[str, bytes], size: int) -> None:
    """Refuse arrays that take more memory than the members, with the archives among them, may unpack to."""
    unpacked = sum(map(_unpacked_size, contents.values()))
    if unpacked > _most_bytes(size):
        raise ValueError(f"its {size} bytes unpack to {unpacked}, in layers, which rkhs.save never writes")
    for name, content in contents.items():
        _check_array(name, content)
        if content.startswith(_ARCHIVE):
            inner = ZipFile(io.BytesIO(content))
            for own, array in _read_members(inner, inner.infolist(), size).items():
                _check_array(f"{name}/{own}", array)
    # A member that stands for several objects would be copied for each of them.
    owners: dict[str, Any] = {}
    todo = [json.loads(contents.get(_SCHEMA, b"{}"))]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            file, owner = one.get("file"), one.get("__id__")
            if isinstance(file, str) and file in contents and owners.setdefault(file, owner) != owner:
                raise ValueError(f"{file} stands for several objects")
            todo += one.values()
        elif isinstance(one, list):
            todo += one


def _check_array(name: str, content: bytes) -> None:
    """Refuse an array whose header asks for other memory than its bytes fill: NumPy would allocate it first."""
    if not content.startswith(np.lib.format.MAGIC_PREFIX):
        return
    stream = io.BytesIO(content)
    form = np.lib.format.read_magic(stream)
    if form not in ((1, 0), (2, 0)):
        raise ValueError(f"{name} is an array in version {form} of NumPy's format, which rkhs.save does not use")
    shape, _, dtype = getattr(np.lib.format, f"read_array_header_{form[0]}_0")(stream)
    if prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ValueError(f"the header of {name}, of shape {shape}, does not fit its {len(content)} bytes")


def _unpacked_size(content: bytes) -> int:
    """Return the bytes of a member, and those of its members if it is an archive."""
    if not content.startswith(_ARCHIVE):
        return len(content)
    return len(content) + sum(info.file_size for info in ZipFile(io.BytesIO(content)).infolist())


def _most_bytes(size: int) -> int:
    return max(_MOST_BYTES, _MOST_TIMES * size)


def _zip_contents(data: bytes) -> dict[str, bytes]:
    with ZipFile(io.BytesIO(data)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def _zip(contents: dict[str, bytes], method: int) -> bytes:
    buffer = io.BytesIO()
    with ZipFile(buffer, "w", compression=method) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _checksum(contents: dict[str, bytes], note: dict[str, Any]) -> str:
    """Hash all members in the order of their names, and the note without its checksum."""
    digest = hashlib.sha256(json.dumps(note, sort_keys=True).encode())
    for name in sorted(contents):
        digest.update(b"\0" + name.encode() + b"\0" + hashlib.sha256(contents[name]).digest())
    return digest.hexdigest()
