"""Signals that end a program whose event loop is Qt's: an exception in one of its callbacks would be forgotten."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """A handler of signals that only notes them."""

    def __init__(self) -> None:
        self.any = False
        """Whether one came."""

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.any = True


@contextmanager
def note_interrupts() -> Iterator[Interrupts]:
    """While this is entered, a signal that ends programs is a note; at the end, KeyboardInterrupt is raised for it.

    Python sees a signal only between two of its own instructions, so an event loop has to run some now and then: a
    timer that looks at the notes.  They are the same ones where this is entered within itself.
    """
    before = {number: signal.getsignal(number) for number in ENDING}
    notes = next((handler for handler in before.values() if isinstance(handler, Interrupts)), None) or Interrupts()
    for number, handler in before.items():
        if handler is not signal.SIG_IGN or number == signal.SIGINT:  # nohup ignores SIGHUP
            signal.signal(number, notes)
    try:
        yield notes
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if notes.any:
        raise KeyboardInterrupt
