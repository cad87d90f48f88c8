"""What must be so before anything is imported, and which cases the quick run takes.

`make test` is the quick run: it leaves out what is marked `slow`.  A parametrized test is one law over many cases, so
the quick run takes `CASES` of them and the others become slow here.  Which ones depends on the name of the test: over
all laws, every kernel, functional, loss and solver is seen many times.  Where one law must see each entry of a
registry, the test has the marker `every`:

    @pytest.mark.every             # all cases
    @pytest.mark.every("kernel")   # one case of each kernel; the other parameters rotate

The choice depends on nothing but names, so it is the same in every process and on every computer.

Tests pass in any order: `pytest --shuffle=1` runs the files, and the tests of each, in the random order of this seed.
"""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # scikit-learn's dispatch to tensors needs it

import signal
from functools import partial
from math import gcd
from random import Random
from zlib import crc32

import numpy as np
import pytest
from hypothesis import settings

CASES = 2  # of a parametrized test, in the quick run

settings.register_profile("quick", max_examples=5, derandomize=True, deadline=None, database=None)
settings.register_profile("all", parent=settings.get_profile("quick"), max_examples=25)


def pytest_addoption(parser):
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files, and the tests of each, in random order")


def pytest_report_header(config):
    return None if config.option.shuffle is None else f"random order: --shuffle={config.option.shuffle}"


def pytest_configure(config):
    settings.load_profile("quick" if "not slow" in config.option.markexpr else "all")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start what runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before pytest applies -m "not slow"
def pytest_collection_modifyitems(config, items):
    laws = {}
    for item in items:
        if hasattr(item, "callspec") and item.get_closest_marker("slow") is None:
            laws.setdefault(_test(item), []).append(item)
    for cases in laws.values():
        chosen = {case.nodeid for case in _quick(cases)}
        for case in cases:
            if case.nodeid not in chosen:
                case.add_marker(pytest.mark.slow)
    if config.option.shuffle is not None:
        items[:] = _shuffled(items, Random(config.option.shuffle))


def _shuffled(items, chance):
    """Return the tests in random order, but file by file, since the fixtures of a file are computed once."""
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    order = list(files.values())
    for tests in (order, *order):
        chance.shuffle(tests)
    return [item for tests in order for item in tests]


_starts = {}  # states of the generators of test modules after their import, by the id of the generator


def pytest_collection_finish(session):
    for generator in {id(one): one for item in session.items for one in _generators(item)}.values():
        _starts[id(generator)] = generator.bit_generator.state


def pytest_runtest_setup(item):
    """Start the generators of the module again: what a test draws does not depend on the tests before it."""
    for generator in _generators(item):
        generator.bit_generator.state = _starts[id(generator)]


def _generators(item):
    return [one for one in vars(getattr(item, "module", item)).values() if isinstance(one, np.random.Generator)]


def _test(item):
    """Return the node id of the test without its parameters."""
    return item.nodeid.partition("[")[0]


def _quick(cases):
    """Return the cases of one test that the quick run takes."""
    start, every = crc32(_test(cases[0]).encode()), cases[0].get_closest_marker("every")
    if every is None:
        return _spread(cases, start)
    if not every.args:
        return cases
    entries = {}
    for case in cases:
        entries.setdefault(tuple(_entry(case.callspec.params[name]) for name in every.args), []).append(case)
    return [like[(start + i) % len(like)] for i, like in enumerate(entries.values())]


def _spread(cases, start):
    """Return `CASES` cases, about evenly spaced.

    The step has no divisor in common with the number of cases: it meets no case twice, and in a product of several
    parameters all of them vary.
    """
    count = len(cases)
    if count <= CASES:
        return cases
    step = min((step for step in range(1, count) if gcd(step, count) == 1), key=lambda step: abs(step - count / CASES))
    return [cases[(start + i * step) % count] for i in range(CASES)]


def _entry(value):
    """Return what identifies a parameter; scikit-learn's checks are functions with the name of an estimator."""
    return f"{value.func.__name__} {value.keywords}" if isinstance(value, partial) else repr(value)


@pytest.fixture
def figures():
    """The pyplot module, without a screen; its figures are closed at the end."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    yield pyplot
    pyplot.close("all")


@pytest.fixture
def gram_products(monkeypatch):
    """A list that gets the shapes of a Gram operator and of what it is multiplied with, at each product."""
    from rkhs.results import Gram

    seen, product = [], Gram.__matmul__
    monkeypatch.setattr(Gram, "__matmul__", lambda G, v: seen.append((G.shape, v.shape)) or product(G, v))
    return seen


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
