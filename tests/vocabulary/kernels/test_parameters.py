"""Settings of kernels: their names, the ones left open, and derivatives in their logarithms."""

import numpy as np
import pytest
from mpmath import mp

import oracle
import rkhs
from refusals import refused
from registry import DIMENSIONS, FAMILIES, KERNELS, bounded, points

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 2))
KINDS = ("Evaluation", "Difference", "Gradient", "DirectionalDerivative, several", "Laplacian and value")


def settings_of(kernel):
    """(name, feature) of all numbers of a kernel."""
    for name, value in kernel.parameters().items():
        for feature in range(len(value)) if isinstance(value, tuple) else [None]:
            yield name, feature


def moved(kernel, name, feature, step):
    """The kernel with one number multiplied by exp(step)."""
    value = kernel.parameters()[name]
    if feature is None:
        return kernel.with_parameters({name: value * np.exp(step)})
    return kernel.with_parameters({name: tuple(v * np.exp(step * (j == feature)) for j, v in enumerate(value))})


def difference(kernel, name, feature, L, step=1e-3):
    """dG / dlog parameter by differences of the fourth order."""
    near, far = (
        rkhs.gram(moved(kernel, name, feature, h), L).dense() - rkhs.gram(moved(kernel, name, feature, -h), L).dense()
        for h in (step, 2 * step)
    )
    return (8 * near - far) / (12 * step)


def check(kernel, L):
    for name, feature in settings_of(kernel):
        found, expected = rkhs.gram(kernel.tangent(name, feature), L).dense(), difference(kernel, name, feature, L)
        assert np.abs(found - expected).max() <= 1e-9 * np.abs(expected).max(), (name, feature)


@pytest.mark.parametrize("d", [d if d == 2 else pytest.param(d, marks=pytest.mark.slow) for d in DIMENSIONS])
@pytest.mark.parametrize("name", [k for k in KERNELS if KERNELS[k].make(2).parameters()])
def test_tangents_are_derivatives(name, d):
    """For every kernel and every kind of functional; points in pairs that coincide."""
    kernel = KERNELS[name].make(d)
    check(kernel, rkhs.stack([FAMILIES[f].make(points(d)) for f in bounded(kernel, d) if f in KINDS]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [
        rkhs.Gaussian((0.8, 0.5)),
        rkhs.Gaussian(0.8) @ np.array([[1.0, 2.0], [0.5, 1.0], [0.0, 1.0]]),
        rkhs.kernels.RationalQuadratic(0.7, (0.8, 1.2)),
    ],
    ids=repr,
)
def test_tangents_of_local_averages(kernel):
    """Mixtures have hundreds of Gaussians, so one functional must do."""
    L = rkhs.functionals.LocalAverage(X[:1], (0.4, 0.2))
    check(kernel, L if isinstance(kernel, rkhs.kernels.RationalQuadratic) else L - rkhs.Derivative(X[1:2], axes=[0]))


@pytest.mark.parametrize(
    ("kernel", "define"),
    [
        (rkhs.Matern(0.5, (0.7, 1.3)), lambda s: oracle.matern(0.5, s)),
        (rkhs.kernels.Laplace((0.7, 1.3)), oracle.laplace),
        (rkhs.Matern(1.5, (0.7, 1.3)), lambda s: oracle.matern(1.5, s)),
        (rkhs.Gaussian((0.7, 1.3)), oracle.gaussian),
    ],
    ids=["Matern 1/2", "Laplace", "Matern 3/2", "Gaussian"],
)
@pytest.mark.parametrize("distance", [1.0, 1e-3, 1e-9])
def test_values_to_30_digits(kernel, define, distance):
    """Also of rough kernels at near points, where phi' is large and q_j is small."""
    x, y = np.array([0.3, -0.2]), np.array([0.3, -0.2]) + distance * np.array([0.6, 0.8])
    found = [kernel.tangent("scale", j)(x[None], y[None])[0, 0] for j in range(2)]
    with mp.workdps(40):
        one, other = ([mp.mpf(float(v)) for v in point] for point in (x, y))
        for j, value in enumerate(found):

            def at(t, j=j):
                scales = [mp.mpf(s) * (mp.exp(t) if i == j else 1) for i, s in enumerate(kernel.scale)]
                return define(scales)(one, other)

            expected = mp.diff(at, 0)
            assert abs(value - float(expected)) <= 1e-13 * abs(float(expected))


def test_names_are_paths():
    kernel = (
        2.0
        * (rkhs.Gaussian(3.0) + rkhs.kernels.RationalQuadratic(1.5, (1.0, 2.0)) @ np.ones(2))
        * rkhs.kernels.Linear()
    )
    names = list(kernel.parameters())
    for name in names:
        value = eval(f"kernel.{name}", {"kernel": kernel})
        changed = kernel.with_parameters({name: 5.0})
        assert eval(f"kernel.{name}", {"kernel": changed}) == 5.0
        assert {n: v for n, v in changed.parameters().items() if n != name} == {
            n: v for n, v in kernel.parameters().items() if n != name
        }
        assert kernel.with_parameters({name: value}) == kernel


OPEN = [
    rkhs.Gaussian(scale=rkhs.Tunable()),
    rkhs.Gaussian(scale=rkhs.Tunable(each=True)),
    rkhs.kernels.RationalQuadratic(alpha=rkhs.Tunable()),
    rkhs.Tunable(start=2.0) * rkhs.Matern(1.5),
    rkhs.kernels.Multiple(rkhs.Tunable(), rkhs.Gaussian()) + rkhs.kernels.Linear(),
    (rkhs.Gaussian(rkhs.Tunable()) @ np.ones(2)) * rkhs.kernels.Linear(),
]


@pytest.mark.every
@pytest.mark.parametrize("kernel", OPEN, ids=repr)
def test_open_settings_are_seen_and_refused(kernel):
    assert "Tunable(" in repr(kernel)
    for use in (
        lambda: kernel(X),
        lambda: rkhs.gram(kernel, rkhs.Gradient(X)),
        lambda: rkhs.Problem(kernel, [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared())]).solve(),
        lambda: rkhs.Problem(
            kernel, [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared())], approximation=rkhs.FourierFeatures(4)
        ).solve(),
    ):
        with pytest.raises(ValueError, match=r"is not known yet.*left open.*problem\.tune\(\)"):
            use()


def test_kernels_declare_what_is_tunable():
    kernel = type("Own", (rkhs.Gaussian,), {})()
    object.__setattr__(kernel, "height", rkhs.Tunable())
    with pytest.raises(TypeError, match=r"height of Own cannot be Tunable.*write positive = \('scale', 'height'\)"):
        kernel(X)


@pytest.mark.parametrize(
    "weight", [rkhs.Tunable(), rkhs.Tunable() * np.arange(5.0), np.arange(5.0) * rkhs.Tunable(low=1e-3)]
)
def test_open_weights_are_seen_and_refused(weight):
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), weight=weight)
    assert "weight=Tunable(" in repr(term)
    for approximation in (None, rkhs.Landmarks(2)):
        with pytest.raises(ValueError, match=r"its weight is left open.*problem\.tune\(\)"):
            rkhs.Problem(rkhs.Gaussian(1.0), [term], approximation=approximation).solve()


VALUES = rkhs.Evaluation(X)
test_bad_bounds_and_weights = refused(
    (lambda: rkhs.Tunable(start=-1.0), "start of Tunable must be"),
    (lambda: rkhs.Tunable(low=2.0, high=1.0), "low <= start <= high"),
    (lambda: rkhs.Term(VALUES, rkhs.Squared(), weight=rkhs.Tunable(each=True)), "each=True"),
    (lambda: rkhs.Term(VALUES, rkhs.Squared(), weight=rkhs.Tunable() * np.ones(3)), "needs 5 weights"),
    (lambda: rkhs.Gaussian(1.0).tangent("width"), r"has no parameter 'width'.*scale"),
)
