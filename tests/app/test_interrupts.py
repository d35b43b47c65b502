"""Ctrl-C at the terminal of a window: nothing is printed, nothing hangs, and the worker is ended by its window."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from PySide6.QtCore import QTimer

from app.shell.render import wait
from app.shell.sigint import ENDING, note_interrupts
from tests.support.commands import ROOT, heed_interrupts

signals = pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)


def interrupt(number: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


@signals
def test_an_interrupt_is_raised_at_the_end_and_what_stood_before_is_put_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    reached = []
    with pytest.raises(KeyboardInterrupt), note_interrupts() as outer:
        with pytest.raises(KeyboardInterrupt), note_interrupts() as inner:
            interrupt(number)
            reached.append(inner.any)
        assert outer is inner
        reached.append(outer.any)
    assert reached == [True, True]
    assert signal.getsignal(number) is before
    with note_interrupts() as notes:
        pass
    assert not notes.any


def test_an_interrupt_ends_a_wait_for_what_never_comes(qapp: object) -> None:
    QTimer.singleShot(50, interrupt)
    with pytest.raises(KeyboardInterrupt):
        wait(lambda: False, limit=60_000)


@pytest.mark.slow(sentinel=True)
def test_the_worker_lives_until_its_window_ends_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "engine.service"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts,
    ) as worker:  # fmt: skip
        assert worker.stdin is not None and worker.stdout is not None

        def ask(number: int) -> int:
            assert worker.stdin is not None and worker.stdout is not None
            worker.stdin.write(json.dumps({"id": number, "verb": "no such verb"}) + "\n")
            worker.stdin.flush()
            return int(json.loads(worker.stdout.readline())["id"])

        assert ask(1) == 1
        worker.send_signal(signal.SIGINT)
        assert ask(2) == 2
        worker.stdin.close()
        assert worker.wait(30) == 0


@pytest.mark.slow(sentinel=True)
@signals
def test_a_window_that_is_interrupted_while_it_starts_ends_without_a_word(number: signal.Signals) -> None:
    """At the moment at which an exception would be worst: while Qt is imported."""
    program = (
        "import builtins, os, signal; own = builtins.__import__\n"
        "def load(name, *rest, **named):\n"
        f"    if name == 'shiboken6': os.kill(os.getpid(), {number:d})\n"
        "    return own(name, *rest, **named)\n"
        "builtins.__import__ = load\n"
        "from app.cli.main import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "open", "example"], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"}, timeout=300, preexec_fn=heed_interrupts,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
