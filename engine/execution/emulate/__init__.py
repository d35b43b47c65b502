"""Kernels run on the CPU: the same CUDA text, compiled against a twin of tile/include, in a child process."""
