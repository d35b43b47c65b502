"""Constant folding at the model's own operator set: ONNX Runtime says what the results are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import engine
from engine.graph.load import load
from engine.support.errors import BadInput
from tests.graph.models import FLOAT, model, node, save

EXPORTS = Path(__file__).parents[2] / ".." / "shared" / "exports"
INTEGERS = np.array([[3, 1, 2], [6, 5, 4]])
FLOATS = INTEGERS.astype(np.float32)
SEQUENCE = np.array([[[5], [7]]])

FORMS: dict[str, tuple[onnx.NodeProto, dict[str, np.ndarray], int]] = {
    "Unsqueeze 11": (node("Unsqueeze", "a", "r", axes=[0, 2]), {"a": INTEGERS}, 11),
    "Unsqueeze 13": (node("Unsqueeze", "a b", "r"), {"a": INTEGERS, "b": np.array([0, 2])}, 13),
    "Squeeze 11": (node("Squeeze", "a", "r", axes=[0, 2]), {"a": SEQUENCE}, 11),
    "Squeeze 9 of all": (node("Squeeze", "a", "r"), {"a": SEQUENCE}, 9),
    "Squeeze 13": (node("Squeeze", "a b", "r"), {"a": SEQUENCE, "b": np.array([0])}, 13),
    "Split 11": (node("Split", "a", "r q", axis=1, split=[1, 2]), {"a": INTEGERS}, 11),
    "Split 13": (node("Split", "a b", "r q", axis=1), {"a": INTEGERS, "b": np.array([2, 1])}, 13),
    "Slice 9": (node("Slice", "a", "r", starts=[0], ends=[-1], axes=[1]), {"a": FLOATS}, 9),
    "ReduceSum 11": (node("ReduceSum", "a", "r", axes=[1], keepdims=0), {"a": INTEGERS}, 11),
    "ReduceProd 13": (node("ReduceProd", "a", "r", axes=[0]), {"a": INTEGERS}, 13),
    "ReduceMax 18": (node("ReduceMax", "a b", "r"), {"a": INTEGERS, "b": np.array([0])}, 18),
    "Clip 6": (node("Clip", "a", "r", min=2.0, max=5.0), {"a": FLOATS}, 10),
    "Pad 2": (node("Pad", "a", "r", pads=[0, 1, 1, 0], value=7.0), {"a": FLOATS}, 10),
    "TopK 9": (node("TopK", "a", "r q", k=2, axis=1), {"a": FLOATS}, 9),
    "TopK 10": (node("TopK", "a b", "r q", axis=1), {"a": FLOATS, "b": np.array([2])}, 10),
    "Cast 9": (node("Cast", "a", "r", to=FLOAT), {"a": INTEGERS}, 9),
    "Softmax 11": (node("Softmax", "a", "r", axis=0), {"a": FLOATS}, 11),
    "LogSoftmax 12": (node("LogSoftmax", "a", "r"), {"a": FLOATS[None]}, 12),
    "Resize 10": (node("Resize", "a b", "r"), {"a": FLOATS[None, None], "b": np.array([1, 1, 2, 2], np.float32)}, 10),
    "GreaterOrEqual 12": (node("GreaterOrEqual", "a b", "r"), {"a": INTEGERS, "b": np.array([3])}, 12),
    "Range 11": (node("Range", "a b c", "r"), {"a": np.array(2), "b": np.array(9), "c": np.array(3)}, 11),
}
NOT_COMPUTED = ("Softmax 11", "LogSoftmax 12", "Resize 10")
"""What the reference has in the newest form only, which means something else."""


def by_runtime(proto: onnx.ModelProto) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    return np.asarray(session.run(["r"], {})[0])


@pytest.mark.parametrize("name", FORMS)
def test_each_form_of_an_operator_is_computed_as_its_operator_set_says(name: str, tmp_path: Path) -> None:
    one, constants, opset = FORMS[name]
    proto = model([one, node("Identity", "r", "y")], {}, ["y"], constants, opset)
    graph = load(save(tmp_path / "m.onnx", proto))
    kinds = [op.kind for op in graph.operators]
    if name in NOT_COMPUTED:
        assert one.op_type in kinds
        return
    (source,) = graph.operators[-1].inputs
    value = graph.constants[source].value
    assert value is not None
    del proto.graph.output[:]
    proto.graph.output.append(onnx.ValueInfoProto(name="r"))
    np.testing.assert_array_equal(value, by_runtime(proto))
    assert graph.unsupported == {}


def reshaped(opset: int, *nodes: onnx.NodeProto, **constants: np.ndarray) -> onnx.ModelProto:
    """x in a shape that is computed."""
    nodes = (*nodes, node("Reshape", "x shape", "y"), node("Relu", "y", "z"))
    return model(nodes, {"x": (6, 4)}, ["z"], constants, opset)


def test_a_shape_that_is_not_computed_says_why(tmp_path: Path) -> None:
    sizes = {"a": np.array([[2.0, 12.0]], np.float32)}
    scaled = [node("Softmax", "a", "s", axis=1), node("Cast", "s", "i", to=onnx.TensorProto.INT64)]
    graph = load(save(tmp_path / "m.onnx", reshaped(11, *scaled, node("Squeeze", "i", "shape"), **sizes)))
    reason = graph.unsupported["node_y"]
    assert reason.startswith("the shape of y is not known: node_s (Softmax) is not computed when the file is read")
    assert "lacks its form of operator set 11" in reason and reason.endswith("give it: --dim node_y.axis0=8")
    assert "because of node_y (Reshape)" in graph.unsupported["node_z"]
    long = node("ReduceSum", "a", "shape", axes=[0])
    many = {"a": np.ones((5000, 2), np.int64)}
    graph = load(save(tmp_path / "l.onnx", reshaped(11, long, **many)))
    assert "reads 10000 elements; values are computed from at most 4096" in graph.unsupported["node_y"]


def test_a_shape_that_depends_on_the_data_says_so(tmp_path: Path) -> None:
    nodes = [node("ReduceMax", "x", "m"), node("Cast", "m", "i", to=onnx.TensorProto.INT64), node("Squeeze", "i", "j")]
    nodes.append(node("Unsqueeze", "j", "shape", axes=[0]))
    graph = load(save(tmp_path / "m.onnx", reshaped(11, *nodes)))  # one size: all elements that there are
    assert not graph.unsupported and graph.tensors["y"].shape == (24,)
    nodes[-1] = node("Concat", "j2 j2", "shape", axis=0)
    nodes.insert(-1, node("Unsqueeze", "j", "j2", axes=[0]))
    graph = load(save(tmp_path / "m.onnx", reshaped(11, *nodes)))
    assert graph.unsupported["node_y"].startswith("Reshape gives as many results as the data ask for: nothing says how")


def test_work_is_known_before_it_is_done(tmp_path: Path) -> None:
    """An outer product of four constants has 2.8e14 terms; one of two has 16."""
    for size, letters in ((4096, "abcd"), (4, "ab")):
        names = [f"c{letter}" for letter in letters]
        product = node("Einsum", " ".join(names), "r", equation=f"{','.join(letters)}->")
        vectors = {name: np.ones(size, np.float32) for name in names}
        graph = load(save(tmp_path / "m.onnx", model([product, node("Add", "x r", "y")], {"x": (1,)}, ["y"], vectors)))
        assert [op.kind for op in graph.operators] == (["Einsum", "Add"] if size > 4 else ["Add"])


def test_empty_sequences_are_no_tensors(tmp_path: Path) -> None:
    nodes = [node("SequenceEmpty", "", "s"), node("SequenceInsert", "s x", "t")]
    nodes.append(node("ConcatFromSequence", "t", "y", axis=0))
    graph = load(save(tmp_path / "m.onnx", model(nodes, {"x": (2,)}, ["y"])))
    assert "s" not in graph.tensors and not graph.unsupported and graph.operators[-1].outputs == ("y",)


def test_a_loop_of_open_types_is_unsupported_not_refused(tmp_path: Path) -> None:
    body = onnx.helper.make_graph(
        [onnx.helper.make_node("Less", ["n", "limit"], ["go"]), onnx.helper.make_node("Add", ["v", "x"], ["w"])],
        "body",
        [onnx.ValueInfoProto(name=name) for name in ("n", "c", "v")],
        [onnx.ValueInfoProto(name=name) for name in ("go", "w")],
    )
    nodes = [onnx.helper.make_node("Loop", ["", "yes", "x"], ["y"], name="node_y", body=body), node("Relu", "x", "z")]
    inputs = {"x": (2,), "limit": ()}
    graph = load(save(tmp_path / "m.onnx", model(nodes, inputs, ["y", "z"], {"yes": np.array(True)})))
    assert list(graph.unsupported) == ["node_y"]


def test_contradictions_are_still_refused(tmp_path: Path) -> None:
    proto = reshaped(11, node("Squeeze", "a", "shape", axes=[0]), a=np.array([[5, 5]]))
    with pytest.raises(BadInput, match="operator node_y"):
        engine.fuse(load(save(tmp_path / "m.onnx", proto)))


@pytest.mark.parametrize(
    ("kind", "dtype", "unsupported"),
    [(onnx.TensorProto.FLOAT8E5M2, "float8_e5m2", []), (onnx.TensorProto.FLOAT4E2M1, "float4_e2m1fn", ["node_d"])],
)
def test_narrow_elements_load_and_what_is_not_compiled_is_unsupported_by_name(
    kind: int, dtype: str, unsupported: list[str], tmp_path: Path
) -> None:
    weight = onnx.helper.make_tensor("w", kind, [128, 64], np.ones(128 * 64).tolist())
    nodes = [node("DequantizeLinear", "w scale", "d"), node("MatMul", "x d", "y")]
    proto = model(nodes, {"x": (4, 128)}, ["y"], {"scale": np.array(0.5, np.float32)}, opset=23)
    proto.graph.initializer.append(weight)
    graph = load(save(tmp_path / "m.onnx", proto))
    assert graph.tensors["w"].dtype == dtype and graph.tensors["d"].shape == (128, 64)
    plan = engine.fuse(graph)
    assert list(plan.unsupported) == unsupported and plan.groups


@pytest.mark.parametrize(
    ("name", "dims", "unsupported"),
    [
        ("roberta_ts11", {"batch": 2, "seq": 16}, 0),
        ("minimal/shape_idiom_11", {"b": 3, "n": 5}, 0),
        ("dlrm_embbag", {}, 0),
        ("dlrm_embbag_ts16", {}, 0),
        ("gat_pyg_ts17", {}, 0),
        ("rwkv_script_loop_ts17", {}, 0),
        ("llama_int4_qdq_op21", {}, 0),
    ],
)
def test_exports_of_others_load(name: str, dims: dict[str, int], unsupported: int) -> None:
    path = EXPORTS / f"{name}.onnx"
    if not path.is_file():
        pytest.skip("the shared exports are not beside this checkout")
    assert len(load(path, dims).unsupported) == unsupported


@pytest.mark.parametrize("kind", ["Shape", "Size", "Identity", "Dropout", "ConstantOfShape", "Loop", "Cast"])
def test_an_operator_without_operands_is_refused_or_unsupported(kind: str, tmp_path: Path) -> None:
    proto = model([node(kind, "", "s"), node("Cast", "s", "f", to=FLOAT), node("Add", "x f", "y")], {"x": (2,)}, ["y"])
    try:
        assert "node_s" in load(save(tmp_path / "m.onnx", proto)).unsupported
    except BadInput as error:
        assert "node_s" in str(error) or "s" in error.subject
