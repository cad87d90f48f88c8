"""Run the examples of all docstrings of the installed package: `python tools/installed_examples.py`

An example that needs a package that is not installed, and what follows it in its docstring, is left out.
"""

import doctest
import importlib
import pkgutil
import sys
from typing import Any

import numpy
import scipy
import sklearn

import rkhs

OTHERS = ("rkhs._command", "rkhs._core.backend.fused")  # whole modules for the extra `cli` and for an accelerator
LEAST = 200  # docstrings of which fewer would mean that they are not found


class Runner(doctest.DocTestRunner):
    """Keep the names of docstrings that fail, and of those that need a package that is not installed."""

    def __init__(self) -> None:
        super().__init__(verbose=False, optionflags=doctest.FAIL_FAST)
        self.failed: set[str] = set()
        self.lacking: set[str] = set()

    def report_failure(self, out: Any, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        if example.exc_msg and "ImportError: " in got:  # instead of the error that is expected
            self.lacking.add(test.name)
        else:
            self.failed.add(test.name)
            super().report_failure(out, test, example, got)

    def report_unexpected_exception(
        self, out: Any, test: doctest.DocTest, example: doctest.Example, exc_info: Any
    ) -> None:
        if issubclass(exc_info[0], ImportError):
            self.lacking.add(test.name)
        else:
            self.failed.add(test.name)
            super().report_unexpected_exception(out, test, example, exc_info)


def main() -> None:
    """Run them; the exit status is 1 if one fails."""
    runner, count = Runner(), 0
    for found in pkgutil.walk_packages(rkhs.__path__, "rkhs."):
        if found.name.startswith(OTHERS):
            continue
        for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(found.name)):
            if test.examples:
                runner.run(test)
                count += 1
    run = count - len(runner.lacking)
    versions = ", ".join(f"{package.__name__} {package.__version__}" for package in (numpy, scipy, sklearn))
    print(f"{versions}: the examples of {run} of {count} docstrings run, {len(runner.failed)} of them fail")
    sys.exit(bool(runner.failed) or run < LEAST)


if __name__ == "__main__":
    main()
