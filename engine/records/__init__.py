"""Trials that were run, kept in one file: what was run, where, and what came of it."""
