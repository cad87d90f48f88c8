"""The problem of the invariant machines, from their parameters and the training points."""

from __future__ import annotations

from typing import Any

import numpy as np

from rkhs.calculus.polynomials import Constant
from rkhs.estimators.options import as_kernel, check_number
from rkhs.estimators.sample import Sample
from rkhs.estimators.terms import invariance_terms
from rkhs.invariances.base import as_invariances, numbered
from rkhs.problem import Problem


def invariant_problem(machine: Any, sample: Sample) -> Problem:
    """1/2 |f|^2 + C sum_i loss(f(x_i); y_i) + nu sum_j invariance_loss(L_j(f)), plus a constant if it has one."""
    data = [machine._label_term(sample, machine.C)] if np.any(sample.labelled) else []
    if sample.slopes is not None:
        data.append(machine._slope_term(sample, machine.C))
    nu = check_number(machine.nu, "nu", or_zero=True)
    known = machine.invariance
    if sample.slopes is not None and isinstance(known, str) and known == "gradient":
        known = None  # slopes that were measured are not also said to be small
    invariances = as_invariances(known) if nu > 0 else ()
    invariances = numbered(invariances, getattr(machine, "feature_names_in_", None))
    others = invariance_terms(invariances, sample, nu, machine.invariance_loss, machine.epsilon)
    kernel = as_kernel(machine.kernel, machine.scale, sample.X)
    basis = Constant() if machine.fit_intercept else None
    where: dict[str, Any] = {name: getattr(machine, name, None) for name in ("device", "precision", "approximation")}
    return Problem(kernel, [*data, *others], basis, **where)
