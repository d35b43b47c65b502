"""Programs of torch.export: the archive, and what each ATen operator is in ONNX."""
