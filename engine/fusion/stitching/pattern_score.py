"""What fusing saves, fast: the score f of a pattern (FusionStitching, section 5.4).

    f = T_reduced_mem + T_reduced_calls - T_penalty

Bytes that no longer cross global memory are worth their time at the target's bandwidth, less what handing them over in
shared memory takes; every kernel less is worth a launch; the penalty is what the simplified latency model says that
the large kernel takes longer than its parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.documents.model import TermDoc
from engine.fusion.stitching.latency import fast_latency
from engine.fusion.stitching.nodes import Cost, Fit, Gain
from engine.support.units import MICROSECONDS
from engine.target import Target
from engine.tensor.nodes import Statement, TensorProgram
from engine.tensor.traffic import compulsory_bytes


def cost(
    statements: Sequence[Statement], fit: Fit, kept: frozenset[str], program: TensorProgram, target: Target
) -> Cost:
    """What one kernel of these statements moves and takes, by the fast model."""
    made = dict.fromkeys(s.write.array for s in statements)
    read, written = compulsory_bytes(program.cut_out(statements, kept))
    inside = tuple((a, program.arrays[a].bytes) for a in made if a not in kept)
    largest = max((program.arrays[a].bytes // max(1, fit.rows) for a in fit.shared_arrays), default=0)
    return Cost(fit, read, written, inside, fast_latency(statements, fit, largest, target))


def gain(parts: Sequence[Cost], whole: Cost, target: Target) -> Gain:
    """What one kernel instead of its parts saves, in microseconds."""
    before = sum(p.bytes_read + p.bytes_written for p in parts)
    after = whole.bytes_read + whole.bytes_written
    shared = sum(size for array, size in whole.handed if array in whole.fit.shared_arrays)
    through = target.shared_bandwidth.value * target.clock.value * target.sms.value
    saved = (before - after) / target.dram_bandwidth.value - 2 * shared / through
    calls = (len(parts) - 1) * target.empty_kernel
    slower = max(0.0, whole.latency - sum(p.latency for p in parts))
    return Gain((
        TermDoc("memory", saved * MICROSECONDS, "µs",
             f"{before - after:,} bytes of {before:,} no longer cross global memory ({target.dram_bandwidth.source}); "
             f"{shared:,} are handed over in shared memory"),
        TermDoc("calls", calls * MICROSECONDS, "µs",
             f"{len(parts) - 1} launches fewer ({target.launch_overhead.source}; ramp {target.ramp.source})"),
        TermDoc("penalty", -slower, "µs",
             f"{whole.latency:.3g} µs of instructions and waiting instead of {sum(p.latency for p in parts):.3g}"),
    ))  # fmt: skip
