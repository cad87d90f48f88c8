"""Peers of `benchmarks.surrogates`: each learns from points X (t, n) of the unit cube, values and gradients.

Each is a function (X, y, gradient) -> predictor.  SMT's KRG and scikit-learn's process see values only; SMT's GEKPLS
(5 components, one extra point for each input) and GPyTorch's `RBFKernelGrad` see gradients too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

Matrix = np.ndarray[Any, Any]
Predictor = Callable[[Matrix], Matrix]
Fit = Callable[[Matrix, Matrix, Matrix], Predictor]

STEPS, RATE = 200, 0.1  # of Adam
AT_ONCE = 250  # new points, for which GPyTorch forms values and slopes together


def peers() -> dict[str, Fit]:
    """Those that are installed."""
    found: dict[str, Fit] = {"scikit-learn GPR": process}
    if find_spec("smt") is not None:
        found |= {f"SMT {model}": smt(model) for model in ("KRG", "GEKPLS")}
    if find_spec("gpytorch") is not None:
        found["GPyTorch RBFKernelGrad"] = gpytorch
    return found


def smt(model: str) -> Fit:
    """A model of SMT with its defaults."""

    def fit(X: Matrix, y: Matrix, gradient: Matrix) -> Predictor:
        from smt import surrogate_models

        n = X.shape[1]
        own = {"n_comp": 5, "extra_points": n, "xlimits": np.array([[0.0, 1.0]] * n), "delta_x": 1e-4}
        found = getattr(surrogate_models, model)(print_global=False, **(own if model == "GEKPLS" else {}))
        found.set_training_values(X, y[:, None])
        for j in range(n if model == "GEKPLS" else 0):
            found.set_training_derivatives(X, gradient[:, j : j + 1], j)
        found.train()
        return lambda Z: found.predict_values(Z)[:, 0]

    return fit


def process(X: Matrix, y: Matrix, gradient: Matrix) -> Predictor:
    """scikit-learn's Gaussian process of the values, with a scale for each input; five starts."""
    kernel = ConstantKernel(1.0, (1e-5, 1e8)) * RBF(np.ones(X.shape[1]), (1e-2, 1e3))
    model = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scales at their bounds
        return model.fit(X, y).predict


def gpytorch(X: Matrix, y: Matrix, gradient: Matrix) -> Predictor:
    """GPyTorch's kernel of values and gradients, as in its example: one scale for each input, a noise for each kind
    of observation, 200 steps of Adam; in float64, with Cholesky factors throughout.
    """
    import gpytorch as gp
    import torch

    center, size, n = float(y.mean()), float(y.std()), X.shape[1]
    points, target = torch.from_numpy(X), torch.from_numpy(np.column_stack([(y - center) / size, gradient / size]))

    class Model(gp.models.ExactGP):  # type: ignore[misc, name-defined]
        def __init__(self, likelihood: Any) -> None:
            super().__init__(points, target, likelihood)
            self.mean_module = gp.means.ConstantMeanGrad()
            self.covar_module = gp.kernels.ScaleKernel(gp.kernels.RBFKernelGrad(ard_num_dims=n))

        def forward(self, x: Any) -> Any:
            return gp.distributions.MultitaskMultivariateNormal(self.mean_module(x), self.covar_module(x))

    torch.manual_seed(0)
    likelihood = gp.likelihoods.MultitaskGaussianLikelihood(num_tasks=n + 1).double()
    model = Model(likelihood).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    objective = gp.mlls.ExactMarginalLogLikelihood(likelihood, model)
    with warnings.catch_warnings(), gp.settings.max_cholesky_size(10**6):
        warnings.simplefilter("ignore")  # of jitter
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = -objective(model(points), target)
            loss.backward()
            optimizer.step()
    model.eval()

    def predict(Z: Matrix) -> Matrix:
        parts = np.array_split(Z, -(-len(Z) // AT_ONCE))
        with warnings.catch_warnings(), torch.no_grad(), gp.settings.max_cholesky_size(10**6):
            warnings.simplefilter("ignore")
            with gp.settings.skip_posterior_variances():
                found = [model(torch.from_numpy(some)).mean[:, 0].numpy() for some in parts]
        return center + size * np.concatenate(found)

    return predict
