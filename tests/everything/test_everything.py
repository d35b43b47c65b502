"""The run over everything: what it keeps, what it does not take for the same, and how it ends."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import engine
from tests.everything import __main__ as command
from tests.everything import files, kept
from tests.graph.models import FLOAT, model, node, save
from tests.support.needs import needs_compiler, needs_nvrtc


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of real files with one model, and a cache of its own."""
    monkeypatch.setenv("LOOMSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "SHARED", tmp_path)
    monkeypatch.setattr(files, "suite_names", tuple)
    (tmp_path / "models").mkdir()
    save(tmp_path / "models" / "relu.onnx", model([node("Relu", "x", "y")], {"x": [4, 8]}, ["y"]))
    return tmp_path


def kernel(path: Path, nodes: list[object], **sizes: list[int]) -> tuple[engine.Kernel, engine.OperatorGraph]:
    graph = engine.load(save(path, model(nodes, sizes, ["y"])))  # type: ignore[arg-type]
    return engine.compile(engine.fuse(graph).groups[0]), graph


def test_kernels_that_differ_in_names_only_are_one(tmp_path: Path) -> None:
    one = kernel(tmp_path / "a.onnx", [node("Relu", "rows", "y")], rows=[4, 8])
    other = kernel(tmp_path / "b.onnx", [node("Relu", "data", "y")], data=[4, 8])
    assert one[0].source.text != other[0].source.text
    assert kept.key_of(*one) == kept.key_of(*other)


def test_kernels_that_differ_otherwise_are_not_one(tmp_path: Path) -> None:
    one, graph = kernel(tmp_path / "a.onnx", [node("LeakyRelu", "x", "y", alpha=0.5)], x=[4, 8])
    found = {kept.key_of(one, graph)}
    found.add(kept.key_of(*kernel(tmp_path / "b.onnx", [node("LeakyRelu", "x", "y", alpha=0.25)], x=[4, 8])))
    found.add(kept.key_of(*kernel(tmp_path / "c.onnx", [node("LeakyRelu", "x", "y", alpha=0.5)], x=[4, 16])))
    found.add(kept.key_of(replace(one, source=replace(one.source, block=(2, 1, 1))), graph))
    found.add(kept.key_of(replace(one, source=replace(one.source, footprints=())), graph))
    wrong = replace(graph.operators[0], attributes={"alpha": np.float32(0.75).item()})
    found.add(kept.key_of(one, replace(graph, operators=(wrong,))))
    assert len(found) == 6, "the text, the launch, the maps and what the reference goes by all count"


@pytest.mark.slow(sentinel=True)
@needs_nvrtc
def test_a_second_run_remembers_and_says_so(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = shared / "rows.json"
    for level, cached in (("source", 0), ("source", 1), ("both", 0), ("ptx", 1), ("both", 1)):
        assert command.main(["--json", str(document), "--level", level]) == 0
        (row,) = json.loads(document.read_text())["rows"]
        assert (row["groups"], row["passed"], row["cached"], row["problems"]) == (1, 1, cached, [])
    assert "pass 1" in capsys.readouterr().out


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("whole", [[], ["--whole"]], ids=["kernels", "whole"])
def test_kernels_for_this_cpu_run_each_time(whole: list[str], shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(shared / "models" / "wrong.onnx", model([node("NoSuch", "x", "y")], {"x": [4, 8]}, ["y"]))
    document = shared / "rows.json"
    for _ in range(2):
        assert command.main(["--json", str(document), "--target", "cpu", *whole]) == 0
        relu, wrong = json.loads(document.read_text())["rows"]
        assert (relu["file"], relu["cached"], relu["problems"]) == ("relu", 0, [])
        assert [one["status"] for one in wrong["problems"]] == ["unsupported"]
    assert "unsupported: wrong" in capsys.readouterr().out


@pytest.mark.parametrize("change", ["nothing", "the file", "the engine", "a failure"])
def test_a_killed_run_goes_on_where_it_was(
    change: str, shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed in the second of two files; what the first one gave is taken over unless it may have changed."""
    document, first = shared / "rows.json", shared / "models" / "relu.onnx"
    save(shared / "models" / "tanh.onnx", model([node("Tanh", "x", "y")], {"x": [4, 8]}, ["y"]))
    checked: list[str] = []
    problem = {"group": "relu_0", "status": "fail", "message": "wrong"}
    problems = [problem] if change == "a failure" else []

    def check(row: command.Row, path: Path, options: object) -> command.Row:
        checked.append(path.stem)
        if checked == ["relu", "tanh"]:
            raise KeyboardInterrupt
        found = problems if path == first else []
        return {**row, "groups": 1, "passed": 1 - len(found), "cached": 0, "seconds": 0.1, "problems": found}

    monkeypatch.setattr(command, "_checked", check)
    with pytest.raises(KeyboardInterrupt):
        command.main(["--json", str(document)])
    assert [row["file"] for row in json.loads(document.read_text())["rows"]] == ["relu"]
    checked[:], problems[:] = ["before"], []
    if change == "the file":
        save(first, model([node("Relu", "x", "y")], {"x": [4, 16]}, ["y"]))
    if change == "the engine":
        monkeypatch.setattr(command, "engine_state", lambda: "another")
    assert command.main(["--json", str(document), "--resume"]) == 0
    assert checked[1:] == (["tanh"] if change == "nothing" else ["relu", "tanh"])
    found = json.loads(document.read_text())
    assert [row["file"] for row in found["rows"]] == ["relu", "tanh"] and found["summary"]["pass"] == 2
    assert "pass 2" in capsys.readouterr().out
    command.main(["--json", str(document)])
    assert checked[-2:] == ["relu", "tanh"], "without --resume everything is looked at"


def test_a_document_cut_short_is_no_earlier_run(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = shared / "rows.json"
    document.write_text('{"rows": [{"part": "models", "file": "re')
    row = {"groups": 1, "passed": 1, "cached": 0, "seconds": 0.1, "problems": []}
    monkeypatch.setattr(command, "_checked", lambda known, path, options: {**known, **row})
    assert command.main(["--json", str(document), "--resume"]) == 0
    assert [row["file"] for row in json.loads(document.read_text())["rows"]] == ["relu"]


def test_kernels_of_inputs_drawn_otherwise_are_not_one(tmp_path: Path) -> None:
    found = set()
    for number, (low, high) in enumerate([(0, 1), (-8, 8), (0, 1)]):
        proto = model([node("Exp", "x", "h"), node("ReduceSum", "h", "z"), node("Neg", "z", "y")], {"x": [4, 8]}, ["y"])
        proto.metadata_props.add(key="light.inputs", value=json.dumps({"x": [low, high]}))
        graph = engine.load(save(tmp_path / f"{number}.onnx", proto))
        plan = engine.fuse(graph, policy="none")
        found |= {(group.title, kept.key_of(engine.compile(group), graph)) for group in plan.groups}
    assert len(found) == 2 * 3, "also those that only read what follows from the input"


def test_kernels_of_weights_drawn_otherwise_are_not_one(tmp_path: Path) -> None:
    found = set()
    for number, deviation in enumerate([0.5, 8.0, 0.5]):
        weights = node("ConstantOfShape", "dims", "w", value=helper.make_tensor("value", FLOAT, [1], [0.25]))
        proto = model([weights, node("Add", "x w", "y")], {"x": [4, 8]}, ["y"], {"dims": np.array([4, 8])})
        proto.metadata_props.add(key="light.weights", value=json.dumps({"w": ["normal", 0.25, deviation]}))
        graph = engine.load(save(tmp_path / f"{number}.onnx", proto))
        found.add(kept.key_of(engine.compile(engine.fuse(graph).groups[0]), graph))
    assert len(found) == 2


@pytest.mark.slow(sentinel=True)
def test_a_file_that_cannot_be_read_fails_the_run_by_name(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shared / "models" / "broken.onnx").write_bytes(b"\x08\x0a broken")
    assert command.main(["--only", "broken"]) == 1
    assert "fail: broken" in capsys.readouterr().out


@pytest.mark.slow(sentinel=True)
def test_whole_models_run_up_to_their_size(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--whole"]) == 0
    assert command.main(["--whole", "--work", "0"]) == 0
    assert "left out: relu.onnx: 0.0 GFLOP, more than 0" in capsys.readouterr().out


def test_nothing_to_check_is_said(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--only", "nothing of the kind"]) == 2
    assert "nothing of the kind" in capsys.readouterr().err


def test_a_whole_model_with_other_weights_beside_it_is_another(tmp_path: Path) -> None:
    """The file stays as it is; what it maps from the file beside it does not."""
    path, weights = tmp_path / "add.onnx", tmp_path / "add.weights"
    proto = model([node("Add", "x w", "y")], {"x": [4, 8]}, ["y"])
    stored = TensorProto(name="w", data_type=FLOAT, dims=[4, 8], data_location=TensorProto.EXTERNAL)
    stored.external_data.add(key="location", value=weights.name)
    proto.graph.initializer.append(stored)
    weights.write_bytes(np.ones(32, np.float32).tobytes())
    save(path, proto)

    def key() -> str:
        plan = engine.fuse(engine.load(path))
        return kept.whole_key(plan, engine.default_recipe(plan), path)

    before, first = key(), weights.stat()
    assert key() == before
    weights.write_bytes(np.zeros(32, np.float32).tobytes())
    os.utime(weights, ns=(first.st_atime_ns, first.st_mtime_ns + 1))
    assert key() != before
