"""Models as files and as ONNX graphs."""
