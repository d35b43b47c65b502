"""Short reductions: as many threads for a result as have something to do, and that read side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.fusion.nodes import FusionGroup
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler, needs_nvrtc
from tests.test_shared_models import SHARED, needs_shared

MOST = 1.05
"""Threads for a result: one, and those of the last block that are left over."""


def threads(kernel: engine.Kernel) -> float:
    """Of a kernel, for each of its results."""
    program = kernel.group.program
    results = max(program.arrays[name].elements for name in program.outputs)
    return kernel.tile.grid * kernel.tile.threads / results


def convolved(folder: Path, channels: int, size: int, window: int, step: int = 1) -> FusionGroup:
    """A depth-wise convolution with an activation."""
    nodes: list[Node] = [
        ("Conv", ["x", "w"], ["c"], {"group": channels, "pads": [window // 2] * 4, "strides": [step, step]}),
        ("Relu", ["c"], ["y"], {}),
    ]
    inputs = {
        "x": ("float32", (1, channels, size, size)),
        "w": ("float32", (channels, 1, window, window)),
    }
    plan = engine.fuse(engine.load(write_model(folder / "depthwise.onnx", nodes, inputs, ["y"])))
    (group,) = (group for group in plan.groups if any(s.reduction for s in group.program.statements))
    return group


def asked(group: FusionGroup, lanes: int) -> engine.Kernel:
    """The kernel with so many threads for a result."""
    (anchor,) = (s for s in group.program.statements if s.reduction)
    wish = engine.entry(anchor.name, at="innermost", mark=("lane", lanes))
    return engine.compile(group, engine.default_recipe(group).advise("user", wish))


LAYERS = [(32, 112, 3, 1), (96, 112, 3, 2), (240, 28, 5, 1), (96, 56, 7, 1), (768, 7, 7, 1)]


@pytest.mark.parametrize(("channels", "size", "window", "step"), LAYERS)
def test_depthwise_convolutions_have_a_thread_for_each_result(
    tmp_path: Path, channels: int, size: int, window: int, step: int
) -> None:
    """At most: a thread makes a strip of results.  Against as many threads for each as it has terms."""
    group = convolved(tmp_path, channels, size, window, step)
    kernel = engine.compile(group)
    assert threads(kernel) <= MOST
    shared = asked(group, min(32, 1 << (window * window - 1).bit_length()))
    assert threads(shared) > 8
    # The 37,632 results of the smallest leave most of a GPU's threads idle, so that sharing costs less there.
    limit = 0.5 if size > 7 else 1.0
    assert engine.predict(kernel).microseconds < limit * engine.predict(shared).microseconds


@needs_nvrtc
@pytest.mark.parametrize(("channels", "size", "window", "step"), [LAYERS[0], LAYERS[3]])
def test_windows_written_out_spill_nothing(
    tmp_path: Path, channels: int, size: int, window: int, step: int
) -> None:
    kernel = engine.compile(convolved(tmp_path, channels, size, window, step))
    assert engine.nvrtc(kernel, "sm_80").spill_bytes == 0


@needs_compiler
@pytest.mark.parametrize(("window", "step"), [(3, 1), (5, 2), (7, 1)])
def test_they_compute_the_same(tmp_path: Path, window: int, step: int) -> None:
    group = convolved(tmp_path, 160, 16, window, step)
    report = engine.check(engine.compile(group))
    assert report.status == "pass", report.message


def test_few_results_are_shared_as_long_as_there_are_terms(tmp_path: Path) -> None:
    """4 channels of 8 x 8 are 256 results: 132 SMs would see two blocks."""
    assert 8 <= threads(engine.compile(convolved(tmp_path, 4, 8, 7))) <= 32


def reduced(folder: Path, rows: int, columns: int) -> engine.Kernel:
    """The sum of rows that lie one behind the other."""
    nodes: list[Node] = [("ReduceL1", ["x", "axes"], ["y"], {})]
    inputs = {"x": ("float32", (rows, columns))}
    path = write_model(folder / "rows.onnx", nodes, inputs, ["y"], {"axes": np.array([1])})
    (group,) = engine.fuse(engine.load(path)).groups
    return engine.compile(group)


@pytest.mark.parametrize(
    ("columns", "most"), [(2, 1), (3, 4), (4, 1), (8, 2), (9, 4), (32, 8), (100, 32)]
)
def test_rows_one_behind_the_other_have_lanes_that_read_side_by_side(tmp_path: Path, columns: int, most: int) -> None:
    """As many as reach the row with a vector each, where none is left idle: four threads hold three terms of nine
    columns each, in a quarter of the blocks of sixteen.  No row has twice the threads that have something to do."""
    kernel = reduced(tmp_path, 100_000, columns)
    assert kernel.tile.constants["SHARERS"] == most
    assert kernel.tile.constants["SHARERS"] * kernel.tile.constants["VECTOR"] < 2 * columns


@pytest.mark.few(1)
@needs_shared
@pytest.mark.parametrize("name", ["mobilenet_v2_b1", "efficientnet_b0_b1_ts17", "convnext_tiny_b1"])
def test_depthwise_convolutions_of_real_models(name: str) -> None:
    plan = engine.fuse(engine.load(SHARED / "models" / f"{name}.onnx"))
    found = []
    for group in plan.groups:
        anchor = next((s for s in group.program.statements if s.reduction), None)
        if anchor and group.kind.endswith("reduction") and len(anchor.reduced) == 2 and "conv" in group.title:
            found.append(threads(engine.compile(group)))
    assert len(found) > 3 and max(found) <= MOST
