"""Contractions on tensor cores: the instructions as data, and which contraction each can compute."""
