"""The reference lists every public name once, with numpydoc docstrings whose examples run as doctests."""

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest
from numpydoc.validate import Validator, validate

import rkhs

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text()
MODULES = ["rkhs", *(f"rkhs.{name}" for name in rkhs.__all__ if isinstance(getattr(rkhs, name), ModuleType))]

# of numpydoc.validate: what every docstring needs, and what functions and classes need besides
EVERYWHERE = {"GL08", "SS03", "PR01", "PR02", "PR04", "PR07", "PR08", "PR09", "RT03", "RT04", "RT05"}


def listed():
    module = "rkhs"
    for line in PAGE.splitlines():
        if found := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.fullmatch(r"   ([A-Za-z_.]+)", line):
            yield f"{module}.{found[1]}"


OBJECTS = list(listed())


def resolved(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def methods():
    """Return the public methods of public classes, each once."""
    for name in OBJECTS:
        thing = resolved(name)
        if not inspect.isclass(thing) or issubclass(thing, Exception):
            continue
        for attribute, value in vars(thing).items():
            if not attribute.startswith("_") and inspect.isfunction(value) and inspect.getdoc(value):
                yield f"{name}.{attribute}"


def complaints(name, codes):
    found = validate(name)["errors"]
    return [f"{code}: {text}" for code, text in found if code in codes]


@pytest.mark.parametrize("name", OBJECTS)
def test_docstring_of_a_public_name(name):
    text = inspect.getdoc(resolved(name))
    purpose = text.splitlines()[0]
    assert not re.search(r" = |_i\b|\|f\||\^", purpose), "a formula: the purpose comes first, in words"
    assert complaints(name, EVERYWHERE | {"RT01"}) == []
    assert ">>>" in text, "no example"


@pytest.mark.parametrize("name", list(methods()))
def test_docstring_of_a_public_method(name):
    assert complaints(name, EVERYWHERE - {"GL08"}) == []


def test_everything_public_is_listed_once():
    assert len(set(OBJECTS)) == len(OBJECTS)
    objects = {id(resolved(name)) for name in OBJECTS}
    assert len(objects) == len(OBJECTS), "one object under two names"
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            thing = getattr(module, name)
            if not isinstance(thing, ModuleType):
                assert id(thing) in objects, f"{module.__name__}.{name}"


def test_purposes_differ():
    """A reader must be able to tell two names apart by their lines on the page."""
    purposes = [Validator.load_obj(name).__doc__.split("\n")[0] for name in OBJECTS]
    assert len(set(purposes)) == len(purposes)
