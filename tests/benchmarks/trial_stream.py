"""A run of synthetic trials, streamed into a record file as fast as asked: for tests of what shows and sorts trials.

    python -m tests.benchmarks.trial_stream FILE [--count 100000] [--rate 10000] [--seed 0]

Everything is drawn from a seed and of origin "synthetic": times that fall as the search goes on, with noise around
them, a few groups of two mappings, one failure in twenty of every kind there is, and rounds of 64 trials.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

from engine.execution.nodes import SYNTHETIC, Failure, Timing
from engine.records.nodes import (
    FAILED,
    FINISHED,
    NEW,
    SEARCHED,
    Attempt,
    Dropped,
    Request,
    Round,
    Subject,
    TaskRecord,
    Trial,
)
from engine.records.runs import RunLog
from engine.records.store import RecordStore

GROUPS = ("attention_0", "layernorm_0", "matmul_0", "matmul_1")
MAPPINGS = ("mma_m16n8k16_f16", "CUDA cores")
DIMENSIONS = {
    "rows": (16, 32, 64, 128, 256), "columns": (16, 32, 64, 128, 256), "depth": (16, 32, 64, 128),
    "stages": (1, 2, 3, 4, 5, 6),
}  # fmt: skip
FAILURES = ("compile", "not taken", "hang", "crash", "wrong result", "out of memory")
FAILING = 0.05
"""Share of the trials that give no time."""
TYPICAL, SPREAD = 20.0, 0.6
"""Microseconds of the best half, and how far others are from it: the standard deviation of the logarithm."""
ROUND = 64
BATCHES = 50
"""Transactions in a second at most."""
COUNT, RATE = 100_000, 10_000.0

Pair = tuple[Attempt, Trial]


def attempts(count: int, seed: int = 0) -> Iterator[Pair]:
    """`count` attempts, no two of the same subject; the same ones for the same seed."""
    rng = random.Random(seed)
    promised = 0.0
    for number in range(1, count + 1):
        group, mapping = GROUPS[number // ROUND % len(GROUPS)], rng.choice(MAPPINGS)
        values = tuple((name, rng.choice(choices)) for name, choices in DIMENSIONS.items())
        outcome = _outcome(rng, number / count)
        failure, time_ = (outcome, None) if isinstance(outcome, Failure) else (None, outcome.microseconds)
        promised = (time_ or TYPICAL) * math.exp(rng.gauss(0, SPREAD / 2))
        subject = Subject.of(f"{seed} {number}", "grid (64, 1, 1), block (128, 1, 1)", "none", "h200", "none")
        trial = Trial(subject, SYNTHETIC, outcome, group, _recipe(group, values), f"{mapping}: {values}")
        yield Attempt(
            number, None, group, mapping, values, promised, FAILED if failure else NEW, time_,
            failure.kind if failure else "", failure.message if failure else "", number / RATE,
        ), trial  # fmt: skip


def _outcome(rng: random.Random, progress: float) -> Timing | Failure:
    """progress: from 0 to 1; later trials are better on average, by a third."""
    if rng.random() < FAILING:
        return Failure(rng.choice(FAILURES), "drawn by chance")
    return Timing(SYNTHETIC, TYPICAL * (1.5 - 0.5 * progress) * math.exp(abs(rng.gauss(0, SPREAD))))


@cache
def _recipe(group: str, values: tuple[tuple[str, int], ...]) -> str:
    """JSON of a recipe with what a search chose, as a run keeps it."""
    marks = zip("ijkk", ("block", "block", "tile", "stages"), (value for _, value in values), strict=True)
    entries = [
        {"statements": ["S0"], "dimension": dimension, "field": "mark", "value": [mark, value], "required": False,
         "because": "", "enabled": True}
        for dimension, mark, value in marks
    ]  # fmt: skip
    advice = {"author": "tune", "scenario": {"entries": entries, "alternatives": [], "label": ""}}
    return json.dumps({"version": 2, "target": "h200", "dimensions": {}, "numerics": {}, "fusion": {},
                       "groups": {group: [advice]}})  # fmt: skip


def tasks() -> tuple[TaskRecord, ...]:
    """What can be chosen in the run."""
    total = math.prod(map(len, DIMENSIONS.values()))
    sieved = (Dropped("shared memory", "a launch that asks for more fails", total // 4, "320 KiB of shared memory"),)
    return tuple(
        TaskRecord(group, mapping, DIMENSIONS, total, sieved, total - total // 4, 3 * TYPICAL)
        for group in GROUPS
        for mapping in MAPPINGS
    )


def start(store: RecordStore, count: int, seed: int = 0) -> RunLog:
    """A run that synthetic attempts can be kept in."""
    request = Request("synthetic", "h200", "random", "replayed", SYNTHETIC, count, seed=seed, groups=GROUPS)
    return RunLog.start(store, request, tasks())


def stream(
    path: Path, count: int = COUNT, rate: float = RATE, seed: int = 0, *,
    clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep,
) -> float:  # fmt: skip
    """Write a run into a record file at `rate` attempts a second, and return the seconds that it took.

    A writer that falls behind does not wait: the rate that was reached is `count` over the seconds.
    """
    size = max(1, math.ceil(rate / BATCHES))
    with RecordStore(path) as store:
        log = start(store, count, seed)
        left, written, rounds, best = attempts(count, seed), 0, 0, math.inf
        started = clock()
        while batch := list(islice(left, size)):
            log.keep_all(batch)
            written += len(batch)
            best = min([best, *(a.microseconds for a, _ in batch if a.microseconds is not None)])
            for number in range(rounds + 1, written // ROUND + 1):
                group = GROUPS[number % len(GROUPS)]
                seconds = clock() - started
                log.add_round(Round(number, SEARCHED, group, MAPPINGS[0], "in turn", {}, best, ROUND, seconds))
            rounds = written // ROUND
            ahead = started + written / rate - clock()
            if ahead > 0:
                sleep(ahead)
        log.set_state(FINISHED)
        return clock() - started


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the status is the exit code."""
    about = __doc__.partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.trial_stream", description=about)
    parser.add_argument("file", type=Path, help="record file, made where there is none")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--rate", type=float, default=RATE, help="trials a second")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    busy = time.process_time()
    seconds = stream(options.file, options.count, options.rate, options.seed)
    busy = (time.process_time() - busy) / options.count * 1e6
    reached = f"{options.count / seconds:,.0f} a second, {busy:.1f} us of a processor each"
    print(f"{options.count:,} synthetic trials in {seconds:.1f} s, {reached}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
