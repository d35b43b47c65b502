"""Recordings: whose times they are, what plays, and every file that is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import engine
from app.controllers.recording import read_recording
from engine.support.errors import BadInput
from tests.app.fake_documents import model
from tests.app.recordings import DATE, DEVICE, entry, of_model, of_suite, written

MODEL = model()
RESOURCES = Path(__file__).parents[2] / "resources"


def test_a_recording_of_the_open_model_gives_its_groups_their_times(tmp_path: Path) -> None:
    document = of_model(MODEL)
    recording = read_recording(written(document, tmp_path), MODEL)
    assert [take.group for take in recording.takes] == [group.name for group in MODEL.groups]
    assert recording.takes[3].title == "softmax" and recording.file == "times.json"
    times = {group: take.time for group, take in recording.groups.items()}
    for kernel in document["kernels"]:
        time = times[kernel["group"]]
        assert (time.origin, time.device, time.date) == ("synthetic", DEVICE, DATE)
        assert list(time.samples) == kernel["samples"] and time.microseconds == kernel["microseconds"]


def test_the_shipped_recording_is_of_the_built_in_example_and_called_synthetic() -> None:
    path = RESOURCES / "measurements" / "synthetic" / "bert_tiny.json"
    takes = read_recording(str(path), None).takes
    assert {take.time.origin for take in takes} == {"synthetic"} and path.stat().st_size < 64_000
    groups = engine.fuse(engine.load(str(RESOURCES / "models" / "bert_tiny.onnx"))).groups
    assert [take.row for take in takes] == [group.name for group in groups]


def test_states_lie_between_the_rounds_after_which_they_were_seen(tmp_path: Path) -> None:
    take = read_recording(written(of_model(MODEL, count=200), tmp_path), MODEL).takes[0]
    assert [look.at for look in take.looks] == [20 * n for n in range(1, 11)]
    assert take.looks[-1].clock == 1965 and take.looks[0].temperature == 41


def test_rows_of_a_suite_play_with_their_peers_beside_any_model(tmp_path: Path) -> None:
    document = of_suite(("suite:alcop/a", "suite:alcop/b"), loomscope=20.0, torch=22.0)
    document["rows"][1]["systems"]["torch"] = {"failure": "missing", "message": "no torch"}
    recording = read_recording(written(document, tmp_path), MODEL)
    assert [take.title for take in recording.takes] == ["a, loomscope", "a, torch", "b, loomscope"]
    assert recording.groups == {}, "no group of the open model is one of these"


def test_the_row_that_is_open_gets_its_time(tmp_path: Path) -> None:
    alone = model(layers=0)
    one = [group for group in alone.groups if group.name == "pooler_0"]
    alone = replace(alone, groups=tuple(one))
    path = written(of_suite(("suite:alcop/a", "suite:alcop/b"), loomscope=20.0, torch=22.0), tmp_path)
    found = read_recording(path, alone, "suite:alcop/b")
    assert found.groups == {"pooler_0": found.takes[2]}, "that of our kernel, not a peer's"
    assert read_recording(path, alone, "suite:alcop/c").groups == {}
    assert read_recording(path, None).groups == {}, "a recording plays without a model"


def test_a_kernel_that_failed_does_not_spoil_the_others(tmp_path: Path) -> None:
    document = of_model(MODEL)
    document["kernels"][3] = {"group": "softmax_0", "failure": "hang", "message": "no answer within 60 s"}
    document["kernels"][4] = {"group": "matmul_2", "unsupported": "no kernel"}
    assert set(read_recording(written(document, tmp_path), MODEL).groups) == {
        group.name for group in MODEL.groups if group.name not in ("softmax_0", "matmul_2")
    }


def renamed(document: dict[str, Any]) -> None:
    document["kernels"][2]["group"] = "softmax_7"


def recounted(document: dict[str, Any]) -> None:
    document["kernels"][0]["instances"] = 99


def elsewhere(device: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        for kernel in document["kernels"]:
            kernel["environment"]["device"] = device

    return change


def predicted(document: dict[str, Any]) -> None:
    for kernel in document["kernels"]:
        kernel.update(origin="predicted", samples=[])


def without_samples(document: dict[str, Any]) -> None:
    for kernel in document["kernels"]:
        kernel["samples"] = []


REFUSED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another device": (elsewhere("NVIDIA A100-SXM4-80GB"), "was recorded on NVIDIA A100-SXM4-80GB"),
    "a device of a similar name": (elsewhere("NVIDIA GH200 480GB"), "was recorded on NVIDIA GH200 480GB"),
    "another model": (lambda d: d["environment"].update(model="gpt2"), "is of gpt2; open is bert_base_b8_s512"),
    "a group that the model has not": (renamed, "has softmax_7, which the open model has not"),
    "another number of launches": (recounted, "which the open model has not"),
    "another version": (lambda d: d.update(schema=9), "is of version 9, this program reads version 1"),
    "predicted times": (predicted, "holds no samples"),
    "no samples": (without_samples, "holds no samples"),
    "a broken time": (lambda d: d["kernels"][1].update(microseconds=-3.0), "a time of -3.0"),
    "a manifest": (lambda d: d.pop("kernels"), "holds no times"),
}


@pytest.mark.parametrize("change", REFUSED)
def test_what_cannot_be_replayed_is_refused_by_its_reason(tmp_path: Path, change: str) -> None:
    spoil, reason = REFUSED[change]
    document = of_model(MODEL)
    read_recording(written(document, tmp_path), MODEL)
    spoil(document)
    with pytest.raises(BadInput) as caught:
        read_recording(written(document, tmp_path), MODEL)
    assert reason in str(caught.value) and caught.value.hint


@pytest.mark.parametrize("text", ["", "not json", "[1, 2]", '{"kernels": 3}', b"\xff\xfe\x00".decode("latin-1")])
def test_foreign_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadInput):
        read_recording(str(path), MODEL)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = json.dumps({"schema": 1, "kernels": [{"group": "pooler_0", "instances": 1, **entry(4.0, 20)}]})
    path = tmp_path / "cut.json"
    for length in range(1, len(whole) - 1, max(len(whole) // 60, 1)):
        path.write_text(whole[:length], encoding="utf-8")
        with pytest.raises(BadInput, match="is cut short"):
            read_recording(str(path), MODEL)
