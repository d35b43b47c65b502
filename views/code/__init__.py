"""CUDA text linked to statements."""
