"""Edited ONNX files are compiled or refused by name, without a traceback, within 20 s of the processor and 2 GiB."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import engine
from engine.support.errors import EngineError
from tests.fuzz.onnx import cases
from tests.fuzz.processes import FOUND, run

ROOT = Path(__file__).parents[2]


RUN = """
import json, sys
from pathlib import Path
from tests.fuzz.onnx import cases, warm_up
from tests.fuzz.processes import run
warm_up()
seed, count = int(sys.argv[1]), int(sys.argv[2])
outcomes = run(cases(seed, made_only=seed == 0), range(count), Path(sys.argv[3]))
print(json.dumps([(one.case, one.result, one.detail) for one in outcomes]))
"""
"""In a process of its own: what a test runner has loaded would count against each case's limit of address space."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("seed", "count"), [(0, 4), *(pytest.param(seed, 10, marks=pytest.mark.slow) for seed in range(1, 201))]
)
def test_edited_files_are_compiled_or_refused(seed: int, count: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUN, str(seed), str(count), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes = json.loads(done.stdout)
    assert [one for one in outcomes if one[1] == FOUND] == [] and len(outcomes) == count
    counts = Counter(result for _, result, _ in outcomes)
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


MENDED = (
    (30003, 62), (30004, 120), (30009, 221), (30010, 61), (30004, 39), (40004, 198), (40008, 2), (40013, 156),
    (50002, 72), (50005, 96), (50006, 86),
)  # fmt: skip
"""Files that once ended in a traceback."""


@pytest.mark.slow(sentinel=True)
def test_what_was_found_stays_mended(tmp_path: Path) -> None:
    for number, (seed, case) in enumerate(MENDED):
        folder = tmp_path / str(number)
        folder.mkdir()
        with suppress(EngineError):
            cases(seed)(case, folder)
