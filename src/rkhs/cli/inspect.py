"""`rkhs inspect`: what is in a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rkhs.saving import notes_of


def run(model: Path) -> dict[str, Any]:
    """The notes in the file; nothing of the model is built, so files of any version can be looked at."""
    found = notes_of(model)
    notes = found.pop("notes", {})
    return {"file": str(model), "size in bytes": model.stat().st_size, **found, **notes}
