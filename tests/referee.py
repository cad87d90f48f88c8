"""The referee of shapes: values of claims by functionals of the library, and a dense search for the least one."""

import numpy as np

import rkhs


def values_of(claim, f, P):
    """L_x f - bound at the rows of P, of a Hessian its least eigenvalue."""
    if not claim.jointly:
        found = rkhs.Derivative(P, axes=list(claim.axes))(f) if claim.axes else f(P)
        return claim.sign * found - claim.bound
    entries = [[rkhs.Derivative(P, axes=[j, k])(f) for k in claim.jointly] for j in claim.jointly]
    return np.linalg.eigvalsh(claim.sign * np.moveaxis(np.array(entries), 2, 0))[:, 0]


def least_found(claim, f, box, random, count=3000, rounds=10):
    """The least value at random points, many on the faces of the box, and then near the lowest ones."""
    n = box.shape[1]
    P = random.uniform(*box, (count, n))
    where = random.integers(3, size=(count // 2, n))
    P[: count // 2] = np.choose(where, [np.broadcast_to(box[0], where.shape), box[1], P[: count // 2]])
    values, reach = values_of(claim, f, P), 0.1 * (box[1] - box[0])
    for _ in range(rounds):
        lowest = P[np.argsort(values)[:20]]
        near = np.clip(np.repeat(lowest, 10, axis=0) + reach * random.uniform(-1, 1, (len(lowest) * 10, n)), *box)
        P, reach = np.concatenate([lowest, near]), 0.6 * reach
        values = values_of(claim, f, P)
    return float(values.min())


def rounding_of(claim, f, box):
    """What rounding may add to a value of L_x f that is a sum over representers, term by term."""
    sizes = np.sqrt(rkhs.gram(f.kernel, f.functionals).diagonal())
    middle = box.mean(axis=0, keepdims=True)
    entries = [(j, k) for j in claim.jointly for k in claim.jointly] or [claim.axes]
    norms = [rkhs.Derivative(middle, axes=list(axes)) if axes else rkhs.Evaluation(middle) for axes in entries]
    norm = np.sqrt(sum(rkhs.gram(f.kernel, one).diagonal()[0] for one in norms))
    return (f.functionals.size + 64) * np.finfo(np.float64).eps * norm * float(np.abs(f.coefficients) @ sizes)
