"""Parts of tensors that groups touch: equal kernels at other places, and the values they work on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import engine
from engine.fusion.nodes import GroupInstance, TensorBlock
from engine.tensor.nodes import Array


def model(path: Path, nodes: list[onnx.NodeProto], inputs: dict[str, tuple[int, ...]], outputs: list[str]) -> Path:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    graph = helper.make_graph(nodes, "g", values, [onnx.ValueInfoProto(name=name) for name in outputs])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def sliced(path: Path, starts: list[int], axis: int, shape: tuple[int, ...] = (6, 8, 4)) -> Path:
    """The exponential of slices of two elements, side by side again."""
    nodes = []
    for at, start in enumerate(starts):
        for name, value in (("s", start), ("e", start + 2), ("a", axis)):
            constant = numpy_helper.from_array(np.array([value], np.int64))
            nodes.append(helper.make_node("Constant", [], [f"{name}{at}"], value=constant))
        nodes.append(helper.make_node("Slice", ["x", f"s{at}", f"e{at}", f"a{at}"], [f"p{at}"]))
        nodes.append(helper.make_node("Exp", [f"p{at}"], [f"y{at}"]))
    nodes.append(helper.make_node("Concat", [f"y{at}" for at in range(len(starts))], ["y"], axis=axis))
    return model(path, nodes, {"x": shape}, ["y"])


def test_equal_steps_are_one_group_at_several_places(tmp_path: Path) -> None:
    graph = engine.load(sliced(tmp_path / "m.onnx", [0, 2, 4], axis=0))
    plan = engine.fuse(graph, policy="none")
    exp = next(g for g in plan.groups if g.title.startswith("exp"))
    assert len(exp.instances) == 3
    (read,), (written,) = exp.program.inputs, exp.program.outputs
    assert exp.program.arrays[read].shape == (2, 8, 4)
    # The slice that starts at the first element and the later ones: 2 x 8 x 4 elements further each.
    assert [i.parts[read] for i in exp.instances] == [TensorBlock(first, 192) for first in (0, 64, 128)]
    assert all(s.covers for s in exp.program.statements), written
    assert engine.check_model(graph, plan).status == "pass"
    for group in plan.groups:
        kernel = engine.compile(group)
        assert engine.check(kernel).status == "pass"
        # A launch at any of the places gives its kernel pointers that are aligned as it needs them.
        for buffer in kernel.source.buffers:
            size = np.dtype(buffer.dtype).itemsize
            firsts = [one.parts[buffer.array].first for one in group.instances if buffer.array in one.parts]
            assert not any(first * size % buffer.alignment for first in firsts)


def test_parts_of_one_tensor_are_written_by_one_kernel(tmp_path: Path) -> None:
    graph = engine.load(sliced(tmp_path / "m.onnx", [0, 2, 4], axis=0))
    plan = engine.fuse(graph)
    (group,) = plan.groups
    (own,) = group.instances
    assert [own.arrays[name] for name in group.program.outputs] == ["y", "y", "y"]
    assert [own.parts[name].first for name in group.program.outputs] == [0, 64, 128]
    assert engine.check_model(graph, plan).status == "pass"


def test_columns_are_no_block(tmp_path: Path) -> None:
    graph = engine.load(sliced(tmp_path / "m.onnx", [0, 2, 4], axis=1))
    plan = engine.fuse(graph)
    assert not any(instance.parts for group in plan.groups for instance in group.instances)
    assert engine.check_model(graph, plan).status == "pass"


def test_a_block_that_vectors_cannot_start_at_stays_whole(tmp_path: Path) -> None:
    """Rows of three floats: the second block starts at byte 24 of the tensor."""
    graph = engine.load(sliced(tmp_path / "m.onnx", [0, 2], axis=0, shape=(4, 3)))
    plan = engine.fuse(graph)
    firsts = {p.first for g in plan.groups for i in g.instances for p in i.parts.values()}
    assert firsts == {0}
    assert engine.check_model(graph, plan).status == "pass"


def test_a_view_shares_the_tensors_memory() -> None:
    own = GroupInstance((), {"a": "t", "b": "t"}, {}, {"a": TensorBlock(4, 12)})
    tensor = np.arange(12.0).reshape(3, 4)
    own.view(Array("a", (2, 2), "float64"), tensor)[...] = -1
    assert tensor.reshape(-1).tolist() == [0, 1, 2, 3, -1, -1, -1, -1, 8, 9, 10, 11]
    assert own.view(Array("b", (12,), "float64"), tensor).shape == (12,)


@pytest.mark.few(1)
@pytest.mark.parametrize(("kind", "gates", "launches"), [("LSTM", 4, 7), ("GRU", 3, 14)])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_the_steps_of_a_recurrence_share_their_kernels(
    kind: str, gates: int, launches: int, direction: str, tmp_path: Path
) -> None:
    """A product takes in its gates; the candidate state of a GRU has a product of its own."""
    count = 1 + (direction == "bidirectional")
    shapes = {"x": (7, 2, 8), "w": (count, gates * 16, 8), "r": (count, gates * 16, 16)}
    node = helper.make_node(kind, list(shapes), ["y", "h"], hidden_size=16, direction=direction)
    graph = engine.load(model(tmp_path / "m.onnx", [node], shapes, ["y", "h"]))
    plan = engine.fuse(graph)
    assert plan.unsupported == {}
    assert len(plan.groups) <= len(plan.launches) <= launches + 4, "seven steps, some of which may share a launch"
    assert engine.check_model(graph, plan).status == "pass"
