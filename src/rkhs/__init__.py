"""rkhs: kernel models that learn from anything linear you know about the function.

The public names stand in `__init__.pyi`.  Each is imported when it is first used (PEP 562), because NumPy, SciPy and
scikit-learn together take most of a second to import.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from rkhs._lazy import facade, homes

_HOME = homes(__file__)
__all__, _load, _names = facade(globals())


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
