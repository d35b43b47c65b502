"""PyTorch: plans as modules, a backend of `torch.compile`, and graphs from `torch.export`."""
