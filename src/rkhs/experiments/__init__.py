"""The papers' tables and figures: `rkhs reproduce NAME`, or `python -m rkhs.experiments NAME`."""

from rkhs.experiments.experiment import Experiment, Record
from rkhs.experiments.registry import EXPERIMENTS, experiment_of
from rkhs.experiments.runner import run

__all__ = ["EXPERIMENTS", "Experiment", "Record", "experiment_of", "run"]
