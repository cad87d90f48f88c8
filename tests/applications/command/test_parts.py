"""Test the parts of the command: samples, slopes, and the words and intervals of a comparison."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import rkhs
from rkhs._command.comparison import OutOfFold, PairedDifference
from rkhs._command.effects import slopes
from rkhs._command.learning import Examples


def test_a_sample_keeps_rare_classes_and_some_unlabeled_rows():
    y = np.array(["a"] * 900 + ["b"] * 6 + [""] * 300)
    points = Examples(pd.DataFrame({"row": np.arange(len(y))}), y, regression=False)
    some = points.sample(labeled=50, others=20)
    counts = some.counts()
    assert counts["b"] >= 5
    assert 45 <= counts["a"] <= 55
    assert len(some.y) - some.labeled.sum() == 20
    assert len(set(some.features["row"])) == len(some.y)
    assert_array_equal(some.y, y[some.features["row"]])
    assert len(points.sample(1000, 300).y) == len(y)


def held_out(right):
    truth = np.array(["a"] * len(right))
    return OutOfFold(truth, np.where(right, "a", "b"), np.array(["a", "b"]))


@pytest.mark.every
@pytest.mark.parametrize(
    ("ours", "plain", "verdict", "sentence"),
    [
        (
            100,
            50,
            "better",
            "The model is better than a plain SVM by 50.0 ± 5.0 points: 0.0 % errors, compared with 50",
        ),
        (
            51,
            50,
            "no clear difference",
            "There is no clear difference between the model and a plain SVM (1.0 ± 1.0 points): 49.0 %",
        ),
        (
            50,
            50,
            "no clear difference",
            "There is no clear difference between the model and a plain SVM (0.0 ± 0.0 points): 50.0 %",
        ),
        (
            50,
            100,
            "worse",
            "The model is worse than a plain SVM by 50.0 ± 5.0 points: 50.0 % errors, compared with 0.0",
        ),
    ],
)
def test_words_follow_from_the_paired_difference(ours, plain, verdict, sentence):
    rows = np.arange(100)
    found = PairedDifference.between(held_out(rows < ours), held_out(rows < plain), "a plain SVM")
    assert found.verdict == verdict
    assert found.sentence().startswith(sentence)


def test_the_difference_of_root_mean_squares_and_its_standard_error():
    rng, truth = np.random.default_rng(0), np.zeros(4000)
    noise = rng.standard_normal((2, 200, 4000))
    gains = [
        PairedDifference.between(OutOfFold(truth, a), OutOfFold(truth, 1.2 * b), "x")
        for a, b in zip(*noise, strict=True)
    ]
    assert gains[0].gain == pytest.approx(gains[0].other_error - gains[0].error)
    assert np.std([one.gain for one in gains]) == pytest.approx(
        np.mean([one.standard_error for one in gains]), rel=0.15
    )


def test_intervals_hold_the_stated_share():
    rng = np.random.default_rng(0)
    truth, spread = rng.standard_normal(500), rng.uniform(0.5, 2.0, 500)
    own = OutOfFold(truth, truth + spread * rng.standard_normal(500), deviation=spread)
    interval = own.interval()
    inside = np.abs(own.predicted - truth) <= interval["factor"] * spread
    assert interval["of the deviation"]
    assert 0.9 <= inside.mean() <= 0.91
    assert interval["factor"] == pytest.approx(1.64, abs=0.15)
    assert OutOfFold(truth[:3], truth[:3] + 1).interval() == {"level": 0.9, "factor": 1.0, "of the deviation": False}


def test_slopes_of_smooth_and_of_rough_functions():
    f = rkhs.results.Function(rkhs.kernels.Linear(), rkhs.Evaluation([[2.0, -1.0]]), [1.0])  # f(x) = 2 x_0 - x_1
    assert slopes(f, np.eye(2), 0).tolist() == [[2.0], [2.0]]
    rough = rkhs.results.Function(rkhs.Matern(nu=0.5, scale=1.0), rkhs.Evaluation([[0.0]]), [1.0])  # exp(-|x|)
    assert slopes(rough, np.array([[1.0]]), 0).round(2).tolist() == [[-0.37]]
