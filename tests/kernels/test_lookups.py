"""Elements that are looked up by an index: every lane of a vector reads by its own, whoever makes index and data."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import engine
from engine.target import ARCHITECTURES
from engine.tensor.access import vector_limit
from engine.tensor.index import Element, Index
from engine.tensor.nodes import Access, Apply, Array, Guard, Literal, Position, TensorProgram
from tests.kernels.stitched_programs import checked, kernel_of
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler, needs_nvrtc
from tests.support.programs import apply, at, number, program, statement
from tests.test_shared_models import SHARED as FILES
from tests.test_shared_models import needs_shared

ROWS, COLUMNS = 12, 32
TAKEN = 16
"""Elements looked up along an axis: a multiple of every vector width."""


class Graph:
    """Data that a family of kernels makes, an index, a lookup, and what is done with the result."""

    def __init__(self, data: str, index: str, lookup: str, after: str, dtype: str, whole: str) -> None:
        """dtype: of the data; whole: of the indices."""
        self.nodes: list[Node] = []
        self.inputs: dict[str, tuple[str, tuple[int, ...]]] = {"x": (dtype, (ROWS, COLUMNS))}
        self.constants: dict[str, np.ndarray] = {}
        self.dtype, self.whole = dtype, whole
        found, shape = DATA[data](self)
        axis, size = len(shape) - 1, shape[-1]
        if lookup == "rows":
            axis, size = 0, shape[0]
        wanted = {"elements": (*shape[:-1], TAKEN), "points": (TAKEN, len(shape))}.get(lookup, (TAKEN,))
        at = INDEX[index](self, wanted, min(shape) if lookup == "points" else size)
        kind = {"rows": "Gather", "columns": "Gather", "elements": "GatherElements", "points": "GatherND"}[lookup]
        attributes: dict[str, object] = {} if kind == "GatherND" else {"axis": axis}
        taken = self.node(kind, [found, at], **attributes)
        AFTER[after](self, taken)

    def node(self, kind: str, inputs: list[str], **attributes: object) -> str:
        self.nodes.append((kind, inputs, [f"t{len(self.nodes)}"], attributes))
        return f"t{len(self.nodes) - 1}"

    def constant(self, value: np.ndarray) -> str:
        self.constants[f"c{len(self.constants)}"] = value
        return f"c{len(self.constants) - 1}"

    def input(self, dtype: str, *shape: int) -> str:
        self.inputs[f"i{len(self.inputs)}"] = (dtype, shape)
        return f"i{len(self.inputs) - 1}"

    def write(self, folder: Path) -> Path:
        return write_model(folder / "lookup.onnx", self.nodes, self.inputs, [self.nodes[-1][2][0]], self.constants)


Made = tuple[str, tuple[int, ...]]


def _normalised(graph: Graph) -> Made:
    scale = graph.constant(np.linspace(0.5, 1.5, COLUMNS).astype(graph.dtype))
    return graph.node("LayerNormalization", ["x", scale, scale]), (ROWS, COLUMNS)


def _vector(graph: Graph) -> Made:
    product = graph.node("MatMul", ["x", graph.input(graph.dtype, COLUMNS)])
    return graph.node("Relu", [product]), (ROWS,)


def _product(graph: Graph) -> Made:
    product = graph.node("MatMul", ["x", graph.input(graph.dtype, COLUMNS, COLUMNS)])
    return graph.node("Relu", [product]), (ROWS, COLUMNS)


def _columns(graph: Graph) -> Made:
    return graph.node("ReduceMax", ["x", graph.constant(np.array([0]))], keepdims=0), (COLUMNS,)


DATA: dict[str, Callable[[Graph], Made]] = {
    "input": lambda graph: ("x", (ROWS, COLUMNS)),
    "exp": lambda graph: (graph.node("Tanh", ["x"]), (ROWS, COLUMNS)),
    "softmax": lambda graph: (graph.node("Softmax", ["x"], axis=1), (ROWS, COLUMNS)),
    "layernorm": _normalised,
    "vector": _vector,
    "product": _product,
    "columns": _columns,
}


def _given(graph: Graph, shape: tuple[int, ...], size: int) -> str:
    return graph.input(graph.whole, *shape)


def _constant(graph: Graph, shape: tuple[int, ...], size: int) -> str:
    values = np.random.default_rng(7).integers(-size, size, shape)
    return graph.constant(values.astype(graph.whole))


def _computed(graph: Graph, shape: tuple[int, ...], size: int) -> str:
    """What element-wise operators make of an input of any values."""
    moved = graph.node("Add", [graph.input(graph.whole, *shape), graph.constant(np.array(3, graph.whole))])
    return graph.node("Mod", [moved, graph.constant(np.array(size, graph.whole))])


def _largest(graph: Graph, shape: tuple[int, ...], size: int) -> str:
    """Where the largest of a row stands."""
    found = graph.node("ArgMax", [graph.input("float32", *shape, size)], axis=len(shape), keepdims=0)
    return found if graph.whole == "int64" else graph.node("Cast", [found], to=6)


INDEX = {"given": _given, "constant": _constant, "computed": _computed, "largest": _largest}


def _summed(graph: Graph, taken: str) -> None:
    graph.node("ReduceSum", [taken, graph.constant(np.array([-1]))], keepdims=1)


def _softmax(graph: Graph, taken: str) -> None:
    graph.node("Softmax", [taken], axis=-1)


AFTER: dict[str, Callable[[Graph, str], None]] = {
    "nothing": lambda graph, taken: None,
    "tanh": lambda graph, taken: (graph.node("Tanh", [taken]), None)[1],
    "sum": _summed,
    "softmax": _softmax,
}

LOOKUPS = ("rows", "columns", "elements", "points")
ALL = [
    case
    for case in itertools.product(DATA, INDEX, LOOKUPS, AFTER, ("float32", "float16"), ("int64", "int32"))
    if not (case[2] == "points" and case[5] == "int32")  # GatherND takes int64 alone
]


def chosen(count: int) -> list[tuple[str, ...]]:
    """Some of all cases, the same ones each time."""
    order = np.random.default_rng(11).permutation(len(ALL))
    return [ALL[at] for at in order[:count]]


def groups(case: tuple[str, ...], folder: Path) -> list[engine.Kernel]:
    plan = engine.fuse(engine.load(Graph(*case).write(folder)))
    assert not plan.unsupported
    return [engine.compile(group) for group in plan.groups]


@pytest.mark.few(4)
@needs_compiler
@pytest.mark.parametrize("case", chosen(10), ids="-".join)
def test_lookups_agree_with_onnxruntime(case: tuple[str, ...], tmp_path: Path) -> None:
    for kernel in groups(case, tmp_path):
        report = engine.check(kernel)
        assert report.status == "pass", f"{report.message}\n{kernel.source.text}"


@needs_compiler
@pytest.mark.slow
def test_all_lookups_agree_with_onnxruntime(tmp_path: Path) -> None:
    for case in ALL:
        for kernel in groups(case, tmp_path):
            report = engine.check(kernel)
            assert report.status == "pass", f"{case}: {report.message}\n{kernel.source.text}"


def with_negative(path: Path, inputs: dict[str, int]) -> Path:
    """The file with inputs that are drawn from the whole range of indices of an axis.  inputs: name -> its size."""
    model = onnx.load(path)
    ranges = {name: [-size, size] for name, size in inputs.items()}
    model.metadata_props.add(key="light.inputs", value=json.dumps(ranges))
    onnx.save(model, path)
    return path


NEGATIVE = [
    ("input", "rows", "nothing", "float32", "int64"), ("input", "columns", "tanh", "float16", "int32"),
    ("exp", "elements", "sum", "float32", "int32"), ("softmax", "rows", "softmax", "float16", "int64"),
    ("layernorm", "columns", "sum", "float32", "int64"), ("product", "points", "tanh", "float16", "int64"),
    ("input", "rows", "softmax", "float32", "int32"), ("columns", "rows", "nothing", "float32", "int32"),
]  # fmt: skip


@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("target", ["h200", "cpu"])
@pytest.mark.parametrize(("data", "lookup", "after", "dtype", "whole"), NEGATIVE)
def test_negative_indices_count_from_the_end(
    data: str, lookup: str, after: str, dtype: str, whole: str, target: str, tmp_path: Path
) -> None:
    graph = Graph(data, "given", lookup, after, dtype, whole)
    indices = next(name for name, (kind, _) in graph.inputs.items() if kind == whole)
    least = COLUMNS if lookup == "columns" else ROWS
    plan = engine.fuse(engine.load(with_negative(graph.write(tmp_path), {indices: least})), target=target)
    assert engine.inputs(plan)[indices].min() < 0
    for group in plan.groups:
        for level in ("native",) if target == "cpu" else ("source", "ptx"):
            report = engine.check(engine.compile(group), level=level)
            assert report.status == "pass", report.message


SHARED = [
    ("layernorm", "given", "columns", "sum", "float32", "int64"),
    ("softmax", "largest", "columns", "softmax", "float16", "int64"),
    ("vector", "given", "rows", "tanh", "float32", "int32"),
    ("vector", "constant", "rows", "nothing", "float16", "int64"),
]
"""A block makes the data, and hands it over to the threads that look it up."""


@needs_compiler
@pytest.mark.parametrize("case", SHARED, ids="-".join)
def test_what_a_block_made_is_looked_up_lane_by_lane(case: tuple[str, ...], tmp_path: Path) -> None:
    kernels = groups(case, tmp_path)
    assert any("_block.load(" in kernel.source.text for kernel in kernels), "data in shared memory"
    reports = [engine.check(kernel) for kernel in kernels]
    assert [report.message for report in reports if report.status != "pass"] == []


@needs_nvrtc
@pytest.mark.parametrize("case", SHARED[:2], ids="-".join)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_text_compiles(case: tuple[str, ...], architecture: str, tmp_path: Path) -> None:
    for kernel in groups(case, tmp_path):
        engine.nvrtc(kernel, architecture)


@needs_compiler
@needs_shared
@pytest.mark.parametrize("name", ["ln_gathernd_eos", "matvec_gather"])
def test_exported_models_with_lookups(name: str) -> None:
    for group in engine.fuse(engine.load(FILES / "exports" / "minimal" / f"{name}.onnx")).groups:
        report = engine.check(engine.compile(group))
        assert report.status == "pass", report.message


def looked_up_twice(rows: int = 49) -> TensorProgram:
    """A row's sum says which rows' sums are looked up, in one loop and again in a later one."""
    row = [("i", rows)]
    place = Index.of(Element("m", (Index.of("i"),), 0, rows - 1))
    number_of_row = Apply("mod", (Apply("cast", (at("p", "i"),), "int64"), Literal(rows, "int64")), "int64")
    product = apply("mul", at("x", "i", "j"), at("w", "j"))
    source = program(
        "looked_up_twice",
        {"x": (rows, 512), "w": (512,), **dict.fromkeys("pmzt", (rows,))},
        [
            statement("S0", [*row, ("j", 512)], at("p", "i"), product, ("sum", "j")),
            statement("S1", row, at("m", "i"), number_of_row),
            statement("S2", row, at("z", "i"), apply("add", at("p", place), number(1.0))),
            statement("S3", row, at("t", "i"), at("z", place)),
        ],
        "t",
    )
    return replace(source, arrays={**source.arrays, "m": Array("m", (rows,), "int64")})


@needs_compiler
def test_an_index_that_a_thread_keeps_for_several_rows_is_each_rows_own() -> None:
    """Each thread has two rows: the index of each is an element of its registers."""
    kernel = kernel_of(looked_up_twice())
    assert "i64 m_2[2];" in kernel.source.text
    report = checked(kernel, whole=True)
    assert report.status == "pass", report.message


ELEMENT = Index.of(Element("n", (Index.of("i"),), 0, 63))
BY_ELEMENT = {
    "input": at("x", ELEMENT),
    "made here": at("t", ELEMENT),
    "condition": Access("x", (Index.of("i"),), (Guard(ELEMENT - 3),), number(0.0)),
    "position": Apply("cast", (Position(ELEMENT, "int64"),), "float32"),
    "of the row": at("x", Index.of(Element("n", (Index.of("r"),), 0, 63)) + Index.of("i") * 0),
}


@pytest.mark.parametrize(("what", "width"), [(w, 4 if w == "of the row" else 1) for w in BY_ELEMENT])
def test_vectors_do_not_run_along_an_index_that_is_looked_up(what: str, width: int) -> None:
    """Whatever the index is of: of an array in memory, of one that the kernel makes, of a condition or a number."""
    value = apply("add", BY_ELEMENT[what], at("y", "r", "i"))
    one = statement("S0", [("r", 64), ("i", 64)], at("z", "r", "i"), value)
    arrays = {name: Array(name, (64, 64), "float32") for name in "yz"} | {"x": Array("x", (64,), "float32")}
    arrays["n"] = Array("n", (64,), "int64")
    program = TensorProgram("lookup", arrays, (one,), ("x", "y", "n"), ("z",))
    assert vector_limit([one], program, {"S0": ("i",)}) == width
