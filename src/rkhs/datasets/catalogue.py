"""Which data sets there are, how large they are, and where else they can be had.

A file NAME.npz holds X and y, or X_train, y_train, X_test, y_test where the split is part of the data.  OpenML has
some of them in the same form; the shape below is checked, so that another version of a set is refused.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Points and features of a data set, and its number at OpenML if that has it in this form.

    `positive` are the labels there that mean +1; all others are -1.  None keeps the labels, as integers plus
    `offset`.  `train` are the first rows, if the data come split.
    """

    points: int
    features: int
    openml: int | None = None
    positive: tuple[str, ...] | None = None
    offset: int = 0
    train: int | None = None


CATALOGUE: dict[str, Source] = {
    # Table 1 of Zhang et al. 2013: the SSL book's sets, and UCI's
    "bci": Source(400, 117),
    "g241c": Source(1500, 241),
    "g241n": Source(1500, 241),
    "usps_ssl": Source(1500, 241),
    "heart": Source(270, 13, 53, ("present",)),
    "bupa": Source(345, 6),
    "australian": Source(690, 14, 40981, ("1",)),
    "ionosphere": Source(351, 34, 59, ("g",)),
    "sonar": Source(208, 60, 40, ("Mine",)),
    # Table 1 of Walder and Chapelle 2007: Raetsch's
    "raetsch_banana": Source(5300, 2, 1460, ("2",)),
    "raetsch_breast_cancer": Source(263, 9),
    "raetsch_diabetes": Source(768, 8, 37, ("tested_positive",)),
    "raetsch_flare_solar": Source(144, 9),
    "raetsch_german": Source(1000, 20),
    "raetsch_heart": Source(270, 13, 53, ("present",)),
    "raetsch_image": Source(2086, 18),
    "raetsch_ringnorm": Source(7400, 20, 1496, ("2",)),
    "raetsch_splice": Source(2991, 60),
    "raetsch_thyroid": Source(215, 5, 40682, ("2", "3")),
    "raetsch_twonorm": Source(7400, 20, 1507, ("2",)),
    "raetsch_waveform": Source(5000, 21),
    # digits
    "mnist": Source(70000, 784, 554, train=60000),
    "usps_digits": Source(9298, 256, 41082, offset=-1, train=7291),
}
NAMES = tuple(CATALOGUE)
