"""Keys as the X server sends them, to whatever window of the desktop has the keyboard."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from time import perf_counter

from PySide6.QtTest import QTest

PATIENCE = 15_000
"""Milliseconds."""


def wait_for(done: Callable[[], bool], milliseconds: float = PATIENCE) -> bool:
    """Whether something comes true within a time, while the event loop runs."""
    end = perf_counter() + milliseconds / 1e3
    while not done() and perf_counter() < end:
        QTest.qWait(5)
    return done()


def press(keys: str) -> None:
    """One key with its modifiers: "ctrl+shift+z"."""
    _xdotool("key", "--clearmodifiers", keys)


def type_text(text: str) -> None:
    """Letters, one after the other."""
    _xdotool("type", "--delay", "2", text)


def _xdotool(*arguments: str) -> None:
    """The event loop runs meanwhile: a window that does not answer the server would be waited for."""
    with subprocess.Popen(["xdotool", *arguments]) as process:
        assert wait_for(lambda: process.poll() is not None) and process.returncode == 0
