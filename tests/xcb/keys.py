"""Keys and pointer as the X server sends them, to whatever window of the desktop has the keyboard or lies there."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from time import perf_counter

from PySide6.QtCore import QPoint
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

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
    """Letters, one after the other, as fast as a quick typist: on a busy machine the server loses faster ones."""
    _xdotool("type", "--delay", "12", text)


def point(widget: QWidget, at: QPoint | None = None) -> None:
    """Moves the pointer over a point of a widget, by default its middle."""
    QTest.qWait(50)  # what was shown last is laid out in a later turn of the event loop
    place = widget.mapToGlobal(widget.rect().center() if at is None else at)
    _xdotool("mousemove", str(place.x()), str(place.y()))


def click(widget: QWidget, at: QPoint | None = None) -> None:
    """One click with the left button."""
    point(widget, at)
    _xdotool("click", "1")


def hold() -> None:
    """Presses the left button where the pointer is."""
    _xdotool("mousedown", "1")


def let_go() -> None:
    """Lets the left button go."""
    _xdotool("mouseup", "1")


def _xdotool(*arguments: str) -> None:
    """The event loop runs meanwhile: a window that does not answer the server would be waited for."""
    with subprocess.Popen(["xdotool", *arguments]) as process:
        assert wait_for(lambda: process.poll() is not None) and process.returncode == 0
