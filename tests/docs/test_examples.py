"""Every example of the gallery runs, without a warning."""

import runpy
from pathlib import Path

import matplotlib as mpl
import pytest

mpl.use("agg")
EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("plot_*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, capsys):
    import matplotlib.pyplot as plt

    runpy.run_path(str(example), run_name="__main__")
    assert plt.get_fignums(), "an example without a picture"
    plt.close("all")


def test_there_are_examples():
    assert len(EXAMPLES) >= 6
