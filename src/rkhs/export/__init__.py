"""Export of fitted models to ONNX and JSON."""
