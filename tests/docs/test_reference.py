"""The reference lists everything public, says in one plain line what each is for, and shows an example that runs."""

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import rkhs

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text()


def listed():
    module = "rkhs"
    for line in PAGE.splitlines():
        if found := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.fullmatch(r"   ([A-Za-z_.]+)", line):
            yield f"{module}:{found[1]}"


OBJECTS = list(listed())


def found(name):
    module, _, path = name.partition(":")
    thing = importlib.import_module(module)
    for part in path.split("."):
        thing = inspect.getattr_static(thing, part, None) or getattr(thing, part)
    return thing


@pytest.mark.parametrize("name", OBJECTS)
def test_purpose_and_example(name):
    text = inspect.getdoc(found(name))
    purpose = text.splitlines()[0]
    assert purpose.endswith(".")
    assert not re.search(r" = |_i\b|\|f\||\^", purpose), "a formula: the purpose comes first, in words"
    assert ">>>" in text, "no example"


def test_everything_public_is_listed():
    names = {name.partition(":")[2] for name in OBJECTS}
    public = {name for name in rkhs.__all__ if not isinstance(getattr(rkhs, name), ModuleType)}
    assert public - names == set()
    for module in (rkhs.plotting, rkhs.solvers):
        assert set(module.__all__) - names == set(), module.__name__
