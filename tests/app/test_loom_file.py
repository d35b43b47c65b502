"""Workspace files without a window: there and back, and everything that can be wrong with one."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from app.session.history import NO_STEP, Checked, HistoryRecord, HistoryStep
from app.session.loom_file import (
    LARGE,
    LoomFile,
    ModelReference,
    as_plain,
    digest,
    find_model,
    read_loom,
    reference_to,
    write_loom,
)
from app.session.named_models import EXAMPLE
from engine.documents.model import Time
from engine.support.errors import BadInput


def content(steps: int = 3, text: str = "advice map\n") -> LoomFile:
    made = [HistoryStep(text, "As advised", NO_STEP, Time(3.5, "predicted", "uncalibrated"))]
    made += [HistoryStep(f"{text}# {number}\n", f"step {number}", number - 1) for number in range(1, steps)]
    made[-1] = replace(
        made[-1],
        measured=Time(2.0, "measured", "H200, today", 1.9, 2.2, (1.9, 2.0, 2.2)),
        checked=Checked("pass", 8, 64, 2, 4096, 128),
        note="faster ✓",
    )
    trail = HistoryRecord(tuple(made), 1, 0, ((0, 1), (1, 2)), "advice nobody\n")
    groups = {"softmax_0": trail, "gone_3": trail}
    model = ModelReference("softmax.onnx", "ab" * 32)
    return LoomFile(model, "h100", {"batch": 4}, groups, "softmax_0", ("S1",), {"perspective": "Schedule"})


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    file = tmp_path / "a.loom"
    write_loom(content(), file)
    assert read_loom(file) == content()
    assert json.loads(file.read_text())["version"] == 1
    assert os.listdir(tmp_path) == ["a.loom"], "nothing temporary is left"


def test_a_large_file_is_compressed_and_gives_back_the_same(tmp_path: Path) -> None:
    large = content(400, "".join(random.Random(1).choices("abcdefgh ", k=4000)))
    file = tmp_path / "large.loom"
    write_loom(large, file)
    assert file.read_bytes()[:2] == b"PK" and file.stat().st_size < LARGE
    assert read_loom(file) == large


@pytest.mark.parametrize("large", [False, True])
def test_every_cut_is_noticed_and_named(tmp_path: Path, large: bool) -> None:
    file, cut = tmp_path / "whole.loom", tmp_path / "cut.loom"
    write_loom(content(400, "x" * 4000) if large else content(), file)
    data = file.read_bytes()
    for length in (*random.Random(2).sample(range(len(data)), 40), 0, 1, 2, len(data) - 1):
        cut.write_bytes(data[:length])
        with pytest.raises(BadInput, match=r"cut\.loom") as caught:
            read_loom(cut)
        if not large and length > 1:
            assert "cut short" in caught.value.reason, data[:length][-40:]


def changed(**keys: object) -> bytes:
    return json.dumps({**as_plain(content()), **keys}).encode()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "neither text nor an archive"),
        (b"loom: yes", "is not JSON"),
        (b"[1, 2]", "is no Loomscope workspace"),
        (b'{"version": 1, "groups": {}}', "is no Loomscope workspace"),
        (changed(version=2), "is of version 2; this program reads up to 1"),
        (changed(version="1"), "has no version"),
        (changed(target=7), "target must be text"),
        (changed(dimensions={"batch": "x"}), "dimensions.batch must be a whole number"),
        (changed(surprise=1), "surprise is unknown"),
        (b"[" * 200_000, "cannot be read: it is nested too deeply"),
        (json.dumps({**as_plain(content()), "selection": "\ud800"}).encode(), "half of a Unicode pair"),
        (changed(dimensions={"batch": 4}, view={"x": 10**390}), "view.x must be text"),
        (b"PK\x03\x04 not really", "damaged or cut short"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, data: bytes, words: str) -> None:
    file = tmp_path / "bad.loom"
    file.write_bytes(data)
    with pytest.raises(BadInput) as caught:
        read_loom(file)
    assert caught.value.subject == "bad.loom" and words in caught.value.reason
    assert file.read_bytes() == data, "a file that cannot be read is left as it is"


def test_a_history_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    broken = replace(content(), groups={"softmax_0": replace(content().groups["softmax_0"], current=9)})
    file = tmp_path / "bad.loom"
    write_loom(broken, file)
    with pytest.raises(BadInput, match="history of softmax_0 contradicts itself: current step 9"):
        read_loom(file)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"groups": 7}', '["policy"]', "{", '{"apart": "[[]]"}'])
def test_a_choice_of_groups_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    trail = HistoryRecord((HistoryStep("{}", "Free", NO_STEP), HistoryStep(text, "Fixed", 0)))
    file = tmp_path / "bad.loom"
    write_loom(replace(content(), groups={"fusion": trail}), file)
    with pytest.raises(BadInput, match="step 1 of the groups is no choice of groups"):
        read_loom(file)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.loom"
    write_loom(content(), file)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadInput, match="No space left"):
        write_loom(replace(content(), target="a100"), file)
    assert read_loom(file) == content()
    assert os.listdir(tmp_path) == ["a.loom"]


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"a\.loom: cannot be written: No such file"):
        write_loom(content(), tmp_path / "nowhere" / "a.loom")
    (tmp_path / "b.loom").mkdir()
    with pytest.raises(BadInput, match=r"b\.loom: cannot be written"):
        write_loom(content(), tmp_path / "b.loom")
    assert os.listdir(tmp_path) == ["b.loom"]


def test_a_model_beside_the_file_moves_with_it(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "models").mkdir(parents=True)
    (here / "models" / "m.onnx").write_bytes(b"weights")
    reference = reference_to(str(here / "models" / "m.onnx"), here)
    assert reference.path == "models/m.onnx" and reference.sha256 == digest(here / "models" / "m.onnx")
    here.rename(there)
    assert find_model(reference, there) == str(there / "models" / "m.onnx")


def test_a_model_elsewhere_is_named_whole_and_looked_for_beside_the_file_too(tmp_path: Path) -> None:
    model, folder = tmp_path / "m.onnx", tmp_path / "work"
    model.write_bytes(b"weights")
    folder.mkdir()
    reference = reference_to(str(model), folder)
    assert reference.path == str(model) and find_model(reference, folder) == str(model)
    model.rename(folder / "m.onnx")
    assert find_model(reference, folder) == str(folder / "m.onnx")
    (folder / "m.onnx").unlink()
    with pytest.raises(BadInput) as caught:
        find_model(reference, folder)
    assert caught.value.subject == "m.onnx"
    assert str(model) in caught.value.reason and str(folder / "m.onnx") in caught.value.reason


def test_the_example_needs_no_path(tmp_path: Path) -> None:
    reference = reference_to(EXAMPLE, tmp_path)
    assert reference.path == EXAMPLE and len(reference.sha256) == 64 and find_model(reference, tmp_path) == EXAMPLE


def test_a_row_of_a_suite_needs_no_path(tmp_path: Path) -> None:
    reference = reference_to("suite:alcop/MM_BERT_FC1", tmp_path)
    assert reference.path == find_model(reference, tmp_path) == "suite:alcop/MM_BERT_FC1"


def test_a_digest_follows_the_content(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    file.write_bytes(b"one")
    first = digest(file)
    file.write_bytes(b"other")
    assert digest(file) != first and digest(tmp_path / "absent") == ""
