"""The archive that a model file is: members, and the entry `rkhs.json` with notes and a checksum of all of it.

Nothing is believed of a file that is read: neither its sizes, nor its methods, nor its JSON, nor the headers of its
arrays.  Members are arrays in NumPy's format, or archives of such arrays (sparse matrices): what all layers unpack to
is bounded together, and an array has as many bytes as its header says, before any array is made.  Damaged bytes make
zipfile, zlib and json raise a dozen kinds of errors; all of them become a `ModelFileError` that names the file.
"""

from __future__ import annotations

import hashlib
import io
import json
from math import prod
from pathlib import Path
from typing import Any, NoReturn
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from rkhs.errors import ModelFileError

NOTE, SCHEMA = "rkhs.json", "schema.json"  # ours, and that of skops
ARCHIVE = b"PK"  # how archives begin
HEADERS: dict[Any, Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
CHECKSUM = "sha256"
LARGEST, TIMES = 2**26, 50  # a file unpacks to at most 64 MiB, or 50 times its own size


def packed(members: bytes, note: dict[str, Any]) -> bytes:
    """An archive of skops with a note added to it.

    What would unpack to more than a reader allows, such as an array of zeros, is stored as it is.  Archives within it
    are not packed themselves, so that there is one layer to unpack.
    """
    try:
        text = json.dumps(note, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"The notes cannot be written as JSON ({error}): use texts and finite numbers.") from error
    with ZipFile(io.BytesIO(members)) as source:
        contents = {info.filename: _loose(source.read(info)) for info in source.infolist()}
    note = {**json.loads(text), CHECKSUM: _checksum(contents, json.loads(text))}
    contents[NOTE] = json.dumps(note, indent=2).encode()
    data = _zipped(contents, ZIP_DEFLATED)
    small = sum(map(_unpacked_size, contents.values())) <= _most(len(data))
    return data if small else _zipped(contents, ZIP_STORED)


def note_in(path: str | Path) -> dict[str, Any]:
    """The note in a file: who wrote it, and notes; the rest is not looked at."""
    _check_there(path)
    with Path(path).open("rb") as file:
        try:
            return _note(ZipFile(file), Path(path).stat().st_size)
        except Exception as error:
            _refuse(path, error)


def opened(path: str | Path) -> tuple[dict[str, Any], bytes]:
    """The note in a file, and its members as an archive that is not packed: they are what was written to it."""
    _check_there(path)
    data = Path(path).read_bytes()
    try:
        archive = ZipFile(io.BytesIO(data))
        note, contents = _note(archive, len(data)), _contents(archive, len(data))
        _check_arrays(contents, len(data))
    except Exception as error:
        _refuse(path, error)
    stated = note.pop(CHECKSUM, None)  # files of early versions have none
    del contents[NOTE]
    if stated is not None and stated != _checksum(contents, note):
        raise ModelFileError(f"{path} is damaged: it is not what was written to it. Save the model again.")
    return note, _zipped(contents, ZIP_STORED)


def _check_there(path: str | Path) -> None:
    if Path(path).is_dir():
        raise ModelFileError(f"{path} is a folder, not a model file.")
    if not Path(path).is_file():
        raise ModelFileError(f"There is no file {path}.")


def _note(archive: ZipFile, size: int) -> dict[str, Any]:
    info = archive.getinfo(NOTE)
    _check_sizes([info], size)
    note = json.loads(_unpacked(archive, info), parse_constant=_no_number)
    if not isinstance(note, dict) or not isinstance(note.get("rkhs"), str):
        raise ValueError(f"its {NOTE} names no version of rkhs")
    if not isinstance(note.setdefault("notes", {}), dict):
        raise ValueError(f"the notes in its {NOTE} are no table of names")
    return note


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"its {NOTE} has {name}, which is no number")


def _contents(archive: ZipFile, size: int) -> dict[str, bytes]:
    """All members by name; their checksums are looked at by zipfile."""
    _check_sizes(archive.infolist(), size)
    contents = {info.filename: _unpacked(archive, info) for info in archive.infolist()}
    if len(contents) < len(archive.infolist()):
        raise ValueError("two of its members have the same name")
    return contents


def _unpacked(archive: ZipFile, info: ZipInfo) -> bytes:
    """A member, of which no more is unpacked than it states; `ZipFile.read` would unpack all and then cut it off."""
    with archive.open(info) as member:
        return member.read(info.file_size)


def _check_sizes(members: list[ZipInfo], size: int) -> None:
    """Refuse what unpacks to too much, before it is unpacked."""
    for info in members:
        if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise ValueError(f"{info.filename} is packed by method {info.compress_type}, which rkhs.save does not use")
    unpacked = sum(info.file_size for info in members)
    if unpacked > _most(size):
        raise ValueError(
            f"its {size} bytes unpack to {unpacked}, more than {_most(size)} (64 MiB, or {TIMES} times its size), "
            "which rkhs.save never writes"
        )


def _check_arrays(contents: dict[str, bytes], size: int) -> None:
    """Refuse arrays that take more memory than the members, with the archives among them, are allowed to unpack to."""
    unpacked = sum(map(_unpacked_size, contents.values()))
    if unpacked > _most(size):
        raise ValueError(f"its {size} bytes unpack to {unpacked}, in layers, which rkhs.save never writes")
    for name, content in contents.items():
        _check_header(name, content)
        if content.startswith(ARCHIVE):
            inner = ZipFile(io.BytesIO(content))
            _check_sizes(inner.infolist(), size)
            for info in inner.infolist():
                _check_header(f"{name}/{info.filename}", _unpacked(inner, info))
    _check_references(json.loads(contents.get(SCHEMA, b"{}")), contents)


def _unpacked_size(content: bytes) -> int:
    """The bytes of a member, and those of the members that it has if it is an archive."""
    if not content.startswith(ARCHIVE):
        return len(content)
    return len(content) + sum(info.file_size for info in ZipFile(io.BytesIO(content)).infolist())


def _check_header(name: str, content: bytes) -> None:
    """Refuse an array whose header asks for other memory than its bytes fill: NumPy would allocate it first."""
    if not content.startswith(np.lib.format.MAGIC_PREFIX):
        return
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    if version not in HEADERS:
        raise ValueError(f"{name} is an array in version {version} of NumPy's format, which rkhs.save does not use")
    shape, _, dtype = HEADERS[version](stream)
    if prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ValueError(f"the header of {name}, of shape {shape}, does not fit its {len(content)} bytes")


def _check_references(schema: Any, contents: dict[str, bytes]) -> None:
    """Refuse a member that stands for several objects: each of them would be a copy of it."""
    owners: dict[str, Any] = {}
    todo = [schema]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            file = one.get("file")
            if (
                isinstance(file, str)
                and file in contents
                and owners.setdefault(file, one.get("__id__")) != one.get("__id__")
            ):
                raise ValueError(f"{file} stands for several objects")
            todo += one.values()
        elif isinstance(one, list):
            todo += one


def _loose(content: bytes) -> bytes:
    """A member; an archive with all of its members stored as they are."""
    if not content.startswith(ARCHIVE):
        return content
    with ZipFile(io.BytesIO(content)) as inner:
        return _zipped({info.filename: inner.read(info) for info in inner.infolist()}, ZIP_STORED)


def _most(size: int) -> int:
    return max(LARGEST, TIMES * size)


def _zipped(contents: dict[str, bytes], method: int) -> bytes:
    buffer = io.BytesIO()
    with ZipFile(buffer, "w", compression=method) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _checksum(contents: dict[str, bytes], note: dict[str, Any]) -> str:
    """Of all members in the order of their names, and of the note without its checksum."""
    digest = hashlib.sha256(json.dumps(note, sort_keys=True).encode())
    for name in sorted(contents):
        digest.update(b"\0" + name.encode() + b"\0" + hashlib.sha256(contents[name]).digest())
    return digest.hexdigest()


def _refuse(path: str | Path, error: Exception) -> NoReturn:
    reason = str(error).strip("'\"") or type(error).__name__
    raise ModelFileError(
        f"{path} is not a model file of rkhs, or is damaged ({reason}): save models with rkhs.save or `rkhs fit`."
    ) from error
