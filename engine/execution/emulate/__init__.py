"""Kernels run on the CPU: the same CUDA text, compiled against a twin of codegen/include, in a child process."""
