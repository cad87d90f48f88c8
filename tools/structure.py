"""Count what the structure of the package costs a reader, and compare its size with the budget.

    python tools/structure.py           # sizes, circles of imports, checks of types, from the source
    python tools/structure.py --walk    # also the files and functions that four typical jobs enter
    python tools/structure.py --check   # fail where a number is above its ceiling (part of `make check`)

*Code lines* are the lines that are neither blank nor comments nor docstrings; *comment lines* hold nothing but a
comment, which is not for a tool.  The budget is the table `[tool.rkhs.budget]` of `pyproject.toml`: ceilings that are
lowered, never raised, and a floor of the comment lines.  A module is *private* if a part of its name starts with an
underscore.  A *private import of an application* is a name that a room of `APPLICATIONS` imports from a private module
of another room; `export` is left out, whose exceptions import-linter lists.  A *private name in tests* is one that
tests import from the package, and a *patch* one that they replace.
Circles count imports in functions, for type checking, by strings given to `import_module`, and through `rkhs`,
`rkhs.extend` and `rkhs.results`, whose stubs say where names are defined.
A *private helper with one caller* is a function
or method whose name starts with one underscore and occurs once more in the package besides its definition.  A *function
of one statement* has nothing but one statement after its docstring; overloads, protocols and abstract methods are left
out.  A *check of the type of a space* is an `isinstance` outside of `spaces` with a subclass of `FiniteSpace` or
`Approximation`.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "rkhs"
APPLICATIONS = ["_command", "acquisition", "ase", "counts", "export", "geometry", "images", "maps"]
APPLICATIONS += ["molecules", "plotting", "preprocessing", "shapes", "surfaces", "tables"]
FLOORS = {"comment lines"}  # counts that must not fall
FOR_TOOLS = re.compile(r"#\s*(noqa|type:|pragma|ruff|fmt|mypy)")
LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)

WALK = """
import sys, os
entered = set()
def profile(frame, event, arg):
    if event == "call" and "/src/rkhs/" in frame.f_code.co_filename:
        entered.add((frame.f_code.co_filename, frame.f_code.co_qualname, frame.f_code.co_firstlineno))
import numpy as np, rkhs
{prepare}
{job}  # a first time, for the imports
sys.setprofile(profile)
try:
    {job}
finally:
    sys.setprofile(None)
named = [one for one in entered if not one[1].endswith(">")]  # neither lambdas nor comprehensions
print(len({{file for file, _, _ in entered}}), "files,", len(named), "functions")
"""

JOBS = {
    "README's 8 x 8 problem": (
        "x = np.linspace(0, 1, 8)[:, None]",
        "rkhs.Problem(rkhs.Gaussian(scale=0.3), [rkhs.Term(rkhs.Evaluation(x), rkhs.Squared(), target=x[:, 0] ** 2, "
        "weight=10.0)]).solve()",
    ),
    "hinge + gradients at 60 points": (
        "rng = np.random.default_rng(0); X = rng.normal(size=(60, 2)); y = np.where(X[:, 0] > 0, 1.0, -1.0)",
        "rkhs.Problem(rkhs.Gaussian(scale=1.0), [rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), target=y), "
        "rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1)], basis=rkhs.Constant()).solve()",
    ),
    "InvariantClassifierCV().fit, 200 x 64": (
        "from sklearn.datasets import load_digits; X, y = load_digits(return_X_y=True); X, y = X[:200], y[:200]",
        "rkhs.InvariantClassifierCV().fit(X, y)",
    ),
    "rkhs fit churn.csv": (
        "import tempfile, pathlib; folder = pathlib.Path(tempfile.mkdtemp()); os.chdir(folder); "
        "from rkhs._command.commands import app; app(['sample', 'churn.csv'], standalone_mode=False)",
        "app(['fit', 'churn.csv', '--target', 'churn', '--force'], standalone_mode=False)",
    ),
}


def main() -> None:
    """Print the table, or compare with the budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--walk", action="store_true", help="run four jobs and count what they enter")
    parser.add_argument("--check", action="store_true", help="only compare with the ceilings")
    arguments = parser.parse_args()
    sizes = measure(ROOT)
    texts = {file: file.read_text() for file in sorted(SOURCE.rglob("*.py"))}
    trees = {file: ast.parse(text) for file, text in texts.items()}
    tests = {file: ast.parse(file.read_text()) for file in sorted((ROOT / "tests").rglob("*.py"))}
    of_applications = {file: tree for file, tree in tests.items() if "applications" in file.parts}
    lists = {
        "circles of imports": [" ".join(sorted(circle)) for circle in circles(trees)],
        "checks of the type of a space": checks_of_spaces(trees),
        "private imports of applications": private_imports(trees),
        "private names in tests": private_names(tests),
        "private names in tests of applications": private_names(of_applications),
        "patches in tests": patches(tests),
    }
    functions = [node for tree in trees.values() for node in _functions(tree)]
    sizes["comment lines"] = sum(map(comment_lines, texts.values()))
    sizes["longest function"] = max(
        len(code.intersection(range(node.lineno, (node.end_lineno or node.lineno) + 1)))
        for code, tree in ((_code(texts[file]), tree) for file, tree in trees.items())
        for node in _functions(tree)
    )
    if arguments.check:
        settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
        counts = sizes | {name: len(found) for name, found in lists.items()}
        excess = over_budget(counts, settings["tool"]["rkhs"]["budget"])
        sys.exit("\n".join(excess) or 0)
    for name, size in sizes.items():
        print(f"{name:40s} {size:>7,d}")
    print()
    words = Counter(re.findall(r"[A-Za-z_]\w*", "\n".join(texts.values())))
    private = [node for node in functions if re.match(r"_[^_]", node.name)]
    classes = Counter(node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    rows = {
        "lines": sum(text.count("\n") for text in texts.values()),
        "files under 60 lines": sum(text.count("\n") < 60 for text in texts.values()),
        "functions and methods": len(functions),
        "functions of one statement": sum(map(_single, functions)),
        "private helpers": len(private),
        "private helpers with one caller": sum(words[node.name] == 2 for node in private),
        "numeric module constants": sum(len(_constants(tree)) for tree in trees.values()),
        "class names defined more than once": sum(count > 1 for count in classes.values()),
        **{name: len(found) for name, found in lists.items()},
    }
    for name, count in rows.items():
        print(f"{name:40s} {count:>7,d}")
    for name, found in lists.items():
        print(f"\n{name}", *found, sep="\n    ")
    if arguments.walk:
        print(f"\n{'files and functions entered':40s}")
        for name, (prepare, job) in JOBS.items():
            code = WALK.format(prepare=prepare, job=job)
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            print(f"{name:40s} {done.stdout.strip().splitlines()[-1] if done.returncode == 0 else done.stderr[-500:]}")


def measure(root: Path) -> dict[str, int]:
    """Return the code lines of each folder of the package and of the tests, their sums, and the package's files."""
    sizes: Counter[str] = Counter()
    for whole in ("src/rkhs", "tests"):
        for file in sorted((root / whole).rglob("*.py")):
            folder = file.relative_to(root / whole).parts[:-1][:1]
            lines = code_lines(file.read_text())
            sizes[whole] += lines
            sizes["/".join((whole, *(folder or (".",))))] += lines
            sizes["files of src/rkhs"] += whole == "src/rkhs"
    return dict(sorted(sizes.items()))


def over_budget(sizes: dict[str, int], budget: dict[str, int]) -> list[str]:
    """Return a message for each count that exceeds its ceiling."""
    return [
        f"{name}: {sizes[name]:,d} is more than the ceiling of {most:,d} in [tool.rkhs.budget] of pyproject.toml. "
        "What needs more room makes it: remove a form of something that exists twice."
        for name, most in budget.items()
        if name not in FLOORS and sizes[name] > most
    ] + [
        f"{name}: {sizes[name]:,d} is less than {budget[name]:,d} in [tool.rkhs.budget] of pyproject.toml. The formula "
        "of a step stands beside the step."
        for name in FLOORS & set(budget)
        if sizes[name] < budget[name]
    ]


def comment_lines(text: str) -> int:
    """Return the number of lines that hold nothing but a comment, and one that is not for a tool."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token for token in tokens if token.type == tokenize.COMMENT]
    return sum(one.line.lstrip().startswith("#") and not FOR_TOOLS.match(one.string) for one in comments)


def is_private(module: str | None) -> bool:
    """Return whether a module of the package, or one of its packages, has a name with an underscore."""
    return module is not None and module.startswith("rkhs.") and "._" in module


def private_imports(trees: dict[Path, ast.Module]) -> list[str]:
    """Return the names that applications import from private modules of other rooms, as "file: module.name"."""
    rooms = {file: file.relative_to(SOURCE).parts[0].removesuffix(".py") for file in trees}
    return [
        f"{file.relative_to(SOURCE)}: {module}.{name}"
        for file, tree in trees.items()
        if rooms[file] in set(APPLICATIONS) - {"export"}
        for module, name in _named(tree)
        if is_private(module) and module.split(".")[1] != rooms[file]
    ]


def private_names(tests: dict[Path, ast.Module]) -> list[str]:
    """Return the private names of the package that tests import, each once."""
    named = {one for tree in tests.values() for one in _named(tree) if one[0].split(".")[0] == "rkhs"}
    return sorted(f"{module}.{name}" for module, name in named if is_private(module) or name.startswith("_"))


def patches(tests: dict[Path, ast.Module]) -> list[str]:
    """Return where tests replace attributes by `monkeypatch.setattr` or `mock.patch`."""
    return [
        f"{file.name}:{node.lineno}"
        for file, tree in tests.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("setattr", "patch")
        if ast.unparse(node) in ("monkeypatch.setattr", "mock.patch")
    ]


def _named(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names (module, name) that a file imports; strings given to `import_module` are modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and _called(node) == "import_module" and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                package, _, name = first.value.rpartition(".")
                yield package, name


def _called(node: ast.Call) -> str:
    """Return the name of the function or method that is called, "" if it has none."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def code_lines(text: str) -> int:
    """Return the number of lines that are neither blank nor comments nor docstrings."""
    return len(_code(text))


@cache
def _code(text: str) -> set[int]:
    """Return the numbers of these lines."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            documented |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in LAYOUT]
    return {line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - documented


def checks_of_spaces(trees: dict[Path, ast.Module]) -> list[str]:
    """Return where files outside of `spaces` call `isinstance` with a space or an approximation."""
    spaces = {"FiniteSpace", "Approximation"}
    defined = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    while more := {node.name for node in defined if {getattr(base, "id", "") for base in node.bases} & spaces} - spaces:
        spaces |= more
    return [
        f"{file.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)}"
        for file, tree in trees.items()
        if "spaces" not in file.relative_to(SOURCE).parts[:-1]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"
        if {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)} & spaces
    ]


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Yield all functions whose body says something: no overloads, no abstract methods, no protocols."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "Protocol" for base in node.bases):
            for child in node.body:
                if isinstance(child, ast.FunctionDef):
                    child.decorator_list.append(ast.Name("abstractmethod"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            marks = {getattr(mark, "id", getattr(mark, "attr", "")) for mark in node.decorator_list}
            if not marks & {"abstractmethod", "overload"}:
                yield node


def _single(node: ast.FunctionDef) -> bool:
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return len(body) <= 1


def _constants(tree: ast.Module) -> list[str]:
    """Return the names of a module's constants that hold numbers, alone or in a tuple, list or dict."""
    found = []
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            numbers = any(isinstance(c, ast.Constant) and type(c.value) in (int, float) for c in ast.walk(node.value))
            found += [name for name in names if numbers and name.isupper()]
    return found


def circles(trees: dict[Path, ast.Module]) -> list[set[str]]:
    """Return the sets of modules that import each other, also in functions, for type checking or by `import_module`."""
    modules = {_module(file): tree for file, tree in trees.items()}
    stubs = {_module(file): _homes(file.with_suffix(".pyi")) for file in trees if file.with_suffix(".pyi").exists()}
    edges = {name: _imported(tree, modules, stubs) - {name} for name, tree in modules.items()}
    reach = {name: _reachable(name, edges) for name in modules}
    found: list[set[str]] = []
    for name in modules:
        circle = {other for other in reach[name] if name in reach[other]}
        if len(circle) > 1 and circle not in found:
            found.append(circle)
    return found


def _module(file: Path) -> str:
    parts = ["rkhs", *file.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _homes(stub: Path) -> dict[str, str]:
    """Return the module of each name that a stub lists: a module beside it imports the name on first use."""
    nodes = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom) and node.module]
    return {alias.name: str(node.module) for node in nodes for alias in node.names}


def _imported(tree: ast.Module, modules: dict[str, ast.Module], stubs: dict[str, dict[str, str]]) -> set[str]:
    """Return the modules in which the names that a module imports are defined."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                home = stubs.get(node.module, {}).get(alias.name, node.module)
                found.add(whole if whole in modules else home)
        elif isinstance(node, ast.Call) and _called(node) == "import_module":
            found |= {text.value for text in node.args if isinstance(text, ast.Constant)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & set(modules)


def _reachable(name: str, edges: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    todo = [name]
    while todo:
        for other in edges[todo.pop()]:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


if __name__ == "__main__":
    main()
