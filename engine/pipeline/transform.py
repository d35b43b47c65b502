"""The pass that pipelines loops of a tile program (ALCOP, section 3.2): what `detect` allows, as `shift` says.

    for tile:  copy tile; commit; wait; barrier; use tile; barrier

becomes, with 3 stages,

    copy tile 0; commit; copy tile 1; commit
    for tile:  wait until one copy is unfinished; barrier; copy tile + 2 (if there is one); commit; use tile
    wait for all

The barrier after the wait also sees to it that everybody has left the stage to be filled next, so one a tile is
enough.  What is copied through registers is loaded where other copies are issued, and stored just before the next
barrier.

Registers that an inner loop fills from those tiles are filled across the boundary of two tiles: the wait moves into the
inner loop, to the step in which the next tile is first read, and the first steps are loaded before the loop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.pipeline.detect import detect
from engine.pipeline.nodes import REGISTER, SHARED, Decision, Path
from engine.pipeline.persistent_rows import in_turns
from engine.pipeline.stage_indices import Known, StageRewrite, counters_ahead
from engine.pipeline.uses import used_after, uses
from engine.support.errors import Unsupported
from engine.target import Target
from engine.tensor.index import Index
from engine.tile.nodes import (
    Barrier,
    BlockRanges,
    Buffer,
    Comment,
    Commit,
    Declare,
    For,
    Let,
    Mask,
    Note,
    TileOp,
    TileProgram,
    UniformIf,
    Wait,
    names_in,
    operations,
)
from engine.tile.storage import shared_bytes_of, shared_map


def pipeline_loops(program: TileProgram, machine: Target) -> TileProgram:
    """The program with every pipeline that it asks for and may have; `notes` say what became of the entries.

    Raises Unsupported where a block of the machine has not enough shared memory even without.
    """
    program = in_turns(program) if program.turns > 1 else program
    if program.requests and isinstance(program.body[0], BlockRanges):
        return _pipeline_parts(program, program.body[0], machine)
    decisions = detect(program, machine)
    shared = [d for d in decisions if d.request.mark == SHARED]
    registers = [d for d in decisions if d.request.mark == REGISTER]
    rewriting = _Rewriting(program, decisions)
    stages, register_stages = (max([1, *(d.stages for d in some)]) for some in (shared, registers))
    sizes = {"STAGES": stages} if shared else {}
    sizes |= {"REGISTER_STAGES": register_stages} if register_stages > 1 else {}
    result = replace(
        program,
        body=_without_single_loops(rewriting.body(program.body), rewriting.extents),
        buffers=rewriting.buffers,
        constants={**program.constants, **sizes},
        notes={**program.notes, **_notes(decisions)},
        stages=stages,
        register_stages=register_stages,
        config=program.config and program.config.with_stages(stages, register_stages),
        requests=(),
        later=tuple(pipeline_loops(one, machine) for one in program.later),
    )
    needed = shared_map(result.buffers)[1]
    if needed > machine.shared_limit:
        limit = f"a block of {machine.name} may have {machine.shared_limit:,}"
        because = f"needs {needed:,} bytes of shared memory, {limit}"
        raise Unsupported("pipeline", program.name, because, "ask for less")
    return result


def _pipeline_parts(program: TileProgram, ranges: BlockRanges, machine: Target) -> TileProgram:
    """The same of a packed kernel: each part as if it were alone."""
    made = []
    for blocks, body in ranges.parts:
        used = {name for op in operations(body) for name in op.buffers}
        requests = tuple(request for request in program.requests if used.issuperset(request.buffers))
        made.append(pipeline_loops(replace(program, body=body, grid=blocks, requests=requests), machine))
    own = [({name for op in operations(part.body) for name in op.buffers}, part.buffers) for part in made]
    buffers = dict(program.buffers)
    for used, changed in own:
        buffers |= {name: buffer for name, buffer in changed.items() if name in used or name not in program.buffers}
    first = made[0]
    return replace(
        first,
        body=(replace(ranges, parts=tuple((part.grid, part.body) for part in made)),),
        grid=program.grid,
        buffers=buffers,
        notes={path: note for part in made for path, note in part.notes.items()},
    )


def _notes(decisions: Sequence[Decision]) -> dict[Path, Note]:
    """What became of the entries that were not taken as given."""
    notes = {}
    for decision in decisions:
        request, refusal = decision.request, str(decision.refusal)
        for path, value in request.asked.items():
            if value != decision.stages:
                reason = refusal if value == request.stages else f"another entry asks for {request.stages}"
                notes[path] = Note(reason, request.mark, str(decision.stages))
    return notes


@dataclass(frozen=True, slots=True)
class _OuterLoop:
    """The pipelined loop around a loop that loads registers, whose next iteration it runs on into."""

    loop: For
    fresh: tuple[TileOp, ...]
    """What makes the next iteration's tiles readable."""


class _Rewriting:
    """One program's change.  `buffers` grow as loops are rewritten."""

    def __init__(self, program: TileProgram, decisions: Sequence[Decision]) -> None:
        self.program, self.decisions = program, decisions
        self.buffers: dict[str, Buffer] = dict(program.buffers)
        self.extents = Known(block=program.grid, thread=program.threads)
        self.extents.note(program.body)
        names = [name for decision in decisions for name in decision.request.buffers]
        self.sizes = {n: program.buffers[n].elements for n in names if program.buffers[n].scope == "shared"}
        """Elements of one stage of every buffer in shared memory."""

    def body(self, ops: Sequence[TileOp], path: Path = ()) -> tuple[TileOp, ...]:
        """A body with the loops in it rewritten."""
        result: list[TileOp] = []
        for number, op in enumerate(ops):
            here = (*path, number)
            decision = next((d for d in self.decisions if d.path == here), None)
            if not isinstance(op, For):
                result.append(op)
            elif decision is None:
                result.append(replace(op, body=self.body(op.body, here)))
            elif decision.request.mark == SHARED:
                result += self._shared_loop(op, decision)
            else:
                result += self._register_loop(op, decision, None)
        return tuple(result)

    # Shared memory

    def _shared_loop(self, loop: For, decision: Decision) -> list[TileOp]:
        """A loop that copies tiles to shared memory and uses them, with what comes before and after it."""
        link, stages, ahead = loop.at, decision.stages, decision.stages - 1
        about = Comment(_text(decision), link)
        for name in decision.request.buffers:
            self._enlarge(name, stages)
        later = used_after(self.program, decision.path)
        self.buffers = _overlay(self.buffers, decision.request.buffers, later)
        if stages == 1:
            return [about, replace(loop, body=self.body(loop.body, decision.path))]
        # Of the stages - 1 groups under way the oldest is the tile to be used.  A wait is for the thread's own copies
        # alone (PTX ISA, cp.async.wait_group), so a barrier follows.
        fresh: tuple[TileOp, ...] = (Wait(stages - 2, link), Barrier(link))
        leaving = [number + 1 for number, op in enumerate(loop.body) if op.leaves_loop]
        # First of all: nothing is awaited or copied for a tile that nobody uses.
        ends = loop.body[: max(leaving, default=0)]
        parts = _split_by_part(loop.body[len(ends) :], decision.request.buffers)
        filled = self._fill_early(decision, loop, "ahead", parts.filled)
        first = For("ahead", ahead, (*filled, Commit(link)), True, link)
        another = Index((), loop.extent - 1 - ahead) - Index.of(loop.name)
        guarded = UniformIf(another, self._fill_ahead(decision, loop, parts.issued), link)
        put = (UniformIf(another, self._fill_ahead(decision, loop, parts.put), link),) if parts.put else ()
        before, used = self._rewrite_uses(decision, loop, parts.used, (*put, *fresh))
        start, turn, end = ((*fresh, *before), (), ()) if before else ((), fresh, put)
        # A barrier only where somebody uses the stages' bytes again: buffers overlaid on them, or the next loop around.
        drain = (Wait(0, link), Barrier(link)) if later or len(decision.path) > 1 else (Wait(0, link),)
        # Committed also where no tile is left to copy: the wait counts groups, one for every iteration.
        body = (*ends, *turn, guarded, Commit(link), *used, *end)
        return [about, *parts.declared, first, *start, replace(loop, body=body), *drain]

    def _fill_early(self, decision: Decision, loop: For, counter: str, ops: Sequence[TileOp]) -> tuple[TileOp, ...]:
        """What fills buffers, for the first iterations: one for each value of a new counter."""
        number = Index.of(counter)
        known = Known(self.extents | {counter: decision.stages - 1})
        return self._change(decision, {loop.name: number}, number, known).body(ops)

    def _fill_ahead(self, decision: Decision, loop: For, ops: Sequence[TileOp]) -> tuple[TileOp, ...]:
        """What fills buffers, for the iteration `stages` - 1 later, which exists."""
        ahead = decision.stages - 1
        known = Known(self.extents | {loop.name: loop.extent - ahead})
        stage = (Index.of(loop.name) + ahead).mod(decision.stages, known)
        return self._change(decision, counters_ahead((loop,), ahead, known), stage, known).body(ops)

    def _rewrite_uses(
        self, decision: Decision, loop: For, use: Sequence[TileOp], fresh: tuple[TileOp, ...]
    ) -> tuple[list[TileOp], list[TileOp]]:
        """(what must come before the loop, what uses a tile in it)."""
        past_the_end = Known(self.extents | {loop.name: loop.extent + 1})  # a loop in it may look one further
        stage = Index.of(loop.name).mod(decision.stages, past_the_end)
        change = self._change(decision, {}, stage, self.extents)
        inner = {d.path[-1]: d for d in self.decisions if d.is_pipelined and d.path[:-1] == decision.path}
        places = {id(op): number for number, op in enumerate(loop.body)}
        touched = uses(self.program, decision.request.buffers).values()
        readers = {path[len(decision.path)] for each in touched for path, _ in each.reads}
        before: list[TileOp] = []
        used: list[TileOp] = []
        for op in use:
            moved, found = op.rewrite(change), inner.get(places[id(op)])
            if found is None or not isinstance(moved, For):
                used.append(moved)
                continue
            # Only where no other operation reads the tiles may the wait for the next one move into this loop.
            crosses = readers == {places[id(op)]}
            *early, turn = self._register_loop(moved, found, _OuterLoop(loop, fresh) if crosses else None)
            before += early if crosses else []
            used += [turn] if crosses else [*early, turn]
        return before, used

    # Registers

    def _register_loop(self, loop: For, decision: Decision, around: _OuterLoop | None) -> list[TileOp]:
        """A loop that loads registers and uses them, last of what it becomes: before it the first loads."""
        if not decision.is_pipelined:
            return [replace(loop, body=self.body(loop.body, decision.path))]
        link, names, ahead = loop.at, decision.request.buffers, decision.stages - 1
        for name in names:
            self._enlarge(name, decision.stages)
        declared = [op for op in loop.body if isinstance(op, Declare) and op.buffer in names]
        parts = _split_by_part([op for op in loop.body if op not in declared], names)
        loads, use = parts.filled, parts.used
        early = self._fill_early(decision, loop, "early", loads)
        number = Index.of(loop.name)
        used = self._change(decision, {}, number.mod(decision.stages, self.extents), self.extents).body(use)
        if around is None:
            another = Index((), loop.extent - 1 - ahead) - number
            later: tuple[TileOp, ...] = (UniformIf(another, self._fill_ahead(decision, loop, loads), link),)
        else:
            early = StageRewrite({around.loop.name: Index()}, {}, {}, self.extents).body(early)
            later = self._fill_across(decision, loop, around, loads)
        across = ", on into the next tile" if around else ""
        about = f"{decision.stages} sets of registers: {loop.name} s + {ahead} is loaded while s is used{across}"
        first = For("early", ahead, early, True, link)
        return [Comment(about, link), *declared, first, replace(loop, body=(*later, *used))]

    def _fill_across(
        self, decision: Decision, loop: For, around: _OuterLoop, loads: Sequence[TileOp]
    ) -> tuple[TileOp, ...]:
        """The loads for the iteration `stages` - 1 later, which may be one of the next iteration around."""
        ahead, loops = decision.stages - 1, (loop, around.loop)
        known = Known(self.extents | {around.loop.name: around.loop.extent + 1})
        later = Index.of(loop.name) + ahead
        change = self._change(decision, counters_ahead(loops, ahead, known), later.mod(decision.stages, known), known)
        begins = later.mod(loop.extent, known) * -1
        return (UniformIf(begins, around.fresh, loop.at), *change.body(loads))

    # Both

    def _change(self, decision: Decision, counters: Mapping[str, Index], stage: Index, known: Known) -> StageRewrite:
        return StageRewrite(counters, dict.fromkeys(decision.request.buffers, stage), self.sizes, known)

    def _enlarge(self, name: str, stages: int) -> None:
        buffer = self.buffers[name]
        shape = (stages * buffer.elements,) if buffer.scope == "shared" else (stages, *buffer.shape)
        self.buffers[name] = replace(buffer, shape=shape)


@dataclass(frozen=True, slots=True)
class _LoopParts:
    """A loop's body by its part in the pipeline, each part with the names that it needs."""

    filled: list[TileOp]
    """All that fills the buffers: what is issued, then what is put."""
    issued: list[TileOp]
    """Copies that nobody waits for, and loads of what goes through registers."""
    put: list[TileOp]
    """Stores of what went through registers."""
    declared: list[TileOp]
    """Those registers."""
    used: list[TileOp]


def _split_by_part(body: Sequence[TileOp], buffers: Sequence[str]) -> _LoopParts:
    """The parts of a loop's body that fill and use some buffers.

    Commits, the wait with its barrier, and the barrier at the end belong to the copies, which get new ones.
    """
    fills = {n for n, op in enumerate(body) if any(_fills(o, buffers) for o in operations((op,)))}
    put = {n for n in fills if any(map(_is_store, operations((body[n],))))}
    held = {name for n in put for o in operations((body[n],)) if _is_store(o) for name in o.buffers_read}
    declared = {n for n, op in enumerate(body) if isinstance(op, Declare) and op.buffer in held}
    loads = {n for n, op in enumerate(body) if any(_fills(o, held) for o in operations((op,)))} - declared
    old = {n for n, op in enumerate(body) if isinstance(op, Commit | Wait)}
    old |= {n + 1 for n in old if isinstance(body[n], Wait) and isinstance(body[n + 1], Barrier)}
    old |= {len(body) - 1} if isinstance(body[-1], Barrier) else set()
    names = {n for n, op in enumerate(body) if isinstance(op, Let | Mask)}
    rest = set(range(len(body))) - fills - loads - declared - old - names
    issued, stored = _with_names(body, names, fills - put | loads), _with_names(body, names, put)
    known = {id(op) for op in issued}  # names that both parts need are written once
    return _LoopParts(
        filled=[*issued, *(op for op in stored if id(op) not in known)],
        issued=issued,
        put=stored,
        declared=[body[n] for n in sorted(declared)],
        used=_with_names(body, names, rest),
    )


def _fills(op: TileOp, buffers: Collection[str]) -> bool:
    """Whether an operation fills one of the buffers; one that changes what it holds does not."""
    return any(name in buffers and name not in op.buffers_read for name in op.buffers_written)


def _is_store(op: TileOp) -> bool:
    """Whether an operation puts registers into memory, in turn with what follows it."""
    return bool(op.regions_written) and not op.is_asynchronous


def _with_names(body: Sequence[TileOp], names: set[int], chosen: set[int]) -> list[TileOp]:
    """The chosen operations and every `Let` and `Mask` that they need, in order."""
    while True:
        needed = names_in(body[n] for n in chosen)
        more = {n for n in names - chosen if needed.intersection(body[n].defines)}
        if not more:
            return [op for n, op in enumerate(body) if n in chosen]
        chosen = chosen | more


def _overlay(buffers: Mapping[str, Buffer], staged: Collection[str], later: Collection[str]) -> dict[str, Buffer]:
    """Give buffers that are used later the bytes of the staged ones."""
    placed = dict(buffers)
    for names in (staged, later):
        end = 0
        for name in names:
            placed[name] = replace(placed[name], offset=end)
            end += shared_bytes_of(placed[name])
    return placed


def _without_single_loops(body: Sequence[TileOp], extents: Known) -> tuple[TileOp, ...]:
    """The operations with loops of one iteration inlined: detection needs the loop that fills and uses a buffer, the
    text does not.  A loop stays where a name would be defined twice in one body.

        for tile in 0 .. 0:  copy A[32 * tile]; use A    ->    copy A[0]; use A
    """
    result: list[TileOp] = []
    for op in body:
        op = op.map_bodies(lambda inner: _without_single_loops(inner, extents))
        if isinstance(op, For) and op.extent == 1 and not _names_of(op.body) & _names_of((*result, *body)):
            result += StageRewrite({op.name: Index()}, {}, {}, extents).body(op.body)
        else:
            result.append(op)
    return tuple(result)


def _names_of(body: Sequence[TileOp]) -> set[str]:
    """Names that a body itself makes."""
    return {name for op in body for name in op.defines}


def _text(decision: Decision) -> str:
    """The pipeline in a line, for the reader of the CUDA text."""
    stages = decision.stages
    if decision.is_pipelined:
        name = decision.loop.name if decision.loop else "tile"
        how = f" ({', '.join(decision.held)} through registers)" if decision.held else ""
        return f"{stages} stages: cp.async fills {name} t + {stages - 1} while {name} t is used{how}"
    because = f" ({decision.refusal})" if decision.refusal else ""
    return f"one stage: the copies land, then the block uses them{because}"
