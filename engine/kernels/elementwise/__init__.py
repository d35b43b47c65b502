"""Element-wise kernels and transposes."""
