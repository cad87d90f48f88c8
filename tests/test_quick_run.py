"""The rule of conftest.py, and which warnings are errors."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import CASES, _quick, _spread
from rkhs.exceptions import warn


def cases(parameters, *names, marker=True):
    """Cases of a test with this marker, or with none."""
    every = SimpleNamespace(args=names) if marker else None
    return [
        SimpleNamespace(
            nodeid=f"test_file.py::test_law[{'-'.join(map(str, given.values()))}]",
            callspec=SimpleNamespace(params=given),
            get_closest_marker=lambda name: every,
        )
        for given in parameters
    ]


def product(*sizes):
    return [{"kernel": i, "d": j} for i in range(sizes[0]) for j in range(sizes[1])]


@pytest.mark.parametrize("count", [1, CASES, CASES + 1, 10, 500])
def test_a_few_cases_are_taken_each_once(count):
    for start in range(7):
        assert len(set(_spread(range(count), start))) == min(count, CASES)


def test_both_parameters_vary():
    chosen = [case.callspec.params for case in _quick(cases(product(8, 3), marker=False))]
    assert len({params["kernel"] for params in chosen}) == CASES
    assert len({params["d"] for params in chosen}) > 1


def test_every_entry_is_taken_and_the_other_parameter_rotates():
    chosen = [case.callspec.params for case in _quick(cases(product(6, 3), "kernel"))]
    assert [params["kernel"] for params in chosen] == list(range(6))
    assert set(Counter(params["d"] for params in chosen).values()) == {2}
    assert len(_quick(cases(product(6, 3)))) == 18


def warned_in(module, category=UserWarning):
    exec("import warnings; warnings.warn('', category)", {"__name__": module, "category": category})


@pytest.mark.parametrize(
    ("module", "category"),
    [("matplotlib.legend", UserWarning), ("numpy.linalg", RuntimeWarning), ("sklearn.utils.validation", FutureWarning)],
)
def test_warnings_of_other_packages_are_no_errors(module, category):
    warned_in(module, category)


@pytest.mark.every
@pytest.mark.parametrize(
    ("module", "category"),
    [
        ("rkhs._core.gram.blocks", RuntimeWarning),
        ("papers.run", UserWarning),
        ("click.core", UserWarning),
        ("sklearn.model_selection._validation", UserWarning),
    ],
)
def test_ours_are_errors_also_if_another_package_called_us(module, category):
    with pytest.raises(category):
        warned_in(module, category)


def test_warnings_that_point_to_a_test_are_errors():
    with pytest.raises(UserWarning, match="hello"):
        warn("hello")
    with pytest.raises(RuntimeWarning):
        np.log(np.array(-1.0))
