"""Images stored channels last inside a plan: where, with which weights, and that results stay what they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.graph.convolution_weights import with_ordered_weights
from engine.graph.load import load
from tests.kernels.test_tensor_cores import advised
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler, needs_nvrtc

SAME: dict[str, object] = {"pads": [1, 1, 1, 1]}


def weights(dtype: str, *shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Seeded weights w0, w1, ... of some shapes."""
    stream = np.random.RandomState(7)
    return {f"w{n}": (stream.standard_normal(s) / 8).astype(dtype) for n, s in enumerate(shapes)}


def plan_of(
    folder: Path, nodes: list[Node], constants: dict[str, np.ndarray], image: tuple[int, ...], dtype: str = "float16"
) -> engine.FusionPlan:
    """The plan of a net from x to y."""
    path = write_model(folder / "net.onnx", nodes, {"x": (dtype, image)}, ["y"], constants)
    return engine.fuse(engine.load(path))


def orders(plan: engine.FusionPlan) -> dict[str, tuple[int, ...]]:
    """Tensor between two kernels -> the order in which it is stored, of all that are not as the graph has them."""
    found: dict[str, tuple[int, ...]] = {}
    for group in plan.groups:
        outside = {*group.program.inputs, *group.program.outputs}
        for one in group.instances:
            found |= {one.arrays[name]: order for name, order in one.orders.items() if name in outside}
    return found


CHAIN: list[Node] = [
    ("Conv", ["x", "w0"], ["stem"], SAME), ("Relu", ["stem"], ["image"], {}),
    ("Conv", ["image", "w1"], ["wide"], SAME),
    ("MaxPool", ["wide"], ["pooled"], {"kernel_shape": [3, 3], "strides": [2, 2], **SAME}),
    ("Conv", ["pooled", "w2"], ["y"], {}),
]  # fmt: skip
CHAIN_WEIGHTS = ((64, 3, 3, 3), (48, 64, 3, 3), (16, 48, 1, 1))
"""Of 64 channels, which tiles of the depth divide: each has one tap of the window."""


@pytest.mark.slow(sentinel=True)
@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_what_convolutions_hand_over_has_its_channels_last(dtype: str, tmp_path: Path) -> None:
    """The graph's own tensors stay; windows are copied in whole vectors, and read a weight in their own order."""
    plan = plan_of(tmp_path, CHAIN, weights(dtype, *CHAIN_WEIGHTS), (1, 3, 13, 11), dtype)
    assert orders(plan) == dict.fromkeys(("image", "wide", "pooled"), (0, 2, 3, 1))
    second = next(g for g in plan.groups if "w1.channels_last" in g.instances[0].arrays.values())
    text = engine.compile(second).source.text
    assert "async_copy<16>(image_tile" in text and "async_copy<4>" not in text and "image_taps" in text
    for group in plan.groups:
        for level in ("source", "ptx"):
            report = engine.check(engine.compile(group), level=level)
            assert report.status == "pass", f"{group.name}: {report.message}"
    assert plan.source is not None and engine.check_model(plan.source, plan).status == "pass"


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_tile_of_two_taps_is_copied_in_whole_vectors_too(dtype: str, tmp_path: Path) -> None:
    """Of 32 channels it is 64 deep, which is predicted to be faster than tiles of one tap, whose guards are bits."""
    few = weights(dtype, (32, 3, 3, 3), (48, 32, 3, 3), (16, 48, 1, 1))
    plan = plan_of(tmp_path, CHAIN, few, (1, 3, 13, 11), dtype)
    second = next(g for g in plan.groups if "w1.channels_last" in g.instances[0].arrays.values())
    best = engine.compile(second)
    of_one_tap = advised(second, "S0 @ n: mark tile 32", "S0 @ n: mark slices 1", "S0 @ n: mark stages 4")
    assert ("image_taps" in best.source.text, "image_taps" in of_one_tap.source.text) == (False, True)
    for kernel in (best, of_one_tap):
        assert "async_copy<16>(image_tile" in kernel.source.text and "async_copy<4>" not in kernel.source.text
    assert engine.predict(best).microseconds < engine.predict(of_one_tap).microseconds


TIED: list[tuple[str, list[Node], tuple[tuple[int, ...], ...], set[str]]] = [
    ("joined channels", [
        ("Conv", ["x", "w0"], ["a"], SAME), ("Conv", ["x", "w1"], ["b"], SAME),
        ("Concat", ["a", "b"], ["c"], {"axis": 1}), ("Conv", ["c", "w2"], ["y"], SAME),
    ], ((16, 8, 3, 3), (24, 8, 3, 3), (16, 40, 3, 3)), {"c"}),
    ("depthwise", [
        ("Conv", ["x", "w0"], ["a"], {}), ("Conv", ["a", "w1"], ["b"], {"group": 32, **SAME}),
        ("Relu", ["b"], ["c"], {}), ("Conv", ["c", "w2"], ["d"], SAME), ("Relu", ["d"], ["y"], {}),
    ], ((32, 8, 1, 1), (32, 1, 3, 3), (16, 32, 3, 3)), {"a", "c"}),
    ("groups and a stride", [
        ("Conv", ["x", "w0"], ["a"], {}), ("Conv", ["a", "w1"], ["b"], {"group": 2, "strides": [2, 2], **SAME}),
        ("Relu", ["b"], ["y"], {}),
    ], ((32, 8, 1, 1), (32, 16, 3, 3)), {"a"}),
    ("transposed", [
        ("Conv", ["x", "w0"], ["a"], SAME), ("ConvTranspose", ["a", "w1"], ["y"], {"strides": [2, 2]}),
    ], ((32, 8, 3, 3), (32, 16, 3, 3)), {"a"}),
    ("means of planes", [
        ("Conv", ["x", "w0"], ["a"], SAME), ("InstanceNormalization", ["a", "w1", "w2"], ["b"], {}),
        ("Conv", ["b", "w3"], ["y"], {}),
    ], ((32, 8, 3, 3), (32,), (32,), (16, 32, 1, 1)), set()),
    ("few channels", [
        ("Conv", ["x", "w0"], ["a"], SAME), ("Relu", ["a"], ["b"], {}), ("Conv", ["b", "w1"], ["y"], SAME),
    ], ((3, 8, 3, 3), (3, 3, 3, 3)), set()),
    ("a product of planes", [
        ("Relu", ["x"], ["a"], {}), ("Conv", ["a", "w0"], ["y"], {}),
    ], ((16, 8, 1, 1),), set()),
]  # fmt: skip


@pytest.mark.few(3)
@needs_compiler
@pytest.mark.parametrize(("name", "nodes", "shapes", "stored"), TIED, ids=[case[0] for case in TIED])
def test_tensors_are_stored_alike_where_they_are_tied(
    name: str, nodes: list[Node], shapes: tuple[tuple[int, ...], ...], stored: set[str], tmp_path: Path
) -> None:
    """Arrays of one arrangement have one order; none has another where means of planes or few channels would lose."""
    plan = plan_of(tmp_path, nodes, weights("float16", *shapes), (2, 8, 8, 8))
    assert orders(plan).keys() == stored
    assert plan.source is not None and engine.check_model(plan.source, plan).status == "pass"


@needs_compiler
def test_a_kernel_takes_and_gives_tensors_as_the_graph_has_them(tmp_path: Path) -> None:
    """`engine.run` of a kernel between two others: its operands and results are in the graph's order."""
    plan = plan_of(tmp_path, CHAIN, weights("float32", *CHAIN_WEIGHTS), (1, 3, 13, 11), "float32")
    group = next(g for g in plan.groups if {"image", "wide"} <= set(g.instances[0].arrays.values()))
    image = np.random.RandomState(3).standard_normal((1, 64, 13, 11)).astype("float32")
    found = engine.run(engine.compile(group), {"image": image})["wide"]
    weight = weights("float32", *CHAIN_WEIGHTS)["w1"]
    frame = np.pad(image[0], ((0, 0), (1, 1), (1, 1)))
    taps = [(r, s) for r in range(3) for s in range(3)]
    wanted = sum(np.einsum("cyx,mc->myx", frame[:, r : r + 13, s : s + 11], weight[:, :, r, s]) for r, s in taps)
    assert found.shape == (1, 48, 13, 11)
    np.testing.assert_allclose(found[0], wanted, atol=1e-4)


def test_weights_are_there_in_both_orders(tmp_path: Path) -> None:
    """A view of the file's value; only of windows of several points."""
    values = weights("float32", (16, 8, 3, 3), (16, 16, 1, 1))
    nodes: list[Node] = [("Conv", ["x", "w0"], ["a"], {}), ("Conv", ["a", "w1"], ["y"], {})]
    graph = load(write_model(tmp_path / "n.onnx", nodes, {"x": ("float32", (1, 8, 9, 9))}, ["y"], values))
    assert graph.channels_last == {"w0": "w0.channels_last"}
    value = graph.constants["w0.channels_last"].value
    assert value is not None and np.array_equal(value, values["w0"].transpose(0, 2, 3, 1))
    assert with_ordered_weights(load(tmp_path / "n.onnx")).channels_last["w0"] == "w0.channels_last_"
