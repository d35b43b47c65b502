"""Logs of other tuners as runs to look at: Kernel Tuner (T4 results, cache files) and TVM (three kinds of logs)."""
