"""The objectives of the papers in their own letters, each minimized by a general convex program.

`FORMS` has a form for each row of the table of weights on the page of notation, on nine points of a line of which the
first four have labels; `PENALTIES` are other penalties of the norm than its square.
"""

# mypy: ignore-errors
# (cvxpy has no types)
from __future__ import annotations

import cvxpy as cp
import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC

import rkhs

LETTERS = {"lam": 0.7, "nu": 0.3, "rho1": 0.6, "rho2": 0.2, "c": 1.3, "alpha": 0.4, "nu_t": 0.5, "scale": 0.8, "t": 9}
lam, nu, rho1, rho2, c, alpha, nu_t, scale, t = LETTERS.values()
X = np.linspace(-1.5, 1.5, t)[:, None]
Y = np.array([-1.0, 1.0, 1.0, -1.0])  # of the first four points
GRID = np.linspace(-2, 2, 30)[:, None]
EPSILON = 0.05


def hinge(u):
    """Return the hinge losses of the values at the labels."""
    return cp.pos(1 - cp.multiply(Y, u))


def by_program(objective, more=X[:0]):
    """f, the minimum over its coefficients, and |f|; `objective` has |f|, the values at the labels and the slopes.

    The kernel is written out here.  `more` are points whose representers are added to the span.
    """
    P = np.concatenate([X[:4], more])
    values, mixed = (lambda A, B: np.exp(-((A - B.T) ** 2) / (2 * scale**2))), lambda A, B: (A - B.T) / scale**2
    second = values(X, X) * (1 / scale**2 - mixed(X, X) ** 2)
    first = values(P, X) * mixed(P, X)
    G = np.block([[values(P, P), first], [first.T, second]])
    eigenvalues, vectors = np.linalg.eigh(G)
    root = (vectors * np.sqrt(eigenvalues.clip(1e-14))).T
    a = cp.Variable(len(G))
    norm = cp.norm(root @ a)
    least = cp.Problem(cp.Minimize(objective(norm, G[:4] @ a, G[len(P) :] @ a))).solve(cp.CLARABEL)
    return np.hstack([values(GRID, P), values(GRID, X) * mixed(GRID, X)]) @ a.value, least, norm.value


def of_program(objective):
    """Return the values on the grid of the f that `by_program` finds."""
    return by_program(objective)[0]


def by_thin_plate_program():
    """Formula (14) of 2007 with the kernel (11) in R^1, order 2."""
    Phi, P = np.abs(X[:4] - X[:4].T) ** 3, np.column_stack([np.ones(4), X[:4]])
    Z = np.linalg.svd(P.T)[2][2:].T
    root = np.linalg.cholesky(Z.T @ Phi @ Z).T
    g, b = cp.Variable(2), cp.Variable(2)
    losses = cp.sum_squares(hinge(Phi @ Z @ g + P @ b))
    cp.Problem(cp.Minimize(lam * cp.sum_squares(root @ g) + losses)).solve(cp.CLARABEL)
    return np.abs(GRID - X[:4].T) ** 3 @ Z @ g.value + np.column_stack([np.ones(30), GRID]) @ b.value


def by_estimator(loss):
    """Return the values of an estimator with this loss of the slopes."""
    invariance = rkhs.Invariance("gradient", loss=loss)
    settings = {"scale": scale, "C": c, "nu": nu_t, "invariance": invariance, "fit_intercept": False, "tol": 1e-10}
    model = rkhs.InvariantClassifier(unlabeled=0, **settings).fit(X, np.append(Y, np.zeros(t - 4)))
    return model.decision_function(GRID)


def by_scikit_learn(model):
    """Return the values of a model of scikit-learn."""
    fitted = model.fit(X[:4], Y)
    return fitted.predict(GRID) if isinstance(model, KernelRidge) else fitted.decision_function(GRID)


GAMMA = 1 / (2 * scale**2)
SQUARED, KINKED = rkhs.Squared(), rkhs.losses.EpsilonInsensitive(EPSILON)
IN_UNITS = rkhs.losses.EpsilonInsensitive(scale * EPSILON)
# the row begins with; our loss of labels, that of slopes; the other form
FORMS = {
    "2013": (
        rkhs.Hinge(),
        SQUARED,
        lambda: of_program(lambda s, u, g: s**2 / 2 + lam * cp.sum(hinge(u)) + nu * cp.sum_squares(g)),
    ),
    "2006": (
        rkhs.Hinge(),
        KINKED,
        lambda: of_program(lambda s, u, g: cp.sum(hinge(u)) + rho2 * cp.sum(cp.pos(cp.abs(g) - EPSILON)) + rho1 * s**2),
    ),
    "2007": (rkhs.SquaredHinge(), None, by_thin_plate_program),
    "notes, uniform": (
        rkhs.Logistic(),
        None,
        lambda: of_program(lambda s, u, g: cp.sum(cp.logistic(-cp.multiply(Y, u))) + lam * s**2),
    ),
    "notes, soft": (rkhs.Hinge(), None, lambda: of_program(lambda s, u, g: s**2 / 2 + c * cp.sum(hinge(u)))),
    "notes, ridge": (SQUARED, None, lambda: of_program(lambda s, u, g: cp.sum_squares(u - Y) / 2 + lam / 2 * s**2)),
    "scikit-learn's `SVC`": (rkhs.Hinge(), None, lambda: by_scikit_learn(SVC(C=c, gamma=GAMMA, tol=1e-9))),
    "scikit-learn's `KernelRidge`": (
        SQUARED,
        None,
        lambda: by_scikit_learn(KernelRidge(alpha=alpha, kernel="rbf", gamma=GAMMA)),
    ),
    "`InvariantClassifier(": (rkhs.Hinge(), SQUARED, lambda: by_estimator(SQUARED)),
    "the same": (rkhs.Hinge(), KINKED, lambda: by_estimator(IN_UNITS)),
}

PENALTIES = {  # R(|f|), and its derivative
    "|f|": (lambda s: s, lambda s: 1.0),
    "|f|^4": (lambda s: s**4, lambda s: 4 * s**3),
    "flat, then steep": (lambda s: cp.pos(s - 0.5) ** 2, lambda s: 2 * max(0.0, s - 0.5)),
    "flat": (lambda s: 0.01 * cp.pos(s - 1e3), lambda s: 0.0),
}
