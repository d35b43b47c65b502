"""The examples in the docstrings of the library's names do what they say; what a script needs has one."""

from __future__ import annotations

import doctest
from collections.abc import Iterator

import numpy
import pytest

import engine
from tests.support.needs import needs_compiler

NEEDED = (
    "load", "fuse", "default_recipe", "entry", "schedule", "compile", "check", "check_model", "predict", "run",
    "inputs", "tune", "transfer",
)  # fmt: skip


def examples() -> Iterator[doctest.DocTest]:
    """One for each public name with an example."""
    finder = doctest.DocTestFinder(recurse=False)
    for name in engine.__all__:
        for test in finder.find(getattr(engine, name), name, globs={"engine": engine, "numpy": numpy}):
            if test.examples:
                yield test


@needs_compiler
@pytest.mark.parametrize("test", tuple(examples()), ids=lambda test: test.name)
def test_an_example_does_what_it_says(test: doctest.DocTest) -> None:
    told: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=told.append)
    assert result.failed == 0, "".join(told)


def test_what_a_script_needs_has_an_example() -> None:
    shown = {test.name for test in examples()}
    assert set(NEEDED) <= shown, set(NEEDED) - shown
