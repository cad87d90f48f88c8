"""tools/structure.py counts code lines, and compares them with the ceilings of pyproject.toml."""

import ast

import structure

TEXT = '''"""A module.

More of it.
"""

# Why
def value(x):
    """Return x."""
    text = """one

    three"""
    return (  # a comment beside code
        x
    )
'''


def test_code_lines_are_neither_blank_nor_comments_nor_docstrings():
    assert structure.code_lines(TEXT) == 7


def test_a_count_above_its_ceiling_is_named(tmp_path):
    (tmp_path / "src/rkhs/_core/gram").mkdir(parents=True)
    (tmp_path / "src/rkhs/_core/gram/operator.py").write_text(TEXT)
    (tmp_path / "src/rkhs/__init__.py").write_text("x = 1\n")
    sizes = structure.measure(tmp_path)
    assert sizes == {"files of src/rkhs": 2, "src/rkhs": 8, "src/rkhs/.": 1, "src/rkhs/_core": 7}
    assert structure.over_budget(sizes, {"src/rkhs": 8, "files of src/rkhs": 2}) == []
    (message,) = structure.over_budget(sizes, {"src/rkhs": 7, "files of src/rkhs": 2})
    assert message.startswith("src/rkhs: 8 is more than the ceiling of 7 in [tool.rkhs.budget] of pyproject.toml.")


def test_circles_of_imports_include_those_for_type_checking_and_by_strings():
    sources = {
        "a.py": "from rkhs.b import one",
        "b.py": "if TYPE_CHECKING:\n    from rkhs.c import two",
        "c.py": "def f():\n    import_module('rkhs.e')",
        "e.py": "def f():\n    from rkhs import a",
        "d.py": "from rkhs.a import three",
    }
    trees = {structure.SOURCE / name: ast.parse(text) for name, text in sources.items()}
    assert structure.circles(trees) == [{"rkhs.a", "rkhs.b", "rkhs.c", "rkhs.e"}]


def test_private_imports_of_applications_and_of_tests():
    text = "from rkhs._core.gram import gram\nfrom rkhs.maps._grid import Grid\nfrom rkhs.extend import Kernel"
    trees = {structure.SOURCE / name: ast.parse(text) for name in ("maps/_points.py", "kernels/_base.py")}
    assert structure.private_imports(trees) == ["maps/_points.py: rkhs._core.gram.gram"]
    assert structure.private_names(trees) == ["rkhs._core.gram.gram", "rkhs.maps._grid.Grid"]


def test_comments_for_tools_are_not_counted():
    assert structure.comment_lines("# u = G a\nu = G @ a  # beside\n# noqa: E501\n") == 1
    assert structure.over_budget({"comment lines": 1}, {"comment lines": 2})[0].startswith("comment lines: 1 is less")


def test_checks_of_the_type_of_a_space_outside_of_spaces():
    sources = {
        "spaces/_base.py": "class FiniteSpace: pass\nclass Own(FiniteSpace): pass\nisinstance(x, Own)",
        "solver.py": "isinstance(space, Own | int)\nisinstance(space, int)",
    }
    trees = {structure.SOURCE / name: ast.parse(text) for name, text in sources.items()}
    assert structure.checks_of_spaces(trees) == ["solver.py:1: isinstance(space, Own | int)"]
