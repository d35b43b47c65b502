"""Kernels for CPUs: from a scheduled group to C++, of which the host's compiler makes vectors; a model of times."""
