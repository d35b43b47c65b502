"""Packed kernels (horizontal fusion): independent parts, each in a range of the blocks of one launch."""
