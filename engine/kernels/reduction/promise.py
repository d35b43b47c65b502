"""The program of a reduction that the estimate promises most of, of a small part of the search space."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from engine.cost.calibration import calibrated_target
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
    promised: list[tuple[int, float, RowPrograms, Program]] = []
    for way in ways(group, kernel):
        rules = [rule for rule in checks(way) if rule.name != "turns"]
        choices = {name: choice for offered in situation(way).offers.values() for name, choice in offered.items()}
        vectors = dict.fromkeys((choices["vector"][-1], choices["vector"][0]))
        for sharers, vector in itertools.product(choices["sharers"], vectors):
            assert isinstance(sharers, int) and isinstance(vector, int)
            rows = rows_of_block(sharers, way.kept, way.machine) if way.by_row else 1
            chosen = {"sharers": sharers, "vector": vector, "rows": rows}
            offered = itertools.product(choices.get("parts", (1,)), choices.get("staging", (REGISTER,)))
            for parts, staging in offered:
                values = {**FIXED, **chosen, "parts": parts, "staging": staging}
                for wide in _few_written_out(way.chunks(Program(way.name, tuple(values.items())))):
                    program = Program(way.name, tuple({**values, "written_out": wide}.items()))
                    if first(rules, program) is None and way.work(program).shared_bytes <= way.machine.shared_limit:
                        promised.append((way.work(program).global_sectors, way.rank(program), way, program))
    if not promised:
        return None
    limit = max(FEW_SECTORS, NEAR * kernel.facts.global_sectors, COMPETING * min(sectors for sectors, *_ in promised))
    full = [(time, way, program) for sectors, time, way, program in promised if sectors <= limit]
    nothing = calibrated_target(full[0][1].machine).empty_kernel * MICROSECONDS
    least = min(time for time, *_ in full) - nothing
    return next((way, program) for time, way, program in full if time - nothing <= NEAR * least)


def _few_written_out(chunks: int) -> Sequence[int]:
    """Chunks that a thread may have side by side: few of its own, or all of them, which registers can then hold."""
    whole = min(CHUNKS_WRITTEN_OUT[-1], 1 << (chunks - 1).bit_length())
    return sorted({*(wide for wide in FEW_CHUNKS if wide < whole), whole})
