"""Import public names when they are first used (PEP 562): the stub beside a module says where each of them is defined.

So `rkhs.extend` has names of all floors, and importing it loads none of them: a kernel that uses `rkhs.extend.double`
does not load the estimators.  `tools/structure.py` follows the stubs when it looks for circles of imports.
"""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def homes(file: str) -> dict[str, str]:
    """Return the module of each name that the stub of a module imports."""
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom))
    return {name.name: node.module for node in imports for name in node.names if node.module is not None}


def facade(module: dict[str, Any]) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a module, given its globals, whose names are in its stub."""
    home = homes(module["__file__"])

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        found = module[name] = getattr(import_module(home[name]), name)
        return found

    return sorted(home), load, lambda: sorted({*module, *home})
