"""Solutions as values: statuses with their remedies, the history of a race, and problems in files."""

from dataclasses import replace

import numpy as np
import pytest

import rkhs

X = np.random.default_rng(0).normal(size=(24, 2))
Y = np.where(X[:, 0] + 0.5 * X[:, 1] > 0, 1.0, -1.0)
LABELS = rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), target=Y, weight=10.0)
PROBLEM = rkhs.Problem(rkhs.Gaussian(1.0), [LABELS], rkhs.Constant())


def test_statuses_are_their_texts():
    Status = rkhs.results.Status
    assert all(status == str(status) == status.value for status in Status)
    assert [s for s in Status if not s.remedy] == [Status.CONVERGED, Status.LOCAL, Status.ABSOLUTE]
    assert rkhs.extend.Stopped("out of luck").status == Status.SOLVER


def test_the_history_of_a_race_is_drawn():
    found = PROBLEM.solve()
    assert {record.solver for record in found.history} <= set(rkhs.solvers.__all__)
    first, *others = found.history
    axes = replace(found, history=(replace(first, solver="another"), *others)).plot().axes_
    for ax, values in zip(axes, ("gap", "primal"), strict=True):
        drawn = {line.get_label(): line.get_ydata() for line in ax.lines}
        assert list(drawn["another"]) == [getattr(first, values)]
        assert sum(map(len, drawn.values())) == len(found.history)


def test_problems_in_files(tmp_path):
    PROBLEM.save(tmp_path / "problem.skops")
    assert rkhs.load_problem(tmp_path / "problem.skops").solve().primal == PROBLEM.solve().primal
    rkhs.save(PROBLEM.kernel, tmp_path / "kernel.skops")
    with pytest.raises(rkhs.exceptions.ModelFileError, match=r"a Gaussian, not a problem"):
        rkhs.load_problem(tmp_path / "kernel.skops")
