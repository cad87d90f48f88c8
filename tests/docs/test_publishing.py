"""What a stranger finds: one version everywhere, links that lead somewhere, papers to cite, words of the style page."""

import ast
import inspect
import re
import tomllib
from operator import attrgetter
from pathlib import Path

import pytest

import rkhs

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


@pytest.mark.every
@pytest.mark.parametrize("kind", WORDS)
def test_words_of_the_style_page(kind):
    pattern = re.compile(WORDS[kind])
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


RECIPE = (ROOT / "recipe" / "recipe.yaml").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_one_version():
    version = PROJECT["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"Version {version}." in (ROOT / "docs" / "citation.md").read_text()
    newest = re.search(r"^## (\d\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest[1] == version
    assert f'\n  version: "{version}"\n' in RECIPE


def test_the_conda_recipe_has_the_same_dependencies():
    """`make dist` builds it."""
    wanted = [line.replace(">=", " >=") for line in (f"python{PROJECT['requires-python']}", *PROJECT["dependencies"])]
    assert re.findall(r"^    - (.*)$", RECIPE.partition("\n  run:\n")[2].partition("\n\n")[0], re.MULTILINE) == wanted


def test_the_papers_are_cited():
    text = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^    year: (\d+)$", text, re.MULTILINE) == ["2013", "2006", "2007"]


def test_links_of_files_that_are_read_outside_of_the_site():
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md"):
        for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / name).read_text()):
            assert "://" in link or (ROOT / link).exists(), f"{name}: {link}"


TABLES = (
    (ROOT / "docs" / "notation.md")
    .read_text()
    .partition("\n## The papers' words")[2]
    .partition("\n## The derivative")[0]
)


def test_the_papers_words_lead_to_code_tests_and_pages():
    for call in re.findall(r"`(rkhs\.[^`]+)`", TABLES):
        name, _, options = call.partition("(")
        found = attrgetter(name.removeprefix("rkhs."))(rkhs)
        keywords = [keyword.arg for keyword in ast.parse(f"f({options}" if options else "f()").body[0].value.keywords]
        inspect.signature(found).bind_partial(**dict.fromkeys(keywords))
    tested = re.findall(r"`(\w+/[\w/]+\.py)(?:::(\w+))?`", TABLES)
    for file, test in tested:
        assert f"def {test}" in (ROOT / file).read_text(), (file, test)
    for file, anchor in re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", TABLES):
        headings = re.findall(r"^#+ (.*)$", (ROOT / "docs" / file).read_text(), re.MULTILINE)
        anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert not anchor or anchor in anchors, (file, anchor)
    rows = [line for line in TABLES.splitlines() if re.match(r"\| .* \| `tests/|\| .*`tests/", line)]
    assert len(rows) >= 20
    assert all("](" in row for row in rows)


def test_a_reader_of_the_papers_finds_their_names_on_the_first_pages():
    for page in ("README.md", "docs/index.md"):
        for name in ("InvSVM", "LapSVM", "VirSVM"):
            assert name in (ROOT / page).read_text(), (page, name)


def test_python_versions_agree():
    least = PROJECT["requires-python"].removeprefix(">=")
    listed = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert listed[0] == least
    assert re.search(r"python: (\[.*\])", workflow)[1] == str(listed).replace("'", '"')
