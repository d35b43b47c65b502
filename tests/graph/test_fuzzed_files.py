"""What edited files found: tensors in other files, empty and negative sizes, nameless operands, operator sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import engine
from engine.support.errors import BadInput


def external(name: str, shape: tuple[int, ...], location: str) -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def save(folder: Path, node: onnx.NodeProto, initializers: list[TensorProto] | None = None) -> Path:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 3))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = [node, helper.make_node("Add", ["x", "c"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], initializers or [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


def branch(tensor: TensorProto) -> onnx.NodeProto:
    """An If whose branches give the tensor."""
    out = helper.make_tensor_value_info("inner", TensorProto.FLOAT, tuple(tensor.dims))
    body = helper.make_graph([helper.make_node("Identity", [tensor.name], ["inner"])], "b", [], [out], [tensor])
    return helper.make_node("If", ["yes"], ["c"], then_branch=body, else_branch=body)


YES = numpy_helper.from_array(np.array(True), "yes")


def test_a_subgraphs_file_is_found_beside_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, elsewhere = tmp_path / "model", tmp_path / "elsewhere"
    for folder, value in ((place, 1.0), (elsewhere, 2.0)):
        folder.mkdir()
        np.full(3, value, np.float32).tofile(folder / "w.bin")
    path = save(place, branch(external("w", (3,), "w.bin")), [YES])
    monkeypatch.chdir(elsewhere)
    plan = engine.fuse(engine.load(path))
    (found,) = engine.run(plan, {"x": np.zeros((4, 3), np.float32)}).values()
    np.testing.assert_array_equal(found, np.ones((4, 3), np.float32))


@pytest.mark.parametrize("location", ["no.bin", "../w.bin", "."])
def test_a_file_elsewhere_is_refused(location: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    np.ones(3, np.float32).tofile(tmp_path / "w.bin")
    path = save(tmp_path / "model", branch(external("w", (3,), location)), [YES])
    with pytest.raises(BadInput):
        engine.load(path)


def test_sparse_values_in_a_file_elsewhere_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    np.ones(2, np.float32).tofile(tmp_path / "w.bin")
    indices = numpy_helper.from_array(np.array([0, 2]), "at")
    sparse = onnx.SparseTensorProto(values=external("w", (2,), "../w.bin"), indices=indices, dims=[3])
    node = helper.make_node("Constant", [], ["c"], sparse_value=sparse)
    with pytest.raises(BadInput, match="outside"):
        engine.load(save(tmp_path / "model", node))


def test_a_large_one_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(4 << 21)
    path = save(tmp_path, branch(external("w", (1 << 21,), "w.bin")), [YES])
    with pytest.raises(BadInput, match="2097152 elements in a file"):
        engine.load(path)


def test_a_shape_with_a_zero_has_no_negative_sizes(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"")
    path = save(tmp_path, branch(external("w", (0, -3), "w.bin")), [YES])
    with pytest.raises(BadInput, match="axis 1 has size -3"):
        engine.load(path)


@pytest.mark.parametrize(("values", "accepted"), [([2.0], True), ([2.0] * 9, False), ([], False)])
def test_a_constant_of_a_shape_has_one_value(values: list[float], accepted: bool, tmp_path: Path) -> None:
    value = numpy_helper.from_array(np.array(values, np.float32))
    shape = numpy_helper.from_array(np.array([4, 3]), "shape")
    path = save(tmp_path, helper.make_node("ConstantOfShape", ["shape"], ["c"], name="fill", value=value), [shape])
    if accepted:
        (found,) = engine.run(engine.fuse(engine.load(path)), {"x": np.ones((4, 3), np.float32)}).values()
        np.testing.assert_array_equal(found, np.full((4, 3), 3, np.float32))
    else:
        with pytest.raises(BadInput, match=f"fills with {len(values)} values"):
            engine.load(path)


def test_an_identity_of_nothing_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, helper.make_node("Identity", [""], ["c"], name="copy"))
    with pytest.raises(BadInput, match="copy"):
        engine.load(path)


@pytest.mark.parametrize(
    ("domain", "version", "accepted"), [("", 17, True), ("", 99, False), ("mine", 7, True), ("mine", 2**40, False)]
)
def test_versions_of_operator_sets(domain: str, version: int, accepted: bool, tmp_path: Path) -> None:
    model = onnx.load(save(tmp_path, helper.make_node("Relu", ["x"], ["c"])))
    del model.opset_import[:]
    wanted = {"": 17, domain: version}
    model.opset_import.extend(onnx.OperatorSetIdProto(domain=name, version=number) for name, number in wanted.items())
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    if accepted:
        assert engine.load(tmp_path / "m.onnx").operators
    else:
        with pytest.raises(BadInput, match=f"operator set {version}"):
            engine.load(tmp_path / "m.onnx")
