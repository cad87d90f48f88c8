"""Every Python block of every page runs, one after the other, as a reader would type them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if BLOCK.search(page.read_text()) and "auto_examples" not in page.parts
)


@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    names = {"__name__": "page"}
    for found in BLOCK.finditer(text):
        before = text[: found.start(1)].count("\n")
        exec(compile("\n" * before + found.group(1), page, "exec"), names)  # line numbers are those of the page


def test_there_are_pages():
    assert "README.md" in PAGES
    assert "docs/extend/loss.md" in PAGES
