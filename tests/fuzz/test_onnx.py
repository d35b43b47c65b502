"""Edited ONNX files are compiled or refused by name, without a traceback, within 20 s of the processor and 2 GiB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import engine
from tests.fuzz.onnx import cases, warm_up
from tests.fuzz.processes import FOUND, Outcome, run


def findings(outcomes: list[Outcome]) -> list[str]:
    return [f"case {one.case}, {one.seconds:.1f} s: {one.detail}" for one in outcomes if one.result == FOUND]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("seed", "count"), [(0, 12), *(pytest.param(seed, 50, marks=pytest.mark.slow) for seed in range(1, 41))]
)
def test_edited_files_are_compiled_or_refused(seed: int, count: int, tmp_path: Path) -> None:
    warm_up()
    outcomes = list(run(cases(seed, made_only=count < 50), range(count), tmp_path))
    assert findings(outcomes) == []
    counts = Counter(one.result for one in outcomes)
    assert counts["BadInput"] and counts["accepted"], counts


def failing(kind: str) -> Callable[[int, Path], None]:
    def case(number: int, folder: Path) -> None:
        if kind == "assertion":
            raise AssertionError("of ours")
        if kind == "processor":
            while True:
                number += 1
        if kind == "memory":
            bytearray(3 << 30)
        raise engine.BadInput("graph", "file", "is refused")

    return case


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("assertion", "AssertionError at test_onnx.py"), ("processor", "SIGPROF"), ("memory", "MemoryError"),
        ("none", ""),
    ],
)  # fmt: skip
def test_what_must_not_happen_is_found(
    kind: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fuzz.processes.PROCESSOR", 0.5)
    (outcome,) = run(failing(kind), [0], tmp_path)
    assert (outcome.result == FOUND) == (kind != "none")
    assert says in outcome.detail
