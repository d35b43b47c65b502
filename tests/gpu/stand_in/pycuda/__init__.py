"""A stand-in for PyCUDA whose launches are emulated on the CPU, for dry runs of the benchmark."""
