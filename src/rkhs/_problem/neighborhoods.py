"""Problems that are solved anew at each point, from the functionals near it (`rkhs.Neighbors`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rkhs._backend.arrays import EPS, to_numpy
from rkhs._finite.certificate import Certificate
from rkhs._finite.neighborhoods import LocalFunction, LocalPosterior
from rkhs._finite.representers import outputs_of
from rkhs._finite.solution import LOCAL, Solution
from rkhs._gram.blocks import check_bounded
from rkhs._problem.spaces import full_basis
from rkhs.functionals._base import stack
from rkhs.kernels._base import check_known


def local_solution(problem: Any, factors: Sequence[Any], seconds: float) -> Solution:
    """Return the solution of a problem by neighborhoods, for factors on the weights of terms or of their rows.

    Each of its values is that of an exactly solved problem.  They belong to different functions, so that J of the whole
    and its gap are not known; the certificate has NaN and infinity for them.
    """
    approximation, name = problem.approximation, type(problem.approximation).__name__
    check_known(problem.kernel)
    for term in problem.terms:
        check_bounded(problem.kernel, term.functional)
        if not term.loss.quadratic:
            raise ValueError(
                f"{name} needs squared losses, got {term.loss!r}: use rkhs.FourierGrid() or rkhs.Landmarks(p) for "
                "others, or leave outliers out."
            )
        if term.functional.sparse:
            raise TypeError(f"{name} searches for near points and needs dense ones: pass X.toarray().")
    if problem.device not in (None, "cpu") or (problem.null_space == "dropped" and problem.kernel.order):
        raise ValueError(f'{name} works on the CPU, and with null_space="kept": leave `device` and `null_space` out.')
    outputs, families, targets, weights = outputs_of(problem.terms), [], [], []
    for term, factor in zip(problem.terms, factors, strict=True):
        weight = to_numpy(term.weights())[:, 0].astype(float) * np.asarray(factor)
        used = np.flatnonzero(weight > 0)
        if len(used):
            target = to_numpy(term.target)[used].astype(float)
            shape = (len(used),) if outputs is None else (len(used), outputs)
            families.append(term.functional.take(used))
            targets.append(np.broadcast_to(target.reshape(len(used), -1), (len(used), outputs or 1)).reshape(shape))
            weights.append(weight[used])
    if not families:
        raise ValueError("All weights are zero, so that there are no functionals to learn from.")
    functionals = stack(families)
    double = functionals.like(np.zeros((0, functionals.dimension)))
    basis = full_basis(problem.kernel, problem.terms, problem.basis)
    noise = 1 / (2 * np.concatenate(weights))
    function = LocalFunction(problem.kernel, double, np.concatenate(targets), noise, basis, approximation)
    unknown, nothing = np.full(outputs or 1, np.nan), np.zeros(outputs or 1)
    certificate = Certificate(unknown, np.full(outputs or 1, np.inf), nothing, nothing, nothing, EPS)
    span = f"{name}: each value from {function.size} functionals near it"
    return Solution(function, certificate, LOCAL, name, 0, 0, seconds, (), span, source=LocalPosterior(function))
