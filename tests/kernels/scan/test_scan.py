"""Prefix sums in one pass, emulated against the reference of their graph."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import engine
from engine import Entry
from engine.fusion.nodes import FusionGroup
from engine.kernels.nodes import Kernel
from engine.kernels.scan.lower import ScanConfig
from tests.benchmarks import work
from tests.support.needs import needs_compiler

pytestmark = needs_compiler


def group_of(
    folder: Path, shape: tuple[int, ...], axis: int, then: str = "", dtype: int = TensorProto.FLOAT, **options: int
) -> FusionGroup:
    """The group of a CumSum along an axis.  then: an element-wise operator of its result."""
    nodes = [helper.make_node("CumSum", ["x", "axis"], ["c" if then else "y"], **options)]
    nodes += [helper.make_node(then, ["c"], ["y"])] if then else []
    x, y = (helper.make_tensor_value_info(name, dtype, shape) for name in "xy")
    graph = helper.make_graph(nodes, "scan", [x], [y], [numpy_helper.from_array(np.array(axis), "axis")])
    path = folder / "scan.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)]), path)
    (group,) = engine.fuse(engine.load(str(path))).groups
    return group


def config_of(kernel: Kernel) -> ScanConfig:
    """What the family chose."""
    first = kernel.tile.config
    assert kernel.family == "scan" and isinstance(first, ScanConfig)
    return first


@pytest.mark.few(8)
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize(("shape", "axis"), [((5,), 0), ((3, 2000), 1), ((40, 7), 0), ((2, 33, 5), 1)])
def test_every_form_of_a_running_sum(
    tmp_path: Path, shape: tuple[int, ...], axis: int, reverse: int, exclusive: int
) -> None:
    kernel = engine.compile(group_of(tmp_path, shape, axis, reverse=reverse, exclusive=exclusive))
    config_of(kernel)
    assert engine.check(kernel).status == "pass"


@pytest.mark.parametrize("dtype", [TensorProto.INT32, TensorProto.FLOAT16])
def test_other_types(tmp_path: Path, dtype: int) -> None:
    kernel = engine.compile(group_of(tmp_path, (4, 100), 1, dtype=dtype))
    config_of(kernel)
    assert engine.check(kernel).status == "pass"


@pytest.mark.parametrize("then", ["Exp", "Relu"])
def test_what_follows_is_computed_with_the_sum(tmp_path: Path, then: str) -> None:
    kernel = engine.compile(group_of(tmp_path, (8, 100), 1, then))
    config_of(kernel)
    assert engine.check(kernel).status == "pass"


def test_a_long_row_is_cut_into_chunks_that_two_launches_join(tmp_path: Path) -> None:
    kernel = engine.compile(
        group_of(tmp_path, (2, 3001), 1),
        engine.Recipe(target="h200").advise("user", mark("block", 512), mark("thread", 64), group=GROUP),
    )
    assert [launch.blocks for launch in kernel.launches] == [2 * math.ceil(3001 / 512)] * 2
    assert engine.check(kernel).status == "pass"


def test_a_million_elements_are_near_the_floor(tmp_path: Path) -> None:
    kernel = engine.compile(group_of(tmp_path, (1, 1_000_000), 1))
    machine = kernel.target
    floor = machine.launch_overhead.value + 2 * 4 * 1_000_000 / machine.dram_bandwidth.value
    assert engine.predict(kernel).microseconds < 3 * floor * 1e6


@pytest.mark.parametrize(("name", "value"), [("thread", 96), ("vector", 2), ("block", 1024)])
def test_marks_are_followed(tmp_path: Path, name: str, value: int) -> None:
    group = group_of(tmp_path, (2, 4096), 1)
    recipe = engine.Recipe(target="h200").advise("user", mark(name, value), group=GROUP)
    config = config_of(engine.compile(group, recipe))
    assert value == {"thread": config.threads, "vector": config.vector, "block": config.chunk}[name]


def test_a_schedule_of_other_rows_goes_to_the_general_family(tmp_path: Path) -> None:
    group = group_of(tmp_path, (6, 40), 1)
    (statement,) = group.program.statements
    skewed = engine.entry(statement.name, terms=(("i", 1), ("j", 1)), at="outermost", required=True)
    kernel = engine.compile(group, engine.Recipe(target="h200").advise("user", skewed, group=group.name))
    assert kernel.family == "general"
    assert engine.check(kernel).status == "pass"


def test_its_requests_are_explained(tmp_path: Path) -> None:
    row = work.compare(engine.compile(group_of(tmp_path, (8, 100), 1)))
    assert isinstance(row, work.Row) and row.left == {}


GROUP = "cumsum_0"


def mark(name: str, value: int) -> Entry:
    """A required mark of the running sum."""
    return engine.entry("S0", mark=(name, value), at="innermost", required=True)
