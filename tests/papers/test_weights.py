"""The weights of the papers, as on the page of notation: each form, minimized by itself, has the f of our problem."""

import re
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import rkhs
from papers.weights import FORMS, GRID, LETTERS, PENALTIES, X, Y, by_program, scale

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "notation.md").read_text()
ROWS = re.findall(
    r"^\| ([^|]+) \|[^|]+\| `([^`]+)` \|(?: `([^`]+)`)? \|$", PAGE.partition("\n## Weights\n")[2], re.MULTILINE
)


@pytest.mark.parametrize("form", FORMS)
def test_both_forms_have_the_same_minimizer(form):
    [(_, C, weight)] = [row for row in ROWS if row[0].startswith(form)]
    of_labels, of_slopes, other = FORMS[form]
    terms = [rkhs.Term(rkhs.Evaluation(X[:4]), of_labels, target=Y, weight=eval(C, LETTERS.copy()))]
    assert bool(weight) == (of_slopes is not None)
    if weight:
        terms.append(rkhs.Term(rkhs.Gradient(X), of_slopes, weight=eval(weight, LETTERS.copy())))
    kernel = rkhs.kernels.ThinPlate(order=2) if form == "2007" else rkhs.Gaussian(scale)
    basis = rkhs.Constant() if "SVC" in form else None
    f = rkhs.Problem(kernel, terms, basis).solve(tol=1e-12).function
    np.testing.assert_allclose(f(GRID), other(), atol=2e-4 * np.abs(f(GRID)).max())


@pytest.mark.parametrize("name", PENALTIES)
def test_any_nondecreasing_penalty_of_the_norm_has_a_minimizer_in_the_span(name):
    R, slope = PENALTIES[name]

    def J(s, u, g):
        return cp.sum_squares(u - Y) + R(s)

    f, least, norm = by_program(J)
    assert by_program(J, more=np.linspace(-3, 3, 8)[:, None])[1] == pytest.approx(least, abs=1e-6)
    if name == "flat":  # there are many, with the losses of interpolation
        assert least == pytest.approx(0.0, abs=1e-6)
        return
    labels = rkhs.Term(rkhs.Evaluation(X[:4]), rkhs.Squared(), target=Y, weight=norm / slope(norm))
    ours = rkhs.Problem(rkhs.Gaussian(scale), [labels]).solve(tol=1e-12).function
    np.testing.assert_allclose(ours(GRID), f, atol=1e-3 * np.abs(f).max())


def test_a_hard_margin_is_a_soft_one_above_its_largest_coefficient():
    def fit(C):
        labels = rkhs.Term(rkhs.Evaluation(X[:4]), rkhs.Hinge(), target=Y, weight=C)
        return rkhs.Problem(rkhs.Gaussian(scale), [labels]).solve(tol=1e-12).function

    r = X[:4] - X[:4].T
    K = np.exp(-(r**2) / (2 * scale**2))
    a = cp.Variable(4)
    root = np.linalg.cholesky(K).T
    cp.Problem(cp.Minimize(cp.sum_squares(root @ a)), [cp.multiply(Y, K @ a) >= 1]).solve(cp.CLARABEL)
    C = 1.01 * np.abs(a.value).max()
    np.testing.assert_allclose(fit(C).coefficients, a.value, atol=1e-5 * C)
    assert np.abs(fit(C / 2).coefficients).max() == pytest.approx(C / 2)
    np.testing.assert_allclose(fit(np.inf).coefficients, a.value, atol=1e-5 * C)


def test_every_row_is_tested():
    assert len(ROWS) == len(FORMS)
