"""Results as JSON lines, one appended when a cell is done, so that a killed run loses the cells in flight only."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from rkhs.experiments.experiment import Record, as_record, key


def finished(out: Path, name: str) -> list[Record]:
    """The records of NAME.json, which a run leaves when all its cells are done; none if there is no such file."""
    path = out / f"{name}.json"
    return [as_record(line) for line in json.loads(path.read_text())["records"]] if path.exists() else []


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
        records = [as_record(json.loads(line)) for line in whole.decode().splitlines()]
        return {key(record.cell): record for record in records}

    def append(self, record: Record) -> None:
        """Add a line, and see to it that it is on the disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(record)) + "\n")
            file.flush()
            os.fsync(file.fileno())
