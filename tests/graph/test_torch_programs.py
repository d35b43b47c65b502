"""Programs of torch.export become graphs that compute what PyTorch computed; nothing in them is unpickled."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import engine
from engine.graph.model_file import read_model
from engine.support.errors import BadInput
from tests.support.needs import needs_compiler

PROGRAMS = Path(__file__).parent / "torch_programs"
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.pt2"))


def expected_values(name: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Inputs and results of PyTorch 2.13."""
    with np.load(PROGRAMS / f"{name.removesuffix('_core')}.npz") as stored:
        sides = [[stored[f"{side}{at}"] for at in range(len(stored.files)) if f"{side}{at}" in stored.files]
                 for side in ("in", "out")]  # fmt: skip
    return sides[0], sides[1]


@pytest.mark.parametrize("name", NAMES)
def test_a_program_computes_what_pytorch_computed(name: str) -> None:
    model = read_model(PROGRAMS / f"{name}.pt2")
    assert {node.domain for node in model.graph.node} == {""}, "every operator has a form"
    given, expected = expected_values(name)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {one.name: value for one, value in zip(session.get_inputs(), given, strict=True)})
    for result, got, wanted in zip(session.get_outputs(), found, expected, strict=True):
        assert got.dtype == wanted.dtype and got.shape == wanted.shape, result.name
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6, err_msg=result.name)


@pytest.mark.slow(sentinel=True)
@needs_compiler
@pytest.mark.parametrize("name", ["attention_core", "layers", "sized"])
def test_kernels_of_a_program_pass(name: str) -> None:
    graph = engine.load(PROGRAMS / f"{name}.pt2", {"s77": 3} if name == "sized" else None)
    plan = engine.fuse(graph)
    assert not plan.unsupported
    assert engine.check_model(graph, plan).status == "pass"


def altered(path: Path, source: str, change: Callable[[str, Any], Any]) -> Path:
    """A program with its JSON files changed."""
    data = io.BytesIO()
    with zipfile.ZipFile(PROGRAMS / source) as old, zipfile.ZipFile(data, "w") as new:
        for member in old.infolist():
            content = old.read(member)
            if member.filename.endswith(".json"):
                content = json.dumps(change(member.filename, json.loads(content))).encode()
            new.writestr(member.filename, content)
    path.write_bytes(data.getvalue())
    return path


def test_an_operator_without_a_form_is_refused_alone(tmp_path: Path) -> None:
    def change(name: str, document: Any) -> Any:
        for node in document["graph_module"]["graph"]["nodes"] if name.endswith("model.json") else []:
            node["target"] = node["target"].replace("aten.relu_.", "aten.special_airy.")
        return document

    graph = engine.load(altered(tmp_path / "p.pt2", "in_place.pt2", change))
    (reason,) = {name: why for name, why in graph.unsupported.items() if "special_airy" in why}.values()
    assert "is no operator" in reason
    assert [op.kind for op in graph.operators].count("Mul") == 2, "its results are declared, so the others are planned"


def test_what_is_written_while_it_is_viewed_is_refused(tmp_path: Path) -> None:
    """A tensor that another may be a view of."""

    def change(name: str, document: Any) -> Any:
        if name.endswith("model.json"):
            first = document["graph_module"]["graph"]["nodes"][0]
            first["target"], first["inputs"] = "torch.ops.aten.alias.default", first["inputs"][:1]
        return document

    graph = engine.load(altered(tmp_path / "p.pt2", "in_place.pt2", change))
    assert any("relu_" in why for why in graph.unsupported.values())


@pytest.mark.parametrize("what", ["pickled", "beyond its bytes", "no such file", "element type"])
def test_damaged_weights_are_refused(what: str, tmp_path: Path) -> None:
    def change(name: str, document: Any) -> Any:
        if name.endswith("weights_config.json"):
            (first, *_) = document["config"].values()
            first["use_pickle"] |= what == "pickled"
            if what == "beyond its bytes":
                first["tensor_meta"]["storage_offset"]["as_int"] = 3
            if what == "no such file":
                first["path_name"] = "../../../etc/passwd"
            if what == "element type":
                first["tensor_meta"]["dtype"] = 99
        return document

    with pytest.raises(BadInput) as caught:
        engine.load(altered(tmp_path / "p.pt2", "layers.pt2", change))
    assert ("is pickled" if what == "pickled" else "damaged program") in str(caught.value)
    assert "torch.export.save" in str(caught.value)
