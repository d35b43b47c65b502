"""The tile program: one kernel as loops and tile operations, its checks, and its CUDA text."""
