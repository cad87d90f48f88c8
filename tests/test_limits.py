"""Where the problem is one that others solve, the solution is theirs."""

import numpy as np
import pytest
import scipy.interpolate

import rkhs

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 2))
Z = RNG.normal(size=(40, 2))  # where predictions are compared
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=50)
LABELS = np.where(Y + 0.5 * RNG.normal(size=50) > 0.3, 1.0, -1.0)  # not separable by lines
SCALE = 0.8
KERNEL = rkhs.Gaussian(SCALE)


def solved(terms, kernel=KERNEL, basis=None, gap=1e-8, **options):
    solution = rkhs.Problem(kernel, terms, basis).solve(**{"tol": 1e-11, **options})
    assert solution.relative_gap < gap
    return solution.function


SMOOTHING = {"5e-13": 5e-13, "0.01": 0.01, "1": 1.0, "100": 100.0, "each": 10 ** RNG.uniform(-2, 2, size=50)}


@pytest.mark.parametrize("smoothing", SMOOTHING.values(), ids=SMOOTHING)
@pytest.mark.parametrize(
    ("power", "name", "degree"), [(1, "linear", 0), (2, "thin_plate_spline", 1), (3, "cubic", 1), (5, "quintic", 2)]
)
def test_smoothing_spline(power, name, degree, smoothing):
    values = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), Y, 1 / (2 * smoothing))
    gap = 1e-6 if np.min(smoothing) < 1e-6 else 1e-8  # u rounds, times the weight
    f = solved([values], rkhs.kernels.Polyharmonic(power), gap=gap)
    spline = scipy.interpolate.RBFInterpolator(X, Y, smoothing=smoothing, kernel=name, degree=degree)
    np.testing.assert_allclose(f(Z), spline(Z), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("s", [1e-3, 7.0, 1e3])
@pytest.mark.parametrize("loss", [rkhs.Squared(), rkhs.SquaredHinge(), rkhs.Hinge()], ids=repr)
@pytest.mark.parametrize(
    ("kernel", "power"),
    [
        (rkhs.kernels.Polyharmonic(2), 2),
        (rkhs.kernels.Polyharmonic(3), 3),
        (rkhs.kernels.ThinPlate(2), 2),
        (rkhs.kernels.ThinPlate(3), 4),
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
