"""A stream of synthetic trials into a record file, as fast as asked: what shows and sorts trials is tested with it.

    python -m tests.benchmarks.trial_stream FILE [--count 100000] [--rate 10000] [--seed 0]

The trials are drawn from a seed and are of origin "synthetic": times that fall as a search goes on, with noise around
them, a few groups, and one failure in twenty of every kind there is.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from engine.records.nodes import Subject, Trial
from engine.records.store import RecordStore
from engine.run.nodes import SYNTHETIC, Failure, Timing

GROUPS = ("attention_0", "matmul_0", "matmul_1", "layernorm_0")
FAILURES = ("compile", "not taken", "hang", "crash", "wrong result", "out of memory")
FAILING = 0.05
"""Share of the trials that give no time."""
BATCHES = 50
"""Transactions in a second at most."""
COUNT, RATE = 100_000, 10_000.0


def trials(count: int, seed: int = 0) -> Iterator[Trial]:
    """`count` trials, no two of the same subject; the same ones for the same seed."""
    rng = random.Random(seed)
    for number in range(count):
        group = rng.choice(GROUPS)
        tile = (16 << rng.randrange(5), 16 << rng.randrange(5), 16 << rng.randrange(4), rng.randrange(1, 7))
        subject = Subject.of(
            f"{seed} {number}", f"grid ({rng.randrange(1, 4096)}, 1, 1), block (128, 1, 1)", "float16[1024,1024]",
            "h200", "stream 1",
        )  # fmt: skip
        yield Trial(subject, SYNTHETIC, _outcome(rng, number / count), group, _recipe(group, tile), _words(tile))


def _outcome(rng: random.Random, progress: float) -> Timing | Failure:
    """progress: from 0 to 1; later trials are better on average, by half."""
    if rng.random() < FAILING:
        return Failure(rng.choice(FAILURES), "drawn by chance")
    return Timing(SYNTHETIC, 20.0 * (1.5 - 0.5 * progress) * math.exp(abs(rng.gauss(0, 0.6))))


def _words(tile: tuple[int, int, int, int]) -> str:
    rows, columns, depth, stages = tile
    return f"{rows}x{columns}x{depth}, part 16x16, {stages} x 1 stages"


def _recipe(group: str, tile: tuple[int, int, int, int]) -> str:
    """JSON of a recipe with what a search chose, as a run keeps it."""
    marks = zip("ijkk", ("block", "block", "tile", "stages"), tile, strict=True)
    entries = [
        {"statements": ["S0"], "dimension": dimension, "field": "mark", "value": [mark, value], "required": False,
         "because": "", "enabled": True}
        for dimension, mark, value in marks
    ]  # fmt: skip
    advice = {"author": "tune", "scenario": {"entries": entries, "alternatives": [], "label": ""}}
    return json.dumps({"version": 2, "target": "h200", "dimensions": {}, "numerics": {}, "fusion": {},
                       "groups": {group: [advice]}})  # fmt: skip


def stream(
    path: Path, count: int = COUNT, rate: float = RATE, seed: int = 0, *,
    clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep,
) -> float:  # fmt: skip
    """Write trials into a record file at `rate` a second, and return the seconds that it took.

    A writer that falls behind does not wait: the rate that was reached is `count` over the seconds.
    """
    size = max(1, math.ceil(rate / BATCHES))
    started = clock()
    with RecordStore(path) as store:
        left, written = trials(count, seed), 0
        while batch := list(islice(left, size)):
            store.add_all(batch)
            written += len(batch)
            ahead = started + written / rate - clock()
            if ahead > 0:
                sleep(ahead)
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
    seconds = stream(options.file, options.count, options.rate, options.seed)
    print(f"{options.count:,} synthetic trials in {seconds:.1f} s, {options.count / seconds:,.0f} a second")
    return 0


if __name__ == "__main__":
    sys.exit(main())
