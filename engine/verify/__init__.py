"""Verify kernels and whole models against independent implementations."""
