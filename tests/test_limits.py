"""Where the problem is one that others solve, the solution is theirs."""

import gpytorch
import numpy as np
import pytest
import scipy.interpolate
import torch
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

import rkhs

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 2))
Z = RNG.normal(size=(40, 2))  # where predictions are compared
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=50)
LABELS = np.where(Y + 0.5 * RNG.normal(size=50) > 0.3, 1.0, -1.0)  # not separable by lines
SCALE = 0.8
KERNEL = rkhs.Gaussian(SCALE)


def solved(terms, kernel=KERNEL, basis=None, **options):
    solution = rkhs.Problem(kernel, terms, basis).solve(**{"tol": 1e-11, **options})
    assert solution.relative_gap < 1e-8
    return solution.function


def features(points):
    """The coordinates of k(x, .) in an orthonormal basis of the span of the k(x_i, .)."""
    values, vectors = np.linalg.eigh(KERNEL(X))
    return KERNEL(points, X) @ (vectors / np.sqrt(values))


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_support_vector_machine(C):
    f = solved([rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), LABELS, C)], basis=rkhs.Constant())
    svc = SVC(C=C, gamma=1 / (2 * SCALE**2), tol=1e-10).fit(X, LABELS)
    np.testing.assert_allclose(f(Z), svc.decision_function(Z), atol=1e-5)


@pytest.mark.parametrize(("loss", "name"), [(rkhs.Hinge(), "hinge"), (rkhs.SquaredHinge(), "squared_hinge")], ids=repr)
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_support_vector_machine_without_offset(C, loss, name):
    f = solved([rkhs.Term(rkhs.Evaluation(X), loss, LABELS, C)])
    tol = 1e-6 if name == "hinge" else 1e-12
    svm = LinearSVC(C=C, loss=name, fit_intercept=False, tol=tol, max_iter=1_000_000).fit(features(X), LABELS)
    np.testing.assert_allclose(f(Z), svm.decision_function(features(Z)), atol=1e-5)


@pytest.mark.parametrize("weight", [0.01, 1.0, 1e4])
def test_kernel_ridge_regression(weight):
    f = solved([rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), Y, weight)])
    ridge = KernelRidge(alpha=1 / (2 * weight), kernel="rbf", gamma=1 / (2 * SCALE**2)).fit(X, Y)
    np.testing.assert_allclose(f(Z), ridge.predict(Z), atol=1e-7)


@pytest.mark.parametrize("basis", [None, rkhs.Constant()], ids=["penalized", "offset"])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_kernel_logistic_regression(C, basis):
    f = solved([rkhs.Term(rkhs.Evaluation(X), rkhs.Logistic(), LABELS, C)], basis=basis, tol=1e-13)
    model = LogisticRegression(
        C=C, fit_intercept=basis is not None, solver="newton-cholesky", tol=1e-12, max_iter=1000
    ).fit(features(X), LABELS)
    np.testing.assert_allclose(f(Z), model.decision_function(features(Z)), atol=1e-6)


def test_laplacian_regularized_least_squares():
    """Belkin, Niyogi and Sindhwani's closed form: a = (J K + I / (2w) + v/w L K)^-1 J y."""
    labeled, w, v = 15, 2.0, 0.3
    K = KERNEL(X)
    adjacency = np.exp(-((X[:, None] - X[None]) ** 2).sum(-1))
    adjacency[adjacency < 0.5] = 0.0
    np.fill_diagonal(adjacency, 0.0)
    edges = np.argwhere(np.triu(adjacency))
    J = np.diag((np.arange(50) < labeled).astype(float))
    L = np.diag(adjacency.sum(1)) - adjacency
    a = np.linalg.solve(J @ K + np.eye(50) / (2 * w) + v / w * L @ K, J @ Y)
    f = solved(
        [
            rkhs.Term(rkhs.Evaluation(X[:labeled]), rkhs.Squared(), Y[:labeled], w),
            rkhs.Term(rkhs.functionals.GraphDifference(X, edges, adjacency[tuple(edges.T)]), rkhs.Squared(), weight=v),
        ]
    )
    np.testing.assert_allclose(f(Z), KERNEL(Z, X) @ a, atol=1e-7)


@pytest.mark.parametrize(
    "smoothing", [0.01, 1.0, 100.0, 10 ** RNG.uniform(-2, 2, size=50)], ids=["0.01", "1", "100", "each"]
)
@pytest.mark.parametrize(
    ("power", "name", "degree"), [(1, "linear", 0), (2, "thin_plate_spline", 1), (3, "cubic", 1), (5, "quintic", 2)]
)
def test_smoothing_spline(power, name, degree, smoothing):
    f = solved(
        [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), Y, 1 / (2 * smoothing))], rkhs.kernels.Polyharmonic(power)
    )
    spline = scipy.interpolate.RBFInterpolator(X, Y, smoothing=smoothing, kernel=name, degree=degree)
    np.testing.assert_allclose(f(Z), spline(Z), rtol=1e-8, atol=1e-8)


class GaussianProcess(gpytorch.models.ExactGP):
    """Values and gradients under a Gaussian kernel, without a mean."""

    def __init__(self, points, values, likelihood):
        super().__init__(points, values, likelihood)
        self.mean_module = gpytorch.means.ConstantMeanGrad()
        self.covar_module = gpytorch.kernels.RBFKernelGrad()

    def forward(self, x):
        mean, covariance = self.mean_module(x), self.covar_module(x)
        return gpytorch.distributions.MultitaskMultivariateNormal(mean, covariance)


def test_gaussian_process_with_gradients():
    slopes = np.stack([2 * np.cos(2 * X[:, 0]), np.ones(50)], axis=1)
    noise = (0.05, 0.3)  # variance of values and of slopes
    f = solved(
        [
            rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), Y, 1 / (2 * noise[0])),
            rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), slopes, 1 / (2 * noise[1])),
        ]
    )
    likelihood = gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=3, has_global_noise=False)
    seen = torch.tensor(np.column_stack([Y, slopes]))
    model = GaussianProcess(torch.tensor(X), seen, likelihood).double()
    model.covar_module.lengthscale = SCALE
    likelihood.task_noises = torch.tensor([noise[0], noise[1], noise[1]], dtype=torch.float64)
    model.eval()
    with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
        mean = model(torch.tensor(Z)).mean.numpy()
    np.testing.assert_allclose(f(Z), mean[:, 0], atol=1e-6)
    np.testing.assert_allclose(rkhs.Gradient(Z)(f), mean[:, 1:], atol=1e-6)


@pytest.mark.parametrize("s", [1e-3, 7.0, 1e3])
@pytest.mark.parametrize("loss", [rkhs.Squared(), rkhs.SquaredHinge(), rkhs.Hinge()], ids=repr)
@pytest.mark.parametrize(
    ("kernel", "power"),
    [
        (rkhs.kernels.Polyharmonic(2), 2),
        (rkhs.kernels.Polyharmonic(3), 3),
        (rkhs.ThinPlate(2), 2),
        (rkhs.ThinPlate(3), 4),
    ],
    ids=repr,
)
def test_dilation(kernel, power, loss, s):
    """Walder and Chapelle 2007, Corollary 2.3: X times s and weights times s^-power predict the same."""

    def estimator(s):
        terms = [rkhs.Term(rkhs.Evaluation(s * X), loss, LABELS, 0.5 * s**-power)]
        if kernel.smoothness(2) > 1:
            terms += [rkhs.Term(s * rkhs.Gradient(s * X[:10]), rkhs.Squared(), weight=0.1 * s**-power)]
        return solved(terms, kernel)

    np.testing.assert_allclose(estimator(s)(s * Z), estimator(1.0)(Z), atol=1e-5)
