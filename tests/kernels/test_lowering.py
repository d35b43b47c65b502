"""Tile programs and their text: goldens, checks that refuse, line maps, indices in C.

The goldens are whole kernels of tiny shapes, for people to read in a review.  After an intended change write them anew
with `python -m tests.kernels.test_lowering` and read the difference.
"""

from __future__ import annotations

import ast
import operator
import tempfile
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine.scheduling.nodes import Band, walk
from engine.tensor.index import Element, Index, Quotient
from engine.tile.check import check_tile
from engine.tile.dead_code import without_unused
from engine.tile.nodes import (
    Barrier,
    Buffer,
    Declare,
    For,
    GridBarrier,
    If,
    Let,
    Load,
    Mask,
    Slot,
    Store,
    TileOp,
    TileProgram,
    WarpReduce,
    operations,
)
from engine.tile.nodes.expressions import condition_text, index_text
from engine.tile.printer import print_cuda
from tests.semantics.random_graphs import RandomGraph
from tests.semantics.single import Node, write_model
from tests.support.misfits import own_refusal
from tests.support.needs import needs_compiler

GOLDENS = Path(__file__).parents[1] / "goldens"
MODELS = Path(__file__).parents[2] / "resources" / "models"

Shapes = dict[str, tuple[str, tuple[int, ...]]]
KERNELS: dict[str, tuple[list[Node], Shapes, dict[str, np.ndarray]]] = {
    "element_wise": (
        [("Add", ["x", "b"], ["s"], {}), ("Relu", ["s"], ["y"], {})],
        {"x": ("float32", (5, 12)), "b": ("float32", (12,))},
        {},
    ),
    "vectors_over_rows": (
        [("Mul", ["x", "s"], ["y"], {})],
        {"x": ("float32", (16, 5, 5)), "s": ("float32", (16, 1, 1))},
        {},
    ),
    "strips": (
        [("Transpose", ["x"], ["t"], {"perm": [1, 0]}), ("Pad", ["t", "pads"], ["y"], {})],
        {"x": ("float32", (130, 64))},
        {"pads": np.array([0, 1, 0, 1])},
    ),
    "softmax_row": ([("Softmax", ["x"], ["y"], {})], {"x": ("float16", (6, 40))}, {}),
    "column_sum": ([("ReduceSum", ["x", "axes"], ["y"], {})], {"x": ("float32", (70, 6))}, {"axes": np.array([0])}),
    "transpose": ([("Transpose", ["x"], ["t"], {}), ("Neg", ["t"], ["y"], {})], {"x": ("float32", (20, 40))}, {}),
    "matmul_two_stages": (
        [("MatMul", ["left", "right"], ["y"], {})],
        {"left": ("float32", (20, 32)), "right": ("float32", (32, 24))},
        {},
    ),
    "matmul_sliced_depth": (
        [("MatMul", ["left", "right"], ["y"], {})],
        {"left": ("float32", (20, 320)), "right": ("float32", (320, 24))},
        {},
    ),
    "matmul_shared_depth": (
        [("MatMul", ["left", "right"], ["y"], {})],
        {"left": ("float32", (20, 1280)), "right": ("float32", (1280, 24))},
        {},
    ),
    "matmul_tensor_cores": (
        [("MatMul", ["left", "right"], ["p"], {}), ("Add", ["p", "bias"], ["y"], {})],
        {"left": ("float16", (40, 64)), "right": ("float16", (64, 24)), "bias": ("float16", (24,))},
        {},
    ),
}


def kernel_of(name: str, folder: Path) -> engine.Kernel:
    nodes, inputs, constants = KERNELS[name]
    path = write_model(folder / f"{name}.onnx", nodes, dict(inputs), ["y"], constants)
    (group,) = engine.fuse(engine.load(path)).groups
    return engine.compile(group)


# Goldens


@pytest.mark.parametrize("name", KERNELS)
def test_the_text_is_the_golden_one(name: str, tmp_path: Path) -> None:
    kernel = kernel_of(name, tmp_path)
    assert kernel.source.text == (GOLDENS / f"{name}.cu").read_text()
    assert engine.check(kernel).status == "pass"


# What check_tile accepts and refuses


def program(*body: TileOp) -> TileProgram:
    """A kernel over a global x, a shared tile and registers r, s."""
    buffers = [
        Buffer("x", "float32", (64,), "global"),
        Buffer("tile", "float32", (64,), "shared"),
        Buffer("r", "float32", (), "register"),
        Buffer("pack", "float32", (3,), "register"),
        Buffer("inside", "bool", (), "register"),
    ]
    return TileProgram(
        name="k", title=(), grid=2, threads=32, constants={}, buffers={b.name: b for b in buffers},
        written=frozenset({"x"}), read=frozenset({"x"}), body=body, footprints=(),
    )  # fmt: skip


THREAD, LOADED = Index.of("thread"), Load(Slot("r"), "x", Index.of("thread"), 1)
INSIDE = Mask("inside", (Index((), 20) - THREAD,))


@pytest.mark.parametrize("together", [Barrier(), WarpReduce(Slot("r"), "sum", 32)], ids=["barrier", "warp reduction"])
def test_what_all_threads_do_together_is_refused_under_a_branch(together: TileOp) -> None:
    assert check_tile(program(LOADED, INSIDE, together)) == ()
    assert check_tile(program(LOADED, For("n", 4, (together,)))) == ()
    assert check_tile(program(LOADED, INSIDE, If("inside", (LOADED,)))) == ()
    branch = If("inside", (For("n", 4, (together,)),))
    (violation,) = check_tile(program(LOADED, INSIDE, branch))
    assert type(together).__name__ in violation and "inside" in violation


def test_all_blocks_meet_where_all_threads_come() -> None:
    """The barrier of the grid counts on from the loops around it; a launch with it runs as a whole."""
    arrivals = {"arrivals": Buffer("arrivals", "int32", (1,), "workspace")}
    meeting = GridBarrier("arrivals", Index.of("step") * 2 + 1, 8)
    plain = program(LOADED, INSIDE, For("step", 4, (meeting,)))
    tile = replace(plain, buffers={**plain.buffers, **arrivals})
    assert check_tile(tile) == ()
    assert tile.meets_as_grid and not program(LOADED).meets_as_grid
    source = print_cuda(tile)
    assert "grid_barrier(arrivals, 0, step * 2 + 2, 8);" in source.text
    assert source.meets_as_grid and source.workspaces[0].zeroed
    assert list(source.whole_grids([1])) == list(source.whole_teams([1])) == [0, 1]
    branch = If("inside", (meeting,))
    (violation,) = check_tile(replace(tile, body=(LOADED, INSIDE, For("step", 4, (branch,)))))
    assert "GridBarrier" in violation and "inside" in violation
    apart = GridBarrier("arrivals", THREAD, 8)
    (violation,) = check_tile(replace(tile, body=(apart,)))
    assert "thread may differ" in violation


def test_names_are_refused_outside_their_body() -> None:
    bound = Let("row", THREAD * 2)
    store = Store("x", Index.of("row"), Slot("r"), 1)
    assert check_tile(program(LOADED, bound, For("n", 4, (store,)))) == ()
    assert check_tile(program(LOADED, For("n", 4, (bound, store)))) == ()
    assert check_tile(program(LOADED, For("n", 4, (bound,)), store)) == ("Store uses row before it is known",)
    assert check_tile(program(bound, store, LOADED)) == ("Store uses r before it is known",)
    assert check_tile(program(INSIDE, LOADED, bound, replace(store, mask="inside"))) == ()
    assert check_tile(program(LOADED, bound, replace(store, mask="inside"))) == (
        "Store uses inside before it is known",
    )


@pytest.mark.parametrize(("width", "violations"), [(1, 0), (4, 0), (3, 1), (8, 1)])
def test_widths_that_no_instruction_has_are_refused(width: int, violations: int) -> None:
    assert len(check_tile(program(Declare("pack"), Load(Slot("pack"), "x", Index(), width)))) == violations


def test_unknown_buffers_are_refused() -> None:
    assert "no buffer" in check_tile(program(Load(Slot("r"), "y", THREAD, 1)))[0]


def test_what_nothing_reads_is_left_out() -> None:
    unused = Let("half", Index.of("row")), Mask("low", (Index((), 3) - Index.of("half"),))
    body = (LOADED, Let("row", THREAD), For("n", 2, unused), Store("x", THREAD, Slot("r"), 1))
    assert without_unused(body) == (LOADED, For("n", 2, ()), body[-1])


# Line maps


def check_lines(kernel: engine.Kernel) -> None:
    """Every line's statements and dimensions exist; every statement stands on some line."""
    source, statements = kernel.source, {s.name for s in kernel.program.statements}
    bands = [node for node in walk(kernel.schedule.root) if isinstance(node, Band)]
    dimensions = {m.name for band in bands for m in band.members}
    assert len(source.lines) == len(source.text.splitlines())
    assert {s for line in source.lines for s in line.statements} == statements, source.text
    assert {d for line in source.lines for d in line.dimensions} <= dimensions, source.text
    for text, line in zip(source.text.splitlines(), source.lines, strict=True):
        assert line.statements or ".store" not in text, text


@pytest.mark.parametrize("name", KERNELS)
def test_lines_lead_to_statements_and_dimensions(name: str, tmp_path: Path) -> None:
    check_lines(kernel_of(name, tmp_path))


@pytest.mark.slow(sentinel=True)
def test_lines_of_a_model() -> None:
    for group in engine.fuse(engine.load(MODELS / "bert_tiny.onnx")).groups:
        check_lines(engine.compile(group))


@pytest.mark.parametrize("seed", range(40))
def test_lines_of_random_graphs(seed: int, tmp_path: Path) -> None:
    for group in engine.fuse(engine.load(RandomGraph(seed).write(tmp_path / "g.onnx"))).groups:
        kernel = engine.compile(group)
        check_lines(kernel)
        assert not [op for op in operations(kernel.tile.body) if isinstance(op, For) and op.extent == 1]


# Marks


def test_marks_that_the_kernel_cannot_take_are_relaxed_with_the_reason(tmp_path: Path) -> None:
    group = kernel_of("element_wise", tmp_path).group
    wishes = [
        engine.entry("S1", at="innermost", mark=("thread", 4096)),
        engine.entry("S1", at="innermost", mark=("stages", 3)),
        engine.entry("S0", at="innermost", mark=("vector", 2)),
    ]
    kernel = engine.compile(group, engine.default_recipe(group).advise("user", *wishes))
    told = {str(v.placed.entry): (v.outcome, v.because) for v in kernel.verdicts}
    assert told["S1 @ innermost: mark thread 4096"] == ("relaxed", "thread 1024: this kernel takes at most 1024")
    because = "an element-wise kernel has no tiles to copy ahead"
    assert told["S1 @ innermost: mark stages 3"] == ("relaxed", because)
    assert told["S0 @ innermost: mark vector 2"][0] == "honoured"
    assert told["S1 @ j: mark vector 4"] == ("relaxed", "vector 2: another entry asks for 2")
    assert kernel.source.block[0] == 1024 and "load<2>" in kernel.source.text


@pytest.mark.parametrize(
    ("name", "wish", "reason"),
    [
        ("column_sum", engine.entry("S0", at="outermost", pin="j", required=True), "S0 has its loop i at or inside"),
        ("element_wise", engine.entry(cut=("S0", "S1"), at="j"), "is not shared with the other statements"),
    ],
    ids=["terms outside elements", "loops apart"],
)
@needs_compiler
def test_schedules_that_the_own_family_does_not_follow_have_a_general_kernel(
    name: str, wish: engine.Entry, reason: str, tmp_path: Path
) -> None:
    group = kernel_of(name, tmp_path).group
    kernel = engine.compile(group, engine.default_recipe(group).advise("user", wish))
    assert reason in own_refusal(kernel).reason
    assert engine.check(kernel).status == "pass"


# Indices in C

EXTENTS = {"i": 4, "j": 6, "k": 5}
POINTS = [dict(zip(EXTENTS, values, strict=True)) for values in product(*(range(n) for n in EXTENTS.values()))]


@st.composite
def non_negative(draw: st.DrawFn) -> Index:
    """Sums of iterators, quotients and remainders, shifted so that none is ever negative."""
    index = Index()
    for _ in range(draw(st.integers(1, 3))):
        index += Index.sum({name: draw(st.integers(-5, 9)) for name in EXTENTS}.items())
        index += max(0, -index.bounds(EXTENTS)[0])
        by = draw(st.integers(1, 12))
        step = draw(st.sampled_from(["sum", "quotient", "remainder"]))
        if step != "sum":
            index = index.floordiv(by, EXTENTS) if step == "quotient" else index.mod(by, EXTENTS)
            index = index * draw(st.integers(1, 4))
    return index + max(0, -index.bounds(EXTENTS)[0])


def c_value(text: str, point: dict[str, int]) -> int:
    """The value of a C expression of integers: division truncates, a remainder has the dividend's sign."""

    def divide(a: int, b: int) -> int:
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

    arithmetic = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: divide}
    compared = {ast.GtE: operator.ge, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Eq: operator.eq}

    def visit(node: ast.AST) -> int:
        match node:
            case ast.Expression(body):
                return visit(body)
            case ast.Constant(int() as value):
                return value
            case ast.Name(name):
                return point[name]
            case ast.UnaryOp(ast.USub(), operand):
                return -visit(operand)
            case ast.BinOp(left, ast.Mod(), right):
                a, b = visit(left), visit(right)
                return a - divide(a, b) * b
            case ast.BinOp(left, op, right):
                return arithmetic[type(op)](visit(left), visit(right))
            case ast.Compare(left, [op], [right]):
                return compared[type(op)](visit(left), visit(right))
        raise AssertionError(ast.dump(node))

    return visit(ast.parse(text, mode="eval"))


def value(index: Index, point: dict[str, int]) -> int:
    """The value of an index by definition."""
    total = index.constant
    for atom, coefficient in index.terms:
        if isinstance(atom, str):
            total += coefficient * point[atom]
            continue
        assert not isinstance(atom, Element)
        inner = value(atom.of, point)
        total += coefficient * (inner // atom.by if isinstance(atom, Quotient) else inner % atom.by)
    return total


@given(non_negative())
@settings(max_examples=300, deadline=None)
def test_an_index_in_c_has_its_value(index: Index) -> None:
    for point in POINTS[::3]:
        assert c_value(index_text(index), point) == value(index, point), index_text(index)


@given(non_negative(), non_negative(), st.integers(-30, 30))
@settings(max_examples=200, deadline=None)
def test_a_condition_in_c_holds_where_the_index_is_not_negative(a: Index, b: Index, shift: int) -> None:
    index = a - b + shift
    if index.terms:
        for point in POINTS[::3]:
            assert c_value(condition_text(index), point) == (value(index, point) >= 0), condition_text(index)


def write_goldens() -> None:
    """Write every golden anew."""
    GOLDENS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in KERNELS:
            (GOLDENS / f"{name}.cu").write_text(kernel_of(name, Path(folder)).source.text)


if __name__ == "__main__":
    write_goldens()
