"""Random models to which rows are added and from which rows are removed: are they those of a fit to the same rows?

    PYTHONPATH=src python tests/updates.py [seeds] [first seed]

After each update the law is, with f* the solution of the same problem, solved from scratch:

    |f(x) - f*(x)| <= 2 sqrt(k(x, x)) (sqrt(2 gap) + sqrt(2 gap*)) + 1e-8 max |f*|

because J is strongly convex: 1/2 |f - f*|^2 <= J(f) - min J.  It holds for the part of f in the RKHS; models with a
constant that may not be unique have none.  For kernels of the distance, whose normalization does not depend on the
rows, f* is also that of `fit`, of a clone of the model.
"""

import sys
import warnings
from collections import Counter

import numpy as np
from sklearn.base import clone, is_classifier

import rkhs
from rkhs.kernels import Laplace, Linear, Matern, Polyharmonic, Polynomial, RationalQuadratic
from rkhs.losses import Huber, Quantile

TOL = 1e-10
KERNELS = {
    "gaussian": lambda s: rkhs.Gaussian(scale=s),
    "laplace": lambda s: Laplace(scale=s),
    "matern": lambda s: Matern(nu=2.5, scale=s),
    "rational quadratic": lambda s: RationalQuadratic(alpha=1.0, scale=s),
    "sum": lambda s: rkhs.Gaussian(scale=s) + 0.5 * Matern(nu=2.5, scale=3 * s),
    "polynomial": lambda s: Polynomial(degree=2, offset=s**2),
    "linear": lambda s: Linear(),
    "polyharmonic": lambda s: Polyharmonic(3),
}
OF_DISTANCE = ("gaussian", "laplace", "matern", "rational quadratic", "sum")
LOSSES = {
    "regression": ["squared"] * 4 + ["squared_epsilon_insensitive", "absolute", Huber(0.5), Quantile(0.3)],
    "classification": ["squared"] * 3 + ["logistic", "squared_hinge", "hinge"],
}


def draw(seed):
    """Return an estimator, a function that draws rows for it, and the name of its kernel."""
    rng = np.random.default_rng(seed)
    n, unit = int(rng.integers(1, 4)), 10.0 ** rng.choice([-6, 0, 0, 6])
    classes = rng.random() < 0.4
    name = str(rng.choice(list(KERNELS)))
    loss = rng.choice(np.array(LOSSES["classification" if classes else "regression"], dtype=object))
    loss = "squared" if name == "polyharmonic" else loss  # of others polynomials may not be unique
    unique = isinstance(loss, str) and loss in ("squared", "logistic")
    prior = (
        None if name in ("laplace", "polyharmonic") else rng.choice(np.array([None, None, "gradient"], dtype=object))
    )
    make = rkhs.InvariantClassifier if classes else rkhs.InvariantRegressor
    estimator = make(
        KERNELS[name](unit * 10.0 ** rng.uniform(-0.3, 0.7)),
        loss=loss,
        C=10.0 ** rng.uniform(-1, 3),
        invariance=prior,
        nu=0.1 if prior else 0.0,
        fit_intercept=bool(unique and rng.random() < 0.5) or name == "polyharmonic",
        unlabeled=None if rng.random() < 0.7 else (-1 if classes else np.nan),
        tol=TOL,
    )
    outputs = 3 if classes and rng.random() < 0.5 else 2
    several = not classes and rng.random() < 0.2
    weighted = rng.random() < 0.4

    def rows(t, seen=None):
        X = unit * rng.standard_normal((t, n))
        if classes:
            y = rng.integers(0, outputs, t)
        else:
            y = rng.standard_normal((t, 2)) if several else rng.standard_normal(t)
        if estimator.unlabeled is not None and not several:
            y = np.where(rng.random(t) < 0.2, estimator.unlabeled, y)
        weight = rng.integers(0, 4, t).astype(float) if weighted else np.ones(t)
        weight[-1] = 1.0
        if seen is not None and rng.random() < 0.4:  # a row that is there already
            again = rng.integers(len(seen[0]))
            X[0], y[0] = seen[0][again], seen[1][again]
        return X, y, weight

    return estimator, rows, name, rng


def deviation(model, reference, points):
    """Return the largest difference of two models, relative to the bound of the law."""
    f, g = model.function_, reference.function
    values, others = np.asarray(f(points)), np.asarray(g(points))
    norms = np.sqrt(np.abs(rkhs.gram(f.kernel, rkhs.Evaluation(points)).diagonal()))
    gaps = sum(np.sqrt(2 * max(s.gap, 0.0)) for s in (model.solution_, reference))
    bound = 2 * gaps * norms.reshape(-1, *[1] * (values.ndim - 1)) + 1e-8 * np.abs(others).max()
    return float(np.max(np.abs(values - others) / np.maximum(bound, 1e-300)))


def updates(seed, steps=3):
    """Update a random model; yield its solver, and how far it is from the models of the same rows, times the bound."""
    estimator, rows, name, rng = draw(seed)
    X, y, weight = rows(int(rng.integers(8, 24)))
    if is_classifier(estimator):
        y[:6], weight[:6] = np.arange(6) % 3 if y.max() > 1 else np.arange(6) % 2, 1.0
    else:
        y[:2], weight[:2] = 1.0, 1.0
    model = clone(estimator).fit(X, y, weight)
    for _ in range(steps):
        if rng.random() < 0.5:
            new = rows(int(rng.integers(1, 4)), (X, y))
            X, y, weight = (np.concatenate([old, more]) for old, more in zip((X, y, weight), new, strict=True))
            model.partial_fit(new[0], new[1], sample_weight=new[2])
        else:
            out = rng.choice(np.arange(6, len(X)), size=min(2, len(X) - 6), replace=False)
            X, y, weight = (np.delete(part, out, axis=0) for part in (X, y, weight))
            model.forget(out)
        assert len(model.labeled_) == len(X)
        points = X + 0.1 * X.std(axis=0) * rng.standard_normal(X.shape)
        problem = model._training.formulation.problem(model._merged(model._training.rows))[0]
        found = deviation(model, problem.solve(tol=TOL), points)
        if name in OF_DISTANCE:
            found = max(found, deviation(model, clone(estimator).fit(X, y, weight).solution_, points))
        yield model.solution_, found


def main(count, first=0):
    worst, solvers = 0.0, Counter()
    for seed in range(first, first + count):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for solution, found in updates(seed):
                solvers[solution.solver, solution.status] += 1
                if found > 1:
                    print(f"seed {seed}: {found:.3g} times the bound, {solution}", flush=True)
                worst = max(worst, found)
    print(f"{count} models, largest deviation {worst:.2g} of the bound")
    for (solver, status), times in solvers.most_common():
        print(f"{times:6d}  {solver}, {status}")
    return worst


if __name__ == "__main__":
    sys.exit(main(*(int(a) for a in sys.argv[1:])) > 1)
