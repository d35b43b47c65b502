"""Heads of queries that share keys and values as rows of one tile: where, what is copied, what they compute."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import engine
from engine.execution.nvrtc import compile_cuda
from engine.fusion.attention import attention_of
from engine.fusion.attention_groups import _AttentionJoiner
from engine.fusion.group_times import Saving
from engine.fusion.grouped_queries import with_axis_of_each_loop
from engine.fusion.nodes import FusionPlan
from engine.target import ARCHITECTURES
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Array, Iterator, Statement, TensorProgram
from tests.kernels.test_attention import agrees, is_on_tensor_cores
from tests.semantics.single import Node, write_model
from tests.support.attentions import Attention
from tests.support.needs import needs_compiler, needs_nvrtc
from tests.verify.test_planted_faults import Fault, assert_caught

DECODE = Attention(queries=1, keys=4096, heads=32, shared_by=8, depth=64, head=64, mask="padding")
FOLDER = tempfile.TemporaryDirectory()
"""Of the model whose kernel is edited, which is read again when its values are made."""


def one_group(case: Attention, folder: Path, *more: Node) -> engine.FusionGroup:
    """The attention with its groups as rows, also where a kernel for each head is predicted to be faster."""
    outputs = tuple(node[2][0] for node in more) or ("y",)
    last = patch.object(_AttentionJoiner, "_faster", lambda _, __, shapes: shapes[-1])
    with patch.object(Saving, "pays", True), last:
        (group,) = engine.fuse(engine.load(case.model(folder, *more, outputs=outputs))).groups
    return group


def rows(group: engine.FusionGroup) -> list[int]:
    """Extents of the loops that are rows of a tile of queries."""
    return [i.extent for i in attention_of(group.program).queries]


def planned(case: Attention, folder: Path) -> FusionPlan:
    return engine.fuse(engine.load(case.model(folder)))


def test_a_group_copies_its_keys_once(tmp_path: Path) -> None:
    """One query in each of 32 heads, 4 heads of keys: 4 tiles of queries, and keys and values are read about once."""
    (group,) = planned(DECODE, tmp_path).groups
    assert rows(group) == [8]
    kernel = engine.compile(group)
    keys_and_values = 2 * 2 * 4 * 4096 * 64
    assert keys_and_values < kernel.facts.l2_bytes < 1.5 * keys_and_values
    # The same with keys and values of their own reads eight times as much.
    (own,) = planned(replace(DECODE, shared_by=1), tmp_path).groups
    assert rows(own) == [] and engine.compile(own).facts.l2_bytes > 8 * keys_and_values


SHARED = [
    # case, rows of a tile
    (DECODE, [8]),
    (replace(DECODE, keys=4001, mask="add"), [8]),
    (replace(DECODE, queries=4, mask="add"), [8, 4]),
    (replace(DECODE, shared_by=32), [32]),
    (replace(DECODE, shared_by=1), []),
    # As many rows of tiles as without: 16 queries fill one.
    (replace(DECODE, queries=16), [16]),
    (replace(DECODE, queries=128, keys=128), [128]),
    # Fewer rows, but the fewer blocks would take longer: the estimate has the last word.
    (replace(DECODE, queries=4, keys=512, mask="add", batch=2), [4]),
    # Of four times the keys, blocks that share them make up for the fewer tiles.
    (replace(DECODE, queries=4, keys=2048, mask="add", batch=2), [8, 4]),
]


@pytest.mark.parametrize(("case", "expected"), SHARED)
def test_where_a_tile_has_rows_to_spare(case: Attention, expected: list[int], tmp_path: Path) -> None:
    groups = [group for group in planned(case, tmp_path).groups if group.kind == "attention"]
    assert [rows(group) for group in groups] == [expected]


def test_the_faster_one_is_chosen(tmp_path: Path) -> None:
    """With its groups as rows, the same attention is predicted to be slower."""
    case = replace(DECODE, queries=4, keys=512, mask="add", batch=2)
    (own,), grouped = planned(case, tmp_path).groups, one_group(case, tmp_path)
    assert rows(grouped) == [8, 4] and rows(own) == [4]
    mine, theirs = (engine.predict(engine.compile(group)).microseconds for group in (own, grouped))
    assert mine < theirs


def test_values_of_each_head_are_no_group(tmp_path: Path) -> None:
    """Keys that 8 heads share meet values that they do not: a tile of values is that of one head."""
    nodes: list[Node] = [
        ("Unsqueeze", ["k", "axis"], ["k5"], {}), ("Expand", ["k5", "wide"], ["kw"], {}),
        ("Reshape", ["kw", "flat"], ["kf"], {}), ("Transpose", ["kf"], ["kt"], {"perm": [0, 1, 3, 2]}),
        ("MatMul", ["q", "kt"], ["s"], {}), ("Softmax", ["s"], ["p"], {"axis": -1}), ("MatMul", ["p", "v"], ["y"], {}),
    ]  # fmt: skip
    shapes = {"q": (1, 32, 1, 64), "k": (1, 4, 4096, 64), "v": (1, 32, 4096, 64)}
    constants = {
        name: np.array(values, np.int64)
        for name, values in {"axis": [2], "wide": [1, 4, 8, 4096, 64], "flat": [1, 32, 4096, 64]}.items()
    }
    inputs = {name: ("float16", shape) for name, shape in shapes.items()}
    model = write_model(tmp_path / "m.onnx", nodes, inputs, ["y"], constants)
    (group,) = engine.fuse(engine.load(model)).groups
    assert group.kind == "attention" and rows(group) == []


CASES = [
    # case, rows of a tile, nodes after it
    (Attention(queries=1, keys=100, heads=12, shared_by=4, depth=64, head=48, mask="padding", batch=3), [4], []),
    (Attention(queries=3, keys=77, heads=6, shared_by=3, mask="add", batch=2), [3, 3], []),
    (Attention(queries=5, keys=70, heads=24, shared_by=12, depth=40, head=24, mask="causal"), [12, 5], []),
    (Attention(queries=2, keys=90, heads=8, shared_by=2, mask="infinite"), [2, 2], [("Relu", ["y"], ["z"], {})]),
    (Attention(queries=70, keys=70, heads=8, shared_by=4, mask="triangle"), [4, 70], []),
    (Attention(queries=7, keys=33, heads=4, shared_by=2, head=272, scale="before"), [2, 7], []),
]


@pytest.mark.few(6)
@needs_compiler
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("number", range(len(CASES)))
def test_every_head_of_a_group(number: int, dtype: str, tmp_path: Path) -> None:
    """Ragged keys, groups of 2 to 12 heads, tiles that end within a group; rows of -inf alone, an operator behind."""
    case, expected, more = CASES[number]
    case = replace(case, dtype=dtype)
    group = one_group(case, tmp_path, *more)
    assert rows(group) == expected
    kernel = engine.compile(group)
    assert is_on_tensor_cores(kernel) == (dtype == "float16")
    if more:
        assert engine.check(kernel).status == "pass"
    else:
        agrees(kernel, case, seed=number)


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize("level", ["source", "ptx"])
@needs_nvrtc
@needs_compiler
def test_blocks_share_the_keys_of_a_group(level: str, tmp_path: Path) -> None:
    kernel = engine.compile(planned(replace(DECODE, keys=3001, batch=2), tmp_path).groups[0])
    assert kernel.source.team > 1 and rows(kernel.group) == [8]
    assert engine.check(kernel, level=level).status == "pass"
    assert [compile_cuda(kernel.source.text, a).spill_bytes for a in ARCHITECTURES] == [0, 0]


@lru_cache
def good() -> engine.Kernel:
    case = Attention(queries=3, keys=40, heads=8, shared_by=4, depth=16, head=16, mask="add")
    return engine.compile(one_group(case, Path(FOLDER.name)))


FAULTS = (
    Fault("keys of another group", good, r"(key_tile.*, k_2, )block", r"\1(block ^ 1)", ("wrong result",), "y"),
)  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_caught_at_its_line(fault: Fault) -> None:
    assert_caught(fault)


def test_an_array_has_an_axis_for_each_of_two_loops() -> None:
    """Only what nobody outside sees, and only where every access has the same two loops."""
    g, u, h = (Index.of(name) for name in "guh")
    loops = (Iterator("g", 3), Iterator("u", 4))

    def copy(name: str, target: str, source: str, index: Index, iterators: tuple[Iterator, ...]) -> Statement:
        return Statement(name, name, iterators, Access(target, (index,)), Access(source, (index,)))

    whole = g * 4 + u
    statements = (
        copy("S0", "a", "x", whole, loops), copy("S1", "b", "a", whole, loops), copy("S2", "y", "b", whole, loops),
        copy("S3", "z", "b", h, (Iterator("h", 12),)),
    )  # fmt: skip
    arrays = {name: Array(name, (12,), "float32") for name in "xabyz"}
    found = with_axis_of_each_loop(TensorProgram("", arrays, statements, ("x",), ("y", "z")))
    assert {name: array.shape for name, array in found.arrays.items()} == dict.fromkeys("xbyz", (12,)) | {"a": (3, 4)}
    assert found.statements[0].write.indices == (g, u)
    assert [a.indices for a in found.statements[1].reads()] == [(g, u)]
    assert found.statements[1].write.indices == (whole,)
    short = (replace(statements[0], iterators=(Iterator("g", 4), Iterator("u", 3))), *statements[1:])
    assert with_axis_of_each_loop(TensorProgram("", arrays, short, ("x",), ("y", "z"))).arrays == arrays
