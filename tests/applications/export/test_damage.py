"""Model files that are damaged, edited or made by somebody with bad intentions: always a ModelFileError."""

import io
import json
import struct
import tracemalloc
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZipFile

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import rkhs
from model_files import X, load_damaged, saved, without_checksum
from rkhs.export import _model_files as model_files, notes_of


@pytest.mark.parametrize("checksum", [True, False], ids=["checksum", "CRC only"])
def test_some_bytes_changed(tmp_path, checksum):
    ends = load_damaged(tmp_path, 60, seed=1, checksum=checksum)
    assert ends["refused"] > 50


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The members of a model file, and where it is."""
    path = tmp_path_factory.mktemp("model") / "model.skops"
    decisions = saved(path)
    with ZipFile(path) as archive:
        return path, decisions, {name: archive.read(name) for name in archive.namelist()}


def refused(path, match="", read=rkhs.load):
    """Check that a file is refused by name."""
    with pytest.raises(rkhs.exceptions.ModelFileError, match=rf"{path.name}.*{match}"):
        read(path)


def refused_at_once(path, match="", read=rkhs.load):
    """Check that a file is refused, and that no more than 50 MiB of memory are taken for it."""
    tracemalloc.start()
    refused(path, match, read)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50 * 2**20


def written(path: Path, contents: dict, method: int = ZIP_DEFLATED) -> Path:
    with ZipFile(path, "w", method) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path


def note_of(contents):
    return json.loads(contents["rkhs.json"])


def schema_of(contents):
    return json.loads(contents["schema.json"])


def deep(depth=200_000):
    return b"[" * depth + b"]" * depth


def without(note, *names):
    return {name: value for name, value in note.items() if name not in names}


def as_json(value):
    return json.dumps(value).encode()


def nested(schema, depth=100_000):
    """A schema whose content is a list in a list in a list .."""
    own = json.dumps({**schema, "content": "HERE"})
    layer = '{"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": ['
    return own.replace('"HERE"', layer * depth + "]}" * depth).encode()


# name -> members -> members of a file that must be refused by load
EDITED = {
    "note: deep": lambda c: {**c, "rkhs.json": deep()},
    "note: no JSON": lambda c: {**c, "rkhs.json": b"{"},
    "note: no text": lambda c: {**c, "rkhs.json": b"\xff\xfe\x00"},
    "note: a list": lambda c: {**c, "rkhs.json": b"[]"},
    "note: a number": lambda c: {**c, "rkhs.json": b"3"},
    "note: empty": lambda c: {**c, "rkhs.json": b""},
    "note: NaN": lambda c: {**c, "rkhs.json": as_json({**note_of(c), "notes": {"error": float("nan")}})},
    "note: infinite": lambda c: {**c, "rkhs.json": c["rkhs.json"].replace(b'"y"', b"-Infinity")},
    "note: version is a number": lambda c: {**c, "rkhs.json": as_json({**note_of(c), "rkhs": 0.1})},
    "note: no version": lambda c: {**c, "rkhs.json": as_json(without(note_of(c), "rkhs"))},
    "note: notes are a list": lambda c: {**c, "rkhs.json": as_json({**note_of(c), "notes": [1]})},
    "note: notes edited": lambda c: {**c, "rkhs.json": as_json({**note_of(c), "notes": {"target": "z"}})},
    "note: checksum of another kind": lambda c: {**c, "rkhs.json": as_json({**note_of(c), "sha256": {"a": 1}})},
    "note: missing": lambda c: without(c, "rkhs.json"),
    "schema: deep": lambda c: unsigned({**c, "schema.json": deep()}),
    "schema: deep lists": lambda c: unsigned({**c, "schema.json": nested(schema_of(c))}),
    "schema: no JSON": lambda c: unsigned({**c, "schema.json": b"{"}),
    "schema: a number": lambda c: unsigned({**c, "schema.json": b"3"}),
    "schema: a list": lambda c: unsigned({**c, "schema.json": b"[]"}),
    "schema: empty": lambda c: unsigned({**c, "schema.json": b"{}"}),
    "schema: missing": lambda c: unsigned(without(c, "schema.json")),
    "schema: no content": lambda c: {**c, "schema.json": as_json(without(schema_of(c), "content"))},
    "schema: unknown loader": lambda c: unsigned({**c, "schema.json": as_json({**schema_of(c), "__loader__": "X"})}),
    "schema: loader is a list": lambda c: unsigned({**c, "schema.json": as_json({**schema_of(c), "__loader__": []})}),
    "schema: content is a number": lambda c: unsigned({**c, "schema.json": as_json({**schema_of(c), "content": 7})}),
    "schema: protocol is a text": lambda c: unsigned({**c, "schema.json": as_json({**schema_of(c), "protocol": "1"})}),
    "arrays: missing": lambda c: unsigned({name: own for name, own in c.items() if not name.endswith(".npy")}),
    "arrays: empty": lambda c: unsigned({name: own if name.endswith("json") else b"" for name, own in c.items()}),
    "arrays: swapped": lambda c: {**c, **swapped([name for name in c if name.endswith(".npy")], c)},
    "arrays: huge": lambda c: unsigned(
        {n: own if n.endswith("json") else header((10**12, 10)) for n, own in c.items()}
    ),
    "another member": lambda c: {**c, "more.npy": b"1"},
}


def swapped(names, contents):
    """Each array by the name of the next."""
    return {name: contents[other] for name, other in zip(names, [*names[1:], names[0]], strict=True)}


def unsigned(contents):
    """Without a checksum, so that what is read is judged by itself."""
    return {**contents, "rkhs.json": as_json(without(note_of(contents), "sha256"))}


@pytest.mark.every
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("edit", EDITED.values(), ids=EDITED)
def test_edited_files_are_refused(edit, model, tmp_path):
    refused(written(tmp_path / "edited.skops", edit(model[2])))


def test_files_of_early_versions_have_no_checksum_and_are_read(model, tmp_path):
    path, decisions, _ = model
    old = tmp_path / "old.skops"
    old.write_bytes(path.read_bytes())
    without_checksum(old)
    assert_array_equal(rkhs.load(old).decision_function(X), decisions)
    assert notes_of(old)["notes"] == {"target": "y", "classes": ["a", "b"]}


@pytest.mark.every
@pytest.mark.parametrize("size", [0, 1, 100, 0.5, 0.99, -1])
def test_files_that_are_cut_off_are_refused(size, model, tmp_path):
    data = model[0].read_bytes()
    path = tmp_path / "cut.skops"
    path.write_bytes(data[: int(size * len(data)) if isinstance(size, float) else size])
    for read in (rkhs.load, notes_of):
        refused(path, read=read)


def test_a_folder_and_nothing_are_no_model_files(tmp_path):
    for read in (rkhs.load, notes_of):
        with pytest.raises(rkhs.exceptions.ModelFileError, match="is a folder, not a model file"):
            read(tmp_path)
        with pytest.raises(rkhs.exceptions.ModelFileError, match="There is no file"):
            read(tmp_path / "nothing.skops")


@pytest.mark.parametrize("method", [ZIP_BZIP2, ZIP_LZMA])
def test_methods_that_save_does_not_use_are_refused(method, model, tmp_path):
    refused(written(tmp_path / "packed.skops", model[2], method), f"is compressed by method {method}")


def zeros(gibibytes: float) -> bytes:
    """A member that is stated, and unpacks, to so much."""
    return bytes(int(gibibytes * 2**30))


@pytest.mark.parametrize("name", ["more.npy", "rkhs.json", "schema.json"])
def test_a_file_that_unpacks_to_very_much_is_refused_at_once(name, model, tmp_path):
    """100 MiB here, which zip to 0.1 MB; nothing of it is unpacked, so 4 GiB take no longer."""
    path = written(tmp_path / "bomb.skops", {**unsigned(model[2]), name: zeros(0.1)})
    assert path.stat().st_size < 2**20
    for read in (rkhs.load, notes_of) if name == "rkhs.json" else (rkhs.load,):
        refused_at_once(path, r"bytes unpack to \d+, more than \d+ \(64 MiB, or", read=read)


def test_a_file_that_lies_about_its_sizes_is_refused_at_once(model, tmp_path):
    """No more is unpacked than the directory says."""
    path = written(tmp_path / "bomb.skops", {**unsigned(model[2]), "more.npy": zeros(0.2)})
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<L", int(0.2 * 2**30)), struct.pack("<L", 1000)))
    refused_at_once(path)


def npz(arrays, method=ZIP_DEFLATED):
    """What scipy.sparse.save_npz writes, with bytes of our choice."""
    buffer = io.BytesIO()
    with ZipFile(buffer, "w", method) as archive:
        for name, content in arrays.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def sparse(data):
    return npz({"data": data, "shape": npy(np.array([1, 1])), "format": npy(np.array(b"csr"))})


def header(shape, descr="<f8"):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


LONG = 10 * 2**20  # numbers, 80 MiB


# name -> the kind of member to replace, and what takes its place
BOMBS = {
    "packed in layers": (".npz", lambda: sparse(header((LONG,)) + bytes(8 * LONG))),
    "archive as an array": (".npy", lambda: npz({"data": header((LONG,)) + bytes(8 * LONG)})),
    "header of an array": (".npy", lambda: header((LONG,)) + bytes(24)),
    "header of one entry": (".npy", lambda: header((1,), f"|V{8 * LONG}") + bytes(3)),
    "header within an archive": (".npz", lambda: sparse(header((LONG,)) + bytes(24))),
}


@pytest.fixture(scope="module")
def with_a_matrix(tmp_path_factory):
    """The members of a file of functionals with a sparse matrix."""
    path = tmp_path_factory.mktemp("matrix") / "model.skops"
    rkhs.save(rkhs.results.Function(rkhs.Gaussian(1.0), rkhs.functionals.GraphDifference(X, [[0, 1]]), [1.0]), path)
    with ZipFile(path) as archive:
        return unsigned({name: archive.read(name) for name in archive.namelist()})


@pytest.mark.parametrize(("suffix", "bomb"), BOMBS.values(), ids=BOMBS)
def test_no_layer_of_a_file_unpacks_to_very_much(suffix, bomb, with_a_matrix, tmp_path):
    """Neither archives within archives, nor headers that promise more than there is, nor copies."""
    name = next(name for name in with_a_matrix if name.endswith(suffix))
    path = written(tmp_path / "model.skops", with_a_matrix | {name: bomb()})
    assert path.stat().st_size < 2e6
    refused_at_once(path)


def test_a_member_that_stands_for_many_objects_is_refused(tmp_path):
    """Each of them would be a copy of it: here of a megabyte."""
    rkhs.save([np.zeros(2**17)], tmp_path / "model.skops")
    with ZipFile(tmp_path / "model.skops") as archive:
        contents = unsigned({name: archive.read(name) for name in archive.namelist()})
    schema = schema_of(contents)
    schema["content"] = [{**schema["content"][0], "__id__": k} for k in range(100)]
    refused(written(tmp_path / "model.skops", {**contents, "schema.json": as_json(schema)}), "several objects refer to")


@pytest.mark.parametrize(
    "L",
    [rkhs.functionals.Average(np.zeros((1, 10**5, 1))), rkhs.Evaluation(np.zeros((3, 10**4)))],
    ids=["sparse matrix", "array"],
)
def test_zeros_are_stored_so_that_they_can_be_loaded(L, tmp_path, monkeypatch):
    """Zeros would be packed a thousandfold, as a whole and within a file: `load` bounds what both layers unpack to."""
    monkeypatch.setattr(model_files, "_MOST_BYTES", 2**14)
    f = rkhs.results.Function(rkhs.Gaussian(1.0), L, np.ones(L.size))
    rkhs.save(f, tmp_path / "model.skops")
    x = np.full((1, L.dimension), 0.01)
    assert_array_equal(rkhs.load(tmp_path / "model.skops")(x), f(x))


def test_two_members_of_one_name_are_refused(model, tmp_path):
    path = written(tmp_path / "twice.skops", unsigned(model[2]))
    with ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("schema.json", model[2]["schema.json"])
    refused(path, "two of its members have the same name")


@pytest.mark.every
@pytest.mark.parametrize("notes", [{"error": float("nan")}, {"array": np.zeros(2)}, {"set": {1}}, {(1, 2): 3}])
def test_notes_that_are_no_json_are_refused_and_the_old_file_stays(notes, tmp_path):
    path = tmp_path / "model.skops"
    rkhs.save(rkhs.Gaussian(), path)
    before = path.read_bytes()
    with pytest.raises(rkhs.exceptions.ModelFileError, match="The notes cannot be written as JSON"):
        rkhs.save(rkhs.Gaussian(), path, notes=notes)
    assert path.read_bytes() == before
