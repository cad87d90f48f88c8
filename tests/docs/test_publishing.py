"""What a stranger finds: one version everywhere, links that lead somewhere, three papers to cite."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_one_version():
    version = PROJECT["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"Version {version}." in (ROOT / "docs" / "citation.md").read_text()
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest[1] == version


def test_the_papers_are_cited():
    text = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^    year: (\d+)$", text, re.MULTILINE) == ["2013", "2006", "2007"]


def test_links_of_files_that_are_read_outside_of_the_site():
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md"):
        for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / name).read_text()):
            assert "://" in link or (ROOT / link).exists(), f"{name}: {link}"


def test_python_versions_agree():
    least = PROJECT["requires-python"].removeprefix(">=")
    listed = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    assert listed[0] == least
    assert re.search(r"python: (\[.*\])", workflow)[1] == str(listed).replace("'", '"')
