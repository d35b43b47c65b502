"""Common axes of statements with different shapes: found where no value crosses a block, refused with a reason."""

from __future__ import annotations

import pytest

from engine.fusion.recompute import find_recomputable
from engine.fusion.shape import Shape, common_shape
from engine.fusion.stitched import own_axes, stitched_shape
from engine.tensor.index import Index
from engine.tensor.nodes import TensorProgram
from tests.kernels.stitched_programs import RandomBlocks, crossing, pooled_attention, turned
from tests.support.programs import apply, at, layernorm, matmul_bias_relu, number, program, softmax, statement


def shape_of(source: TensorProgram) -> Shape:
    shape = stitched_shape(source.statements, frozenset(source.outputs))
    assert isinstance(shape, Shape), shape
    return shape


def iterators(shape: Shape, axis: int) -> dict[str, str]:
    return {statement: name for (statement, name), its in shape.axes.items() if its == axis}


def test_different_reductions_share_the_blocks() -> None:
    source = pooled_attention()
    assert common_shape(source.statements, frozenset(source.outputs)) == "op_S0 reduces other axes"
    shape = shape_of(source)
    assert len(shape.rows) == 1
    assert iterators(shape, shape.rows[0]) == {"S0": "b", "S1": "b", "S2": "b", "S3": "b", "S4": "b", "S6": "p"}
    assert shape.inlined == ("S5",)
    assert [own_axes(s, shape) for s in source.statements if s.name in ("S0", "S4", "S6")] == [(1, 2), (1, 2), (2,)]


@pytest.mark.parametrize("source", [softmax(), layernorm()], ids=["softmax", "layernorm"])
def test_single_shapes_are_a_special_case(source: TensorProgram) -> None:
    single = common_shape(source.statements, frozenset(source.outputs))
    assert isinstance(single, Shape)
    shape = shape_of(source)
    assert [shape.extents[a] for a in shape.rows] == [single.extents[a] for a in single.rows]
    assert [shape.extents[a] for a in shape.columns] == [single.extents[a] for a in single.columns]


def test_a_value_that_every_row_needs_is_computed_again() -> None:
    source = program(
        "scaled",
        {"x": (64, 128), "g": (128,), "w": (128,), "m": (64,), "y": (64, 128)},
        [
            statement("S0", [("j", 128)], at("w", "j"), apply("mul", at("g", "j"), number(2.0))),
            statement("S1", [("i", 64), ("j", 128)], at("m", "i"), at("x", "i", "j"), ("max", "j")),
            statement(
                "S2", [("i", 64), ("j", 128)], at("y", "i", "j"),
                apply("add", apply("mul", at("x", "i", "j"), at("w", "j")), at("m", "i")),
            ),
        ],
        "y",
    )  # fmt: skip
    assert find_recomputable(source.statements, frozenset(source.outputs)) == {"S0"}
    assert shape_of(source).inlined == ("S0",)
    kept = stitched_shape(source.statements, frozenset({"y", "w"}))
    assert isinstance(kept, Shape), "8192 elements are few enough for one block"
    assert kept.rows == ()


def test_rows_and_columns_of_one_array_are_in_no_block_together() -> None:
    source = crossing(512, 512)
    reason = stitched_shape(source.statements, frozenset(source.outputs))
    assert reason == "op_S2 uses n of other blocks: one block would walk all 262144 elements"


def test_transposed_reads_keep_to_their_block() -> None:
    shape = shape_of(turned())
    assert [shape.extents[a] for a in shape.rows] == [6]
    statements = [
        statement("S0", [("i", 512), ("j", 512)], at("t", "i", "j"), apply("exp", at("x", "i", "j"))),
        statement(
            "S1", [("i", 512), ("j", 512)], at("y", "i", "j"), apply("add", at("t", "i", "j"), at("t", "j", "i"))
        ),
    ]
    reason = stitched_shape(statements, frozenset({"t", "y"}))
    assert reason == "op_S1 uses t of other blocks: one block would walk all 262144 elements"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("shifted", "op_S1 uses t of other blocks"),
        ("one", "op_S1 uses t of other blocks"),
        ("part", "op_S1 uses part of t"),
    ],
)
def test_reads_of_other_blocks_are_refused(change: str, reason: str) -> None:
    rows = {"shifted": 1023, "one": 1024, "part": 500}[change]
    row = {"shifted": Index.of("i") + 1, "one": Index.of(7), "part": Index.of("i")}[change]
    statements = [
        statement("S0", [("i", 1024), ("j", 64)], at("t", "i"), at("x", "i", "j"), ("sum", "j")),
        statement("S1", [("i", rows), ("j", 64)], at("y", "i", "j"), apply("add", at("x", "i", "j"), at("t", row))),
    ]
    found = stitched_shape(statements, frozenset({"y"}))
    assert found == f"{reason}: one block would walk all {1024 * 64} elements"


def test_matrix_products_ordered_sums_and_updates_are_refused() -> None:
    product = matmul_bias_relu()
    assert "matrix product" in str(stitched_shape(product.statements, frozenset(product.outputs)))
    ordered = softmax(associative=False)
    assert "takes its terms in order" in str(stitched_shape(ordered.statements, frozenset(ordered.outputs)))
    updated = [
        statement("S0", [("i", 8), ("j", 8)], at("m", "i"), at("x", "i", "j"), ("sum", "j")),
        statement("S1", [("i", 8), ("j", 8)], at("x", "i", "j"), apply("sub", at("x", "i", "j"), at("m", "i"))),
    ]
    assert stitched_shape(updated, frozenset({"x"})) == "op_S1 overwrites x where op_S0 may still need it"


@pytest.mark.parametrize("seed", range(40))
def test_no_value_crosses_the_axes_that_are_found(seed: int) -> None:
    """Producer and consumer index every common axis of an intermediate with its own iterator of that axis.

    What every block computes for itself has none of them, and reads nothing that one of the others makes.
    """
    source = RandomBlocks(seed).program()
    shape = shape_of(source)
    common = {key[0] for key, axis in shape.axes.items() if axis in shape.rows}
    stored = [s for s in source.statements if s.name not in shape.inlined]
    statements = [s for s in stored if s.name in common or not shape.rows]
    blocks = {s.write.array for s in statements}
    assert not any(a.array in blocks for s in stored if s not in statements for a in s.reads())
    writers = {s.write.array: s for s in statements}
    for axis in shape.rows:
        names = iterators(shape, axis)
        assert names.keys() == {s.name for s in statements}
        assert all(names[s.name] in {i.name for i in s.parallel} for s in statements)
        for reader in statements:
            for access in reader.reads():
                writer = writers.get(access.array)
                if writer is not None:
                    place = [str(i) for i in writer.write.indices].index(names[writer.name])
                    assert str(access.indices[place]) == names[reader.name]
