"""Journals without a window: what is damaged ends the reading there, and stops no program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.session.history import NO_STEP, HistoryRecord, HistoryStep
from app.session.loom_file import LoomFile, ModelReference, as_plain
from app.session.recovery import Left, read_journal

ENTRY: dict[str, Any] = {
    "group": "softmax_0", "steps": [[1, {"text": "advice map\n", "title": "Map", "parent": 0}]], "current": 1,
    "baseline": 0, "visited": [[0, 1]], "draft": "", "edits": 7,
}  # fmt: skip


def read(folder: Path, *lines: bytes, **changed: object) -> Left | None:
    trail = HistoryRecord((HistoryStep("advice user\n", "As advised", NO_STEP),))
    content = LoomFile(ModelReference("example"), "h100", groups={"softmax_0": trail})
    header = {"loom": "a.loom", "edits": 3, "workspace": as_plain(content), **changed}
    path = folder / "left.journal"
    path.write_bytes(b"\n".join((json.dumps(header).encode(), *lines)) + b"\n")
    return read_journal(path)


def test_what_is_whole_is_read(tmp_path: Path) -> None:
    left = read(tmp_path, json.dumps(ENTRY).encode())
    assert left is not None and left.edits == 7 and left.content.groups["softmax_0"].current == 1


DEEP = b"[" * 100_000


@pytest.mark.parametrize("line", [DEEP, b'{"group":' * 100_000, b"\xff", b"9" * 5000, b'{"group": "\\ud800"}'])
def test_a_damaged_line_ends_the_journal(tmp_path: Path, line: bytes) -> None:
    left = read(tmp_path, line, json.dumps(ENTRY).encode())
    assert left is not None and left.edits == 3 and left.content.groups["softmax_0"].current == 0


@pytest.mark.parametrize("edits", [float("inf"), float("nan"), "3", None, True, [3]])
def test_a_damaged_head_is_no_journal(tmp_path: Path, edits: object) -> None:
    assert read(tmp_path, json.dumps(ENTRY).encode(), edits=edits) is None


def test_a_head_that_is_nested_past_the_stack_is_no_journal(tmp_path: Path) -> None:
    path = tmp_path / "left.journal"
    path.write_bytes(DEEP + b"\n" + json.dumps(ENTRY).encode())
    assert read_journal(path) is None
