"""The examples in the docstrings of the library's names do what they say; what a script needs has one."""

from __future__ import annotations

import doctest
import os
import sys
import tempfile

import numpy
import pytest

import engine
from tests.support.needs import needs_compiler

NEEDED = (
    "load", "fuse", "default_recipe", "entry", "schedule", "compile", "check", "check_model", "predict", "run",
    "inputs", "tune", "transfer", "measure", "regroup", "why_apart", "read_recipe", "write_recipe",
)  # fmt: skip
TORCH = ("torch_op", "torch_backend", "from_torch")


def examples(name: str) -> list[doctest.DocTest]:
    """Those of a public name; none where its docstring shows nothing."""
    known = {"engine": engine, "numpy": numpy, "os": os, "tempfile": tempfile, "torch": sys.modules.get("torch")}
    found = doctest.DocTestFinder(recurse=False).find(getattr(engine, name), name, globs=known)
    return [test for test in found if test.examples]


@needs_compiler
@pytest.mark.parametrize("name", engine.__all__)
def test_an_example_does_what_it_says(name: str) -> None:
    if name in TORCH:
        pytest.importorskip("torch", reason="PyTorch is not installed")
        pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")
    for test in examples(name):
        told: list[str] = []
        result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=told.append)
        assert result.failed == 0, "".join(told)


@pytest.mark.parametrize("name", (*NEEDED, *TORCH))
def test_what_a_script_needs_has_an_example(name: str) -> None:
    assert examples(name)
