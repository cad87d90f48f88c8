"""Choosing the functions of an approximation, from terms that are in memory (or a sample of them that is)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Matrix, like, taken, to_numpy
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.feature_function import function_of
from rkhs._finite.summary import Summary
from rkhs._finite.term import Term
from rkhs._gram.approximation import Approximation, FourierFeatures, Landmarks
from rkhs._gram.blocks import check_bounded
from rkhs._gram.fourier_span import draw
from rkhs._gram.landmark_span import LandmarkSpan
from rkhs._gram.span import Span, in_double
from rkhs.functionals import DirectionalDerivative, Evaluation, Functional, Gradient, stack
from rkhs.kernels.base import Kernel
from rkhs.problem.seeding import spread_out
from rkhs.solvers.spans.summed import Summed

SAMPLE = 10  # points that are looked at for each landmark
PILOT = 4  # functionals of each term in the first problem, for each landmark


def choose(
    kernel: Kernel,
    terms: Sequence[Term],
    basis: FunctionSpace | None,
    approximation: Approximation,
) -> Span:
    """The span in which an approximation looks for f."""
    for term in terms:
        check_bounded(kernel, term.functional)
    if isinstance(approximation, FourierFeatures):
        random = np.random.default_rng(_seed(approximation.random_state))
        prototype = terms[0].functional.prototype
        return draw(kernel, int(prototype.shape[1]), approximation.count, random).moved(in_double(prototype[:0]))
    p = approximation.functionals
    if isinstance(p, Functional):
        return _with_room(LandmarkSpan(kernel, p))
    if sum(term.size for term in terms) <= p:
        return LandmarkSpan(kernel, stack([term.functional for term in terms]))
    if p <= _null_size(kernel, terms):
        raise _no_room(kernel, p, _null_size(kernel, terms))
    return _with_room(LandmarkSpan(kernel, _chosen(kernel, terms, basis, approximation, p)))


def _null_size(kernel: Kernel, terms: Sequence[Term]) -> int:
    """How many functions a conditionally positive definite kernel does not penalise; landmarks must be more."""
    return kernel.null_space.size(terms[0].functional.dimension) if kernel.order else 0


def _with_room(span: LandmarkSpan) -> LandmarkSpan:
    """The span, if the functions that the kernel does not penalise leave any others in it."""
    if len(span.constraints) and np.linalg.matrix_rank(span.constraints) >= span.size:
        raise _no_room(span.kernel, span.size, len(span.constraints))
    return span


def _no_room(kernel: Kernel, landmarks: int, size: int) -> ValueError:
    return ValueError(
        f"{landmarks} landmarks are too few for {kernel!r}: its null space, {kernel.null_space!r}, has {size} "
        f"functions, which must vanish on the landmarks. Take at least {size + 1}, and many more for a good "
        "approximation."
    )


def _chosen(
    kernel: Kernel, terms: Sequence[Term], basis: FunctionSpace | None, wanted: Landmarks, p: int
) -> Functional:
    """The functionals of small terms, values at chosen points, and derivatives at some of them."""
    random = np.random.default_rng(_seed(wanted.random_state))
    few: list[Functional] = []
    others: list[Term] = []
    for term in sorted(terms, key=lambda term: term.size):
        small = sum(family.size for family in few) + term.size <= p // 2
        few, others = ([*few, term.functional], others) if small else (few, [*others, term])
    left = p - sum(family.size for family in few)
    points = _points(others, SAMPLE * p, random)
    steep = any(term.functional.order for term in others) and kernel.smoothness(points.shape[1]) > 1
    most = max(left - 1 - _null_size(kernel, terms), 0) if kernel.order else left  # values tell polynomials apart
    slopes = min(round(wanted.derivatives * left), most) if steep else 0
    at = _selected(points, min(left - slopes, len(points)), wanted.selection, random)
    prototype = terms[0].functional.prototype
    values = [*few, Evaluation(like(at, prototype))] if len(at) else few
    if slopes == 0 or not values:
        return stack(values) if values else Evaluation(like(points[:p], prototype))
    anchors = _cycled(at if len(at) else points, left - len(at))
    directions = _directions(kernel, terms, basis, values, like(anchors, prototype), random)
    return stack([*values, DirectionalDerivative(like(anchors, prototype), directions)])


def _points(terms: Sequence[Term], most: int, random: np.random.Generator) -> Matrix:
    """Distinct points of the terms, at most so many of each."""
    arrays: dict[int, Array] = {}
    for term in terms:
        for part in term.functional.parts:
            arrays.setdefault(id(part.atoms.points), part.atoms.points)
    drawn = []
    for points in arrays.values():
        t = int(points.shape[0])
        rows = np.arange(t) if t <= most else np.sort(random.choice(t, most, replace=False))
        drawn.append(to_numpy(taken(points, rows)))
    together = np.unique(np.concatenate(drawn), axis=0)
    return together if len(together) <= most else random.choice(together, most, replace=False)


def _selected(points: Matrix, count: int, selection: str, random: np.random.Generator) -> Matrix:
    """Some of the points, the best first."""
    if count == 0:
        return points[:0]
    if selection == "random":
        return random.choice(points, count, replace=False)
    return points[spread_out(points, count, int(random.integers(2**31)))]


def _cycled(points: Matrix, count: int) -> Matrix:
    return points[np.arange(count) % len(points)]


def _directions(
    kernel: Kernel,
    terms: Sequence[Term],
    basis: FunctionSpace | None,
    values: list[Functional],
    anchors: Array,
    random: np.random.Generator,
) -> Array:
    """Along the gradient of a first f, in the span of the values and from some rows of each term; random beyond it."""
    span = LandmarkSpan(kernel, stack(values))
    most = PILOT * (span.size + int(anchors.shape[0]))
    outputs = next((term.outputs for term in terms if term.outputs is not None), None)
    some = [_some(term, most, random) for term in terms]
    found = Summed(Summary.of(span, basis, some, outputs)).solve(1.0)
    f = function_of(span, like(found.tau, anchors), basis, None if basis is None else like(found.basis, anchors))
    slopes = to_numpy(Gradient(anchors)(f))  # (d, n, outputs)
    d, n = anchors.shape
    chosen = slopes[np.arange(d), :, np.arange(d) % slopes.shape[2]]
    seen = np.unique(to_numpy(anchors), axis=0, return_index=True)[1]  # one direction a point is along the gradient
    sizes = np.linalg.norm(chosen, axis=1)
    lost = np.ones(d, dtype=bool)
    lost[seen] = sizes[seen] <= 1e-8 * sizes.max(initial=0.0)
    chosen[lost] = random.standard_normal((int(lost.sum()), n))
    return like(chosen / np.linalg.norm(chosen, axis=1, keepdims=True) * _length(kernel, n), anchors)


def _length(kernel: Kernel, dimension: int) -> float:
    """Of a direction, such that derivatives are about as large as values."""
    form = kernel.summands()[0][1].form(dimension)
    if form is None or form.linear is None:
        return 1.0
    return float(dimension**0.5 / np.linalg.norm(form.linear)) if form.linear.ndim == 1 else 1.0


def _some(term: Term, most: int, random: np.random.Generator) -> Term:
    """Some functionals in place of all, with weights to match, and kinks smoothed."""
    loss = term.loss if term.loss.smooth else term.loss.smoothed(1.0)
    if term.size <= most:
        return term.changed(loss=loss)
    rows = np.sort(random.choice(term.size, most, replace=False))
    weight = term.weight if isinstance(term.weight, float) else term.weight[rows]
    return Term(term.functional.take(rows), loss, to_numpy(term.target)[rows], weight * (term.size / most))


def _seed(random_state: Any) -> Any:
    """What NumPy's generators take, from what scikit-learn's do."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return random_state
