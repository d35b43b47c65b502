"""How long a window may stand still, asserted so that only stalls of our own count."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from app.shell.watchdog import Watchdog

STALL_MS = 100
ROUNDS = 3

T = TypeVar("T")


def assert_fluent(work: Callable[[], object], limit: float = STALL_MS) -> None:
    """Does some work in a window up to three times; in one of them no gap may reach `limit` milliseconds.

    A stall of our own comes back every time; one round without it was the machine's other work, or the collection of
    what earlier tests left.
    """
    assert_fluent_in(lambda: None, lambda _: work(), limit)


def assert_fluent_in(make: Callable[[], T], work: Callable[[T], object], limit: float = STALL_MS) -> None:
    """The same for work that needs another window each time; how long that takes to make does not count."""
    stalls: list[int] = []
    while not stalls or (stalls[-1] >= limit and len(stalls) < ROUNDS):
        place, dog = make(), Watchdog()
        dog.start()
        work(place)
        dog.stop()
        stalls.append(round(dog.longest_ms))
    assert stalls[-1] < limit, f"the window stood still for {stalls} ms"
