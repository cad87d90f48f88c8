"""Maps from many scattered points: a Fourier grid, and the packages that people use for maps.

    python -m benchmarks.maps [satellite | tracks | neighbors | growth | space | outliers | blocks] [--out DIR]

satellite: 105,569 surface temperatures of a satellite, 42,740 others under clouds to predict (data set
    heaton_satellite; Heaton et al. 2019, A case study competition among methods for analyzing large spatial data, whose
    methods have mean absolute errors of 1.10 and more).  Ours is InvariantRegressorCV() with its defaults.  Peers:
    SciPy's RBFInterpolator with 100 neighbors, and the mean of ten neighbors of verde, if it is installed.  Kriging of
    PyKrige computes the distances of all pairs even for windows of 50 neighbors, and runs out of memory (83 GiB).
tracks: surveys along tracks, a fifth of the points left out at random, or the points of squares, which are a 20th or a
    10th of the map wide (--surveys, --ways, --seeds): soundings by ships (baja_bathymetry; coordinates in km), and
    heights of Mount St. Helens and temperatures of the satellite along random lines.  Peers: SciPy's RBFInterpolator
    with 50 neighbors, nearest neighbors, linear interpolation; verde, PyKrige and GPyTorch if they are installed.
    Equal positions are merged for the peers, which fail otherwise.  Root mean squared errors.
neighbors: values of a rough function at 10^5 and 10^6 points, and as many evaluations by rkhs.Neighbors(50).
growth: noisy values and gradients at 10^5, 10^6 and 10^7 points of the plane, each in a process of its own.
space: noisy values and gradients at 10^6 points in space (--count).
outliers: 100,000 noisy values, 1 % of them moved by ten deviations, with squared and Huber losses.
blocks: values in the plane in Parquet files of 10^6 rows each, 10^8 rows in all (--rows), read once.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from scipy.interpolate import LinearNDInterpolator, RBFInterpolator
from scipy.spatial import KDTree

import rkhs
from benchmarks.data import arrays
from benchmarks.timing import markdown, show, write

Matrix = np.ndarray[Any, Any]


def surface(X: Matrix) -> tuple[Matrix, Matrix]:
    """Return the values (t,) and the gradients (t, 2) of a smooth function of the plane."""
    phase = 9 * X[:, 1] + 3 * X[:, 0]
    wave, slope = np.sin(12 * X[:, 0]), 12 * np.cos(12 * X[:, 0])
    gradient = np.stack([slope * np.cos(phase) - 3 * wave * np.sin(phase), -9 * wave * np.sin(phase)], axis=1)
    return wave * np.cos(phase), gradient


def peak() -> float:
    """Return the peak memory of the process in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def satellite() -> Iterator[list[str]]:
    """Yield errors and seconds of all models on the satellite's temperatures."""
    data = arrays("heaton_satellite")
    X, y, train, test = data["X"], data["y"], data["train"], data["test"]

    def row(name: str, predicted: Matrix, seconds: float, std: Matrix | None = None, more: str = "") -> list[str]:
        error = predicted - y[test]
        cover = "" if std is None else f"{np.mean(np.abs(error) <= 1.96 * std):.3f}"
        return [name, f"{np.abs(error).mean():.3f}", f"{np.sqrt(np.mean(error**2)):.3f}", cover, f"{seconds:.0f}", more]

    start = perf_counter()
    model = rkhs.InvariantRegressorCV().fit(X[train], y[train])
    fitted = perf_counter() - start
    predicted, std = model.predict(X[test], return_std=True)
    yield row("ours", predicted, perf_counter() - start, std, f"fit {fitted:.0f} s, {model.solution_.span}")
    start = perf_counter()
    predicted = RBFInterpolator(X[train], y[train], neighbors=100)(X[test])
    yield row("RBFInterpolator, 100 neighbors", predicted, perf_counter() - start)
    if find_spec("verde") is not None:
        import verde

        start = perf_counter()
        nearest = verde.KNeighbors(k=10).fit((X[train, 0], X[train, 1]), y[train])
        predicted = nearest.predict((X[test, 0], X[test, 1]))
        yield row("verde, 10 neighbors", predicted, perf_counter() - start)


def on_lines(X: Matrix, count: int, seed: int) -> Matrix:
    """Return the mask of points of a grid near random lines."""
    random, tree = np.random.default_rng(seed), KDTree(X)
    low, sides = X.min(axis=0), np.ptp(X, axis=0)
    spacing, kept = float(np.median(tree.query(X[:500], 2)[0][:, 1])), np.zeros(len(X), dtype=bool)
    for center, angle in zip(
        low + sides * random.uniform(size=(count, 2)), random.uniform(0, np.pi, count), strict=True
    ):
        along = np.arange(-sides.max(), sides.max(), spacing / 2)[:, None] * [np.cos(angle), np.sin(angle)]
        near = tree.query(center + along, distance_upper_bound=0.75 * spacing)[1]
        kept[near[near < len(X)]] = True
    return kept


def survey(name: str, seed: int) -> tuple[Matrix, Matrix]:
    """Return the points and values of a survey along tracks."""
    if name == "ships":
        data = arrays("baja_bathymetry")
        longitude, latitude = data["longitude"], data["latitude"]
        X = 111.2 * np.stack([longitude * np.cos(np.radians(latitude.mean())), latitude], axis=1)
        return X, data["value"].astype(float)
    mountain = name == "mountain"
    data = arrays("mount_st_helens" if mountain else "heaton_satellite")
    X, y = data["X"].astype(float), data["height" if mountain else "y"].astype(float)
    X, y = X[np.isfinite(y)], y[np.isfinite(y)]
    kept = on_lines(X, 25 if mountain else 40, seed)
    return X[kept], y[kept]


def left_out(X: Matrix, way: str, seed: int) -> Matrix:
    """Return the mask of a fifth of the points: random ones, or those in squares of a 20th or a 10th of the map."""
    random, size = np.random.default_rng(seed), len(X)
    if way == "random":
        mask = np.zeros(size, dtype=bool)
        mask[random.permutation(size)[: size // 5]] = True
        return mask
    low, side = X.min(axis=0), float(np.prod(np.ptp(X, axis=0))) ** 0.5 / int(way.split()[-1])
    square = np.unique(np.floor((X - low) / side), axis=0, return_inverse=True)[1].reshape(-1)
    order = random.permutation(square.max() + 1)
    share = np.cumsum(np.bincount(square)[order]) / size
    return np.isin(square, order[: int(np.searchsorted(share, 0.2)) + 1])


def peers(X: Matrix, y: Matrix) -> Iterator[tuple[str, Callable[[Matrix], Matrix]]]:
    """Yield the packages that people use for maps, as functions of new points, for distinct points."""
    for kernel in ("linear", "thin_plate_spline", "cubic"):
        for smoothing in (0.0, 1.0):
            yield f"RBFInterpolator, {kernel}, {smoothing:g}", RBFInterpolator(X, y, 50, smoothing, kernel)
    tree, flat = KDTree(X), LinearNDInterpolator(X, y)
    yield "nearest", lambda Z: y[tree.query(Z)[1]]
    yield "LinearNDInterpolator", lambda Z: np.where(np.isnan(flat(Z)), y[tree.query(Z)[1]], flat(Z))
    if find_spec("verde") is not None:
        import verde

        nearest = verde.KNeighbors(k=10).fit((X[:, 0], X[:, 1]), y)
        yield "verde, 10 neighbors", lambda Z: nearest.predict((Z[:, 0], Z[:, 1]))
    if find_spec("pykrige") is not None and len(X) < 10_000:  # it computes all distances
        from pykrige.ok import OrdinaryKriging

        kriging = OrdinaryKriging(X[:, 0], X[:, 1], y, variogram_model="linear")
        yield (
            "PyKrige, moving windows of 50",
            lambda Z: np.asarray(kriging.execute("points", Z[:, 0], Z[:, 1], backend="loop", n_closest_points=50)[0]),
        )
    if find_spec("gpytorch") is not None and len(X) < 3000:  # an exact process, whose step takes a factorization
        yield "GPyTorch, Matern 3/2", gaussian_process(X, y)


def gaussian_process(X: Matrix, y: Matrix) -> Callable[[Matrix], Matrix]:
    """Return the posterior mean of GPyTorch's exact Gaussian process, after 50 steps of Adam."""
    import gpytorch
    import torch

    class Model(gpytorch.models.ExactGP):
        def __init__(self) -> None:
            super().__init__(points(X), torch.tensor((y - y.mean()) / y.std()), likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(1.5, ard_num_dims=2))

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    def points(Z: Matrix) -> Any:
        return torch.tensor((Z - X.mean(axis=0)) / X.std())

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model().double()
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood.double(), model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(50):
        optimizer.zero_grad()
        loss = -evidence(model(model.train_inputs[0]), model.train_targets)
        loss.backward()
        optimizer.step()
    model.eval()

    def values(Z: Matrix) -> Matrix:
        with torch.no_grad():
            return y.mean() + y.std() * np.asarray(model(points(Z)).mean.numpy())

    return values


def tracks(names: list[str], ways: list[str], seeds: list[int]) -> Iterator[list[str]]:
    """Yield errors and seconds of all models on surveys along tracks."""
    for name in names:
        for way in ways:
            for seed in seeds:
                X, y = survey(name, seed)
                new = left_out(X, way, seed)
                case = [name, way, str(seed)]
                start = perf_counter()
                model = rkhs.InvariantRegressorCV().fit(X[~new], y[~new])
                fitted = perf_counter() - start
                predicted, std = model.predict(X[new], return_std=True)
                error, seconds = predicted - y[new], perf_counter() - start
                cover = f"{np.mean(np.abs(error) <= 1.96 * std):.3f}"
                more = f"fit {fitted:.0f} s, {model.solution_.span}"
                yield [*case, "ours", f"{np.sqrt(np.mean(error**2)):.4g}", cover, f"{seconds:.0f}", more]
                once = np.unique(X[~new], axis=0, return_index=True)[1]
                for peer, values in peers(X[~new][once], y[~new][once]):
                    start = perf_counter()
                    error = values(X[new]) - y[new]
                    yield [*case, peer, f"{np.sqrt(np.mean(error**2)):.4g}", "", f"{perf_counter() - start:.0f}", ""]


def neighbors(count: int) -> list[str]:
    """Return a line about values at many points, and as many evaluations with deviations."""
    random = np.random.default_rng(0)
    X, Z = random.uniform(size=(2, count, 2))
    y = surface(X)[0] + np.abs(np.sin(50 * X)).sum(axis=1)
    start = perf_counter()
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=y, weight=1e6)
    problem = rkhs.Problem(rkhs.kernels.Polyharmonic(1.0), [term], approximation=rkhs.Neighbors(50))
    values, _ = problem.solve().function.with_variance(rkhs.Evaluation(Z))
    seconds = perf_counter() - start
    error = values - surface(Z)[0] - np.abs(np.sin(50 * Z)).sum(axis=1)
    return [f"{count:,}", f"{seconds:.0f}", f"{peak():.2f}", f"{np.sqrt(np.mean(error**2)):.5f}"]


def growth(count: int, dimension: int = 2) -> str:
    """Return a line about values and gradients at `count` points; in space the function has the same third slope."""
    random = np.random.default_rng(0)

    def truth(X: Matrix) -> tuple[Matrix, Matrix]:
        values, gradients = surface(X[:, :2])
        if dimension == 3:
            values, gradients = values + X[:, 2], np.column_stack([gradients, np.ones(len(X))])
        return values, gradients

    X = random.uniform(size=(count, dimension))
    values, gradients = truth(X)
    values += 0.5 * random.standard_normal(count)
    gradients += 2.0 * random.standard_normal(gradients.shape)
    start = perf_counter()
    terms = [
        rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=values, weight=1 / (2 * 0.5**2)),
        rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), target=gradients, weight=1 / (2 * 2.0**2)),
    ]
    solution = rkhs.Problem(rkhs.Matern(2.5, scale=0.2), terms, approximation=rkhs.FourierGrid()).solve(tol=1e-4)
    seconds = perf_counter() - start
    Z = random.uniform(size=(10_000, dimension))
    error = float(np.sqrt(np.mean((solution.function(Z) - truth(Z)[0]) ** 2)))
    cells = [f"{count:,}", f"{(1 + dimension) * count:,}", f"{seconds:.1f}", f"{peak():.2f}", f"{error:.5f}"]
    return "|".join([*cells, solution.status, solution.span])


def outliers() -> Iterator[list[str]]:
    """Yield errors with and without outliers, for squared and Huber losses."""
    random = np.random.default_rng(0)
    X, noise = random.uniform(size=(100_000, 2)), 0.1
    clean = surface(X)[0] + noise * random.standard_normal(len(X))
    moved = clean.copy()
    moved[random.choice(len(X), len(X) // 100, replace=False)] += 10 * float(np.std(clean))
    Z = random.uniform(size=(10_000, 2))
    for name, loss in {"squared": rkhs.Squared(), "Huber": rkhs.Huber(1.345 * noise)}.items():
        cells = [name]
        for target in (clean, moved):
            start = perf_counter()
            term = rkhs.Term(rkhs.Evaluation(X), loss, target=target, weight=1 / (2 * noise**2))
            solution = rkhs.Problem(rkhs.Matern(2.5, scale=0.2), [term], approximation=rkhs.FourierGrid()).solve(
                tol=1e-4
            )
            seconds = perf_counter() - start
            error = float(np.sqrt(np.mean((solution.function(Z) - surface(Z)[0]) ** 2)))
            cells += [f"{error:.5f}", f"{seconds:.1f}"]
        yield cells


def blocks(rows: int) -> list[str]:
    """Return a line about values in Parquet files."""
    import pandas as pd

    each = 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        for k in range(rows // each):
            random = np.random.default_rng(k)
            X = random.uniform(size=(each, 2)).astype(np.float32)
            y = surface(X.astype(float))[0] + 0.5 * random.standard_normal(each)
            pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "value": y.astype(np.float32)}).to_parquet(
                f"{folder}/{k:04d}.parquet"
            )
        stream = rkhs.streams.read_parquet(folder, target="value")

        def terms(block: Any) -> list[rkhs.Term]:
            return [rkhs.Term(rkhs.Evaluation(block.X), rkhs.Squared(), target=block.y, weight=2.0)]

        start = perf_counter()
        grid = rkhs.FourierGrid(box=([0, 0], [1, 1]))
        problem = rkhs.streams.StreamedProblem(rkhs.Matern(2.5, scale=0.2), terms, stream, grid)
        solution = problem.solve(tol=1e-4)
        seconds = perf_counter() - start
    Z = np.random.default_rng(0).uniform(size=(10_000, 2))
    error = float(np.sqrt(np.mean((solution.function(Z) - surface(Z)[0]) ** 2)))
    return [f"{rows:,}", f"{seconds:.0f}", f"{peak():.2f}", f"{error:.5f}", solution.status]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what",
        nargs="?",
        default="satellite",
        choices=["satellite", "tracks", "neighbors", "growth", "space", "outliers", "blocks"],
    )
    parser.add_argument("--surveys", nargs="+", default=["ships", "mountain", "satellite"])
    parser.add_argument("--ways", nargs="+", default=["random", "squares 20", "squares 10"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--count", type=int, help="points of one process of `growth`")
    parser.add_argument("--rows", type=int, default=10**8, help="rows of `blocks`")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    if options.count:
        print(growth(options.count, 3 if options.what == "space" else 2))
        return
    if options.what == "satellite":
        headings = ["model", "mean absolute error", "root mean square", "within 95 % intervals", "seconds", ""]
        rows = list(satellite())
    elif options.what == "tracks":
        headings = ["survey", "left out", "seed", "model", "error", "within 95 % intervals", "seconds", ""]
        rows = []
        for row in tracks(options.surveys, options.ways, options.seeds):
            rows.append(row)
            print(*row, flush=True)
    elif options.what == "neighbors":
        headings, rows = ["points", "seconds", "GiB", "error"], [neighbors(n) for n in (10**5, 10**6)]
    elif options.what in ("growth", "space"):
        headings = ["points", "functionals", "seconds", "GiB", "error", "status", "grid"]
        command = [sys.executable, "-m", "benchmarks.maps", options.what, "--count"]
        counts = (10**5, 10**6, 10**7) if options.what == "growth" else (10**5, 10**6)
        runs = [subprocess.run([*command, str(n)], capture_output=True, text=True, check=True) for n in counts]
        rows = [run.stdout.strip().split("|") for run in runs]
    elif options.what == "outliers":
        headings, rows = ["loss", "error, clean", "seconds", "error, outliers", "seconds"], list(outliers())
    else:
        headings, rows = ["rows", "seconds", "GiB", "error", "status"], [blocks(options.rows)]
    title = f"Maps: {options.what}"
    show(Console(width=140), title, headings, rows)
    write(options.out, f"maps_{options.what}.md", markdown(title, headings, rows))


if __name__ == "__main__":
    main()
