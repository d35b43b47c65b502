"""Comparing kernels and whole models with an implementation that is not ours."""
