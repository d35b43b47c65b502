"""Attention with 32 queries a warp, and causal masks that a graph computes: what the main loop reads and leaves out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.nvrtc import compile_cuda
from engine.execution.sass import disassembler, instruction_mix
from engine.execution.sass.mix import SHARED, TENSOR
from engine.kernels.attention.lower import AttentionConfig
from engine.present.machine_code import machine_code
from engine.target import ARCHITECTURES
from engine.tile.nodes import BreakIf, operations
from tests.benchmarks import speed_graphs
from tests.kernels.test_attention import agrees, compiled
from tests.semantics.single import Node, write_model
from tests.support.attentions import Attention
from tests.support.needs import needs_compiler, needs_nvrtc

BLOCK = ("S0 @ i: mark block 64", "S0 @ i: mark warp 32")
SHAPES = [
    (Attention(queries=70, keys=50, depth=128, head=128, heads=1, mask="add"), 16, 1),
    (Attention(queries=64, keys=70, depth=72, head=96, heads=1, mask="padding", scale="before"), 32, 1),
    (Attention(queries=50, keys=64, depth=64, head=40, heads=1, mask="triangle"), 32, 2),
    (Attention(queries=70, keys=40, depth=40, head=64, heads=1, mask="add", dtype="tf32"), 16, 1),
]


@pytest.mark.few(2)
@needs_compiler
@pytest.mark.parametrize(("case", "keys", "register_stages"), SHAPES)
def test_two_fragments_of_queries_share_what_a_warp_reads(
    case: Attention, keys: int, register_stages: int, tmp_path: Path
) -> None:
    """Ragged tiles, factors computed on their way, keys loaded ahead: in both orders, and as compiled."""
    marks = (f"S0 @ j: mark tile {keys}", f"S0 @ j: mark register_stages {register_stages}")
    kernel = compiled(case, tmp_path, *BLOCK, *marks)
    config = kernel.tile.config
    assert isinstance(config, AttentionConfig) and (config.own, config.register_stages) == (32, register_stages)
    agrees(kernel, case)
    report = engine.check(kernel, level="ptx")
    assert report.status == "pass", report.message


@pytest.mark.few(2)
@needs_nvrtc
@pytest.mark.skipif(disassembler() is None, reason="nvdisasm is not here")
@pytest.mark.parametrize("head", [128, 64, 96, 112])
def test_default_tiles_read_shared_memory_once_for_four_products(head: int) -> None:
    """Queries stay in registers: one matrix load of keys or values serves four instructions; nothing spills."""
    for target in ("a100", "h100"):
        (group,) = speed_graphs.attention(4, 16, 2048, head, target).groups
        kernel = engine.compile(group)
        loop = instruction_mix(machine_code(kernel)).loop
        assert 4 * loop[SHARED] == loop[TENSOR]
        assert [compile_cuda(kernel.source.text, a).spill_bytes for a in ARCHITECTURES] == [0, 0]


def ones(kind: str) -> Node:
    """Ones as large as the scores."""
    return ("Expand", [f"one_{kind}", "shape"], ["ones"], {})


RANGE: list[Node] = [
    ("Range", ["zero_i", "size", "one_i"], ["places"], {}), ("Unsqueeze", ["places", "axis_0"], ["columns"], {}),
    ("Unsqueeze", ["places", "axis_1"], ["rows"], {}),
]  # fmt: skip
MASKS: dict[str, list[Node]] = {
    "a triangle of ones": [ones("f"), ("Trilu", ["ones"], ["t"], {"upper": 0}), ("Cast", ["t"], ["counts"], {"to": 9}),
                           ("Where", ["counts", "s", "low"], ["m"], {})],
    "what is above it": [ones("f"), ("Trilu", ["ones", "one_i"], ["t"], {}), ("Mul", ["t", "low"], ["a"], {}),
                         ("Add", ["s", "a"], ["m"], {})],
    "places compared": [*RANGE, ("LessOrEqual", ["columns", "rows"], ["counts"], {}),
                        ("Where", ["counts", "s", "low"], ["m"], {})],
    "places compared and turned round": [
        *RANGE, ("Greater", ["columns", "rows"], ["later"], {}), ("Where", ["later", "low", "zero_h"], ["a"], {}),
        ("Add", ["s", "a"], ["m"], {}),
    ],
}  # fmt: skip
SIZE = 160


def masked(folder: Path, nodes: list[Node]) -> engine.Kernel:
    """An attention of 160 queries and keys under a mask m of its scores s."""
    values = {
        "one_i": np.int64(1), "zero_i": np.int64(0), "size": np.int64(SIZE), "shape": np.array([SIZE, SIZE]),
        "axis_0": np.array([0]), "axis_1": np.array([1]), "one_f": np.ones((1, 1), np.float16),
        "low": np.float16(-65504), "zero_h": np.float16(0),
    }  # fmt: skip
    used = {name for _, read, _, _ in nodes for name in read}
    whole: list[Node] = [
        ("Transpose", ["k"], ["t_k"], {"perm": [0, 2, 1]}), ("MatMul", ["q", "t_k"], ["s"], {}), *nodes,
        ("Softmax", ["m"], ["p"], {"axis": -1}), ("MatMul", ["p", "v"], ["y"], {}),
    ]  # fmt: skip
    inputs = dict.fromkeys("qkv", ("float16", (2, SIZE, 32))) | {"places_given": ("int64", (SIZE,))}
    inputs = {name: what for name, what in inputs.items() if name in used or name in "qkv"}
    constants = {name: np.asarray(value) for name, value in values.items() if name in used}
    plan = engine.fuse(engine.load(write_model(folder / "m.onnx", whole, inputs, ["y"], constants)))
    return engine.compile(plan.groups[-1])


@pytest.mark.few(2)
@needs_compiler
@pytest.mark.parametrize("name", MASKS)
def test_tiles_behind_a_computed_diagonal_are_left_out(name: str, tmp_path: Path) -> None:
    """As those behind a constant one: the mask is a function of position, and no kernel makes it."""
    kernel = masked(tmp_path, MASKS[name])
    assert any(isinstance(op, BreakIf) for op in operations(kernel.tile.body))
    report = engine.check(kernel)
    assert report.status == "pass", report.message


def test_a_diagonal_that_data_decide_is_not_assumed(tmp_path: Path) -> None:
    """Places that are an input may be any numbers."""
    given = [
        (kind, ["places_given" if name == "places" else name for name in read], made, attributes)
        for kind, read, made, attributes in MASKS["places compared"][1:]
    ]
    kernel = masked(tmp_path, given)
    assert not any(isinstance(op, BreakIf) for op in operations(kernel.tile.body))
