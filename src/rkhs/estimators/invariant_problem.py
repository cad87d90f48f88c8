"""The problem of the invariant machines, from their parameters and the training points."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from rkhs._backend.arrays import like, to_numpy
from rkhs._calculus.polynomials import Constant
from rkhs._finite.term import Term
from rkhs.estimators.agop import DIAGONAL, check_metric, learnt_map
from rkhs.estimators.options import as_kernel, check_number
from rkhs.estimators.sample import Sample
from rkhs.estimators.scales import FOLDS, kernel_by_folds, learns_scale, tuned_kernel
from rkhs.estimators.terms import invariance_terms
from rkhs.estimators.units import Units
from rkhs.invariances.base import as_invariances, numbered
from rkhs.kernels import Kernel
from rkhs.problem import Problem

FEWEST, HELD = 20, 5  # labels for a learnt metric, one of so many of which is held out


def invariant_problem(machine: Any, sample: Sample) -> Problem:
    """1/2 |f|^2 + C sum_i loss(f(x_i); y_i) + nu mean_i sum_j invariance_loss(L_ij(f)), with a constant if it has one.

    Weights are in the units of the kernel and of the functionals (`units`); leaves that of the kernel as `_unit`.
    """
    return _problem(machine, sample, kernel_of(machine, sample))


def kernel_of(machine: Any, sample: Sample) -> Kernel:
    """The kernel as it is given, or as the words for its scale and metric say, learnt from the labels of a sample."""
    metric = getattr(machine, "metric", None)
    check_metric(metric)
    if metric is not None:
        return _in_learnt_metric(machine, sample, metric == DIAGONAL)
    if not learns_scale(machine):
        return as_kernel(machine.kernel, machine.scale, sample.X)
    if machine.scale == FOLDS:
        return kernel_by_folds(machine, sample, partial(_problem, machine))
    return tuned_kernel(machine, _data(machine, sample.apart()))


def _in_learnt_metric(machine: Any, sample: Sample, diagonal: bool) -> Kernel:
    """The kernel k(Tx, Ty), T learnt from the slopes of f; leaves T'T as `metric_`."""
    sample = sample.apart()
    own = np.flatnonzero(sample.labelled)
    if len(own) < FEWEST:
        raise ValueError(
            f"metric={machine.metric!r} holds out a fifth of the labels to see whether it helps, and there are only "
            f"{len(own)}: it needs {FEWEST}. Leave `metric` out."
        )
    held = np.random.default_rng(0).permutation(own)[: len(own) // HELD]
    labelled = sample.labelled.copy()
    labelled[held] = False
    part, judged = replace(sample, labelled=labelled), sample.take(np.sort(held))
    term = machine._label_term(judged, 1.0)
    weight, target = to_numpy(term.weights())[:, 0], to_numpy(term.target).reshape(len(held), -1)

    def in_metric(rows: Sample, T: Any) -> Kernel:
        return as_kernel(machine.kernel, machine.scale, rows.X @ like(T.T, rows.X)) @ T

    def learn(T: Any) -> Any:
        problem = _problem(machine, part, in_metric(part, T))
        return problem.solve(machine.solver, tol=machine.tol, verbose=machine.verbose or None).function

    def losses(f: Any) -> Any:
        values = to_numpy(f(judged.X)).reshape(target.shape)
        return weight * np.sum(to_numpy(term.loss.value(values, target)), axis=1)

    T = learnt_map(sample.X, learn, losses, diagonal)
    machine.metric_ = T.T @ T
    return in_metric(sample, T)


def _data(machine: Any, sample: Sample) -> list[Term]:
    """What was observed, its weights in the units of a kernel with values of variance one."""
    data = [machine._label_term(sample, machine.C)] if np.any(sample.labelled) else []
    return data if sample.slopes is None else [*data, machine._slope_term(sample, machine.C)]


def _known(machine: Any, sample: Sample, units: Units) -> list[Term]:
    """What is known besides."""
    nu = check_number(machine.nu, "nu", or_zero=True)
    known = machine.invariance
    if sample.slopes is not None and isinstance(known, str) and known == "gradient":
        known = None  # slopes that were measured are not also said to be small
    invariances = [one for one in as_invariances(known) if one.promise is None] if nu > 0 else []
    at_points = numbered(invariances, getattr(machine, "feature_names_in_", None))
    return invariance_terms(at_points, sample, units, nu, machine.invariance_loss, machine.epsilon)


def _problem(machine: Any, sample: Sample, kernel: Kernel) -> Problem:
    """With a kernel."""
    units = Units.of(kernel, sample)
    machine._unit = units.variance
    terms = [*map(units.data, _data(machine, sample)), *_known(machine, sample, units)]
    basis = Constant() if machine.fit_intercept else None
    where: dict[str, Any] = {name: getattr(machine, name, None) for name in ("device", "precision", "approximation")}
    return Problem(kernel, terms, basis, **where)
