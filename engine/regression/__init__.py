"""Regression checks without a GPU: counts of a model's kernels as a file, and files of results compared."""
