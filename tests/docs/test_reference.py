"""The reference lists every public name once, with numpydoc docstrings whose examples run as doctests."""

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest
from numpydoc.validate import validate

import rkhs

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text()
MODULES = ["rkhs", *(f"rkhs.{name}" for name in rkhs.__all__ if isinstance(getattr(rkhs, name), ModuleType))]

# of numpydoc.validate: what every docstring needs, and what functions and classes need besides
EVERYWHERE = {"GL08", "SS03", "PR01", "PR02", "PR04", "PR07", "PR08", "PR09", "RT03", "RT04", "RT05"}


# objects that methods return and users do not create, whose fields are documented as attributes; and base classes
RETURNED = {*rkhs.results.__all__, "Monitor", "Expansion", "BaseKernelEstimator", "Classifier", "Regressor"}
# methods of kernels that the library calls; `docs/extend/kernel.md` documents them
INTERNAL = {"radial_derivatives", "gaussians", "blurred_tangent"}


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
        if not inspect.isclass(thing) or issubclass(thing, Exception) or name.startswith("rkhs.extend."):
            continue  # methods of base classes are documented for whoever overrides them
        for attribute, value in vars(thing).items():
            overrides = any(hasattr(base, attribute) for base in thing.__bases__)  # whose documentation applies
            if (
                not attribute.startswith("_")
                and attribute not in INTERNAL
                and inspect.isfunction(value)
                and not overrides
            ):
                yield f"{name}.{attribute}"


def complaints(name, codes):
    if name.rpartition(".")[2] in RETURNED:
        codes = codes - {"PR01"}
    found = validate(name)["errors"]
    return [f"{code}: {text}" for code, text in found if code in codes]


@pytest.mark.every
@pytest.mark.parametrize("name", OBJECTS)
def test_docstring_of_a_public_name(name):
    text = inspect.getdoc(resolved(name))
    purpose = text.splitlines()[0]
    assert not re.search(r" = |_i\b|\|f\||\^", purpose), "a formula: the purpose comes first, in words"
    assert complaints(name, EVERYWHERE | {"RT01"}) == []
    assert ">>>" in text, "no example"


@pytest.mark.every
@pytest.mark.parametrize("name", list(methods()))
def test_docstring_of_a_public_method(name):
    assert complaints(name, EVERYWHERE) == []


def test_everything_public_is_listed_once():
    assert len(set(OBJECTS)) == len(OBJECTS)
    objects = {id(resolved(name)) for name in OBJECTS}
    assert len(objects) == len(OBJECTS), "one object under two names"
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            thing = getattr(module, name)
            if not isinstance(thing, ModuleType) and name not in ("Array", "Vector", "Matrix"):  # types in annotations
                assert id(thing) in objects, f"{module.__name__}.{name}"


def test_purposes_differ():
    """A reader must be able to tell two names apart by their lines on the page."""
    purposes = [inspect.getdoc(resolved(name)).split("\n")[0] for name in OBJECTS]
    assert len(set(purposes)) == len(purposes)
