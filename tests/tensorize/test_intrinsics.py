"""The tables of instructions: fragments hold every element once, and mean the product that the expression says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from engine.target.hardware import WARP
from engine.tensor.evaluate import evaluate
from engine.tensor.nodes import Array, TensorProgram
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import Fragment, Intrinsic

ALL = pytest.mark.parametrize("intrinsic", INTRINSICS.values(), ids=list(INTRINSICS))


@ALL
def test_fragments_hold_every_element_once(intrinsic: Intrinsic) -> None:
    for fragment in (intrinsic.a, intrinsic.b, intrinsic.c):
        rows, columns = fragment.shape
        held = Counter((row, column) for _, _, row, column in fragment.places())
        assert held == Counter((i, j) for i in range(rows) for j in range(columns))
    assert intrinsic.a.shape == (intrinsic.m, intrinsic.k)
    assert intrinsic.b.shape == (intrinsic.k, intrinsic.n)
    assert intrinsic.c.shape == (intrinsic.m, intrinsic.n)


@ALL
def test_neighbouring_registers_of_sums_are_neighbouring_columns(intrinsic: Intrinsic) -> None:
    places = {(lane, register): (row, column) for lane, register, row, column in intrinsic.c.places()}
    for lane in range(WARP):
        for register in (0, 2):
            row, column = places[lane, register]
            assert places[lane, register + 1] == (row, column + 1)
            assert column % 2 == 0


@ALL
def test_meaning_through_fragments_is_numpys_product(intrinsic: Intrinsic) -> None:
    """Operands scattered to lanes and gathered again, and the sums: all through the maps alone."""
    rng = np.random.default_rng(7)
    a = rng.integers(-8, 9, (intrinsic.m, intrinsic.k)).astype(np.float32)
    b = rng.integers(-8, 9, (intrinsic.k, intrinsic.n)).astype(np.float32)
    first = gathered(intrinsic.a, scattered(intrinsic.a, a))
    second = gathered(intrinsic.b, scattered(intrinsic.b, b))
    sums = scattered(intrinsic.c, meaning(intrinsic, first, second))
    np.testing.assert_array_equal(gathered(intrinsic.c, sums), a @ b)


def meaning(intrinsic: Intrinsic, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The instruction's own expression, evaluated."""
    arrays = {
        "a": Array("a", a.shape, "float32"), "b": Array("b", b.shape, "float32"),
        "d": Array("d", (intrinsic.m, intrinsic.n), "float32"),
    }  # fmt: skip
    program = TensorProgram("mma", arrays, (intrinsic.meaning,), ("a", "b"), ("d",))
    return evaluate(program, {"a": a, "b": b})["d"]


def scattered(fragment: Fragment, matrix: np.ndarray) -> np.ndarray:
    """Registers of each lane."""
    held = np.full((WARP, fragment.registers), np.nan, matrix.dtype)
    for lane, register, row, column in fragment.places():
        held[lane, register] = matrix[row, column]
    return held


def gathered(fragment: Fragment, held: np.ndarray) -> np.ndarray:
    """The matrix that the lanes hold."""
    matrix = np.full(fragment.shape, np.nan, held.dtype)
    for lane, register, row, column in fragment.places():
        matrix[row, column] = held[lane, register]
    return matrix
