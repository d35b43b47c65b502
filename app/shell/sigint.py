"""Ctrl-C in a program whose event loop is Qt's: raised in one of its callbacks, it would be printed and forgotten."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """A handler of signals that only notes them."""

    def __init__(self) -> None:
        self.any = False
        """Whether one came."""

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.any = True


@contextmanager
def note_interrupts() -> Iterator[Interrupts]:
    """While this is entered, Ctrl-C is no exception but a note; at the end, KeyboardInterrupt is raised for it.

    Python sees a signal only between two of its own instructions, so an event loop has to run some now and then: a
    timer that looks at the notes.  They are the same ones where this is entered within itself.
    """
    before = signal.getsignal(signal.SIGINT)
    notes = before if isinstance(before, Interrupts) else Interrupts()
    signal.signal(signal.SIGINT, notes)
    try:
        yield notes
    finally:
        signal.signal(signal.SIGINT, before)
    if notes.any:
        raise KeyboardInterrupt
