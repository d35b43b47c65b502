"""Cancelling ends the worker, and with it every compiler and emulator that it had started."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from app.session.client import Client, Pending
from tests.execution.test_child_lifetime import left_in, marked, wait_until_gone
from tests.support.commands import MODELS
from tests.support.needs import needs_compiler

MODEL = str(MODELS / "bert_tiny.onnx")
GROUPS = ("matmul_1", "matmul_4", "matmul_6")


@needs_compiler
@pytest.mark.parametrize(
    ("seed", "cancels"), [(7, 1), *(pytest.param(seed, 2, marks=pytest.mark.slow) for seed in range(8, 18))]
)
def test_cancelled_checks_leave_nothing(
    seed: int, cancels: int, qtbot: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = f"LOOMSCOPE_TEST_MARK=cancelled-{tmp_path.name}"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    for name, value in (mark.split("="), ("TMPDIR", str(temporary))):
        monkeypatch.setenv(name, value)
    draw, client, caught = random.Random(seed), Client(), 0
    try:
        for turn in range(cancels):
            # A cache of its own: every check has to compile.
            monkeypatch.setenv("LOOMSCOPE_CACHE", str(tmp_path / f"cache{turn}"))
            client.cancel()
            answers: list[Any] = []
            ask(client, "open", {"path": MODEL}, answers)
            wait_for(qtbot, answers)
            for group in GROUPS:
                ask(client, "check", {"group": group}, [])
            qtbot.waitUntil(lambda: len(marked(mark)) > 2, timeout=60_000)
            qtbot.wait(int(draw.uniform(0, 3000)))
            before = marked(mark)
            caught += len(before) > 1
            client.cancel()
            left = wait_until_gone(mark, client.process_id)
            assert not left, f"cancel {turn}: {left}"
            answers = []
            ask(client, "machine", {}, answers)  # the next start
            wait_for(qtbot, answers)
            behind = [*tmp_path.glob("cache*/new/*"), *left_in(temporary)]
            behind += [path for number in before for path in Path("/dev/shm").glob(f"loomscope-{number}-*")]
            assert not behind, f"cancel {turn}"
    finally:
        client.close()
    assert caught >= cancels / 2, "most were cancelled while something ran"


def wait_for(qtbot: Any, answers: list[Any]) -> None:
    qtbot.waitUntil(lambda: bool(answers), timeout=120_000)


def ask(client: Client, verb: str, arguments: dict[str, Any], answers: list[Any]) -> None:
    client.request(verb, arguments, "", Pending(None, answers.append, answers.append))
