"""AKG operator descriptions in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.execution.reference import reference_values
from engine.graph.check import check_graph
from engine.graph.load import load
from engine.graph.nodes import Update
from engine.support.errors import BadInput, Unsupported

SHARED = Path(__file__).parents[2] / ".." / "shared" / "akg"


def tensor(name: str, shape: list[int], dtype: str = "float32", **more: object) -> dict[str, Any]:
    return {"tensor_name": name, "shape": shape, "data_type": dtype, "format": "DefaultFormat", **more}


def operator(kind: str, inputs: list[dict[str, Any]], output: dict[str, Any], **attributes: object) -> dict[str, Any]:
    attr = [{"name": name, "value": value, "data_type": "any"} for name, value in attributes.items()]
    return {"name": kind, "attr": attr or None, "input_desc": [[t] for t in inputs], "output_desc": [output]}


def adam() -> dict[str, Any]:
    """m = 0.9 m + 0.1 g written back in place, y = g - m."""
    g, m = tensor("g", [4, 6]), tensor("m", [4, 6])
    nodes = [
        operator("Mul", [tensor("c0", [1], value=0.9), m], tensor("t0", [4, 6])),
        operator("Mul", [tensor("c1", [1], value=0.1), g], tensor("t1", [4, 6])),
        operator("TensorAdd", [tensor("t0", [4, 6]), tensor("t1", [4, 6])], tensor("t2", [4, 6])),
        operator("Sub", [g, m], tensor("y", [4, 6])),
        operator(
            "InplaceAssign", [m, tensor("t2", [4, 6]), tensor("y", [4, 6])], tensor("p", [4, 6]), fake_output=True
        ),
    ]
    return {
        "op": "Fused", "op_desc": nodes, "input_desc": [[g], [m]],
        "output_desc": [tensor("y", [4, 6]), tensor("p", [4, 6])], "platform": "AKG", "process": "cuda",
    }  # fmt: skip


def write(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


def test_a_read_after_an_update_is_of_the_new_value(tmp_path: Path) -> None:
    document = adam()
    *before, sub, update = document["op_desc"]
    update["input_desc"][2] = update["input_desc"][1]
    moved = {**document, "op_desc": [*before, update, sub]}
    for name, content, read in (("old", document, "m"), ("new", moved, "t2")):
        graph = load(write(tmp_path / f"{name}.json", content))
        (y,) = (op for op in graph.operators if op.outputs == ("y",))
        assert y.inputs == ("g", read)
        assert graph.updates == (Update("m", "t2"),)


def test_scalars_updates_and_placeholders(tmp_path: Path) -> None:
    graph = load(write(tmp_path / "adam.json", adam()))
    assert graph.dialect == "akg" and check_graph(graph) == ()
    assert graph.inputs == ("g", "m") and graph.outputs == ("y",)
    assert graph.updates == (Update("m", "t2"),)
    np.testing.assert_array_equal(graph.constants["c0"].value, np.array([0.9], np.float32))


def test_operators_in_any_order_are_sorted(tmp_path: Path) -> None:
    document = adam()
    document["op_desc"].reverse()
    graph = load(write(tmp_path / "adam.json", document))
    assert check_graph(graph) == () and len(graph.operators) == 5


@pytest.mark.parametrize("folder", ["", "stitch", "advice/operators"])
def test_published_files_load(folder: str) -> None:
    files = sorted((SHARED / folder).glob("*.json"))
    if not files:
        pytest.skip("the shared AKG files are not beside this checkout")
    for path in files:
        if "complex" in path.name:
            with pytest.raises(Unsupported, match="complex64"):
                load(path)
        else:
            graph = load(path)
            assert check_graph(graph) == () and graph.unsupported == {}, path.name


def test_unknown_operator_is_noted(tmp_path: Path) -> None:
    document = adam()
    document["op_desc"][3]["name"] = "Sparkle"
    graph = load(write(tmp_path / "m.json", document))
    assert graph.unsupported == {"y": "Sparkle is no operator of AKG"}


def _set(*keys: Any, value: object) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return change


NODE = ("op_desc", 0)
DAMAGE = {
    "no operators": (_set("op_desc", value=[]), "holds no operators"),
    "operators are text": (_set("op_desc", value="Mul"), "op_desc"),
    "node is a number": (_set(*NODE, value=3), "op_desc\\[0\\]: is no operator"),
    "inputs are a number": (_set(*NODE, "input_desc", value=5), "input_desc 5 is no list"),
    "tensor is text": (_set(*NODE, "input_desc", 0, 0, value="m"), "'m' is no tensor"),
    "no name": (_set(*NODE, "input_desc", 1, 0, "tensor_name", value=None), "no tensor_name"),
    "shape is text": (_set(*NODE, "input_desc", 1, 0, "shape", value="4x6"), "tensor m: its shape"),
    "shape of floats": (_set(*NODE, "input_desc", 1, 0, "shape", value=[4.0, 6]), "tensor m: its shape"),
    "negative": (_set("input_desc", 0, 0, "shape", value=[-4, 6]), "tensor g: axis 0 has size -4"),
    "huge": (_set("input_desc", 0, 0, "shape", value=[1 << 40]), "tensor g: .* elements"),
    "rank": (_set("input_desc", 0, 0, "shape", value=[1] * 9), "tensor g: has 9 axes"),
    "two shapes": (_set("input_desc", 0, 0, "shape", value=[6, 4]), "tensor g: is .* here and .* elsewhere"),
    "value is text": (_set(*NODE, "input_desc", 0, 0, "value", value="much"), "tensor c0: its value 'much'"),
    "many values": (_set(*NODE, "input_desc", 0, 0, "value", value=[1, 2, 3]), "3 numbers for 1 elements"),
    "huge fill": (_set(*NODE, "input_desc", 0, 0, value=tensor("c0", [2048, 1024], value=2)), "fills 2097152 elements"),
    "no output": (_set(*NODE, "output_desc", value=[]), "Mul: has no output"),
    "dangling": (_set(*NODE, "input_desc", 1, 0, value=tensor("nowhere", [4, 6])), "reads nowhere"),
    "cycle": (_set(*NODE, "input_desc", 1, 0, value=tensor("t2", [4, 6])), "cycle"),
    "two writers": (_set(*NODE, "output_desc", value=[tensor("t2", [4, 6])]), "t2 is written by"),
    "attributes": (_set(*NODE, "attr", value="fast"), "attr 'fast' is no list"),
    "attribute": (_set(*NODE, "attr", value=[{"name": "a", "value": {}}]), "attribute a has the value"),
    "update of nothing": (_set("op_desc", 4, "input_desc", value=[]), "InplaceAssign: has 0 operands"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_descriptions_are_refused_in_words(name: str, tmp_path: Path) -> None:
    change, words = DAMAGE[name]
    document = json.loads(json.dumps(adam()))  # no part shared with another
    change(document)
    with pytest.raises(BadInput, match=words) as caught:
        load(write(tmp_path / "m.json", document))
    assert "m.json" in caught.value.subject and caught.value.hint


@pytest.mark.parametrize(
    "text", ["{", '{"op": 1}', "[]", "[" * 100_000, '{"op_desc": NaN}', "\ufeff", '{"op_desc": [' + '"' * 3], ids=repr
)
def test_text_that_is_no_description_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"m\.json"):
        load(path)
    path.write_bytes(b'{"op\xff\xfe": 1}')
    with pytest.raises(BadInput, match=r"m\.json"):
        load(path)


def test_dimensions_have_no_place_here(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no dimension batch"):
        load(write(tmp_path / "m.json", adam()), {"batch": 2})


def test_elements_of_unknown_type_are_unsupported(tmp_path: Path) -> None:
    document = adam()
    document["input_desc"][0][0]["data_type"] = "float4"
    with pytest.raises(Unsupported, match="tensor g: holds float4"):
        load(write(tmp_path / "m.json", document))


def test_a_reshape_without_a_shape_has_its_outputs(tmp_path: Path) -> None:
    """MindSpore leaves the attribute out in some files; the shape of the result stands there in any case."""
    document: dict[str, Any] = {
        "op": "Fused",
        "input_desc": [[tensor("x", [4, 6])]],
        "op_desc": [operator("Reshape", [tensor("x", [4, 6])], tensor("y", [3, 8]))],
        "output_desc": [tensor("y", [3, 8])],
    }
    graph = load(write(tmp_path / "m.json", document))
    assert graph.operators[0].attributes["shape"] == (3, 8)
    values = reference_values(graph)
    np.testing.assert_array_equal(values["y"], values["x"].reshape(3, 8))
    document["op_desc"][0]["attr"] = [{"name": "shape", "value": [5, 5]}]
    with pytest.raises(BadInput, match="operator y: Reshape"):
        reference_values(load(write(tmp_path / "m.json", document)))
