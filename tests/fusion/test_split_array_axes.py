"""Axes of arrays that fall into two: where every access says which of the inner ones it means."""

from __future__ import annotations

import numpy as np
import pytest

from engine.fusion.split_array_axes import split_array_axes
from engine.tensor.evaluate import evaluate
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Guard, Literal, TensorProgram
from tests.support.programs import apply, at, program, statement

HIGH, WIDE, CHANNELS = 6, 8, 5
ROW, COLUMN = Index.of("i"), Index.of("j")
TOKEN = ROW * WIDE + COLUMN
INSIDE = (ROW - 1, COLUMN - 1)


def tokens(guards: tuple[Index, ...]) -> TensorProgram:
    """Each token and the one a row above and a column before it, where `guards` are at least 0."""
    before = Access("x", (TOKEN - WIDE - 1, Index.of("c")), tuple(map(Guard, guards)), Literal(0.0, "float32"))
    loops = [("i", HIGH), ("j", WIDE), ("c", CHANNELS)]
    one = statement("S0", loops, at("y", TOKEN, "c"), apply("add", before, at("x", TOKEN, "c")))
    return program("tokens", {"x": (HIGH * WIDE, CHANNELS), "y": (HIGH * WIDE, CHANNELS)}, [one], "y")


def test_tokens_become_an_image() -> None:
    before = tokens(INSIDE)
    after = split_array_axes(before)
    assert {array.shape for array in after.arrays.values()} == {(HIGH, WIDE, CHANNELS)}
    (one,) = after.statements
    assert [str(index) for index in one.write.indices] == ["i", "j", "c"]
    assert {tuple(map(str, access.indices)) for access in one.reads()} == {("i", "j", "c"), ("i - 1", "j - 1", "c")}
    x = np.random.default_rng(3).standard_normal((HIGH * WIDE, CHANNELS), np.float32)
    whole = evaluate(after, {"x": x.reshape(HIGH, WIDE, CHANNELS)})["y"]
    np.testing.assert_array_equal(whole.reshape(HIGH * WIDE, CHANNELS), evaluate(before, {"x": x})["y"])


@pytest.mark.parametrize("guards", [(), INSIDE[:1], (INSIDE[0], COLUMN)], ids=["none", "rows", "too little"])
def test_what_may_leave_its_row_stays(guards: tuple[Index, ...]) -> None:
    """Without a guard the column before the first one is the last one of the row above."""
    assert split_array_axes(tokens(guards)).arrays["x"].shape == (HIGH * WIDE, CHANNELS)


def test_an_array_that_is_read_token_by_token_stays() -> None:
    other = statement("S1", [("t", HIGH * WIDE), ("c", CHANNELS)], at("z", "t", "c"), at("x", "t", "c"))
    first = tokens(INSIDE)
    shapes = {name: array.shape for name, array in first.arrays.items()} | {"z": (HIGH * WIDE, CHANNELS)}
    after = split_array_axes(program("both", shapes, [*first.statements, other], "y z"))
    assert after.arrays["x"].shape == (HIGH * WIDE, CHANNELS)
    assert after.arrays["y"].shape == (HIGH, WIDE, CHANNELS)


def test_a_plain_program_is_the_same_object() -> None:
    one = statement("S0", [("t", 48), ("c", CHANNELS)], at("y", "t", "c"), at("x", "t", "c"))
    plain = program("plain", {"x": (48, CHANNELS), "y": (48, CHANNELS)}, [one], "y")
    assert split_array_axes(plain) is plain
