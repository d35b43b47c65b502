"""Reference values: the seeded recipe, finiteness, updates, and independence of what is asked for."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from engine.execution import reference
from engine.execution.reference import check_finite, input_values, reference_values, weight_values
from engine.graph.load import load
from engine.graph.nodes import Fill, Tensor
from engine.support.errors import BadInput, OverBudget, Unsupported
from tests.graph.models import FLOAT, model, node, save
from tests.graph.test_akg import adam, operator, tensor, write

EXAMPLES = Path(__file__).parents[2] / "resources" / "models"
SHARED = Path(__file__).parents[2] / ".." / "shared" / "models"


def light_model(path: Path) -> Path:
    nodes = [
        node("ConstantOfShape", "dims", "w", value=helper.make_tensor("value", FLOAT, [1], [0.25])),
        node("Gather", "w ids", "rows"),
        node("Relu", "rows", "y"),
    ]
    proto = model(nodes, {}, ["y"], {"dims": np.array([50, 40])})
    proto.graph.input.append(helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, (3, 7)))
    proto.metadata_props.add(key="light.weights", value=json.dumps({"w": ["normal", 0.25, 0.5]}))
    proto.metadata_props.add(key="light.inputs", value=json.dumps({"ids": [10, 20]}))
    return save(path, proto)


def test_light_weights_and_inputs_follow_the_recipe(tmp_path: Path) -> None:
    values = reference_values(load(light_model(tmp_path / "m.onnx")), seed=3)
    assert values["w"].shape == (50, 40) and abs(values["w"].std() - 0.5) < 0.03
    assert values["ids"].min() >= 10 and values["ids"].max() < 20
    np.testing.assert_array_equal(values["y"], np.maximum(values["w"][values["ids"]], 0))


def test_the_recipe_is_that_of_the_shared_models() -> None:
    """The same numbers as the published `light.py` gives."""
    if not (SHARED / "light.py").is_file():
        pytest.skip("the shared models are not beside this checkout")
    spec = importlib.util.spec_from_file_location("light", SHARED / "light.py")
    assert spec is not None and spec.loader is not None
    light = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(light)
    path = SHARED / "din_b64_s50.onnx"
    proto, values = onnx.load(path), input_values(load(path), seed=5)
    for name, want in (*light.inputs(proto, 5).items(), *light.weights(proto, 5)):
        np.testing.assert_array_equal(values[name], want)
    half = light.tensor("a", ["uniform", -1, 2], (4, 5), np.float16, 1)
    np.testing.assert_array_equal(weight_values(Tensor("a", (4, 5), "float16"), Fill("uniform", -1, 2), 1), half)


@pytest.mark.parametrize("name", ["din_b64_s50", "deepfm_b256_ts17", "lstm_cell_unrolled_b8_s20"])
def test_published_first_values_are_met(name: str) -> None:
    """The shared models' manifest holds what ONNX Runtime gave its authors, printed to six digits."""
    path = SHARED / f"{name}.onnx"
    if not path.is_file():
        pytest.skip("the shared models are not beside this checkout")
    published = json.loads((SHARED / "manifest.json").read_text())[name]["run"]["outputs"]
    graph = load(path)
    values = reference_values(graph, wanted=graph.outputs)
    for output, row in published.items():
        np.testing.assert_allclose(values[output].reshape(-1)[: len(row["first"])], row["first"], 2e-5, 1e-5)
        assert abs(values[output].std() - row["std"]) < 1e-5


def test_wanted_tensors_do_not_depend_on_what_else_is_wanted() -> None:
    graph = load(EXAMPLES / "bert_tiny.onnx")
    everything = reference_values(graph)
    some = reference_values(graph, wanted=["softmax_1", "tanh", "input_ids"])
    assert list(some) == ["softmax_1", "tanh", "input_ids"] and set(everything) == set(graph.tensors)
    for name, value in some.items():
        np.testing.assert_array_equal(value, everything[name])
    assert (reference_values(graph, 1, ["tanh"])["tanh"] != some["tanh"]).any()
    np.testing.assert_allclose(everything["softmax_0"].sum(-1), 1, 1e-5)
    with pytest.raises(BadInput, match="tensor nothing"):
        reference_values(graph, wanted=["nothing"])


def test_index_inputs_are_in_range() -> None:
    ids = input_values(load(EXAMPLES / "bert_tiny.onnx"))
    assert 2 < ids["input_ids"].max() < 100 and set(np.unique(ids["token_type_ids"])) == {0, 1}


def test_updated_buffers_hold_the_new_value(tmp_path: Path) -> None:
    graph = load(write(tmp_path / "adam.json", adam()))
    before, after = input_values(graph), reference_values(graph)
    m, g = (before[name].astype(np.float64) for name in "mg")
    np.testing.assert_allclose(after["m"], np.float32(0.9) * m + np.float32(0.1) * g, 1e-6)
    np.testing.assert_allclose(after["y"], g - m, 1e-6, 1e-6)


def test_roots_get_positive_inputs_and_others_do_not(tmp_path: Path) -> None:
    document = {
        "op": "Fused",
        "op_desc": [
            operator("Sqrt", [tensor("v", [400])], tensor("s", [400])),
            operator("Mul", [tensor("s", [400]), tensor("g", [400])], tensor("y", [400])),
        ],
        "input_desc": [[tensor("v", [400])], [tensor("g", [400])]],
        "output_desc": [tensor("y", [400])],
    }
    graph = load(write(tmp_path / "root.json", document))
    inputs = input_values(graph)
    assert inputs["v"].min() > 0 and inputs["g"].min() < 0
    assert check_finite(reference_values(graph)) == ()


def test_values_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    nodes = [node("Sub", "x z", "d"), node("Log", "d", "y")]
    path = save(tmp_path / "m.onnx", model(nodes, {"x": (100,), "z": (100,)}, ["y"]))
    with pytest.raises(BadInput, match="of y is not finite"):
        reference_values(load(path))
    assert check_finite({"a": np.array([1.0] * 99 + [np.nan])}) == ()
    assert check_finite({"a": np.array([1.0] * 98 + [np.nan, np.inf])}) == ("2% of a is not finite",)


def test_external_weights_reach_the_runtime(tmp_path: Path) -> None:
    proto = model([node("Add", "x w", "y")], {"x": (2, 3)}, ["y"])
    weight = proto.graph.initializer.add(name="w", data_type=FLOAT, dims=[2, 3])
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="w.bin")
    (tmp_path / "w.bin").write_bytes(np.arange(6, dtype=np.float32).tobytes())
    values = reference_values(load(save(tmp_path / "m.onnx", proto)))
    np.testing.assert_array_equal(values["y"], values["x"] + np.arange(6, dtype=np.float32).reshape(2, 3))


def test_too_much_and_too_strange_are_said(tmp_path: Path) -> None:
    big = model([node("Relu", "x", "y")], {"x": (1 << 15, 1 << 15)}, ["y"])
    with pytest.raises(OverBudget, match=r"2 tensors are 8\.0 GiB"):
        reference_values(load(save(tmp_path / "m.onnx", big)))
    document = adam()
    document["op_desc"][3]["name"] = "Sparkle"
    with pytest.raises(Unsupported, match="Sparkle has no meaning"):
        reference_values(load(write(tmp_path / "m.json", document)))


def scatter(path: Path, element: int = FLOAT) -> Path:
    nodes = [node("ScatterND", "d i u", "y", reduction="add")]
    proto = model(nodes, {}, ["y"], {"i": np.arange(4096)[:, None] % 4})
    for name, rows in (("d", 4), ("u", 4096)):
        proto.graph.input.append(helper.make_tensor_value_info(name, element, (rows, 64)))
    return save(path, proto)


def test_what_the_runtime_refuses_as_it_runs_is_unsupported(tmp_path: Path) -> None:
    """It makes a session of additions to halves, and finds no code for them when it runs."""
    with pytest.raises(Unsupported, match=r"does not run it.*MLFloat16"):
        reference_values(load(scatter(tmp_path / "m.onnx", onnx.TensorProto.FLOAT16)))


def test_additions_to_one_element_run_in_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime's threads lose terms of ScatterND, one run in fifty: not always, so that the option is looked at."""
    made = []
    session = onnxruntime.InferenceSession

    def watched(content: bytes, options: onnxruntime.SessionOptions, providers: list[str]) -> object:
        made.append(options.intra_op_num_threads)
        return session(content, options, providers)

    monkeypatch.setattr(onnxruntime, "InferenceSession", watched)
    values = reference_values(load(scatter(tmp_path / "m.onnx")))
    added = values["d"].astype(np.float64)
    np.add.at(added, np.arange(4096) % 4, values["u"].astype(np.float64))
    np.testing.assert_allclose(values["y"], added, rtol=1e-4, atol=1e-4)
    reference_values(load(light_model(tmp_path / "l.onnx")))
    assert made == [1, 0]


@pytest.mark.parametrize("element", ["FLOAT16", "DOUBLE", "BOOL", "INT8", "INT64"])
def test_values_drawn_in_pieces_are_those_drawn_at_once(
    element: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proto = model([node("Identity", "x", "y")], {"x": (13, 11)}, ["y"], element=getattr(onnx.TensorProto, element))
    graph = load(save(tmp_path / "m.onnx", proto))
    weight = Tensor("w", (13, 11), "float16")
    fills = Fill("normal", 0.5, 2.0), Fill("uniform", -1.0, 2.0)
    whole = input_values(graph)["x"], *(weight_values(weight, fill) for fill in fills)
    monkeypatch.setattr(reference, "_PIECE", 7)  # odd: normal numbers come in pairs
    pieces = input_values(graph)["x"], *(weight_values(weight, fill) for fill in fills)
    for one, other in zip(whole, pieces, strict=True):
        np.testing.assert_array_equal(one, other)
        assert len(np.unique(one)) > 1
