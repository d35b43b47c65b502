"""Long reductions in parts: the same numbers, as stable, and one kernel less for who needs the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import engine
from engine.fusion.shape import Shape
from engine.fusion.split_reductions import in_parts
from engine.fusion.stitched import stitched_shape
from engine.fusion.stitching.nodes import Fixed
from engine.tensor.evaluate import evaluate
from engine.tensor.index import Index
from engine.tensor.nodes import Statement, TensorProgram
from tests.fusion.test_narrow import model
from tests.support.needs import needs_compiler, needs_nvrtc
from tests.support.programs import apply, at, number, program, softmax, statement

ROWS, CHANNELS, LENGTH = 2, 72, 1024
TERMS = CHANNELS * LENGTH


def moments(rows: int = ROWS, terms: int = TERMS, operation: str = "sum") -> TensorProgram:
    """Sum, mean and squares about the mean of rows that lie in channels of their own; and the rows normalised."""
    r = Index.of("r")
    extents = {"i": rows, "r": terms}
    value = at("x", "i", r.floordiv(LENGTH, extents), r.mod(LENGTH, extents))
    distance = apply("sub", value, at("m", "i"))
    space = [("i", rows), ("r", terms)]
    box = [("i", rows), ("c", terms // LENGTH), ("k", LENGTH)]
    centred = apply("sub", at("x", "i", "c", "k"), at("m", "i"))
    shape = (rows, terms // LENGTH, LENGTH)
    return program(
        "moments",
        {"x": shape, "y": shape, **dict.fromkeys("smv", (rows,))},
        [
            statement("S0", space, at("s", "i"), value, (operation, "r")),
            statement("S1", [("i", rows)], at("m", "i"), apply("div", at("s", "i"), number(terms))),
            statement("S2", space, at("v", "i"), apply("mul", distance, distance), ("sum", "r")),
            statement("S3", box, at("y", "i", "c", "k"), apply("mul", centred, apply("rsqrt", at("v", "i")))),
        ],
        "y",
    )


def names(source: TensorProgram) -> list[str]:
    return [s.name for s in source.statements]


@pytest.mark.parametrize("operation", ["sum", "max"])
def test_parts_come_to_the_same(operation: str) -> None:
    source = moments(operation=operation)
    parted = in_parts(source)
    assert names(parted) == ["S0.parts", "S0", "S1", "S2.parts", "S2", "S3"]
    assert parted.arrays["s.parts"].shape == parted.arrays["v.parts"].shape == (ROWS, CHANNELS)
    x = {"x": np.random.default_rng(3).normal(2, 1, (ROWS, CHANNELS, LENGTH))}
    before, after = (evaluate(p, x, exact=True) for p in (source, parted))
    for name in "smv":
        np.testing.assert_allclose(after[name], before[name], rtol=1e-11)
    np.testing.assert_allclose(after["y"], before["y"], atol=1e-12, err_msg="elements near the mean are near zero")


def test_squares_wait_for_no_mean_and_lose_no_digits() -> None:
    """Numbers far from zero, between which there is little: squares of sums would cancel."""
    parted = in_parts(moments())
    squares = next(s for s in parted.statements if s.name == "S2.parts")
    assert {a.array for a in squares.reads()} == {"x", "s.parts"}
    x = np.random.default_rng(5).normal(1000, 0.1, (ROWS, CHANNELS, LENGTH)).astype(np.float32)
    found = evaluate(parted, {"x": x})["v"]
    expected = x.astype(np.float64).reshape(ROWS, -1).var(axis=1) * TERMS
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_a_mean_of_which_others_write_parts_is_no_mean_of_these_terms() -> None:
    parted = in_parts(changed(moments(), "S1", covers=False))
    squares = next(s for s in parted.statements if s.name == "S2.parts")
    assert {a.array for a in squares.reads()} == {"x", "m"}


def changed(source: TensorProgram, name: str, **fields: object) -> TensorProgram:
    statements = tuple(replace(s, **fields) if s.name == name else s for s in source.statements)
    return replace(source, statements=statements)


def unordered(source: TensorProgram) -> TensorProgram:
    (first, *_) = source.statements
    assert first.reduction is not None
    return changed(source, "S0", reduction=replace(first.reduction, associative=False))


@pytest.mark.parametrize(
    ("source", "parted"),
    [
        (moments(), ["S0.parts", "S2.parts"]),
        (moments(terms=64 * LENGTH), []),
        (moments(rows=33), []),
        (moments(rows=1, terms=40 * LENGTH), ["S0.parts", "S2.parts"]),
        (moments(rows=1, terms=32 * LENGTH), []),
        (unordered(moments()), ["S2.parts"]),
        (changed(moments(), "S0", covers=False), ["S2.parts"]),
    ],
    ids=["long", "a block keeps it", "rows enough", "one long row", "one short row", "in order", "part of its array"],
)
def test_what_is_parted(source: TensorProgram, parted: Sequence[str]) -> None:
    assert [n for n in names(in_parts(source)) if n.endswith(".parts")] == parted


def test_a_softmax_stays_whole() -> None:
    """Its sum waits for its maximum: in parts it would be three kernels."""
    source = softmax(1, TERMS)
    one = replace(source, statements=tuple(replace(s, operator="softmax") for s in source.statements))
    assert in_parts(one) == one
    assert in_parts(source) != source, "two operators that a person may want apart"


def consumer(parted: TensorProgram, *wanted: str) -> list[Statement]:
    return [s for s in parted.statements if s.name in wanted]


def test_every_block_sums_up_the_parts_for_itself() -> None:
    shape = stitched_shape(consumer(in_parts(moments()), "S0", "S1", "S2", "S3"), frozenset("y"))
    assert isinstance(shape, Shape)
    assert [shape.extents[axis] for axis in shape.rows] == [ROWS, CHANNELS]
    assert not {shape.axes[key] for key in shape.axes if key[0] in ("S0", "S1", "S2")} & set(shape.rows)
    assert shape.inlined == ()


def test_parts_of_other_blocks_are_not_summed_up() -> None:
    together = consumer(in_parts(moments()), "S0.parts", "S0", "S1", "S2.parts", "S2", "S3")
    shape = stitched_shape(together, frozenset("y"))
    assert isinstance(shape, Shape)
    assert [shape.extents[axis] for axis in shape.rows] == [ROWS], "a block for each row, which has all of its parts"


@needs_compiler
@pytest.mark.parametrize(("channels", "size", "launches"), [(48, 28, 2), (2, 28, 1)], ids=["long", "short"])
def test_a_norm_over_everything_is_two_kernels(channels: int, size: int, launches: int, tmp_path: Path) -> None:
    """One makes the parts' moments, the other's blocks combine them and normalise."""
    shapes = {"x": (1, channels, size, size), "g": (1,), "b": (1,)}
    flat = helper.make_node("Constant", [], ["f"], value_ints=[1, 1, channels * size * size])
    back = helper.make_node("Constant", [], ["o"], value_ints=[1, channels, size, size])
    nodes = [
        flat, back, helper.make_node("Reshape", ["x", "f"], ["l"]),
        helper.make_node("InstanceNormalization", ["l", "g", "b"], ["n"]),
        helper.make_node("Reshape", ["n", "o"], ["t"]), helper.make_node("Relu", ["t"], ["y"]),
    ]  # fmt: skip
    graph = engine.load(model(tmp_path / "m.onnx", nodes, shapes, ["y"]))
    plan = engine.fuse(graph)
    assert len(plan.launches) == launches
    assert not any(name.endswith(".parts") for name in engine.fuse(graph, policy="xla").choice.program.arrays)
    for group in plan.groups:
        assert engine.check(engine.compile(group)).status == "pass"
    assert engine.check_model(graph, plan).status == "pass"


WHOLE = {
    "all of it": ("ReduceSum", (1 << 16,), (0,), 2), "few rows": ("ReduceMax", (4, 1 << 18), (1,), 2),
    "a mean": ("ReduceMean", (3, 1 << 18), (1,), 2), "planes, of which every block sums up parts":
    ("ReduceSum", (64, 3, 48, 48), (0, 2, 3), 2),
}  # fmt: skip


@pytest.mark.slow(sentinel=True)
@pytest.mark.few(2)
@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("case", WHOLE)
def test_a_sum_and_its_reader_are_two_launches(case: str, tmp_path: Path) -> None:
    """Blocks of one launch share a long row; of its parts a launch of their own is no more made."""
    kind, shape, axes, launches = WHOLE[case]
    nodes = [helper.make_node("Constant", [], ["a"], value_ints=axes),
             helper.make_node(kind, ["x", "a"], ["s"]), helper.make_node("Sub", ["x", "s"], ["y"])]  # fmt: skip
    graph = engine.load(model(tmp_path / "m.onnx", nodes, {"x": shape}, ["y"]))
    plan = engine.fuse(graph, target="a100")
    assert len(plan.launches) == launches
    has_parts = any(name.endswith("_parts") for group in plan.groups for name in group.program.arrays)
    assert has_parts == case.startswith("planes")
    for level in ("source", "ptx"):
        reports = [engine.check(engine.compile(group), level=level) for group in plan.groups]
        assert [report.message for report in reports if report.status != "pass"] == []
    assert engine.check_model(graph, plan).status == "pass"


def test_what_lies_in_a_block_anyway_is_not_copied() -> None:
    """A gate of every channel from a short product: few enough points for every block, but each needs one of them."""
    box = [("c", 144), ("h", 56), ("w", 56)]
    gate = apply("mul", at("p", "k"), at("w", "c", "k"))
    source = program(
        "excitation",
        {"p": (6,), "w": (144, 6), "g": (144,), "x": (144, 56, 56), "y": (144, 56, 56)},
        [
            statement("S0", [("c", 144), ("k", 6)], at("g", "c"), gate, ("sum", "k")),
            statement("S1", box, at("y", "c", "h", "w"), apply("mul", at("x", "c", "h", "w"), at("g", "c"))),
        ],
        "y",
    )
    shape = stitched_shape(source.statements, frozenset("y"))
    assert isinstance(shape, Shape)
    (row,) = shape.rows
    assert {key for key, axis in shape.axes.items() if axis == row} == {("S0", "c"), ("S1", "c")}


FEW = {
    "rows": ((4, 1 << 17), (1,), 3.0), "long rows": ((8, 1 << 16), (1,), 1.5), "columns": ((16_384, 256), (0,), 2.0),
    "narrow columns": ((65_536, 32), (0,), 10.0),
}  # fmt: skip
"""Shape, reduced axes, and how many times the two launches one kernel is predicted to take at least."""


@pytest.mark.slow(sentinel=True)
@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("case", FEW)
def test_a_kernel_of_few_blocks_falls_apart_where_two_are_quicker(case: str, tmp_path: Path) -> None:
    shape, axes, times = FEW[case]
    nodes = [helper.make_node("Constant", [], ["a"], value_ints=axes),
             helper.make_node("ReduceSum", ["x", "a"], ["s"], "sum"),
             helper.make_node("Sub", ["x", "s"], ["y"], "sub")]  # fmt: skip
    graph = engine.load(model(tmp_path / "m.onnx", nodes, {"x": shape}, ["y"]))
    plan, one = (engine.fuse(graph, target="a100", fixed=f) for f in (Fixed(), Fixed(groups=(("sum", "sub"),))))
    assert (len(plan.launches), len(one.launches)) == (2, 1)
    apart, together = (
        sum(engine.predict(engine.compile(group)).microseconds for group in p.groups) for p in (plan, one)
    )
    assert together > times * apart
    for level in ("source", "ptx"):
        reports = [engine.check(engine.compile(group), level=level) for group in plan.groups]
        assert [report.message for report in reports if report.status != "pass"] == []


@pytest.mark.parametrize("shape", [(512, 1 << 12), (4, 1 << 10), (32, 1 << 16)], ids=["many", "short", "enough"])
def test_rows_that_blocks_keep_stay_one_kernel(shape: tuple[int, int], tmp_path: Path) -> None:
    nodes = [helper.make_node("Constant", [], ["a"], value_ints=[1]),
             helper.make_node("ReduceSum", ["x", "a"], ["s"]), helper.make_node("Sub", ["x", "s"], ["y"])]  # fmt: skip
    graph = engine.load(model(tmp_path / "m.onnx", nodes, {"x": shape}, ["y"]))
    assert len(engine.fuse(graph, target="a100").launches) == 1
