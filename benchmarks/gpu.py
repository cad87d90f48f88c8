"""One GPU: products of jets in each precision, beside bare matrix products; GPyTorch's posterior mean beside ours;
dense algebra where the matrix is; and landmarks for a million points.

    python -m benchmarks.gpu products|peer|dense|landmarks [--quick] [--out DIR]

Needs PyTorch with CUDA, and GPyTorch for `peer`.  Times are medians after a warm-up, by the host's clock around a
synchronized device.  `--quick` takes small sizes and runs anywhere.
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

import rkhs
from rkhs._core.backend.memory import DEVICE_ENTRIES, tiles
from rkhs._core.backend.precision import PRECISIONS, products_in

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NOISE = 0.01
LANDMARKS = 200  # of our preconditioner


def seconds(call: Callable[[], Any], repeats: int = 5) -> float:
    """The median after one call to warm up."""
    times = []
    for k in range(repeats + 1):
        _wait()
        start = perf_counter()
        call()
        _wait()
        if k:
            times.append(perf_counter() - start)
    return statistics.median(times)


def dtype_of(precision: str) -> torch.dtype:
    """The type of the operands of a precision."""
    return torch.float64 if precision == "float64" else torch.float32


def products(quick: bool) -> list[dict[str, Any]]:
    """The product of all gradients at t points in R^n, in each precision, beside its bare matrix products."""
    rows = []
    for t, n, names in [(500, 50, PRECISIONS)] if quick else [(60_000, 784, PRECISIONS), (200_000, 241, ("tf32x3",))]:
        generator = torch.Generator(device=DEVICE).manual_seed(0)
        X = torch.randn(t, n, dtype=torch.float64, device=DEVICE, generator=generator)
        v = torch.randn(t * n, dtype=torch.float64, device=DEVICE, generator=generator)
        kernel = rkhs.Gaussian(scale=n**0.5)
        exact = None if len(names) == 1 else rkhs.gram(kernel, rkhs.Gradient(X)) @ v
        for name in names:
            dtype = dtype_of(name)
            G, right = rkhs.gram(kernel, rkhs.Gradient(X.to(dtype)), precision=name), v.to(dtype)
            _reset_peak()
            found = G @ right
            peak = _peak()
            row = {"t": t, "n": n, "functionals": t * n, "precision": name, "peak_GiB": peak}
            row["seconds"] = seconds(lambda G=G, right=right: G @ right)
            row["bare"] = seconds(lambda X=X, name=name: bare(X, name))
            row["share"] = row["bare"] / row["seconds"]
            if exact is not None:
                row["error"] = float((found - exact).norm() / exact.norm())
            rows.append(row)
            print(json.dumps(row), flush=True)
            del G, found
    return rows


def dense(quick: bool) -> list[dict[str, Any]]:
    """Squared and hinge losses by factorizations on the device, with left-out values, bars and the evidence.

    The seconds of the Gram matrix alone are stated beside those of the whole.
    """
    rows = []
    for n in (300,) if quick else (5_000, 10_000, 15_000, 36_000, 100_000):
        generator = torch.Generator(device=DEVICE).manual_seed(0)
        X = torch.rand(n, 8, dtype=torch.float64, device=DEVICE, generator=generator)
        y = torch.sin(6 * X[:, 0]) * X[:, 1] + 0.1 * torch.randn(n, dtype=X.dtype, device=DEVICE, generator=generator)
        problem = rkhs.Problem(rkhs.Matern(2.5, (1.0,) * 8), [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), y, 50.0)])
        row: dict[str, Any] = {"rows": n}
        _reset_peak()
        if n <= 36_000:
            row["matrix"] = seconds(lambda p=problem: p.system.exact.in_double(), 1)
        solutions: list[Any] = []
        row["solve"] = seconds(lambda p=problem, s=solutions: s.append(p.solve(rkhs.solvers.Direct(), tol=1e-8)), 1)
        row["gap"], row["status"], row["peak_GiB"] = solutions[-1].relative_gap, str(solutions[-1].status), _peak()
        row["auto"] = seconds(lambda p=problem, s=solutions: s.append(p.solve()), 1) if n <= 36_000 else None
        row["auto_is"] = solutions[-1].solver
        if n <= 36_000:
            row["left_out"] = seconds(lambda p=problem: p.leave_out(), 1)
        if n <= 10_000:
            row["evidence"] = seconds(lambda p=problem: p.evidence(gradient=True), 1)
            posterior, Z = solutions[-1].posterior, torch.rand(10_000, 8, dtype=X.dtype, device=DEVICE)
            row["bars"] = seconds(lambda q=posterior, Z=Z: q.std(rkhs.Evaluation(Z)), 1)
            hinge = rkhs.Problem(rkhs.Gaussian(1.0), [rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), torch.sign(y), 10.0)])
            row["hinge"] = seconds(lambda p=hinge, s=solutions: s.append(p.solve()), 1)
            row["hinge_is"], row["hinge_status"] = solutions[-1].solver, str(solutions[-1].status)
        rows.append(row)
        print(json.dumps(row), flush=True)
        del problem, solutions, X, y
    return rows


def bare(X: torch.Tensor, precision: str) -> None:
    """The four t x t x n matrix products of one product of gradients, tile by tile, on operands at hand.

    Rows are filled up to a multiple of eight numbers, as tensor cores need them.
    """
    multiply = products_in(precision)
    A = torch.nn.functional.pad(X.to(dtype_of(precision)), (0, -X.shape[1] % 8))
    cuts = list(tiles(len(A), len(A), DEVICE_ENTRIES))
    points, by_columns = multiply.operands(A)
    side = max(i.stop - i.start for i, _ in cuts)
    table = multiply.operand(torch.rand(side, side, dtype=A.dtype, device=A.device))
    for i, j in cuts:
        tile = table[: i.stop - i.start, : j.stop - j.start]
        for _ in range(2):
            multiply(points[i], points[j].T)
            multiply(tile, by_columns[j])


def peer(quick: bool) -> list[dict[str, Any]]:
    """The posterior mean of a Gaussian process from values and gradients, at growing sizes, until GPyTorch fails."""
    import gpytorch

    warnings.simplefilter("ignore")
    rows = []
    for t, n in [(20, 5)] if quick else [(500, 20), (1000, 20), (1000, 40), (1200, 40)]:
        generator = torch.Generator(device=DEVICE).manual_seed(0)
        X, Z = (torch.randn(k, n, dtype=torch.float64, device=DEVICE, generator=generator) for k in (t, 50))
        values, gradients = torch.sin(X.sum(1) / n**0.5), torch.cos(X.sum(1) / n**0.5)[:, None].expand(t, n) / n**0.5

        row: dict[str, Any] = {"t": t, "n": n, "functionals": t * (n + 1)}
        kernel = gpytorch.kernels.RBFKernelGrad().double().to(DEVICE)
        kernel.lengthscale = n**0.5
        scale = float(kernel.lengthscale)

        def ours(X=X, Z=Z, values=values, gradients=gradients, scale=scale) -> torch.Tensor:
            terms = [
                rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), values, 0.5 / NOISE),
                rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), gradients, 0.5 / NOISE),
            ]
            solver = rkhs.solvers.ConjugateGradients(landmarks=LANDMARKS)
            return rkhs.Problem(rkhs.Gaussian(scale), terms).solve(solver, tol=1e-9).function(Z)

        def theirs(X=X, Z=Z, values=values, gradients=gradients, kernel=kernel) -> torch.Tensor:
            """GPyTorch's Gram matrix of values and gradients, and its linear solve."""
            table = torch.cat([values[:, None], gradients], dim=1).reshape(-1)
            with torch.no_grad(), gpytorch.settings.max_cholesky_size(0), gpytorch.settings.cg_tolerance(1e-8):
                K = kernel(X).add_diagonal(torch.full((len(table),), NOISE, dtype=X.dtype, device=X.device))
                return (kernel(Z, X).to_dense() @ K.evaluate_kernel().solve(table[:, None]))[:: X.shape[1] + 1, 0]

        try:
            row["theirs"] = seconds(theirs, repeats=1)
            row["ours"] = seconds(ours, repeats=3)
            row["times_faster"] = row["theirs"] / row["ours"]
            one, other = ours(), theirs()
            row["difference"] = float((one - other).norm() / other.norm())
        except (torch.cuda.OutOfMemoryError, RuntimeError) as error:
            row["failed"] = str(error).splitlines()[0][:200]
        rows.append(row)
        print(json.dumps(row), flush=True)
        torch.cuda.empty_cache()
    return rows


def landmarks(quick: bool) -> list[dict[str, Any]]:
    """Regression with gradients at all points in R^50, in the span of p functions; rows come from the CPU's memory."""
    t, n, p = (2_000, 50, 100) if quick else (1_000_000, 50, 1_000)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((t, n))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(t)
    rows = []
    for approximation in (rkhs.Landmarks(p), rkhs.FourierFeatures(p)):
        _reset_peak()
        where = rkhs.SolverOptions(device=DEVICE)
        model = rkhs.InvariantRegressor(scale=n**0.5, nu=0.1 * t / n, approximation=approximation, solver=where)
        row: dict[str, Any] = {"approximation": repr(approximation), "t": t, "n": n, "functionals": t * (n + 1)}
        row["seconds"] = seconds(lambda model=model: model.fit(X, y), repeats=1)
        rows.append(row | {"peak_GiB": _peak()})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def _wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def _reset_peak() -> None:
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _peak() -> float:
    """GiB taken on the device since the last reset."""
    return torch.cuda.max_memory_allocated() / 2**30 if DEVICE == "cuda" else float("nan")


def main() -> None:
    """Run one of them and write its rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["products", "peer", "dense", "landmarks"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    found = {"products": products, "peer": peer, "dense": dense, "landmarks": landmarks}[options.what](options.quick)
    options.out.mkdir(parents=True, exist_ok=True)
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"
    page = {"device": name, "torch": torch.__version__, "rows": found}
    (options.out / f"gpu_{options.what}.json").write_text(json.dumps(page, indent=1))


if __name__ == "__main__":
    main()
