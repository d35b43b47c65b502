"""Which buffers may be filled ahead of their use: the three rules of ALCOP (section 3.1), read off the tile program.

1. An asynchronous copy fills the buffer: nothing is computed on the way, and the hardware has such a copy.  Where it
   has none that small, ordinary loads into registers run under the use of the tile before, whose loop waits for none of
   them, and stores follow: as long as a thread has the registers for all its loads of a tile.
2. It is filled and used inside one sequential loop; the pipelined loop is the innermost such.
3. Where the machine synchronises a whole scope at once (cp.async groups and the block's barrier, not registers), all
   buffers of the scope agree on stages, loop, first and last use.

Loads from shared memory into registers are asynchronous too: the scoreboard waits for the first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from engine.pipeline.nodes import SHARED, Decision, Path, StageRefusal
from engine.pipeline.uses import Uses, at_path, placed_operations, used_after, uses
from engine.target import Target
from engine.target.copies import HELD_STAGES, SMALLEST_COPY
from engine.tile.nodes import Declare, For, PipelineRequest, TileOp, TileProgram, operations
from engine.tile.storage import shared_bytes_of, shared_map

MAX_STAGES = 6
"""Of shared memory: more than any latency needs."""
REGISTER_STAGES = (1, 2, 4)


def detect(program: TileProgram, machine: Target) -> tuple[Decision, ...]:
    """One decision for each request of a program whose loops are not pipelined yet."""
    found = [_decision(program, request, machine.shared_limit) for request in program.requests]
    return _agreeing(program, found)


def _decision(program: TileProgram, request: PipelineRequest, shared_limit: int) -> Decision:
    """A request by itself: rules 1 and 2, then what the loop and the memory have room for."""
    used = uses(program, request.buffers)
    paths = {_loop_of(program.body, one) for one in used.values()}
    path = next(iter(paths)) if len(paths) == 1 else None
    refusal = _refusal(program, request, used, paths) if request.stages > 1 else None
    if path is None:
        return Decision(request, 1, refusal=refusal)
    loop = at_path(program.body, path)
    assert isinstance(loop, For)
    if refusal or request.stages == 1:
        return Decision(request, 1, path, loop, refusal)
    loads = [load for one in used.values() for _, fill in one.fills for _, load in _loads_of(program, fill)]
    held = tuple(dict.fromkeys(region.buffer for load in loads for region in load.regions_read))
    if request.mark == SHARED:
        stages, limit = _shared_stages(program, request, shared_limit, path, held)
    else:
        stages, limit = _register_stages(request, loop)
    return Decision(request, stages, path, loop, limit, held)


def _refusal(
    program: TileProgram, request: PipelineRequest, used: Mapping[str, Uses], paths: set[Path | None]
) -> StageRefusal | None:
    """What rules 1 and 2 have against a request."""
    if not request.buffers:
        return StageRefusal(1, "no load of the rows is 4, 8 or 16 bytes wide, as cp.async is", "wider vectors lift it")
    for buffer, one in used.items():
        refusal = _rule_1(program, request.mark, buffer, one, next(iter(paths)) if len(paths) == 1 else None)
        if refusal:
            return refusal
    names = " and ".join(request.buffers)
    if None in paths:
        return StageRefusal(2, f"no loop fills and uses {names} in turn", "let a block walk over several of its tiles")
    return StageRefusal(2, f"{names} are filled and used in different loops") if len(paths) > 1 else None


# Rule 1


def _rule_1(program: TileProgram, mark: str, buffer: str, used: Uses, loop: Path | None) -> StageRefusal | None:
    """Why a buffer is not filled by copies that can run ahead alone; None where it is."""
    for place, op in used.fills:
        # Registers need no special copy: the scoreboard lets a thread run on until it uses what it loads.
        if op.is_asynchronous if mark == SHARED else op.regions_read:
            continue
        if op.regions_written:
            refusal = _refuse_stores(program, buffer, (place, op), loop)
            if refusal:
                return refusal
            continue
        because = f"{buffer} is computed where it is filled, and an asynchronous copy only copies"
        return StageRefusal(1, because, "compute on the side that uses it instead")
    if not used.fills:
        return StageRefusal(1, f"no operation fills {buffer}")
    return None


def _refuse_stores(
    program: TileProgram, buffer: str, placed: tuple[Path, TileOp], loop: Path | None
) -> StageRefusal | None:
    """Why a buffer that an ordinary store fills cannot be loaded a tile ahead of it; None where it can.

    placed: the store with its place.
    """
    place, store = placed
    (held,) = store.buffers_read
    loads = _loads_of(program, store)
    writers = [op for op in operations(program.body) if held in op.buffers_written]
    if not loads or len(loads) < len(writers):
        because = f"{buffer} is filled with computed values, and an asynchronous copy only copies"
        return StageRefusal(1, because, f"copy what they are computed from, and compute where {buffer} is used")
    declared = (path for path, op in placed_operations(program) if isinstance(op, Declare) and op.buffer == held)
    made = next(declared, ())
    if loop is None or (made and made[:-1] == loop and all(load[len(loop)] < place[len(loop)] for load, _ in loads)):
        return None
    first = loads[0][1].regions_read[0]
    source, elements = program.buffers[first.buffer], program.buffers[held].elements
    size = first.bytes_in(source)
    run = max(1, SMALLEST_COPY // size)
    because = f"{source.name} is copied {size} bytes at a time and cp.async moves {SMALLEST_COPY}, 8 or 16"
    room = f"its loads and stores take turns, {elements} at a time, as all of a tile do not fit a thread's registers"
    aligned = f"runs of {run} neighbours that begin at multiples of {SMALLEST_COPY} bytes"
    ways = f"rows of a multiple of {run} elements, or channels innermost where a window moves along rows"
    return StageRefusal(1, f"{because}; {room}", f"more threads or a smaller tile lift it, and {aligned} do: {ways}")


def _loads_of(program: TileProgram, store: TileOp) -> list[tuple[Path, TileOp]]:
    """What loads the registers that a store stores, with the places; nothing for other operations."""
    held = set(store.buffers_read) if store.regions_written and not store.is_asynchronous else set()
    found = placed_operations(program)
    return [(path, op) for path, op in found if op.regions_read and held.intersection(op.buffers_written)]


# Rule 2


def _loop_of(body: tuple[TileOp, ...], used: Uses) -> Path | None:
    """The innermost loop around every use of a buffer, or None."""
    paths = [path[:-1] for path, _ in (*used.fills, *used.reads)]
    common = paths[0]
    for path in paths:
        length = next((n for n, (a, b) in enumerate(zip(common, path, strict=False)) if a != b), len(path))
        common = common[:length]
    while common and not isinstance(at_path(body, common), For):  # branches inside the loop move with its iteration
        common = common[:-1]
    return common or None


# Limits


def _shared_stages(
    program: TileProgram, request: PipelineRequest, limit: int, path: Path, held: tuple[str, ...]
) -> tuple[int, StageRefusal | None]:
    """Stages that the extent of the loop at `path` and the shared memory of a block allow.

    limit: bytes that a block may have.  held: arrays that go through registers, which have one tile on its way: further
    stages would hide nothing.
    """
    later, loop = used_after(program, path), at_path(program.body, path)
    assert isinstance(loop, For)
    stage = sum(shared_bytes_of(program.buffers[b]) for b in request.buffers)
    others = shared_map({n: b for n, b in program.buffers.items() if n not in (*request.buffers, *later)})[1]
    room = max(1, (limit - others) // stage)
    stages = min(request.stages, loop.extent, room, HELD_STAGES if held else MAX_STAGES)
    if stages == request.stages:
        return stages, None
    if held and stages == HELD_STAGES:
        because = f"{' and '.join(held)} go through registers, and those hold one tile"
        return stages, StageRefusal(0, because, f"copies of {SMALLEST_COPY} bytes and more have room for {MAX_STAGES}")
    if stages == loop.extent:
        return stages, StageRefusal(0, _short_loop(loop))
    if stages == room:
        needed = f"{request.stages * stage + others:,} bytes of shared memory"
        because = f"{request.stages} stages need {needed}, a block may have {limit:,}"
        return stages, StageRefusal(0, because, f"{stages} need {stages * stage + others:,}")
    return stages, StageRefusal(0, f"a pipeline has up to {MAX_STAGES} stages")


def _register_stages(request: PipelineRequest, loop: For) -> tuple[int, StageRefusal | None]:
    """Stages that divide a loop that is written out, so that the compiler knows every register by name."""
    if not loop.is_unrolled:
        return 1, StageRefusal(0, f"the loop over {loop.name} is not written out, and registers have no addresses")
    # A stage is a register's index: the written-out loop must come back to stage 0 when it starts again.
    fitting = [n for n in REGISTER_STAGES if n <= request.stages and loop.extent % n == 0]
    stages = fitting[-1]
    if stages == request.stages:
        return stages, None
    if request.stages not in REGISTER_STAGES:
        short = f", and {_short_loop(loop)}" if stages < 2 else ""
        return stages, StageRefusal(0, f"registers hold 1, 2 or 4 stages{short}")
    return stages, StageRefusal(0, _short_loop(loop), "a deeper tile has more")


def _short_loop(loop: For) -> str:
    return f"the loop over {loop.name} has {loop.extent} iteration{'s' if loop.extent > 1 else ''}"


# Rule 3


def _agreeing(program: TileProgram, found: Sequence[Decision]) -> tuple[Decision, ...]:
    """Decisions after rule 3: what is pipelined in shared memory is pipelined alike, or not at all."""
    shared = [d for d in found if d.request.mark == SHARED and d.is_pipelined]
    reasons = list(_disagreements(program, shared))
    if not reasons:
        return tuple(found)
    return tuple(replace(d, stages=1, refusal=reasons[0]) if d in shared else d for d in found)


def _disagreements(program: TileProgram, shared: Sequence[Decision]) -> Iterator[StageRefusal]:
    """Pairs of buffers of shared memory that one commit, wait and barrier cannot serve.

    Those of one request share them by intent, before the first use of any and after the last use of all.
    """
    buffers = [(buffer, decision) for decision in shared for buffer in decision.request.buffers]
    for buffer, decision in buffers[1:]:
        first, other = buffers[0]
        if decision is other or _are_apart(decision.path, other.path):
            continue
        if (decision.stages, decision.path) != (other.stages, other.path):
            because = f"{first} has {other.stages} stages, {buffer} {decision.stages}, and they are awaited together"
            yield StageRefusal(3, because, "give them the same loop and the same stages")
            continue
        ends = [_ends(program, name, decision.path) for name in (first, buffer)]
        if ends[0] != ends[1]:
            because = f"{first} and {buffer} are first or last used in different places, and they are awaited together"
            yield StageRefusal(3, because, "use them in the same inner loop")


def _are_apart(a: Path, b: Path) -> bool:
    """Whether two loops run one after the other, so that their copies are never under way together."""
    return any(x != y for x, y in zip(a, b, strict=False))


def _ends(program: TileProgram, buffer: str, path: Path) -> tuple[int, int]:
    """First and last use of a buffer among the operations directly inside its loop."""
    places = [place[len(path)] for place, _ in uses(program, (buffer,))[buffer].reads]
    return places[0], places[-1]
