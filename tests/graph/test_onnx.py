"""ONNX files in: what becomes of constants, shapes, names and weights; what is refused, and how it is said."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.graph.check import check_graph
from engine.graph.load import load
from engine.graph.nodes import Fill
from engine.support.errors import BadInput, EngineError, Unsupported
from tests.graph.models import FLOAT, INT64, model, node, save

EXAMPLES = Path(__file__).parents[2] / "resources" / "models"
SHARED = Path(__file__).parents[2] / ".." / "shared" / "models"


def test_bert_tiny_keeps_operators_scopes_and_weights() -> None:
    graph = load(EXAMPLES / "bert_tiny.onnx")
    assert check_graph(graph) == ()
    assert graph.inputs == ("input_ids", "attention_mask", "token_type_ids")
    assert graph.outputs == ("output_norm_1", "tanh")
    assert len(graph.operators) == 80 and graph.unsupported == {}
    scopes = {op.name: op.scope for op in graph.operators}
    assert scopes["node_softmax_1"] == "encoder.layer.1.attention.self"
    assert scopes["node_embedding"] == "embeddings.word_embeddings"
    assert graph.constants["model.encoder.layer.0.intermediate.dense.weight"].value is not None
    assert graph.tensors["masked_0"].shape == (1, 2, 32, 32)


def test_every_example_is_what_its_generator_writes(tmp_path: Path) -> None:
    from tests.support.make_models import write

    write(tmp_path)
    names = sorted(path.name for path in EXAMPLES.glob("*.onnx"))
    assert names == sorted(path.name for path in tmp_path.glob("*.onnx")) and len(names) == 10
    for name in names:
        assert onnx.load(EXAMPLES / name).graph == onnx.load(tmp_path / name).graph, name
    assert sum(path.stat().st_size for path in EXAMPLES.glob("*.onnx")) < 2_000_000


def test_shape_arithmetic_is_folded(tmp_path: Path) -> None:
    """Shape, Gather, Unsqueeze, Concat and Reshape, as the TorchScript exporter writes them."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "rows", axis=0),
        node("Unsqueeze", "rows axes", "rows1"),
        node("Constant", "", "rest", value=numpy_helper.from_array(np.array([-1]))),
        node("Concat", "rows1 rest", "target", axis=0),
        node("Reshape", "x target", "flat"),
        node("Identity", "flat", "same"),
        node("Relu", "same", "y"),
    ]
    constants = {"zero": np.array(0), "axes": np.array([0])}
    graph = load(save(tmp_path / "m.onnx", model(nodes, {"x": (2, 3, 4)}, ["y"], constants)))
    assert [op.kind for op in graph.operators] == ["Reshape", "Relu"]
    assert graph.operators[1].inputs == ("flat",)
    assert graph.tensors["y"].shape == (2, 12)
    assert list(graph.constants) == ["target"]


def test_identity_that_is_an_output_stays(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "r"), node("Identity", "r", "y")]
    graph = load(save(tmp_path / "m.onnx", model(nodes, {"x": (2,)}, ["y"])))
    assert [op.kind for op in graph.operators] == ["Relu", "Identity"]


def test_dead_operators_are_left_out(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "y"), node("Exp", "x", "unused")]
    graph = load(save(tmp_path / "m.onnx", model(nodes, {"x": (2,)}, ["y"])))
    assert [op.kind for op in graph.operators] == ["Relu"] and "unused" not in graph.tensors


def test_symbolic_dimensions_are_bound(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", model([node("Relu", "x", "y")], {"x": ("batch", 3)}, ["y"]))
    assert load(path, {"batch": 8}).tensors["y"].shape == (8, 3)
    with pytest.raises(BadInput, match=r"input x: dimension batch has no size.*--dim batch"):
        load(path)
    two = save(tmp_path / "two.onnx", model([node("Relu", "x", "y")], {"x": ("batch", "seq", None)}, ["y"]))
    with pytest.raises(BadInput, match=r"dimension batch has no size") as told:
        load(two)
    assert told.value.hint == "give all of them one: --dim batch=8 --dim seq=8 --dim x.2=8"
    with pytest.raises(BadInput, match=r"dimension seq has no size") as told:
        load(two, {"batch": 2, "x.2": 3})
    assert told.value.hint == "give it one: --dim seq=8"
    with pytest.raises(BadInput, match=r"no dimension bach.*batch"):
        load(path, {"batch": 8, "bach": 4})
    for size in (0, -2, 2**40):
        with pytest.raises(BadInput, match="input x"):
            load(path, {"batch": size})


def test_nodes_in_any_order_are_sorted(tmp_path: Path) -> None:
    nodes = [node("Relu", "a", "y"), node("Exp", "x", "a")]
    graph = load(save(tmp_path / "m.onnx", model(nodes, {"x": (2,)}, ["y"])))
    assert [op.kind for op in graph.operators] == ["Exp", "Relu"]


def test_odd_names_stay_as_they_are(tmp_path: Path) -> None:
    name = 'a/b:0 "quoted"\n*/ é'
    nodes = [helper.make_node("Relu", ["x"], [name]), helper.make_node("Exp", [name], ["7"])]
    graph = load(save(tmp_path / "m.onnx", model(nodes, {"x": (2,)}, ["7"])))
    assert graph.operators[0].outputs == (name,) and graph.operators[0].name == name


def test_light_weights_stay_opaque(tmp_path: Path) -> None:
    nodes = [
        node("ConstantOfShape", "dims", "w", value=helper.make_tensor("value", FLOAT, [1], [0.25])),
        node("ConstantOfShape", "dims", "plain", value=helper.make_tensor("value", FLOAT, [1], [0.5])),
        node("Add", "x w", "a"),
        node("Add", "a plain", "y"),
    ]
    proto = model(nodes, {"x": (3, 4)}, ["y"], {"dims": np.array([3, 4])})
    proto.metadata_props.add(key="light.weights", value=json.dumps({"w": ["normal", 0.25, 0.5]}))
    graph = load(save(tmp_path / "m.onnx", proto))
    assert graph.constants["w"].fill == Fill("normal", 0.25, 0.5) and graph.constants["w"].value is None
    plain = graph.constants["plain"].value
    assert plain is not None and plain.shape == (3, 4) and (plain == 0.5).all()


def test_unknown_operator_is_noted_not_refused(tmp_path: Path) -> None:
    strange = helper.make_node("Sparkle", ["x"], ["s"], name="strange", domain="com.acme")
    nodes = [strange, node("Relu", "s", "y"), node("Exp", "x", "z")]
    proto = model(nodes, {"x": (2, 3)}, ["z", "y"])
    proto.opset_import.append(helper.make_opsetid("com.acme", 1))
    for outputs in (("z",), ("z", "y")):
        graph = load(save(tmp_path / "m.onnx", proto))
        assert graph.outputs == outputs
        assert set(graph.unsupported) == {"strange", "node_y"}
        assert "com.acme::Sparkle" in graph.unsupported["strange"] and "shape of s" in graph.unsupported["node_y"]
        proto.graph.output[1].CopyFrom(helper.make_tensor_value_info("y", FLOAT, (2, 3)))


def test_an_output_that_nothing_writes_is_refused(tmp_path: Path) -> None:
    proto = model([node("Exp", "x", "z")], {"x": (2, 3)}, ["z", "y"])
    with pytest.raises(BadInput, match="output y: nothing writes it"):
        load(save(tmp_path / "m.onnx", proto))


def test_shared_model_loads_in_a_second() -> None:
    path = SHARED / "bert_base_b1_s128.onnx"
    if not path.is_file():
        pytest.skip("the shared models are not beside this checkout")
    start = time.perf_counter()
    graph = load(path)
    assert time.perf_counter() - start < 1.0
    assert len(graph.operators) == 421 and check_graph(graph) == ()


# -- external weights


def external(folder: Path, location: str, offset: int = 0) -> Path:
    """A model whose weight w is at `location`."""
    proto = model([node("Add", "x w", "y")], {"x": (2, 3)}, ["y"])
    weight = proto.graph.initializer.add(name="w", data_type=FLOAT, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", str(offset)), ("length", "24")):
        weight.external_data.add(key=key, value=value)
    return save(folder / "m.onnx", proto)


def test_external_weights_beside_the_model_are_read(tmp_path: Path) -> None:
    values = np.arange(7, dtype=np.float32)
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "w.bin").write_bytes(values.tobytes())
    graph = load(external(tmp_path, "weights/w.bin", offset=4))
    np.testing.assert_array_equal(graph.constants["w"].value, values[1:].reshape(2, 3))


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "", "sub/../../w.bin", "link.bin", "linked/w.bin"])
def test_external_weights_elsewhere_are_refused(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(100))
    os.symlink(tmp_path / "w.bin", folder / "link.bin")
    os.symlink(tmp_path, folder / "linked")
    with pytest.raises(BadInput, match=r"tensor w: .*outside the model's folder"):
        load(external(folder, location))


def test_missing_and_short_weights_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"tensor w: its weights file w\.bin is missing"):
        load(external(tmp_path, "w.bin"))
    (tmp_path / "w.bin").write_bytes(bytes(20))
    with pytest.raises(BadInput, match=r"tensor w: needs bytes 0 to 24 of w\.bin, which has 20"):
        load(external(tmp_path, "w.bin"))
    with pytest.raises(BadInput, match="tensor w: needs bytes -4"):
        load(external(tmp_path, "w.bin", offset=-4))


# -- broken files


def test_bytes_that_are_no_model_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    sound = (EXAMPLES / "bert_tiny.onnx").read_bytes()
    for data in (
        b"",
        b"\x00" * 64,
        b"hello world, this is text",
        sound[:1000],
        sound[:-1],
        b"\x08\x0a",
        b"PK\x03\x04zip",
    ):
        path.write_bytes(data)
        with pytest.raises(BadInput, match=r"m\.onnx"):
            load(path)
    path.write_bytes(sound)
    assert load(path).operators
    with pytest.raises(BadInput, match="no such file"):
        load(tmp_path / "absent.onnx")
    with pytest.raises(BadInput):
        load(tmp_path)


def test_random_damage_never_escapes_as_another_exception(tmp_path: Path) -> None:
    """Flipped bytes either load or are refused; seeded."""
    path, random = tmp_path / "m.onnx", np.random.RandomState(3)
    sound = np.frombuffer((EXAMPLES / "layernorm_64x768.onnx").read_bytes(), np.uint8)
    refused = 0
    for _ in range(200):
        damaged = sound.copy()
        places = np.concatenate([random.randint(0, 100, 2), random.randint(0, damaged.size, 2)])
        damaged[places] = random.randint(0, 256, 4)
        path.write_bytes(damaged.tobytes())
        try:
            load(path)
        except EngineError:
            refused += 1
    assert refused > 50


def bad_graphs() -> dict[str, tuple[onnx.ModelProto, str]]:
    x = {"x": (2, 3)}
    long = model([node("Relu", "x", "y")], x, ["y"])
    long.graph.node[0].name = "n" * 5000
    newer = model([node("Relu", "x", "y")], x, ["y"])
    newer.opset_import[0].version = 999
    short = model([node("Add", "x w", "y")], x, ["y"], {"w": np.zeros((2, 3), np.float32)})
    short.graph.initializer[0].raw_data = b"\0" * 20
    huge = model([node("Add", "x w", "y")], x, ["y"])
    huge.graph.initializer.add(name="w", data_type=FLOAT, dims=[1 << 20, 1 << 20])
    light = model([node("Relu", "x", "y")], x, ["y"])
    light.metadata_props.add(key="light.weights", value='{"w": ["cauchy", 0, 1]}')
    cycle = [node("Add", "x b", "a"), node("Relu", "a", "b")]
    return {
        "cycle": (model(cycle, x, ["b"]), "cycle: node_"),
        "dangling": (model([node("Add", "x nowhere", "y")], x, ["y"]), "node_y: reads nowhere"),
        "no output": (model([node("Relu", "x", "y")], x, ["z"]), "output z"),
        "two writers": (model([node("Relu", "x", "y"), node("Exp", "x", "y")], x, ["y"]), "y is written by"),
        "rank": (model([node("Relu", "x", "y")], {"x": (1,) * 9}, ["y"]), "input x: has 9 axes"),
        "zero": (model([node("Relu", "x", "y")], {"x": (0, 3)}, ["y"]), "input x: axis 0 has size 0"),
        "huge input": (model([node("Relu", "x", "y")], {"x": (1 << 20, 1 << 20)}, ["y"]), "input x: 1048576 x 1048576"),
        "huge weight": (huge, "tensor w: 1048576"),
        "short weight": (short, "tensor w: its data do not fill"),
        "shapes": (model([node("MatMul", "x x", "y")], x, ["y"]), "operator node_y: MatMul does not accept"),
        "long name": (long, "5000 characters"),
        "newer": (newer, "operator set 999"),
        "light": (light, "light.weights, w"),
    }


@pytest.mark.parametrize("name", list(bad_graphs()))
def test_broken_graphs_are_refused_in_words(name: str, tmp_path: Path) -> None:
    proto, words = bad_graphs()[name]
    with pytest.raises(BadInput) as caught:
        load(save(tmp_path / "m.onnx", proto))
    assert words in str(caught.value) and caught.value.stage == "graph"


def test_huge_results_are_refused_before_memory_is_taken(tmp_path: Path) -> None:
    dims = {"dims": np.array([1 << 19, 1 << 19])}
    nodes = [node("ConstantOfShape", "dims", "w"), node("Add", "w x", "y")]
    with pytest.raises(BadInput, match="524288 x 524288"):
        load(save(tmp_path / "m.onnx", model(nodes, {"x": (1,)}, ["y"], dims)))
    nodes = [node("Expand", "x dims", "y")]
    with pytest.raises(BadInput, match="524288 x 524288"):
        load(save(tmp_path / "m.onnx", model(nodes, {"x": (1,)}, ["y"], dims)))


def test_element_types_that_no_array_holds_are_unsupported(tmp_path: Path) -> None:
    text = model([node("Identity", "x", "y")], {"x": (2,)}, ["y"], element=TensorProto.STRING)
    with pytest.raises(Unsupported, match="input x: holds string"):
        load(save(tmp_path / "m.onnx", text))
    integers = model([node("Identity", "x", "y")], {"x": (2,)}, ["y"], element=INT64)
    assert load(save(tmp_path / "m.onnx", integers)).tensors["y"].dtype == "int64"
