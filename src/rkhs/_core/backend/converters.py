"""The methods by which sklearn-onnx finds the converters of this library, without an import on either side.

`skl2onnx` asks an estimator that it does not know for these methods.  The converters are above the estimators in the
order of imports, so that they are looked up by name when they are called.
"""

from importlib import import_module
from typing import Any


class HasOnnxConverter:
    """A fitted model that sklearn-onnx can convert as a part of a pipeline."""

    def onnx_shape_calculator(self) -> Any:
        """Return the function that sets the types of outputs, for sklearn-onnx.

        Returns
        -------
        callable
            A function of an operator of sklearn-onnx.
        """
        return import_module("rkhs.export._sklearn_onnx").set_output_types

    def onnx_converter(self) -> Any:
        """Return the function that adds the model to a graph, for sklearn-onnx.

        Returns
        -------
        callable
            A function of a scope, an operator and a container of sklearn-onnx.
        """
        return import_module("rkhs.export._sklearn_onnx").convert
