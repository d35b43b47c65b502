"""Execute the PTX that NVRTC emits, on the CPU: whether the compiled code computes what the CUDA text says."""
