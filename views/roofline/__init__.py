"""Kernels against what their GPU can do."""
