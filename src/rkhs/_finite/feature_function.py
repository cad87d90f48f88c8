"""Functions in the span of features, which are their own basis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rkhs._backend.arrays import Array, like, namespace
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.function import Function
from rkhs._gram.fourier_span import FourierSpan
from rkhs._gram.landmark_span import LandmarkSpan
from rkhs._gram.span import Span
from rkhs.functionals.base import Functional
from rkhs.functionals.values import Evaluation


@dataclass(frozen=True, eq=False)
class FeatureFunction:
    """f = sum_a tau_a psi_a + sum_j c_j p_j: random features, and basis functions.

    It is used as `Function` is: `f(X)`, `L(f)`, `f.norm()`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 30)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(6 * X[:, 0]), weight=1e4)
    >>> features = rkhs.FourierFeatures(100)
    >>> f = rkhs.Problem(rkhs.Gaussian(scale=0.3), [term], approximation=features).solve().function
    >>> rkhs.Derivative(np.array([[0.5]]), axes=[0])(f).round(0)
    array([-6.])
    """

    features: FourierSpan
    coefficients: Array  # (p,) or (p, outputs), of norm |tau|
    basis: FunctionSpace | None = None
    basis_coefficients: Array | None = None

    @property
    def outputs(self) -> int | None:
        """The number of outputs, or None for a function with values in R."""
        return int(self.coefficients.shape[1]) if self.coefficients.ndim == 2 else None

    def __call__(self, X: Array) -> Array:
        """f(x) at the rows of X: (t,) or (t, outputs)."""
        return self.apply(Evaluation(X))

    def apply(self, functional: Functional) -> Array:
        """L(f), in the shape of L, with a last axis for several outputs; computed where f is."""
        functional = self.features.brought(functional)
        rows = self.features.rows(functional)
        values = rows @ like(self.coefficients, rows)
        if self.basis is not None:
            values = values + like(functional.assemble(self.basis.on), rows) @ like(self.basis_coefficients, rows)
        return namespace(values).reshape(values, (*functional.shape, *values.shape[1:]))

    def norm(self) -> Any:
        """|tau|; one number per output."""
        size = namespace(self.coefficients).linalg.vector_norm(self.coefficients, axis=0)
        return float(size) if self.outputs is None else size

    def output(self, which: int) -> FeatureFunction:
        """One output of a function with several."""
        basis = None if self.basis_coefficients is None else self.basis_coefficients[:, which]
        return replace(self, coefficients=self.coefficients[:, which], basis_coefficients=basis)


def function_of(
    span: Span, tau: Array, basis: FunctionSpace | None, coefficients: Array | None
) -> Function | FeatureFunction:
    """The function with coefficients tau (p,) or (p, outputs) on the functions of a span."""
    if isinstance(span, FourierSpan):
        return FeatureFunction(span, tau, basis, coefficients)
    assert isinstance(span, LandmarkSpan)
    return Function(span.kernel, span.functionals, tau, basis, coefficients)
