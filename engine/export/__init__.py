"""Programs that go with generated kernels: `harness.py` and `torch_module.py` are copied as they stand."""
