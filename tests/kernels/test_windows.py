"""Windows that slide over images: strips of results from registers, along vectors and across them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.nvrtc import compile_cuda
from engine.kernels.families import family_of
from engine.kernels.window.lower import WindowConfig, lower_windows, widest_lanes
from engine.kernels.window.match import match_windows
from engine.target import ARCHITECTURES
from engine.tile.nodes import Load, TileOp, operations
from engine.tile.printer import print_cuda
from engine.tile.trip_counts import trip_counts
from tests.benchmarks import work
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler, needs_nvrtc

Shape = tuple[int, ...]
PADDED: dict[str, object] = {"pads": [1, 1, 1, 1]}


def plan_of(folder: Path, nodes: list[Node], shapes: dict[str, Shape], dtype: str) -> engine.FusionPlan:
    """The plan of a net from x and weights to y, all of them inputs."""
    inputs = {name: (dtype, shape) for name, shape in shapes.items()}
    return engine.fuse(engine.load(write_model(folder / "w.onnx", nodes, inputs, ["y"])))


def depthwise(weight: Shape, **attributes: object) -> list[Node]:
    """A depthwise convolution with a bias and what follows it."""
    return [("Conv", ["x", "w", "b"], ["p"], {"group": weight[0], **attributes}), ("Relu", ["p"], ["y"], {})]


CONVOLUTIONS: list[tuple[Shape, Shape, dict[str, object]]] = [
    ((2, 48, 16, 16), (48, 1, 3, 3), PADDED),
    ((2, 192, 15, 14), (192, 1, 3, 3), {**PADDED, "strides": [2, 2]}),
    ((1, 96, 14, 14), (96, 1, 7, 7), {"pads": [3] * 4}),
    ((2, 40, 12, 20), (40, 1, 3, 3), {"dilations": [2, 2], "pads": [2, 1, 2, 3]}),
    ((1, 320, 9, 24), (320, 1, 1, 4), {"strides": [1, 4]}),
    ((3, 160, 40), (160, 1, 5), {"pads": [2, 2]}),
]


@pytest.mark.few(4)
@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("image", "weight", "attributes"), CONVOLUTIONS)
def test_depthwise_convolutions(
    image: Shape, weight: Shape, attributes: dict[str, object], dtype: str, tmp_path: Path
) -> None:
    """Strides, dilations, uneven padding, one axis; what follows is computed of the strip."""
    shapes = {"x": image, "w": weight, "b": weight[:1]}
    (group,) = plan_of(tmp_path, depthwise(weight, **attributes), shapes, dtype).groups
    kernel = engine.compile(group)
    assert isinstance(kernel.tile.config, WindowConfig)
    for level in ("source", "ptx"):
        report = engine.check(kernel, level=level)
        assert report.status == "pass", report.message
    assert [compile_cuda(kernel.source.text, a).spill_bytes for a in ARCHITECTURES] == [0, 0]


POOLINGS: list[tuple[str, Shape, dict[str, object]]] = [
    ("MaxPool", (4, 72, 16, 16), {"kernel_shape": [3, 3], "strides": [2, 2], **PADDED}),
    ("AveragePool", (2, 40, 16, 16), {"kernel_shape": [3, 3], **PADDED}),
    ("AveragePool", (4, 850, 20), {"kernel_shape": [4], "strides": [4]}),
]


@needs_compiler
@pytest.mark.parametrize(("kind", "image", "attributes"), POOLINGS)
def test_poolings(kind: str, image: Shape, attributes: dict[str, object], tmp_path: Path) -> None:
    """What lies outside never wins a maximum, and is counted by no mean."""
    (group,) = plan_of(tmp_path, [(kind, ["x"], ["y"], attributes)], {"x": image}, "float32").groups
    kernel = engine.compile(group)
    assert isinstance(kernel.tile.config, WindowConfig)
    report = engine.check(kernel)
    assert report.status == "pass", report.message


def inside(folder: Path, dtype: str = "float16") -> engine.FusionGroup:
    """A depthwise convolution between two others, which have their image's channels last."""
    nodes: list[Node] = [
        ("Conv", ["x", "v"], ["image"], PADDED), ("Conv", ["image", "w"], ["p"], {"group": 32, **PADDED}),
        ("Relu", ["p"], ["q"], {}), ("Conv", ["q", "u"], ["y"], PADDED),
    ]  # fmt: skip
    shapes = {"x": (4, 8, 12, 12), "v": (32, 8, 3, 3), "w": (32, 1, 3, 3), "u": (8, 32, 3, 3)}
    plan = plan_of(folder, nodes, shapes, dtype)
    return next(group for group in plan.groups if family_of(group).name == "window")


STEPS = [(1, 1, 8), (1, 4, 8), (2, 3, 4), (4, 2, 1), (4, 12, 1)]


@pytest.mark.few(3)
@needs_compiler
@pytest.mark.parametrize(("rows", "strip", "vector"), STEPS)
def test_every_strip_gives_the_same_results(rows: int, strip: int, vector: int, tmp_path: Path) -> None:
    """Channels as vectors or one by one, rows shared by several results."""
    group = inside(tmp_path)
    windows = match_windows(group.program)
    assert windows is not None and windows.lane is not None and widest_lanes(group.program, windows) == 8
    tile = lower_windows(group, windows, WindowConfig(64, rows, strip, vector))
    report = engine.check(replace(engine.compile(group), tile=tile, source=print_cuda(tile)))
    assert report.status == "pass", report.message
    read = sum(times for op, times in trip_counts(tile.body) if _is_of(op, windows.image.array))
    down, along = (2 + n for n in (rows, strip))
    assert read == down * along, "every place that a thread needs, once"


@needs_compiler
@pytest.mark.parametrize("name", ["along", "across"])
def test_counts_are_those_of_the_emulator(name: str, tmp_path: Path) -> None:
    """What masks and other warps change is explained; nothing else differs."""
    shapes = {"x": (2, 48, 16, 16), "w": (48, 1, 3, 3), "b": (48,)}
    group = inside(tmp_path)
    if name == "along":
        (group,) = plan_of(tmp_path, depthwise(shapes["w"], **PADDED), shapes, "float16").groups
    row = work.compare(engine.compile(group))
    assert isinstance(row, work.Row) and row.family == "window" and row.left == {}


def _is_of(op: TileOp, array: str) -> bool:
    return isinstance(op, Load) and op.source == array


@needs_compiler
def test_a_strip_loads_the_rows_it_shares_once(tmp_path: Path) -> None:
    """Vectors where they are aligned, single elements beside them."""
    shapes = {"x": (2, 48, 16, 16), "w": (48, 1, 3, 3), "b": (48,)}
    (group,) = plan_of(tmp_path, depthwise(shapes["w"], **PADDED), shapes, "float16").groups
    windows = match_windows(group.program)
    assert windows is not None and windows.lane is None
    tile = lower_windows(group, windows, WindowConfig(64, 2, 8, 1))
    widths = [op.width for op in operations(tile.body) if _is_of(op, windows.image.array)]
    assert widths == [1, 8, 1] * 4


OTHERS: dict[str, tuple[list[Node], dict[str, Shape]]] = {
    "channels that are summed": ([("Conv", ["x", "w"], ["y"], {})], {"x": (8, 64, 9, 9), "w": (64, 64, 3, 3)}),
    "a window as large as its image": ([("GlobalAveragePool", ["x"], ["y"], {})], {"x": (64, 512, 6, 6)}),
    "three axes": ([("MaxPool", ["x"], ["y"], {"kernel_shape": [2, 2, 2]})], {"x": (32, 64, 6, 6, 6)}),
    "few results": ([("MaxPool", ["x"], ["y"], {"kernel_shape": [3, 3]})], {"x": (1, 4, 8, 10)}),
    "results in no strip": ([("MaxPool", ["x"], ["y"], {"kernel_shape": [3, 3]})], {"x": (32, 32, 8, 25)}),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_groups_stay_with_their_families(name: str, tmp_path: Path) -> None:
    nodes, shapes = OTHERS[name]
    assert all(family_of(group).name != "window" for group in plan_of(tmp_path, nodes, shapes, "float32").groups)


@needs_compiler
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_windows_over_tokens(dtype: str, tmp_path: Path) -> None:
    """Tokens of an image, channels last: threads take neighbouring channels, and strips run along the image's rows."""
    nodes: list[Node] = [
        ("Transpose", ["x"], ["c"], {"perm": [0, 2, 1]}), ("Reshape", ["c", "image"], ["i"], {}),
        ("Conv", ["i", "w", "b"], ["p"], {"group": 64, **PADDED}), ("Reshape", ["p", "flat"], ["f"], {}),
        ("Transpose", ["f"], ["t"], {"perm": [0, 2, 1]}), ("Relu", ["t"], ["y"], {}),
    ]  # fmt: skip
    shapes: dict[str, tuple[str, Shape]] = {
        "x": (dtype, (1, 24 * 16, 64)), "w": (dtype, (64, 1, 3, 3)), "b": (dtype, (64,))
    }
    constants = {"image": np.array([1, 64, 24, 16]), "flat": np.array([1, 64, 24 * 16])}
    (group,) = engine.fuse(engine.load(write_model(tmp_path / "t.onnx", nodes, {**shapes}, ["y"], constants))).groups
    kernel = engine.compile(group)
    assert isinstance(kernel.tile.config, WindowConfig) and kernel.tile.config.vector > 1
    for level in ("source", "ptx"):
        report = engine.check(kernel, level=level)
        assert report.status == "pass", report.message
    assert group.program.arrays["x"].shape == (24, 16, 64)
