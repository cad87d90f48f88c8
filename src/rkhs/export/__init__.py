"""Export of fitted models: model files (`rkhs.save`), and ONNX and JSON for other programs."""

from rkhs.export._model_files import notes_of
from rkhs.export._sklearn_onnx import register_converters

__all__ = ["notes_of", "register_converters"]
