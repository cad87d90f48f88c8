"""Words that `../shared/style.md` replaced do not come back into sources, messages and pages."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    *sorted((ROOT / "src").rglob("*.py")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if not {"generated", "auto_examples"} & set(page.parts)),
    *sorted((ROOT / "recipes").rglob("*.py")),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
]
# Old names and phrases, with the words that may stand around them in a sense of their own
WORDS = {
    "phrases": r"in the place of|so many|where that is|say two things|by no more than chance|what it is\b",
    "verbs of code": r"\btold\b|\btells\b",
    "metaphors": r"\b(ledger|scout|contest|ladder|rungs?|warehouse|promises?)\b",
    "machine": r"(?<!vector )(?<!feature )\bmachines?\b(?! epsilon| learning)",
    "knowledge": r"(?<!prior )(?<!Prior )\bknowledge\b",
    "old classes": r"\b(Represented|Judged|Ledger|Scout|Contest|Absorption|Descent|Splitting|Growth|Observed)\b",
    "old names": r"\b(warped|settle|judging|numbered|ladder|rungs|LaplacianSVC|class_proportions|knowledge_report_)\b",
    "spelling": r"labelled|neighbour|centre|colour|learnt|factoris|penalis|minimis|normalis|standardis|regularis",
}
# where old names stand on purpose
EXEMPT = {"_moved.py"}


@pytest.mark.parametrize("kind", WORDS)
def test_words_of_the_style_page(kind):
    pattern = re.compile(WORDS[kind])
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in FILES
        if path.name not in EXEMPT
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []
