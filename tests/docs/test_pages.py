"""Every Python block of every page runs, one after the other, as a reader would type them; outputs are as printed.

A `text` block directly after a `python` block is what that one prints.  `console` blocks hold commands after "$ ":
those of `rkhs` are run, README's by a shell, and those of `make` and `pip` must name a target or an extra that there
is.  README and the user guide have no other kinds of blocks, so nothing in them is unchecked.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from rkhs._command.commands import app

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"\n\n {4,}(?![-*\d])\S")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if re.search(r"^```(python|console)$", page.read_text(), re.MULTILINE) and "auto_examples" not in page.parts
)
PLAIN = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if "auto_examples" not in page.parts
]
QUICK = ("README.md", "docs/extend/loss.md")  # `make test-all` runs the blocks of all pages
READ_BY_USERS = ["README.md", *(page for page in PAGES if page.startswith("docs/guide/"))]


def commands_of(page):
    blocks = FENCE.findall((ROOT / page).read_text())
    lines = [line for language, body in blocks if language == "console" for line in body.splitlines()]
    return [line[2:] for line in lines if line.startswith("$ ")]


def rkhs_commands(page):
    return [command for command in commands_of(page) if command.startswith("rkhs ")]


def follows_readme(page):
    """Whether the commands of a page begin with those of README; those of others follow the page's Python blocks."""
    first = rkhs_commands("README.md")
    return rkhs_commands(page)[: len(first)] == first


def succeed(command):
    within = CliRunner().invoke(app, shlex.split(command)[1:], env={"COLUMNS": "120"})
    assert within.exit_code == 0, f"{command}\n{within.stdout}\n{within.stderr}"


@pytest.mark.parametrize(
    "page", [page if page in QUICK else pytest.param(page, marks=pytest.mark.slow) for page in PAGES]
)
def test_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    page_module = ModuleType("page")  # importable, as __main__ is: model files refer to classes by name
    monkeypatch.setitem(sys.modules, "page", page_module)
    names = vars(page_module)
    printed, end = "", -1
    for found in FENCE.finditer(text):
        language, body = found.groups()
        if language == "python":
            before = text[: found.start(2)].count("\n")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile("\n" * before + body, page, "exec"), names)  # line numbers are those of the page
            printed = out.getvalue()
        elif language == "console" and not follows_readme(page):
            for command in (line[2:] for line in body.splitlines() if line.startswith("$ rkhs ")):
                succeed(command)
        elif language == "text" and not text[end + 1 : found.start()].strip() and end >= 0:
            assert_same(printed, body)
        end = found.end() if language == "python" else -1


@pytest.fixture(scope="module")
def readme(tmp_path_factory):
    """A folder in which the commands of README have run; other pages that begin with them go on there."""
    folder = tmp_path_factory.mktemp("readme")
    for command in rkhs_commands("README.md"):
        done = run(command, folder)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if rkhs_commands(page) and follows_readme(page)])
def test_commands_of_rkhs_on_a_page_run(page, readme):
    for command in rkhs_commands(page)[len(rkhs_commands("README.md")) :]:
        with contextlib.chdir(readme):
            succeed(command)


@pytest.mark.every
@pytest.mark.parametrize("page", PAGES)
def test_other_commands_of_a_page_are_known(page):
    for command in commands_of(page):
        if not command.startswith("rkhs "):
            check_named(command)


@pytest.mark.every
@pytest.mark.parametrize("page", READ_BY_USERS)
def test_nothing_in_what_users_read_is_unchecked(page):
    text = (ROOT / page).read_text()
    assert {language for language, _ in FENCE.findall(text)} <= {"python", "text", "console", ""} | DIRECTIVES
    prose = FENCE.sub("", text)
    assert not INDENTED.search(prose), "an indented block is not run: write ```python or ```console"


@pytest.mark.every
@pytest.mark.parametrize("page", PLAIN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_words_are_those_that_people_use(page):
    text = re.sub(r"`[^`]*`", "", FENCE.sub("", page.read_text()))
    for word, better in {
        r"\bbeside\b": "compared with, next to, besides",
        r"\basked about\b": "predicted",
        r"\[[ZLWR]\]": "the names of the authors",
    }.items():
        assert not re.search(word, text), f"{re.search(word, text)[0]}: write {better}"


def test_there_are_pages():
    assert "README.md" in PAGES
    assert "docs/extend/loss.md" in PAGES


DIRECTIVES = {"{toctree}"}


def run(command, folder):
    """In a shell, with the `rkhs` of this source."""
    door = f'rkhs() {{ "{sys.executable}" -m rkhs_command "$@"; }}'
    environment = os.environ | {"MPLBACKEND": "agg", "COLUMNS": "120"}
    return subprocess.run(
        ["sh", "-c", f"{door}\n{command}"], cwd=folder, capture_output=True, text=True, env=environment, timeout=3000
    )


def check_named(command):
    """A command that is not ours names a make target or extras that exist."""
    words = shlex.split(command)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), command
    elif words[:2] == ["pip", "install"]:
        name, _, extras = words[2].rstrip("]").partition("[")
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert name in (project["name"], "."), command
        assert set(extras.split(",")) - {""} <= set(project["optional-dependencies"]), command
    else:
        raise AssertionError(f"{command}: write it so that this test can check it")


def assert_same(printed, expected):
    """The same words, and numbers that agree to the digits that are shown."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", expected).split()
    for ours, shown in zip(NUMBER.findall(printed), NUMBER.findall(expected), strict=True):
        places = len(shown.partition("e")[0].partition(".")[2])
        exponent = int(shown.partition("e")[2] or 0)
        assert abs(float(ours) - float(shown)) <= 1.01 * 10.0 ** (exponent - places), (printed, expected)


@pytest.mark.every
@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/extend/")])
def test_extensions_import_the_public_modules_for_them_only(page):
    imported = set(re.findall(r"^(?:from|import) (rkhs[\w.]*)", (ROOT / page).read_text(), re.MULTILINE))
    assert imported <= {"rkhs", "rkhs.extend", "rkhs.testing"}
