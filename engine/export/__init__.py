"""Export of generated kernels.  `harness.py` and `torch_module.py` are copied verbatim."""
