"""Kernels for CPUs on this machine: built by its compiler, run, and timed, in child processes with limits."""
