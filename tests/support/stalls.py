"""How long a window may stand still, asserted so that only stalls of our own count.

The limit is stated for a machine that squares 60,000 numbers in 2 ms (one idle core of 2024 takes 1.6).  One that takes
longer, since it is older or its host runs other machines on the same cores, gets as much longer: without that, the
tests of a loaded host would measure the host.  Quiet figures in milliseconds are `tests.benchmarks.window`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import TypeVar

from app.shell.watchdog import Watchdog, own_time

STALL_MS = 100
ROUNDS = 3
SQUARES = 60_000
SQUARES_MS = 2.0
SAMPLES = 5

T = TypeVar("T")


def assert_fluent(work: Callable[[], object], limit: float = STALL_MS) -> None:
    """Does some work in a window up to three times; in one of them no gap may reach `limit` milliseconds.

    A stall of our own comes back every time; one round without it was the machine's other work, or the collection of
    what earlier tests left.
    """
    assert_fluent_in(lambda: None, lambda _: work(), limit)


def assert_fluent_in(make: Callable[[], T], work: Callable[[T], object], limit: float = STALL_MS) -> None:
    """The same for work that needs another window each time; how long that takes to make does not count."""
    stalls: list[tuple[int, float]] = []
    while not stalls or (stalls[-1][0] >= stalls[-1][1] and len(stalls) < ROUNDS):
        place, dog = make(), Watchdog()
        before = slowdown()
        dog.start()
        work(place)
        dog.stop()
        stalls.append((round(dog.longest_ms), round(limit * max(before, slowdown()), 1)))
    assert stalls[-1][0] < stalls[-1][1], f"the window stood still for {stalls} (ms, limit here)"


def slowdown() -> float:
    """How many times longer than the limit's machine this one takes for Python now; at least 1."""
    samples = []
    for _ in range(SAMPLES):
        started = own_time()
        sum(number * number for number in range(SQUARES))
        samples.append((own_time() - started) * 1000)
    return max(1.0, median(samples) / SQUARES_MS)
