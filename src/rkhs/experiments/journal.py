"""Results as JSON lines, one appended when a cell is done, so that a killed run loses the cells in flight only."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rkhs.experiments.experiment import Record, as_record, key

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def finished(out: Path, name: str) -> list[Record]:
    """The records of NAME.json, which a run leaves when all its cells are done; none if there is no such file."""
    path = out / f"{name}.json"
    if not path.exists():
        return []
    try:
        return [as_record(line) for line in json.loads(path.read_bytes())["records"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} holds no results ({error}): run `rkhs reproduce {name} --resume` again.") from error


@dataclass(frozen=True)
class Journal:
    """The file of an experiment's results.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     journal = Journal(Path(folder) / "name.jsonl")
    ...     journal.append(Record({"l": 30}, {"error": 0.25}, 1.5))
    ...     journal.records()
    {'{"l": 30}': Record(cell={'l': 30}, result={'error': 0.25}, seconds=1.5)}
    """

    path: Path

    def records(self) -> dict[str, Record]:
        """What is done, by cell.  A last line that was cut off by a kill is removed from the file."""
        if not self.path.exists():
            return {}
        text = self.path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            os.truncate(self.path, len(whole))
        records = [self._record(line, number) for number, line in enumerate(whole.split(b"\n")[:-1], 1)]
        return {key(record.cell): record for record in records}

    def _record(self, line: bytes, number: int) -> Record:
        try:
            return as_record(json.loads(line))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(
                f"{self.path}, line {number} is no result of a cell ({line[:30]!r}): delete that line, and its cell is "
                "computed again."
            ) from error

    def append(self, record: Record) -> None:
        """Add a line, and see to it that it is on the disk; if it cannot be written whole, nothing of it stays."""
        line = (json.dumps(asdict(record)) + "\n").encode()
        with self.path.open("ab", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            try:
                while line:
                    line = line[file.write(line) :]
                os.fsync(file.fileno())
            except BaseException:
                file.truncate(size)
                raise

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Refuse a second run that writes to the same file while the first does, where the system has locks."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            if fcntl is not None:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    raise BlockingIOError(
                        f"{self.path} is being written by another run: give another --out."
                    ) from error
            try:
                yield
            finally:
                if not self.path.stat().st_size:
                    self.path.unlink()
