"""No edit takes longer than two seconds of the processor: the slowest of a thousand random ones."""

from __future__ import annotations

from functools import cache
from time import process_time

import pytest

import engine
from engine.compilation import compile_group
from engine.fusion.nodes import FusionGroup
from engine.scheduling.nodes import FIRST_ANSWER
from tests.support.commands import MODELS

LONGEST = 2.0
"""Seconds of the processor."""
EDITS = (
    ("jacobi_1d_40x30", "concat_2", "S6 @ outermost: terms shift\n  required S8 @ innermost: split 4"),
    ("jacobi_2d_40x30", "add_0", "required S3 @ outermost: terms shift\n  required S9 @ innermost: pin k"),
    ("jacobi_2d_40x30", "add_0",
     "required S192 @ innermost: parallel true\n  required S170 @ l: terms (S170, const, 2)\n"
     "  required S225 @ outermost: terms (S225, k, 2)"),
)  # fmt: skip


@cache
def group(file: str, name: str) -> FusionGroup:
    return engine.fuse(engine.load(MODELS / f"{file}.onnx")).group(name)


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name", "lines"), EDITS)
def test_an_edit_is_answered_in_two_seconds(file: str, name: str, lines: str) -> None:
    of = group(file, name)
    recipe = engine.merge_advice(engine.default_recipe(of), of, f"advice user\n  {lines}\n")
    begin = process_time()
    try:
        engine.kernel_doc(compile_group(of, recipe, options=FIRST_ANSWER))
    except engine.EngineError as refused:
        assert refused.reason
    assert process_time() - begin < LONGEST
