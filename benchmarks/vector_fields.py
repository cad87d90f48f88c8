"""Wind over Texas and motion of California's ground, compared with Verde's vector spline.

    python -m benchmarks.vector_fields [--names texas_wind california_gps] [--folds 5] [--seeds 0] [--out DIR]

Two components at stations, cross-validated: folds of stations (of sites for the ground, whose rows repeat).  The error
is the root mean square of both components at the stations of a fold, over that of their deviations from the mean.

Ours has a linear trend and one of four kernels: two components with one Matern kernel, of order 1/2 or of order 3/2; or
a field without curl plus one without divergence, of order 3/2 or 5/2, each with its own size and scale.  Settings and
noise are learned from the training stations (`Problem.tune`), and the kernel is the one of the largest evidence there,
less half a logarithm of the number of observations for each setting that was learned (Schwarz 1978): evidence alone
likes the kernel with most settings.

Verde has a linear trend and then its gallery's spline for each component, or its elastic VectorSpline2D; whatever its
own cross-validation on the training stations finds best for the damping, and of the two ways the one that is better
there.
"""

from __future__ import annotations

import argparse
import time
import warnings
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import rkhs
from benchmarks.data import arrays
from benchmarks.timing import markdown, show, write

Matrix = np.ndarray[Any, Any]


def load(name: str) -> tuple[Matrix, Matrix]:
    """Kilometres east and north (t, 2), and both components (t, 2); one row for each site."""
    data = arrays(name)
    longitude, latitude = data["longitude"], data["latitude"]
    V = np.stack([data["east"], data["north"]], axis=1)
    site = data.get("site", np.arange(len(V)))
    X = 111.2 * np.stack([longitude * np.cos(np.deg2rad(latitude.mean())), latitude], axis=1)
    places = np.unique(site)
    return tuple(np.stack([rows[site == k].mean(axis=0) for k in places]) for rows in (X, V))  # type: ignore[return-value]


def trend(Z: Matrix) -> Matrix:
    """A linear function for each component."""
    x, e = Z[:, :2] / 10, Z[:, 2:]
    return np.concatenate([e, e * x[:, :1], e * x[:, 1:]], axis=1)


def kernels() -> list[Any]:
    """Kernels of fields in the plane, with open settings."""
    learn, fields = rkhs.Tunable, rkhs.kernels
    together = [fields.components(rkhs.Matern(nu, learn()), 2, np.eye(2)) for nu in (0.5, 1.5)]
    apart = [
        learn() * fields.CurlFree(rkhs.Matern(nu, learn())) + learn() * fields.DivergenceFree(rkhs.Matern(nu, learn()))
        for nu in (1.5, 2.5)
    ]
    return together + apart


def ours(X: Matrix, V: Matrix) -> Any:
    """(t, 2) -> the field there."""
    unit = float(V.std())
    term = rkhs.Term(rkhs.functionals.Components(X / 100), rkhs.Squared(), V / unit, rkhs.Tunable())
    tuned = [rkhs.Problem(k, [term], rkhs.Functions(trend)).tune(functionals=1000, starts=1) for k in kernels()]
    best = max(tuned, key=lambda one: one.tuning.value - 0.5 * len(one.tuning.parameters) * np.log(V.size))
    f = best.solve().function
    return lambda Z: unit * rkhs.functionals.Components(Z / 100)(f)


def verde(X: Matrix, V: Matrix) -> Any:
    """The same by Verde."""
    import verde as vd

    coordinates, data = tuple(1000 * X.T), tuple(V.T)

    def model(elastic: bool, damping: float | None) -> Any:
        spline = (
            vd.VectorSpline2D(poisson=0.5, mindist=10e3, damping=damping)
            if elastic
            else vd.Vector([vd.Spline(damping=damping) for _ in range(2)])
        )
        return vd.Chain([("trend", vd.Vector([vd.Trend(degree=1) for _ in range(2)])), ("spline", spline)])

    def score(own: tuple[bool, float | None]) -> float:
        folds = vd.BlockKFold(spacing=100_000, n_splits=5, shuffle=True, random_state=0)
        return float(np.mean(vd.cross_val_score(model(*own), coordinates, data, cv=folds)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dampings = (1e-10, 1e-8, 1e-6, 1e-4, 1e-3, 1e-2)
        best = max(((elastic, damping) for elastic in (False, True) for damping in dampings), key=score)
        fitted = model(*best).fit(coordinates, data)
    return lambda Z: np.stack(fitted.predict(tuple(1000 * Z.T)), axis=1)


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", nargs="+", default=["texas_wind", "california_gps"])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="of the folds")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    ways = {"rkhs": ours}
    if find_spec("verde") is not None:
        ways["verde"] = verde
    rows = []
    for name, seed in product(options.names, options.seeds):
        X, V = load(name)
        fold = np.random.default_rng(seed).permutation(len(X)) % options.folds
        for way, fit in ways.items():
            start = time.process_time()
            found = np.empty_like(V)
            for k in range(options.folds):
                found[fold == k] = fit(X[fold != k], V[fold != k])(X[fold == k])
            error = float(np.linalg.norm(found - V) / np.linalg.norm(V - V.mean(axis=0)))
            each = (time.process_time() - start) / options.folds
            rows.append([name, f"{len(X)}", f"{seed}", way, f"{error:.4f}", f"{each:.1f}"])
            print(*rows[-1], flush=True)
    title = "Vector fields: cross-validated error over the spread"
    headings = ["data", "stations", "seed", "model", "error", "processor seconds a fold"]
    show(Console(), title, headings, rows)
    write(options.out, "vector_fields.md", markdown(title, headings, rows))


if __name__ == "__main__":
    main()
