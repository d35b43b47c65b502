"""Stitched kernels: reductions and element-wise parts of different shapes in one block."""
