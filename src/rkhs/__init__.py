"""rkhs: kernel models that learn from anything linear you know about the function.

The public names stand in `__init__.pyi`.  Each is imported when it is first used (PEP 562), because NumPy, SciPy and
scikit-learn together take most of a second to import.  So are those of `rkhs.extend` and `rkhs.results`: a kernel that
uses `rkhs.extend.double` does not load the estimators.  `tools/structure.py` follows the stubs where it looks for
circles of imports.
"""

import ast
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def _homes(file: str) -> dict[str, str]:
    """Return the module of each name that the stub of a module imports."""
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom))
    return {name.name: node.module for node in imports for name in node.names if node.module is not None}


def _facade(module: dict[str, Any]) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a module, given its globals, whose names are in its stub."""
    home = _homes(module["__file__"])

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        found = module[name] = getattr(import_module(home[name]), name)
        return found

    return sorted(home), load, lambda: sorted({*module, *home})


_HOME = _homes(__file__)
__all__, _load, _names = _facade(globals())


def __getattr__(name: str) -> Any:
    """Import a public name, or a module, on first use."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("rkhs")
        except PackageNotFoundError:  # a copy of the source that was never installed
            return "0+unknown"
    if _HOME.get(name, "rkhs") != "rkhs":
        return _load(name)
    if find_spec(f"rkhs.{name}"):
        return import_module(f"rkhs.{name}")
    # tools such as doctest ask every module for names with an underscore
    modules = (import_module(f"rkhs.{module}") for module in __all__ if _HOME[module] == "rkhs" and name[:1] != "_")
    homes = [module.__name__ for module in modules if name in module.__all__]
    if homes:
        raise AttributeError(f"module 'rkhs' has no attribute {name!r}: use {homes[0]}.{name}")
    raise AttributeError(f"module 'rkhs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*_names(), "__version__"]
