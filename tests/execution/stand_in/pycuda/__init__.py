"""A stand-in for PyCUDA, found first on the worker's path by one test."""
