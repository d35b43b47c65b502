"""The policy `xla` against XLA itself: kernels of small graphs, counted in programs that XLA compiled for the CPU.

XLA for the CPU joins no siblings and writes no two results from one kernel, which XLA for GPUs does and our rules say;
it also writes exponentials and reciprocals of rows out.  So the rules ask for as many kernels or fewer: what the
search is compared with is never weaker than what XLA does.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.compilation import default_microseconds
from engine.fusion.operator_folding import fold_layouts
from engine.fusion.partition import FusionRequest, partition
from engine.fusion.stitching.nodes import XLA
from engine.fusion.stitching.xla_rules import xla_kernels
from engine.target import target
from engine.tensor.lower import lower
from tests.fusion.stitching.xla_graphs import GRAPHS
from tests.semantics.single import write_model

COUNTED = json.loads((Path(__file__).parent / "xla_counts.json").read_text(encoding="utf-8"))
"""What `tests.fusion.stitching.xla_graphs` found, with jax's version."""

OURS = {
    "chain": 1, "softmax": 3, "masked softmax": 3, "layer norm": 3, "residual layer norm": 3, "rms norm": 2,
    "log softmax": 4, "a reduction and its prologue": 1, "columns": 1, "cheap for two": 1, "scalar of everything": 3,
    "transposed": 1, "two results": 1, "a product between": 4,
}  # fmt: skip
"""Kernels by the rules; the product's own is not counted."""
EQUAL = {"chain", "log softmax", "a reduction and its prologue", "columns", "scalar of everything", "transposed",
         "a product between"}  # fmt: skip
"""Graphs of which both make the same number."""


def load(name: str, folder: Path) -> engine.OperatorGraph:
    body, inputs, outputs = GRAPHS[name]
    constants = {f"axis{axis}": np.array([axis]) for axis in (0, 1)}
    nodes = [
        (kind, [*operands, f"axis{attributes['axis']}"], made, {"keepdims": 1}) if kind.startswith("Reduce")
        else (kind, operands, made, attributes)
        for kind, operands, made, attributes in body
    ]  # fmt: skip
    used = {name: value for name, value in constants.items() if any(name in operands for _, operands, _, _ in nodes)}
    given = {name: ("float32", shape) for name, shape in inputs.items()}
    return engine.load(write_model(folder / "m.onnx", nodes, given, outputs, used))


@pytest.mark.parametrize("name", GRAPHS)
def test_the_rules_ask_for_no_more_kernels_than_xla_makes(name: str, tmp_path: Path) -> None:
    graph = load(name, tmp_path)
    program = fold_layouts(lower(graph), graph.constants).program
    request = FusionRequest(XLA, target("h200"), default_microseconds)
    flow = partition(program, [], request).chosen.graph.flow
    kernels = [kernel for kernel in xla_kernels(flow) if not kernel.closed]
    assert len(kernels) == OURS[name]
    theirs = COUNTED["graphs"][name]["kernels"]
    assert len(kernels) == theirs if name in EQUAL else len(kernels) < theirs


def test_all_graphs_were_counted_by_one_xla() -> None:
    assert COUNTED["graphs"].keys() == GRAPHS.keys() == OURS.keys()
    assert COUNTED["backend"] == "cpu" and COUNTED["jax"]


def test_what_one_reduction_gives_another_kernel_uses(tmp_path: Path) -> None:
    """The three kernels of a softmax: maxima; sums of exponentials, which are computed anew; quotients."""
    plan = engine.fuse(load("softmax", tmp_path), policy="xla")
    reductions = [[s.reduction.operation for s in g.program.statements if s.reduction] for g in plan.groups]
    assert reductions == [["max"], ["sum"], []]
    assert engine.check_model(plan.source, plan).status == "pass"
