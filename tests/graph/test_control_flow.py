"""Branches, loops and sequences that are known when a file is read: written out they compute what ONNX Runtime does."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import engine
from engine.graph.onnx import model_of
from engine.support.errors import BadInput
from tests.support.needs import needs_compiler

Arrays = dict[str, np.ndarray]


def value(name: str, kind: int = TensorProto.FLOAT, shape: tuple[int, ...] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def save(
    folder: Path, nodes: list[onnx.NodeProto], constants: Arrays, inputs: dict[str, tuple[int, int]] | None = None,
    outputs: tuple[str, ...] = ("y",),
) -> Path:  # fmt: skip
    given = inputs or {"x": (3, 4)}
    graph = helper.make_graph(
        nodes, "flow", [value(name, shape=shape) for name, shape in given.items()],
        [value(name) for name in outputs], [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )  # fmt: skip
    path = folder / "flow.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def branch(name: str, kind: str, *inputs: str) -> onnx.GraphProto:
    return helper.make_graph([helper.make_node(kind, list(inputs), [name])], name, [], [value(name)])


def choice(condition: str) -> onnx.NodeProto:
    """Exp of e where the condition holds, else its sign turned: both branches call their tensor n."""
    return helper.make_node("If", [condition], ["y"], name="if", then_branch=branch("n", "Exp", "e"),
                            else_branch=branch("n", "Neg", "e"))  # fmt: skip


def counted(goes_on: list[onnx.NodeProto], condition: str = "go") -> onnx.GraphProto:
    """state = state * 0.5 + x, and what it was; the condition by nodes of its own."""
    steps = [
        helper.make_node("Mul", ["state", "half"], ["m"]), helper.make_node("Add", ["m", "x"], ["next"]),
        helper.make_node("Identity", ["state"], ["was"]), *goes_on,
    ]  # fmt: skip
    inputs = [value("i", TensorProto.INT64, ()), value("go_in", TensorProto.BOOL, ()), value("state")]
    return helper.make_graph(steps, "body", inputs, [value(condition, TensorProto.BOOL), value("next"), value("was")])


HANDED_ON = [helper.make_node("Identity", ["go_in"], ["go"])]
BELOW_THREE = [helper.make_node("Less", ["i", "three"], ["go"])]
HALF = {"half": np.array(0.5, np.float32), "three": np.array(3), "five": np.array(5), "yes": np.array(True)}


def loop(count: str, body: onnx.GraphProto, condition: str = "yes") -> onnx.NodeProto:
    return helper.make_node("Loop", [count, condition, "x"], ["y", "all"], name="loop", body=body)


def sequence_of(*ends: onnx.NodeProto) -> list[onnx.NodeProto]:
    """[exp, neg], with a tensor in between that is taken out again."""
    make = helper.make_node
    return [
        make("Exp", ["x"], ["e"]), make("Neg", ["x"], ["n"]), make("SequenceConstruct", ["e", "x"], ["s0"]),
        make("SequenceInsert", ["s0", "n"], ["s1"]), make("SequenceErase", ["s1", "one"], ["s2"]), *ends,
    ]  # fmt: skip


EXP = helper.make_node("Exp", ["x"], ["e"])
CASES: dict[str, tuple[list[onnx.NodeProto], Arrays, tuple[str, ...]]] = {
    "a branch by a constant": ([EXP, choice("yes")], HALF, ("y",)),
    "a branch by a shape": (
        [EXP, helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "at"], ["rows"]),
         helper.make_node("Greater", ["rows", "three"], ["more"]), choice("more")],
        {**HALF, "at": np.array(0)}, ("y",),
    ),
    "a loop of five": ([loop("five", counted(HANDED_ON))], HALF, ("y", "all")),
    "a loop until a count": ([loop("", counted(BELOW_THREE))], HALF, ("y", "all")),
    "a loop that its condition ends first": ([loop("five", counted(BELOW_THREE))], HALF, ("y", "all")),
    "a sequence, joined": (
        sequence_of(helper.make_node("ConcatFromSequence", ["s2"], ["y"], axis=1)), {"one": np.array(1)}, ("y",),
    ),
    "a sequence, stacked": (
        sequence_of(helper.make_node("ConcatFromSequence", ["s2"], ["y"], axis=0, new_axis=1)), {"one": np.array(1)},
        ("y",),
    ),
    "the last of a sequence": (
        sequence_of(helper.make_node("SequenceAt", ["s2", "last"], ["y"])),
        {"one": np.array(1), "last": np.array(-1)}, ("y",),
    ),
}  # fmt: skip


def run(made: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    return [np.asarray(one) for one in onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})]


@pytest.mark.parametrize("case", CASES)
def test_what_is_written_out_is_what_onnx_runtime_computes(case: str, tmp_path: Path) -> None:
    nodes, constants, outputs = CASES[case]
    path = save(tmp_path, nodes, constants, outputs=outputs)
    graph = engine.load(path)
    assert not graph.unsupported and not {op.kind for op in graph.operators} & {"If", "Loop", "SequenceAt"}
    written, x = model_of(graph), np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)
    for got, right in zip(run(written, x), run(onnx.load(path), x), strict=True):
        np.testing.assert_array_equal(got, right)


@needs_compiler
@pytest.mark.parametrize("case", ["a branch by a shape", "a loop of five", "a sequence, joined"])
def test_kernels_of_what_is_written_out_are_right(case: str, tmp_path: Path) -> None:
    nodes, constants, outputs = CASES[case]
    for group in engine.fuse(engine.load(save(tmp_path, nodes, constants, outputs=outputs))).groups:
        checked = engine.check(engine.compile(group))
        assert checked.status == "pass", checked.message


def test_a_loop_that_only_the_data_end_stays(tmp_path: Path) -> None:
    """Without a largest number of steps it is refused by name, each time the same; with one it is written out."""
    more = helper.make_node("ReduceMax", ["next"], ["top"], keepdims=0)
    body = counted([more, helper.make_node("Less", ["top", "half"], ["go"])])
    for _ in range(2):
        graph = engine.load(save(tmp_path, [loop("", body)], HALF, outputs=("y", "all")))
        assert list(graph.unsupported) == ["loop"] and not graph.host
    graph = engine.load(save(tmp_path, [loop("five", body)], HALF, outputs=("y", "all")))
    assert not graph.unsupported and graph.tensors["all"].shape == (5, 3, 4)


@pytest.mark.slow(sentinel=True)
def test_a_loop_of_too_many_steps_stays(tmp_path: Path) -> None:
    many = {**HALF, "many": np.array(2**62)}
    graph = engine.load(save(tmp_path, [loop("many", counted(HANDED_ON))], many, outputs=("y", "all")))
    assert list(graph.unsupported) == ["loop"]


def test_a_damaged_loop_is_refused_or_unsupported(tmp_path: Path) -> None:
    body = counted(HANDED_ON)
    del body.output[1:]
    path = save(tmp_path, [loop("five", body)], HALF, outputs=("y",))
    with suppress(BadInput):
        assert engine.load(path).unsupported
