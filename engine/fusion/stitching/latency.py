"""The latency of a kernel before it exists: waves of warps times what one warp takes (FusionStitching, section 4.3).

    L = N_wave * L_warp      N_wave = warps / resident warps      L_warp = sum over classes of instructions * cycles

Resident warps follow from threads, registers and shared memory; registers from the values alive at once.  The fast form
for the search takes 16 registers and the largest shared array instead of life times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.documents.model import TermDoc
from engine.fusion.stitching.instruction_costs import CYCLES, classes
from engine.fusion.stitching.nodes import Fit
from engine.support.errors import Unsupported
from engine.support.units import MICROSECONDS
from engine.target import Target
from engine.target.hardware import WARP
from engine.target.occupancy import occupancy
from engine.target.registers import FAST_REGISTERS, HELD_ELEMENTS, PLANNED_BASE
from engine.tensor.nodes import Apply, Scalar, Statement

_VECTOR = 4
"""Elements that one instruction loads."""
_FLIGHT = 4
"""Independent loads that a thread has in flight: each waits for a quarter of the latency."""


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """The shape of a launch as the schedule advisers will choose it, near enough for a model."""

    blocks: int
    threads: int
    per_row: int
    """Threads that share a row; 1 where rows are single elements."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Modelled time of a kernel's instructions and waiting, with its terms."""

    microseconds: float
    terms: tuple[TermDoc, ...]


def launch_of(fit: Fit, target: Target) -> LaunchShape:
    """Blocks and threads for a common space of rows and columns: enough for the GPU, no more than have work."""
    if fit.columns <= 1:
        threads = 256 if fit.rows >= 256 * _VECTOR else 64
        return LaunchShape(max(1, -(-fit.rows // (threads * _VECTOR))), threads, 1)
    ladder = ((64, 8), (128, 16), (3072, 32), (6144, 64), (16384, 128))
    per_row = next((threads for limit, threads in ladder if fit.columns <= limit), 256)
    most = min(int(target.threads_per_block.value), max(per_row, fit.columns // _VECTOR))
    while 2 * per_row <= most and 2 * per_row * fit.rows <= target.sms.value * target.threads_per_sm.value:
        per_row *= 2  # few rows: more threads for each
    threads = max(128, per_row)
    return LaunchShape(max(1, -(-fit.rows // (threads // per_row))), threads, per_row)


def fast_latency(statements: Sequence[Statement], fit: Fit, largest_shared: int, target: Target) -> float:
    """Microseconds by the simplified model; infinite where not one block fits an SM."""
    try:
        launch = launch_of(fit, target)
        waves = _waves(launch, largest_shared, FAST_REGISTERS, target)
    except Unsupported:
        return math.inf
    return waves * _cycles(_instructions(statements, fit, launch), target) / target.clock.value * MICROSECONDS


def latency(
    statements: Sequence[Statement], fit: Fit, kept: frozenset[str], shared_bytes: int, target: Target
) -> Latency:
    """Microseconds by the accurate model, with every term.  Unsupported where not one block fits an SM."""
    launch = launch_of(fit, target)
    registers = min(live_registers(statements, fit, kept, launch), int(target.registers_per_thread.value))
    room = occupancy(launch.threads, shared_bytes, registers, target)
    waves = _waves(launch, shared_bytes, registers, target)
    counted = _instructions(statements, fit, launch)
    cycles = _cycles(counted, target)
    total = waves * cycles / target.clock.value * MICROSECONDS
    costs = {name: (CYCLES[name][0] if name in CYCLES else _load_cycles(target)) for name in counted}
    terms = (
        TermDoc("waves", waves, "waves", f"{launch.blocks:,} blocks of {launch.threads} threads, {room.blocks} per SM"),
        TermDoc("occupancy", room.share * 100, "%", f"limited by {room.limiter}: {registers} registers a thread alive "
             f"at once, {shared_bytes:,} bytes of shared memory a block"),
        *(
            TermDoc(name, waves * count * costs[name] / target.clock.value * MICROSECONDS, "µs",
                 f"{count:,.3g} instructions of a warp at {costs[name]:.3g} cycles")
            for name, count in counted.items() if count
        ),
    )  # fmt: skip
    return Latency(total, terms)


def live_registers(statements: Sequence[Statement], fit: Fit, kept: frozenset[str], launch: LaunchShape) -> int:
    """Registers of a thread: the most values alive at once, each with the elements of it that a thread holds."""
    made = {s.write.array: s for s in statements}
    last = {a.array: n for n, s in enumerate(statements) for a in s.reads() if a.array in made}
    alive: dict[str, int] = {}
    peak = 0
    for n, statement in enumerate(statements):
        array = statement.write.array
        if array in last and array not in fit.shared_arrays and statement.name not in fit.inlined:
            alive[array] = _elements_held(statement, fit, launch)
        now = sum(alive.values()) + len({a.array for a in statement.reads()}) * _VECTOR
        peak = max(peak, now)
        for old in [a for a in alive if last[a] <= n]:
            del alive[old]
    return PLANNED_BASE + peak


def _elements_held(statement: Statement, fit: Fit, launch: LaunchShape) -> int:
    """Elements of a value that one thread holds until they are used."""
    own = math.prod(i.extent for i in statement.parallel) // max(1, min(fit.rows, _points(statement, parallel=True)))
    return min(HELD_ELEMENTS, max(1, -(-own // launch.per_row)))


def _points(statement: Statement, parallel: bool = False) -> int:
    return math.prod(i.extent for i in (statement.parallel if parallel else statement.iterators))


def _waves(launch: LaunchShape, shared_bytes: int, registers: int, target: Target) -> float:
    """How often all SMs are filled; a grid that does not fill them counts as one."""
    room = occupancy(launch.threads, shared_bytes, registers, target)
    return max(1.0, launch.blocks / (room.blocks * target.sms.value))


def _instructions(statements: Sequence[Statement], fit: Fit, launch: LaunchShape) -> dict[str, float]:
    """Instructions of one warp by class."""
    threads = launch.blocks * launch.threads
    made = {s.write.array for s in statements}
    found = dict.fromkeys(("load", *CYCLES), 0.0)
    loaded: dict[str, float] = {}  # a row is read once and kept, whoever needs it
    for statement in statements:
        share = max(1.0, _points(statement) / threads)
        for name, count in per_element(statement.expression).items():
            found[name] += count * share
        for access in statement.reads():
            if access.array not in made:
                loaded[access.array] = max(loaded.get(access.array, 0.0), max(1.0, share / _VECTOR))
        if statement.reduction is not None:
            found["arithmetic"] += share
            if statement.reduced and fit.columns > 1:
                found["shuffle"] += math.log2(min(WARP, max(2, launch.per_row)))
                found["barrier"] += 1 if launch.per_row > WARP else 0
        if statement.write.array in fit.shared_arrays:
            found["shared"] += 2 * share
            found["barrier"] += 1
    found["load"] = sum(loaded.values())
    return found


def per_element(value: Scalar) -> dict[str, int]:
    """Instructions of one evaluation by class, without loads."""
    found: dict[str, int] = {}
    if isinstance(value, Apply):
        for part in (classes(value.function), *map(per_element, value.operands)):
            for name, count in part.items():
                found[name] = found.get(name, 0) + count
    return found


def _load_cycles(target: Target) -> float:
    """Cycles that a warp waits for one load from global memory, others of it in flight."""
    return target.dram_latency.value * target.clock.value / _FLIGHT


def _cycles(counted: Mapping[str, float], target: Target) -> float:
    """Cycles of one warp."""
    return sum(n * (CYCLES[name][0] if name in CYCLES else _load_cycles(target)) for name, n in counted.items())
