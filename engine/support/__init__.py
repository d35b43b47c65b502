"""Shared by all stages: errors, serialization, file access and the compile cache."""
