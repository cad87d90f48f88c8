"""Every example and every recipe of the galleries runs, without a warning; recipes are short and complete."""

import ast
import runpy
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("agg")
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
RECIPES = sorted((ROOT / "recipes").glob("*/plot_*.py"))
# Half of the time of all of them; `make docs` runs them too, and fails where one does.
SLOW = {f"plot_{name}" for name in ("bayesian_optimization", "tomography", "ten_labels", "surface", "map")}


@pytest.mark.parametrize(
    "example",
    [pytest.param(path, marks=pytest.mark.slow) if path.stem in SLOW else path for path in EXAMPLES + RECIPES],
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_example_runs(example, capsys):
    import matplotlib.pyplot as plt

    runpy.run_path(str(example), run_name="__main__")
    assert plt.get_fignums(), "an example without a picture"
    plt.close("all")


@pytest.mark.every
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipe_is_short_and_complete(recipe):
    text = recipe.read_text(encoding="utf-8")
    for heading in ("What it costs", "When not to use it"):
        assert f"# {heading}\n# {'-' * len(heading)}\n" in text
    after_title = text.splitlines()[ast.parse(text).body[0].end_lineno :]
    code = [line for line in after_title if line.strip() and not line.startswith("#")]
    assert 10 <= len(code) <= 30


def test_there_are_examples():
    assert len(EXAMPLES) >= 6
    assert {path.stem for path in EXAMPLES} > SLOW
    assert len(RECIPES) >= 20
    assert len({path.stem for path in RECIPES}) == len(RECIPES)
