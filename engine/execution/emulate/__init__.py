"""The emulator: a kernel's CUDA text compiled as C++ against other versions of tile/include and run in a child."""
