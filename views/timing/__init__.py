"""Times of kernels."""
