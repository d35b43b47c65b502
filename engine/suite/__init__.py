"""Benchmark suites: rows of `resources/suites`, each an operator graph with the least bytes and operations it needs."""

from engine.suite.nodes import Ceilings, Suite, SuiteRow
from engine.suite.read import SUITES, is_reference, model_file, read_row, read_suite, suite_names

__all__ = [
    "SUITES", "Ceilings", "Suite", "SuiteRow", "is_reference", "model_file", "read_row", "read_suite", "suite_names",
]  # fmt: skip
