"""Laws that hold for any kernel, any functionals and any points, drawn by hypothesis.

Points lie on a grid of step 1/8, so that coincident ones are common and transformed ones keep their
distances to rounding.  The examples are the same in every run.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

import rkhs
from rkhs._core.gram.rounding import magnitudes
from rkhs.testing._laws import demand, demand_equal, largest, restricted, rounding

laws = settings()  # of the quick run or of all tests, see conftest.py

dimensions = st.integers(1, 3)
factors = st.sampled_from([0.25, 0.5, 1.5, 2.0, 3.0])


def grids(*shape):
    """Arrays of multiples of 1/8 between -2 and 2."""
    return arrays(np.int64, shape, elements=st.integers(-16, 16)).map(lambda a: a / 8)


# Kernels.


def scales(d):
    one = st.sampled_from([0.6, 1.0, 1.7])
    return one | st.tuples(*[one] * d)


def radial(d):
    """Positive definite functions of the distance."""
    return st.one_of(
        st.builds(rkhs.Gaussian, scales(d)),
        st.builds(rkhs.Matern, st.sampled_from([0.5, 1.5, 2.5, 3.5]), scales(d)),
        st.builds(rkhs.kernels.RationalQuadratic, st.sampled_from([0.5, 1.0, 2.3]), scales(d)),
    )


def isotropic():
    """Those with one scale for all features."""
    return radial(1).filter(lambda k: isinstance(k.scale, float))


def dot_product():
    polynomials = st.builds(rkhs.kernels.Polynomial, st.integers(1, 4), st.sampled_from([0.0, 0.5, 1.0]))
    return polynomials | st.just(rkhs.kernels.Linear())


def polyharmonic():
    return st.builds(rkhs.kernels.Polyharmonic, st.sampled_from([0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 7]))


def conditional(d):
    """Conditionally positive definite kernels."""
    thin_plates = st.integers(d // 2 + 1, d // 2 + 3).map(rkhs.kernels.ThinPlate)
    return polyharmonic() | thin_plates


def algebra(inner, d):
    """Kernels from kernels."""
    return st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda c, k: c * k, factors, inner),
        st.builds(lambda k, A: k @ A, inner, grids(d, d) | grids(d).map(lambda a: 1 + a**2)),
    )


def definite(d):
    leaves = radial(d) | dot_product()
    once = algebra(leaves, d)
    return leaves | once | algebra(leaves | once, d)


def kernels(d):
    mixed = st.builds(lambda a, b, c: c * a + b, conditional(d), definite(d), factors)
    return definite(d) | conditional(d) | mixed


# Functionals.


@st.composite
def families(draw, kernel, d, largest_family=12):
    """A family that is bounded on the space of the kernel, perhaps made from others."""
    limit = kernel.smoothness(d)
    t = draw(st.integers(1, 4))
    X = draw(grids(t, d))
    kinds = ["Evaluation", "Difference", "GraphDifference", "Average", "LocalAverage"]
    kinds += ["Derivative", "Gradient", "DirectionalDerivative"] if limit > 1 else []
    kinds += ["Second", "Hessian", "Laplacian"] if limit > 2 else []
    match draw(st.sampled_from(kinds)):
        case "Difference":
            L = rkhs.Difference(X, draw(grids(t, d)))
        case "GraphDifference":
            edges = draw(st.lists(st.tuples(*[st.integers(0, t - 1)] * 2), min_size=1, max_size=3))
            L = rkhs.functionals.GraphDifference(
                X, edges, draw(st.lists(factors, min_size=len(edges), max_size=len(edges)))
            )
        case "Average":
            L = rkhs.functionals.Average(draw(grids(t, 2, d)), draw(st.tuples(factors, factors)))
        case "LocalAverage":
            L = rkhs.functionals.LocalAverage(X, draw(scales(d)))
        case "Derivative":
            L = rkhs.Derivative(X, axes=[draw(st.integers(0, d - 1))])
        case "DirectionalDerivative":
            L = rkhs.functionals.DirectionalDerivative(X, draw(grids(t, d) | grids(t, 2, d)))
        case "Second":
            L = rkhs.Derivative(X, axes=draw(st.tuples(*[st.integers(0, d - 1)] * 2)))
        case simple:
            L = getattr(rkhs.functionals, simple)(X)
    match draw(st.sampled_from(["plain", "plain", "scaled", "mixed", "taken"])):
        case "scaled":
            L = draw(factors) * L - L / 3
        case "mixed":
            L = draw(grids(2, L.size)) @ L
        case "taken":
            L = L.take(draw(st.lists(st.integers(0, L.size - 1), min_size=1, max_size=4)))
    return L.take(slice(0, largest_family)) if L.size > largest_family else L


@st.composite
def spaces(draw, kernels=kernels, count=2):
    """A kernel and some families that are bounded on its space."""
    d = draw(dimensions)
    kernel = draw(kernels(d))
    return kernel, *(draw(families(kernel, d)) for _ in range(count))


def dense(kernel, L, M=None):
    return rkhs.gram(kernel, L, M).dense()


# The laws.


@laws
@given(spaces(count=1), st.data())
def test_gram_is_symmetric_and_positive_semi_definite(space, data):
    kernel, L = space
    L = rkhs.stack([L, rkhs.Evaluation(data.draw(grids(8, L.dimension)))])  # enough for a null space to leave some
    G, P = dense(kernel, L), L(kernel.null_space)
    demand_equal(kernel, "G = G'", G, G.T)
    least = np.min(np.linalg.eigvalsh(restricted(G, P)), initial=0.0)
    demand(kernel, "c'Gc >= 0 for P'c = 0", -least, rounding(G))


@laws
@given(spaces(count=3), factors, factors, st.data())
def test_gram_is_bilinear(space, a, b, data):
    kernel, L, M, N = space
    size = np.arange(max(L.size, M.size))
    L, M = L.take(size % L.size), M.take(size % M.size)
    one, other = dense(kernel, L, N), dense(kernel, M, N)
    scale = a * largest(one) + b * largest(other)
    demand_equal(
        kernel, "<a L - b M, N> = a <L, N> - b <M, N>", dense(kernel, a * L - b * M, N), a * one - b * other, scale
    )
    W = data.draw(grids(3, L.size))
    demand_equal(kernel, "<W L, N> = W <L, N>", dense(kernel, W @ L, N), W @ one, largest(abs(W) @ abs(one)))
    demand_equal(kernel, "<N, W L> = <N, L> W'", dense(kernel, N, W @ L), one.T @ W.T, largest(abs(W) @ abs(one)))


@laws
@given(spaces(count=2), st.sampled_from([2e3, 1e4]))
def test_all_ways_to_the_gram_matrix_agree(space, memory):
    """Products, blocks and the diagonal; in little memory, and in PyTorch."""
    kernel, L, M = space
    expected = dense(kernel, L, M)
    v = np.cos(np.arange(2.0 * M.size)).reshape(M.size, 2)
    scale, rows, columns = largest(abs(expected) @ abs(v)), np.arange(L.size) % 2 == 0, [-1, 0]
    operators = {
        "NumPy": rkhs.gram(kernel, L, M),
        "little memory": rkhs.gram(kernel, L, M, memory=memory),
        "PyTorch": rkhs.gram(kernel, *(family.like(torch.zeros(0, dtype=torch.float64)) for family in (L, M))),
    }
    for way, G in operators.items():
        assert isinstance(G.dense(), torch.Tensor) == (way == "PyTorch")
        assert G.shape == (L.size, M.size)
        u = torch.tensor(v) if way == "PyTorch" else v
        demand_equal(G, f"dense, {way}", G.dense(), expected)
        demand_equal(G, f"G v, {way}", G @ u, expected @ v, scale)
        demand_equal(G, f"G v for one v, {way}", G @ u[:, 1], expected @ v[:, 1], scale)
        demand_equal(G, f"diagonal, {way}", G.diagonal(), np.diag(expected), largest(expected))
        demand_equal(G, f"block, {way}", G.block(rows, columns), expected[rows][:, columns], largest(expected))
        demand_equal(G, f"G', {way}", G.T.dense(), expected.T)
    square = rkhs.gram(kernel, L)
    demand_equal(square, "diagonal of <L, L>", square.diagonal(), np.diag(square.dense()), largest(square.dense()))


@laws
@given(st.data())
def test_the_algebra_of_kernels_is_that_of_their_values(data):
    d = data.draw(dimensions)
    one, other = data.draw(definite(d)), data.draw(definite(d))
    X, Y, c, A = data.draw(grids(3, d)), data.draw(grids(2, d)), data.draw(factors), data.draw(grids(d, d))
    k, h = one(X, Y), other(X, Y)
    demand_equal(one, "(k + h)(x, y) = k(x, y) + h(x, y)", (one + other)(X, Y), k + h, largest(k) + largest(h))
    demand_equal(one, "(c k)(x, y) = c k(x, y)", (c * one)(X, Y), c * k)
    demand_equal(one, "(k h)(x, y) = k(x, y) h(x, y)", (one * other)(X, Y), k * h, largest(k) * largest(h))
    demand_equal(one, "(k A)(x, y) = k(A x, A y)", (one @ A)(X, Y), one(X @ A.T, Y @ A.T))
    demand_equal(one, "k + h = h + k", (one + other)(X, Y), (other + one)(X, Y), largest(k) + largest(h))
    demand_equal(one, "k(X) = k(X, X)", one(X), one(X, X))


@st.composite
def jets(draw, kernel, d):
    """Values and, where bounded, directional derivatives: a function of points (t, d), and what they need."""
    X, V = draw(grids(3, d)), draw(grids(3, 2, d))

    def family(move=lambda X: X, turn=lambda V: V):
        values = rkhs.Evaluation(move(X))
        slopes = [rkhs.functionals.DirectionalDerivative(move(X), turn(V))] if kernel.smoothness(d) > 1 else []
        return rkhs.stack([values, *slopes])

    return family


@laws
@given(st.data())
def test_radial_kernels_do_not_see_rotations_and_translations(data):
    d = data.draw(dimensions)
    kernel = data.draw(isotropic() | conditional(d) | dot_product())
    family = data.draw(jets(kernel, d))
    R = np.linalg.qr(np.random.default_rng(data.draw(st.integers(0, 99))).standard_normal((d, d)))[0]
    turned = family(lambda X: X @ R.T, lambda V: V @ R.T)
    expected = dense(kernel, family())
    demand_equal(kernel, "k(R x, R y) = k(x, y)", dense(kernel, turned), expected, largest(expected))
    kernel, shift = data.draw(radial(d) | conditional(d)), data.draw(grids(d))
    family = data.draw(jets(kernel, d))
    moved = family(lambda X: X + 8 * shift)
    demand_equal(kernel, "k(x + a, y + a) = k(x, y)", dense(kernel, moved), dense(kernel, family()))


@laws
@given(st.data(), factors)
def test_polyharmonic_kernels_scale_with_a_power(data, s):
    """<L, M> at s x is s^power times that at x; with a logarithm, on the c that vanish on polynomials."""
    d = data.draw(dimensions)
    kernel = data.draw(polyharmonic())
    family = data.draw(jets(kernel, d))
    L, wider = family(), family(lambda X: s * X, lambda V: s * V)
    G, H, P = dense(kernel, L), dense(kernel, wider), L(kernel.null_space)
    scale = s**kernel.power * max(largest(G), 1.0)
    if kernel.power % 2 == 0:
        demand_equal(kernel, "c'G(s x)c = s^power c'G(x)c", restricted(H, P), s**kernel.power * restricted(G, P), scale)
    else:
        demand_equal(kernel, "G(s x) = s^power G(x)", H, s**kernel.power * G, scale)


@laws
@given(spaces(count=3), factors)
def test_functions_form_an_inner_product_space(space, a):
    kernel, L, M, N = space
    f = rkhs.results.Function(kernel, L, np.cos(np.arange(L.size)))
    g = rkhs.results.Function(kernel, M, np.sin(1.0 + np.arange(M.size)))
    cross = dense(kernel, L, M)
    sizes = [float(np.max(magnitudes(kernel, family), initial=0.0)) for family in (L, M, N)]
    with_f, with_g = (
        max(largest(dense(kernel, N, family)), size * sizes[2])
        * family.size  # entries may be differences that are zero
        for family, size in zip((L, M), sizes, strict=False)
    )
    size = with_f + a * with_g
    demand_equal(kernel, "N(f - a g) = N(f) - a N(g)", N(f - a * g), N(f) - a * N(g), size)
    demand_equal(kernel, "N(f) = <z_N, f>", N(f).ravel(), dense(kernel, N, L) @ f.coefficients, size)
    representer = rkhs.results.Function(kernel, N.take([0]), [1.0])  # z_N itself is a function
    demand_equal(kernel, "<z_N, f> = N(f)", np.array(representer.inner(f)), N.take([0])(f)[0], size)
    scale = max(largest(cross), sizes[0] * sizes[1]) * L.size * M.size
    inner = f.inner(g)
    demand_equal(kernel, "<f, g> = a'Gb", np.array(inner), f.coefficients @ cross @ g.coefficients, scale)
    demand_equal(kernel, "<f, g> = <g, f>", np.array(inner), np.array(g.inner(f)), scale)
    demand_equal(kernel, "<f, a g> = a <f, g>", np.array(f.inner(a * g)), np.array(a * inner), a * scale)
    X = np.array([[0.5] * L.dimension])
    demand_equal(kernel, "f(x) = Evaluation(x)(f)", f(X), rkhs.Evaluation(X)(f))
    if kernel.order == 0:
        noise = rounding(np.array(scale), dense(kernel, L) * L.size**2, dense(kernel, M) * M.size**2)
        demand(kernel, "|<f, g>| <= |f| |g|", abs(inner), f.norm() * g.norm() + noise)
        parallelogram = (f + g).norm() ** 2 + (f - g).norm() ** 2 - 2 * (f.norm() ** 2 + g.norm() ** 2)
        demand(kernel, "|f + g|^2 + |f - g|^2 = 2 |f|^2 + 2 |g|^2", abs(parallelogram), 4 * noise)
        demand(kernel, "|f - f| = 0", (f - f).norm() ** 2, 4 * noise)


def test_the_examples_are_the_same_in_every_run():
    assert laws.derandomize
    assert laws.max_examples <= 50


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_strategies_reach_every_family(d):
    """Nothing above holds for want of examples."""
    seen = set()

    @settings(laws, max_examples=150)
    @given(kernels(d))
    def collect(kernel):
        seen.add(type(kernel).__name__)

    collect()
    assert seen >= {"Gaussian", "Matern", "RationalQuadratic", "Polynomial", "Linear", "Polyharmonic", "ThinPlate"}
    assert seen >= {"Sum", "Product", "Multiple", "LinearTransform"}
