"""The program of a reduction that the estimate promises most of, of a small part of the search space."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.cost.calibration import calibrated_target
from engine.cost.estimate import estimate_microseconds
from engine.cost.nodes import Work
from engine.fusion.nodes import REGISTER, FusionGroup
from engine.kernels.nodes import Kernel
from engine.kernels.prune import first
from engine.kernels.reduction.advise import COMPETING, rows_of_block
from engine.kernels.reduction.space import CHUNKS_WRITTEN_OUT, FIXED, RowPrograms, checks, situation, ways
from engine.kernels.space import Program
from engine.support.units import MICROSECONDS

FEW_CHUNKS = (1, 8)
"""Of `CHUNKS_WRITTEN_OUT`, what a default may have of a longer row; a shorter one is written out as a whole."""
FEW_SECTORS = 4096
"""Sectors that take no time worth a choice: 128 KiB."""
NEAR = 1.05
"""Times the least estimate beyond a launch of nothing that is as good: the first program of those is taken.  As many
times the sectors of the advised kernel are as many: what blocks exchange counts among them."""


def promised_best(group: FusionGroup, kernel: Kernel) -> tuple[RowPrograms, Program] | None:
    """The program with nearly the least estimate of a small part of the space; None where no program keeps all rules.

    Of those that request few sectors, or hardly more than `kernel`, the first that is NEAR the best: shared out as
    `kernel` is, by the fewest threads, with the widest accesses, least written out.
    """
    offered = [(way, program, least) for way in ways(group, kernel) for program, least in _few_programs(way)]
    few = max(FEW_SECTORS, NEAR * kernel.facts.global_sectors)
    machine = kernel.target
    nothing = calibrated_target(machine).empty_kernel * MICROSECONDS
    floors = [estimate_microseconds(replace(least, registers=None), machine) - nothing for _, _, least in offered]
    known: dict[int, tuple[int, float]] = {}
    least = math.inf
    # A kernel is made to count what it moves: only of programs that may still be NEAR the best.
    for place in sorted(range(len(offered)), key=floors.__getitem__):
        if floors[place] > NEAR * least:
            break
        way, program, _ = offered[place]
        work = way.work(program)
        if work.shared_bytes <= machine.shared_limit:
            time = estimate_microseconds(replace(work, registers=None), machine) - nothing
            known[place] = work.global_sectors, time
            least = min(least, time) if work.global_sectors <= few else least
    if not known:
        return None
    limit = max(few, COMPETING * min(sectors for sectors, _ in known.values()))
    full = {place: time for place, (sectors, time) in known.items() if sectors <= limit}
    return offered[min(place for place, time in full.items() if time <= NEAR * min(full.values()))][:2]


def _few_programs(way: RowPrograms) -> Iterator[tuple[Program, Work]]:
    """The programs that a default may have, those with the fewest threads and the widest accesses first, and the least
    that each asks of a GPU."""
    rules = [rule for rule in checks(way) if rule.name != "turns"]
    choices = {name: choice for offered in situation(way).offers.values() for name, choice in offered.items()}
    vectors = dict.fromkeys((choices["vector"][-1], choices["vector"][0]))
    for sharers, vector in itertools.product(choices["sharers"], vectors):
        assert isinstance(sharers, int) and isinstance(vector, int)
        rows = rows_of_block(sharers, way.kept, way.machine) if way.by_row else 1
        chosen = {"sharers": sharers, "vector": vector, "rows": rows}
        for parts, staging in itertools.product(choices.get("parts", (1,)), choices.get("staging", (REGISTER,))):
            values = {**FIXED, **chosen, "parts": parts, "staging": staging}
            for wide in _few_written_out(way.chunks(Program(way.name, tuple(values.items())))):
                program = Program(way.name, tuple({**values, "written_out": wide}.items()))
                least = way.least_work(program)
                if first(rules, program) is None and least.shared_bytes <= way.machine.shared_limit:
                    yield program, least


def _few_written_out(chunks: int) -> Sequence[int]:
    """Chunks that a thread may have side by side: few of its own, or all of them, which registers can then hold."""
    whole = min(CHUNKS_WRITTEN_OUT[-1], 1 << (chunks - 1).bit_length())
    return sorted({*(wide for wide in FEW_CHUNKS if wide < whole), whole})
