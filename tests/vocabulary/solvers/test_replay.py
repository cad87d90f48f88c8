"""Recorded steps: what is recorded does the same when it is played again, on a tape that stands in for a CUDA graph."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import rkhs
from rkhs._core.backend import memory
from rkhs.solvers import _conjugate_gradients

RNG = np.random.default_rng(0)
X = torch.from_numpy(RNG.standard_normal((40, 5)))
VALUES = torch.stack([torch.sin(X.sum(1)), torch.cos(X[:, 0]), X[:, 1] ** 2], 1)
LOOKS = {"aten._local_scalar_dense.default", "aten.nonzero.default", "aten.lift_fresh.default"}  # no graph has these


class Tape(TorchDispatchMode):
    """Keeps the operations of a step with their arrays, and runs them again on the same memory."""

    def __init__(self, step):
        super().__init__()
        self.operations = []
        with self:
            step()
        self.fresh = True  # recording a graph does not run it, but this did

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        assert str(operation) not in LOOKS, f"{operation} waits for the processor"
        out = operation(*args, **(kwargs or {}))
        self.operations.append((operation, args, kwargs or {}, out))
        return out

    def replay(self):
        if self.fresh:
            self.fresh = False
            return
        for operation, args, kwargs, out in self.operations:
            again = operation(*args, **kwargs)
            for old, new in zip(tree_leaves(out), tree_leaves(again), strict=True):
                if old.data_ptr() != new.data_ptr():
                    old.copy_(new)


@pytest.fixture
def tapes(monkeypatch):
    """Record on the CPU."""
    made = []

    def recorded(step):
        made.append(Tape(step))
        return made[-1]

    monkeypatch.setattr(memory, "_recorded", recorded)
    monkeypatch.setattr(_conjugate_gradients, "on_cpu", lambda array: False)
    return made


def problem(kernel, L):
    terms = [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), VALUES, 50.0), rkhs.Term(L, rkhs.Squared(), weight=0.5)]
    return rkhs.Problem(kernel, terms, basis=rkhs.Constant())


def test_a_step_is_taken_then_recorded_then_replayed(monkeypatch):
    count = torch.zeros(())
    runs = []

    def step():
        runs.append(1)
        count.add_(1)

    monkeypatch.setattr(memory, "_recorded", Tape)
    recorded = memory.Replay(step)
    for _ in range(7):
        recorded()
    assert count == 7
    assert len(runs) == 2


@pytest.mark.parametrize("landmarks", [0, 20])
@pytest.mark.parametrize("L", [rkhs.Gradient(X), rkhs.functionals.DirectionalDerivative(X, X[:, None, :])], ids=repr)
@pytest.mark.parametrize("kernel", [rkhs.Gaussian(2.0), rkhs.Gaussian([1.0, 2.0, 3.0, 2.0, 1.0])], ids=repr)
def test_conjugate_gradients_are_the_same_recorded(kernel, L, landmarks, tapes, monkeypatch):
    solver = rkhs.solvers.ConjugateGradients(landmarks=landmarks)
    found = problem(kernel, L).solve(solver, tol=1e-9)
    assert tapes
    monkeypatch.undo()
    plain = problem(kernel, L).solve(solver, tol=1e-9)
    assert found.status == plain.status == "converged"
    assert found.relative_gap <= 1e-9
    np.testing.assert_allclose(found.function(X), plain.function(X), rtol=0, atol=1e-4 * float(VALUES.abs().max()))


@pytest.mark.parametrize(
    ("kernel", "L"),
    [
        (rkhs.Matern(2.5, 2.0), rkhs.Gradient(X)),  # near points are looked for
        (rkhs.Gaussian(2.0), rkhs.functionals.Hessian(X)),  # not a function of 1-jets
        (rkhs.Gaussian(2.0), np.ones((2, 40)) @ rkhs.Evaluation(X)),  # a matrix of the processor
    ],
    ids=repr,
)
def test_what_looks_at_its_numbers_is_not_recorded(kernel, L, tapes):
    assert not rkhs.gram(kernel, L).recordable
    assert problem(kernel, L).solve(rkhs.solvers.ConjugateGradients(), tol=1e-6).status == "converged"
    assert not tapes
