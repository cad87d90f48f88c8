"""Model files that can be loaded without executing code from the file.

A model file is a zip archive in the format of skops: the names of types, their attributes, and arrays.  The member
`rkhs.json` has notes and a checksum of all members.  Only objects of trusted types are constructed (those of rkhs and
scikit-learn, and those that the user names); a file with any other type is rejected before anything is constructed,
and before the module of the type is imported.

Nothing in a file is trusted: neither sizes, nor compression methods, nor JSON, nor the headers of arrays.  Members are
arrays in NumPy's format, or archives of such arrays (sparse matrices).  Before any array is allocated, the total size
of all layers is bounded, and the size of each array is compared with its header.  Damaged bytes make zipfile, zlib and
json raise many kinds of errors; all of them are converted to a `ModelFileError` that names the file.
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
from collections.abc import Iterable, Iterator, Mapping
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

from rkhs import Problem
from rkhs.exceptions import ModelFileError
from rkhs.extend import BaseKernelEstimator, replacing
from rkhs.results import Function

_TRUSTED_PACKAGES = (  # packages and modules of rkhs whose classes a file may contain
    *(f"_core.{name}" for name in ("calculus", "finite", "gram", "graphs", "learning", "linalg", "problem")),
    *("counts", "estimators", "functionals", "invariances", "kernels", "losses", "maps", "molecules"),
    *("preprocessing", "shapes", "solvers", "spaces", "streams", "surfaces"),
)
_TRUSTED_TYPES = (  # single types, in addition to those that skops trusts
    "numpy.dtype",
    "rkhs._core.backend.sparse.SparseVectors",
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
_NOTE = "rkhs.json"  # the member of the archive beside those of skops
_CHECKSUM = "sha256"  # the key of the checksum in the note
_ARCHIVE = b"PK"  # the first bytes of a zip archive
_MOST_BYTES, _MOST_TIMES = 2**26, 50  # the largest unpacked size: 64 MiB, or 50 times the size of the file


def save(model: Any, path: str | Path, *, notes: Mapping[str, Any] | None = None, trusted: Iterable[Any] = ()) -> None:
    """Save a fitted model to a file, which `rkhs.load` can open without executing code from the file.

    A model that was fitted with tensors, on any device, is saved with NumPy arrays: after `load` it takes and returns
    NumPy arrays.  An existing file is replaced atomically, when the new one is complete.

    Parameters
    ----------
    model : estimator, Function or Problem
        An estimator of rkhs, a scikit-learn pipeline that contains one, an `rkhs.results.Function`, or a problem.
    path : str or Path
        The file to write.
    notes : dict, optional
        Additional information that can be written as JSON; `rkhs.export.notes_of` returns it.
    trusted : list of class, function or str, optional
        Classes and functions of your own that the model contains, or their full names, such as "my_module.MyKernel".
        They are stored by name: `load` needs the same list, and imports them.

    Raises
    ------
    ModelFileError
        If the model contains other types than those of rkhs and scikit-learn and the trusted ones, or an object that
        cannot be saved.

    Examples
    --------
    >>> import numpy as np, rkhs, tempfile, pathlib
    >>> f = rkhs.results.Function(rkhs.Gaussian(scale=1.0), rkhs.Evaluation([[0.0]]), [2.0])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.skops"
    >>> rkhs.save(f, path)
    >>> rkhs.load(path)([[0.0]])
    array([2.])
    """
    skops, names = _import_skops(), _trusted_names(trusted)
    try:
        data = skops.dumps(_in_numpy(model))
    except (TypeError, RuntimeError) as error:  # open files, generators, tensors, and lists that contain themselves
        raise ModelFileError(
            f"{type(model).__name__} contains an object that cannot be saved ({error}): a model file can contain NumPy "
            "arrays, numbers, text, and objects of rkhs and scikit-learn."
        ) from error
    untrusted = _untrusted_types(skops, data, names)
    if untrusted:
        raise ModelFileError(
            f"{type(model).__name__} contains {', '.join(untrusted)}, which a model file must not contain unless it is "
            f"trusted: pass trusted={untrusted + names!r} to rkhs.save and to rkhs.load, use classes of rkhs and "
            "scikit-learn only, or use pickle."
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


def load(path: str | Path, *, trusted: Iterable[Any] = ()) -> Any:
    """Load a model from a file that was written by `rkhs.save`.

    A `ModelFileError` is raised if the file was written by another version or not by `rkhs.save`, if it is damaged, if
    it contains types other than those of rkhs and scikit-learn and the trusted ones, or if it unpacks to more than
    64 MiB and more than 50 times its size.  Nothing is imported for, and nothing is constructed from, a file with a
    type that is not trusted.

    Parameters
    ----------
    path : str or Path
        The file.
    trusted : list of class, function or str, optional
        Classes and functions of your own that the file may contain, or their full names, as in `save`.  The file
        decides how they are constructed and called: name those only that are safe with any arguments.

    Returns
    -------
    estimator or Function
        The model.

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
    note, contents = _unpack(path)
    skops, names = _import_skops(), _trusted_names(trusted)
    try:
        data = _zip(contents, ZIP_STORED)
        untrusted = _untrusted_types(skops, data, names)
        model = None if untrusted else skops.loads(data, trusted=trusted_types() + names)
    except Exception as error:  # constructors run with arbitrary arguments from the file and may raise anything
        writer = f"scikit-learn {note.get('scikit-learn')} and NumPy {note.get('numpy')}"
        raise ModelFileError(
            f"{path} cannot be opened ({type(error).__name__}: {error}): it is damaged, or it was written with "
            f"{writer}, which are not compatible with the installed versions {sklearn.__version__} and "
            f"{np.__version__}."
        ) from error
    if untrusted:
        raise ModelFileError(
            f"{path} contains {', '.join(untrusted)}, which is not a type of rkhs or scikit-learn: it was not opened, "
            f"because that could execute code from the file. If you know and trust it, pass "
            f"trusted={untrusted + names!r} to rkhs.load."
        )
    return model


def load_problem(path: str | Path, *, trusted: Iterable[Any] = ()) -> Problem:
    """Load a problem from a file that was written by `Problem.save`, with the checks of `rkhs.load`.

    Parameters
    ----------
    path : str or Path
        The file.
    trusted : list of class, function or str, optional
        Classes and functions of your own that the file may contain, as in `rkhs.load`.

    Returns
    -------
    Problem
        The problem with its data; nothing is solved yet.

    Examples
    --------
    >>> import rkhs, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "problem.skops"
    >>> rkhs.Problem(rkhs.Gaussian(), [rkhs.Term(rkhs.Evaluation([[0.0]]), rkhs.Squared(), target=1.0)]).save(path)
    >>> rkhs.load_problem(path).terms
    (Term(Evaluation(1 point in R^1), Squared(), weight=1.0),)
    """
    problem = load(path, trusted=trusted)
    if not isinstance(problem, Problem):
        raise ModelFileError(f"{path} contains a {type(problem).__name__}, not a problem: open it with rkhs.load.")
    return problem


def notes_of(path: str | Path) -> dict[str, Any]:
    """Return the versions and the notes in a model file, without reading the model.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    dict
        The versions of packages by name, the class of the model, and `notes`, those of `rkhs.save`.

    Examples
    --------
    >>> import rkhs, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "kernel.skops"
    >>> rkhs.save(rkhs.Gaussian(), path, notes={"unit": "m"})
    >>> rkhs.export.notes_of(path)["notes"]
    {'unit': 'm'}
    """
    with _opened(path) as (archive, size):
        return _read_note(archive, size)


@cache
def trusted_types() -> list[str]:
    """Return the full names of all types that a model file may contain besides those that skops trusts."""
    from rkhs.functionals import LocalDeviation
    from rkhs.invariances._graph import NAMED

    packages = [importlib.import_module(f"rkhs.{name}") for name in _TRUSTED_PACKAGES]
    names = {
        info.name for p in packages for info in pkgutil.walk_packages(getattr(p, "__path__", []), p.__name__ + ".")
    }
    modules = [*packages, *(importlib.import_module(name) for name in names)]
    known = {module.__name__ for module in modules}
    values = [value for module in modules for value in vars(module).values()]
    types: list[Any] = [value for value in values if inspect.isclass(value) and value.__module__ in known]
    # models refer by name to functions X -> functionals
    types += [make for make in (*NAMED.values(), LocalDeviation) if hasattr(make, "__qualname__")]
    return sorted({f"{value.__module__}.{value.__qualname__}" for value in types}) + list(_TRUSTED_TYPES)


def _untrusted_types(skops: Any, data: bytes, trusted: list[str]) -> list[str]:
    return sorted(set(skops.get_untrusted_types(data=data)) - set(trusted_types()) - set(trusted))


def _trusted_names(trusted: Iterable[Any]) -> list[str]:
    """Return the full names of the user's types; raise an error if one is not found by its name, as `load` finds it."""
    if isinstance(trusted, str):
        raise TypeError(f"trusted must be a list of classes, functions or their names: pass [{trusted!r}].")
    names = []
    for given in trusted:
        if not isinstance(given, str) and not hasattr(given, "__qualname__"):
            raise TypeError(f"trusted must contain classes, functions or their names, got {given!r}.")
        name = given if isinstance(given, str) else f"{given.__module__}.{given.__qualname__}"
        try:
            found = pkgutil.resolve_name(name)
        except (ImportError, AttributeError, ValueError) as error:
            raise ValueError(
                f"{name} is trusted, but cannot be imported ({error}): define it at the top level of a module that "
                "this process can import."
            ) from error
        if not isinstance(given, str) and found is not given:
            raise ValueError(
                f"{given!r} is trusted, but the name {name} belongs to another object: give it a new name."
            )
        names.append(name)
    return names


def _import_skops() -> Any:
    """Import skops without the modules of scikit-learn for PyTorch, CuPy and Dask, whose import takes seconds.

    skops imports all modules of scikit-learn to find types.  A None in `sys.modules` makes the import of a module raise
    an ImportError, which skops ignores; the modules left out define no types.
    """
    blocked = [name for name in _UNASKED if name not in sys.modules]
    modules: dict[str, Any] = sys.modules
    modules.update(dict.fromkeys(blocked))
    try:
        import skops.io
    except ImportError:
        raise ImportError("Model files need skops: pip install 'rkhs[save]'.") from None
    finally:
        for name in blocked:
            sys.modules.pop(name, None)
    return skops.io


def _in_numpy(model: Any) -> Any:
    """Return the model, or a copy with NumPy arrays in place of fitted tensors, also within pipelines."""
    if "torch" not in sys.modules:
        return model
    if isinstance(model, Function | Problem):
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
    """A pickler that converts tensors to NumPy arrays."""

    def reducer_override(self, value: Any) -> Any:
        return value.numpy(force=True).__reduce__() if is_torch_array(value) else NotImplemented


def _without_tensors(value: Any) -> Any:
    """Return a deep copy with NumPy arrays in place of tensors."""
    buffer = io.BytesIO()
    _TensorPickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return pickle.loads(buffer.getvalue())


def _pack(members: bytes, note: dict[str, Any]) -> bytes:
    """Return an archive of skops with a note added.

    It is not compressed if it would unpack to more than `load` allows, as an array of zeros would.  Archives within it
    are not compressed themselves, so that there is one layer of compression.
    """
    try:
        text = json.dumps(note, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"The notes cannot be written as JSON ({error}): use text and finite numbers.") from error
    contents = _zip_contents(members)
    for name, content in contents.items():
        if content.startswith(_ARCHIVE):
            contents[name] = _zip(_zip_contents(content), ZIP_STORED)
    note = {**json.loads(text), _CHECKSUM: _checksum(contents, json.loads(text))}
    contents[_NOTE] = json.dumps(note, indent=2).encode()
    data = _zip(contents, ZIP_DEFLATED)
    small = sum(map(_unpacked_size, contents.values())) <= _most_bytes(len(data))
    return data if small else _zip(contents, ZIP_STORED)


def _unpack(path: str | Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the note of a file and its other members, after all checks."""
    with _opened(path) as (archive, size):
        note = _read_note(archive, size)
        saved, installed = note["rkhs"], version("rkhs")
        if saved.split(".")[:2] != installed.split(".")[:2]:  # before 1.0, minor versions may change attributes
            raise ModelFileError(
                f"{path} was saved by rkhs {saved} and this is rkhs {installed}: install rkhs=={saved} to open it, or "
                "fit the model again."
            )
        contents = _read_members(archive, archive.infolist(), size)
        _check_members(contents, size)
    checksum = note.pop(_CHECKSUM, None)  # files of early versions have none
    del contents[_NOTE]
    if checksum is not None and checksum != _checksum(contents, note):
        raise ModelFileError(f"{path} is damaged: its checksum does not match. Save the model again.")
    return note, contents


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[ZipFile, int]]:
    """Open the archive of a model file and yield it with its size; convert all errors to a `ModelFileError`."""
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
        raise ValueError(f"its {_NOTE} contains {name}, which is not valid JSON")

    (content,) = _read_members(archive, [archive.getinfo(_NOTE)], size).values()
    note = json.loads(content, parse_constant=refuse)
    if not isinstance(note, dict) or not isinstance(note.get("rkhs"), str):
        raise ValueError(f"its {_NOTE} has no version of rkhs")
    if not isinstance(note.setdefault("notes", {}), dict):
        raise ValueError(f"the notes in its {_NOTE} are not a dict")
    return note


def _read_members(archive: ZipFile, members: list[ZipInfo], size: int) -> dict[str, bytes]:
    """Read members by name; raise an error first if they would unpack to too much for a file of `size` bytes."""
    for info in members:
        if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise ValueError(
                f"{info.filename} is compressed by method {info.compress_type}, which rkhs.save does not use"
            )
    unpacked = sum(info.file_size for info in members)
    if unpacked > _most_bytes(size):
        raise ValueError(
            f"its {size} bytes unpack to {unpacked}, more than {_most_bytes(size)} (64 MiB, or {_MOST_TIMES} times its "
            "size), which rkhs.save never writes"
        )
    contents = {}
    for info in members:
        with archive.open(info) as member:  # ZipFile.read would unpack more than file_size and then truncate
            contents[info.filename] = member.read(info.file_size)
    if len(contents) < len(members):
        raise ValueError("two of its members have the same name")
    return contents


def _check_members(contents: dict[str, bytes], size: int) -> None:
    """Raise an error if members, or arrays in them, take more memory than is allowed, or are used more than once."""
    unpacked = sum(map(_unpacked_size, contents.values()))
    if unpacked > _most_bytes(size):
        raise ValueError(f"its {size} bytes unpack to {unpacked}, in layers, which rkhs.save never writes")
    for name, content in contents.items():
        _check_array(name, content)
        if content.startswith(_ARCHIVE):
            inner = ZipFile(io.BytesIO(content))
            for member, array in _read_members(inner, inner.infolist(), size).items():
                _check_array(f"{name}/{member}", array)
    # A member that several objects refer to would be loaded once for each of them.
    owners: dict[str, Any] = {}
    todo = [json.loads(contents.get("schema.json", b"{}"))]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            file, owner = node.get("file"), node.get("__id__")
            if isinstance(file, str) and file in contents and owners.setdefault(file, owner) != owner:
                raise ValueError(f"several objects refer to {file}")
            todo += node.values()
        elif isinstance(node, list):
            todo += node


def _check_array(name: str, content: bytes) -> None:
    """Raise an error if the header of an array does not fit its size, since NumPy would allocate by the header."""
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
    """Return the size of a member in bytes, including its own members if it is an archive."""
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
    """Return the hash of all members, in the order of their names, and of the note without its checksum."""
    digest = hashlib.sha256(json.dumps(note, sort_keys=True).encode())
    for name in sorted(contents):
        digest.update(b"\0" + name.encode() + b"\0" + hashlib.sha256(contents[name]).digest())
    return digest.hexdigest()
