"""Passes over tiles by Triton, in its interpreter: the same numbers as the operations they stand for."""

import importlib

import pytest
import torch

from rkhs._core.backend import precision as precisions
from rkhs._core.backend.precision import TF32_CUT

pytest.importorskip("triton", reason="Triton is for Linux")
NEAREST = 2.0**-7  # the interpreter cuts bfloat16 where devices round


@pytest.fixture
def fused(monkeypatch):
    """The module, with kernels that run without an accelerator."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    from rkhs._core.backend import fused

    return importlib.reload(fused)


def tiles(by_columns):
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(37, 53, generator=generator) for _ in range(3)]
    return [tile.T.contiguous().T for tile in made] if by_columns else made


def combined(S, phi, psi, c):
    return phi * S if c is None else phi * S + psi * c


@pytest.mark.parametrize("c", [None, torch.linspace(-1, 1, 53)], ids=["gradients", "values"])
@pytest.mark.parametrize("by_columns", [False, True])
def test_tiles_are_combined(fused, by_columns, c):
    S, phi, psi = tiles(by_columns)
    expected = combined(S, phi, psi, c)
    fused.combine(S, phi, psi, c)
    torch.testing.assert_close(S, expected, rtol=0, atol=2.0**-20)
    assert S.is_contiguous() != by_columns


@pytest.mark.parametrize("c", [None, torch.linspace(-1, 1, 53)], ids=["gradients", "values"])
@pytest.mark.parametrize("by_columns", [False, True])
def test_tiles_are_combined_and_split(fused, by_columns, c):
    S, phi, psi = tiles(by_columns)
    expected = combined(S, phi, psi, c)
    check_parts(fused.split_combined(S, phi, psi, c, TF32_CUT), expected)


@pytest.mark.parametrize("shape", [(37, 53), (3, 20, 30)])
@pytest.mark.parametrize("by_columns", [False, True])
def test_operands_are_split(fused, by_columns, shape):
    A = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    A = A.mT.contiguous().mT if by_columns else A
    given = A.clone()
    check_parts(fused.split(A, TF32_CUT), given)
    assert torch.equal(A, given)


def check_parts(parts, whole):
    first, coarse, rest = parts
    assert coarse.dtype == rest.dtype == torch.bfloat16
    assert {part.stride() for part in parts} == {whole.stride()}
    assert torch.all((first - whole).abs() <= 2.0**-11 * whole.abs())
    assert torch.all(first.view(torch.int32) % 2**TF32_CUT == 0)
    assert torch.all((coarse.float() - whole).abs() <= NEAREST * whole.abs())
    assert torch.all((first + rest.float() - whole).abs() <= NEAREST * 2.0**-11 * whole.abs())


def test_three_products_of_parts_are_one_of_float32(fused):
    A, B = torch.randn(30, 200), torch.randn(200, 20)
    left, right = (precisions.SplitOperand(*(part.float() for part in fused.split(M, TF32_CUT))) for M in (A, B))
    exact = A.double() @ B.double()
    found = precisions.ThreeTF32()(left, right)
    assert (found - exact).norm() < 4e-6 * exact.norm()
