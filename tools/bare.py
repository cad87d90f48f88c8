"""Check that everything that needs an optional package names the extra to install: `python tools/bare.py`

It runs where none of these packages is installed.
"""

import contextlib
import io
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import rkhs
from rkhs._command import main as command
from rkhs._core.limits import with_limits

EXTRAS = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())["project"]
OURS = {"docs", "site", "dist", "test", "check"}  # for the development of the library itself
X = np.random.default_rng(0).standard_normal((30, 2))
BALL = np.random.default_rng(0).standard_normal((200, 3))
BALL /= np.linalg.norm(BALL, axis=1, keepdims=True)


def model() -> rkhs.InvariantRegressor:
    """Return a fitted estimator."""
    return rkhs.InvariantRegressor(scale=1.0).fit(X, X[:, 0])


def neighbors() -> object:
    """Search the neighbors of more rows than are searched exactly."""
    with with_limits(exact_neighbors=10):
        return rkhs.kernels.NeighborGraph.of(X)


def typed() -> None:
    """Type the command."""
    try:
        command()
    except SystemExit as done:
        raise ImportError(str(done)) from None


USES = {
    "gpu": [
        lambda: rkhs.gram(rkhs.kernels.AutodiffKernel(lambda x, y: x @ y), rkhs.Gradient(X)).dense(),
        lambda: rkhs.InvariantRegressor(solver=rkhs.SolverOptions(device="cuda")).fit(X, X[:, 0]),
    ],
    "graphs": [neighbors],
    "maps": [lambda: rkhs.InvariantRegressor(approximation=rkhs.FourierGrid()).fit(X, X[:, 0])],
    "geo": [lambda: rkhs.maps.points("table.csv"), lambda: rkhs.maps.grid(model(), X)],
    "ase": [lambda: rkhs.ase.read("frames.xyz"), lambda: rkhs.ase.Calculator(rkhs.geometry.ForceFieldRegressor())],
    "distributed": [lambda: rkhs.streams.read_parquet("rows.parquet", target="y")],
    "plot": [lambda: rkhs.plotting.BoundaryDisplay.from_estimator(rkhs.InvariantClassifier().fit(X, X[:, 0] > 0), X)],
    "surface": [lambda: rkhs.geometry.reconstruct_surface(BALL, BALL).mesh()],
    "save": [lambda: rkhs.save(model(), "model.skops")],
    "onnx": [lambda: rkhs.to_onnx(model())],
    "cli": [typed],
}


def said(use: Callable[[], object]) -> str:
    """Return the error or the warning of a use."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("error")
        try:
            use()
        except (ImportError, UserWarning) as error:
            return f"{type(error).__name__}: {error}"
    return "nothing"


if __name__ == "__main__":
    extras = set(EXTRAS["optional-dependencies"]) - OURS
    assert set(USES) == extras, f"{sorted(extras ^ set(USES))}: in pyproject.toml or here, but not in both"
    for extra, uses in USES.items():
        for use in uses:
            message = said(use)
            assert f"rkhs[{extra}]" in message, f"{extra}: {message}"
    print(f"each of the {len(USES)} extras is named by what needs it")
