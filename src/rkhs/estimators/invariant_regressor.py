"""Regression with invariances."""

from __future__ import annotations

from typing import Any

from sklearn.utils.metaestimators import available_if

from rkhs.estimators.atomic import all_or_nothing
from rkhs.estimators.invariant_problem import invariant_problem
from rkhs.estimators.regressor import Regressor
from rkhs.estimators.streamed import approximated, fit_blocks, fit_more


class InvariantRegressor(Regressor):
    """min 1/2 |f|^2 + C sum_i loss(f(x_i); y_i) + nu sum_j invariance_loss(L_j(f)).

    The first sum is over the points with a target, the second over functionals of f that are known to be small.  C
    and nu are the lambda and nu of [Z] (2), weights of sums, not of means.

    Parameters
    ----------
    kernel : "gaussian", "laplace", "matern", "rational_quadratic", "polynomial", "linear", or an rkhs kernel
    scale : the length scale of a kernel given by name, a number or one per feature; "median": the median distance
        between training points; "evidence" or "loo": one per feature, learnt from the labels as by `Problem.tune`
    loss : "squared", "huber", "epsilon_insensitive", "squared_epsilon_insensitive", "absolute", "quantile", or an
        rkhs loss
    C : weight of the loss of each point with a target
    epsilon : the width of the losses that are given by name and have one: "huber" (its delta) and the
        epsilon-insensitive ones
    quantile : the level of the loss "quantile"
    invariance : "gradient", "local_average", "laplacian", "graph" (of neighbours), a callable X -> rkhs.Functional, an
        `rkhs.Invariance`, a list of these, or None
    nu : weight of the invariances; 0 leaves them out
    invariance_loss : "squared", "absolute", "huber", "epsilon_insensitive", .., or an rkhs loss
    fit_intercept : whether f has a constant that is not penalised
    unlabeled : the y of points without a target (a number, or NaN), which take part in the invariances only; None if
        all have one
    approximation : None, or rkhs.Landmarks(p) or rkhs.FourierFeatures(p): f in the span of p functions, in time linear
        in the number of points.  X may then also be `rkhs.blocks`, a dask array or a dask data frame
    solver : "auto" or an rkhs solver
    tol : the relative duality gap to reach
    device : such as "cuda", to learn there with PyTorch; predictions come back as the kind of array that X is
    precision : of Gram products, "float64", "float32", "tf32x3" or "tf32"; see `rkhs.Problem`.  An approximation has
        sums in float64 in their place
    random_state : not used by the training itself, which has no randomness
    verbose : whether to show progress

    Attributes
    ----------
    function_ : the learnt rkhs.Function
    solution_ : the rkhs.Solution, with its certificate
    problem_ : the rkhs.Problem that was solved; None with an approximation
    labelled_ : a mask of the rows of the training X that have a target
    n_features_in_, feature_names_in_ : as in scikit-learn

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> increasing = rkhs.Invariance(lambda X: rkhs.Derivative(X, axes=[0]), loss="squared_one_sided")
    >>> machine = rkhs.InvariantRegressor(C=10.0, scale=1.0, invariance=increasing, nu=1e6).fit(X, np.sin(X[:, 0]))
    >>> bool(np.all(np.diff(machine.predict(X)) > -1e-3))
    True

    With squared losses it says how sure it is, also in a span:

    >>> machine = rkhs.InvariantRegressor(C=10.0, scale=1.0, approximation=rkhs.Landmarks(15)).fit(X, np.sin(X[:, 0]))
    >>> machine.predict([[3.0], [8.0]], return_std=True)[1].round(1)
    array([0.1, 0.3])
    """

    def __init__(
        self,
        kernel: Any = "gaussian",
        *,
        scale: Any = "median",
        loss: Any = "squared",
        C: float = 1.0,
        epsilon: float = 0.1,
        quantile: float = 0.5,
        invariance: Any = "gradient",
        nu: float = 0.01,
        invariance_loss: Any = "squared",
        fit_intercept: bool = True,
        unlabeled: Any = None,
        approximation: Any = None,
        solver: Any = "auto",
        tol: float = 1e-4,
        device: str | None = None,
        precision: str | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.scale = scale
        self.loss = loss
        self.C = C
        self.epsilon = epsilon
        self.quantile = quantile
        self.invariance = invariance
        self.nu = nu
        self.invariance_loss = invariance_loss
        self.fit_intercept = fit_intercept
        self.unlabeled = unlabeled
        self.approximation = approximation
        self.solver = solver
        self.tol = tol
        self.device = device
        self.precision = precision
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> InvariantRegressor:
        """Learn f from points X (t, n) and their targets y, `unlabeled` where there is none."""
        if self.approximation is not None:
            fit_blocks(self, X, y, sample_weight)
            return self
        sample = self._sample(X, y, sample_weight)
        self._learn(invariant_problem(self, sample))
        return self

    @available_if(approximated)
    @all_or_nothing
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> InvariantRegressor:
        """Learn from one more block of rows; needs an `approximation`.

        The first block fixes the kernel's scale and the functions of the span.  With
        those fixed the result is that of all rows at once: rows of squared losses are added to sums and forgotten, of
        others p numbers each are kept, as long as they fit in memory.  A block that cannot be used changes nothing.
        """
        fit_more(self, X, y, sample_weight, None)
        return self
