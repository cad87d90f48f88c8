"""The reader of exported JSON files, as the guide's page prints it."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "export.md"
(READER,) = re.findall(r"```python\n(import json\n.*?)```", PAGE.read_text(), re.DOTALL)
NAMES = {}
exec(READER, NAMES)
read = NAMES["read"]
