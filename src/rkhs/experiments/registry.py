"""The experiments by name."""

from __future__ import annotations

from rkhs.experiments.digits import DIGITS
from rkhs.experiments.experiment import Experiment
from rkhs.experiments.local_average import LOCAL_AVERAGE
from rkhs.experiments.table1 import TABLE1, TABLE1_ROWS
from rkhs.experiments.theorems import THEOREMS
from rkhs.experiments.thin_plate import THIN_PLATE
from rkhs.experiments.two_moons import TWO_MOONS
from rkhs.experiments.two_moons_2006 import TWO_MOONS_2006
from rkhs.experiments.usps import USPS

ALL = (TWO_MOONS, TWO_MOONS_2006, TABLE1, TABLE1_ROWS, DIGITS, THIN_PLATE, USPS, LOCAL_AVERAGE, THEOREMS)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in ALL}


def experiment_of(name: str) -> Experiment:
    """The experiment of that name, or an error with the names that there are."""
    if name not in EXPERIMENTS:
        raise ValueError(f"There is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name]
