"""Packed groups: parts that share nothing but a launch, each with its own share of a block."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from engine.cost.nodes import Work
from engine.fusion.nodes import FusionGroup
from engine.kernels.advice import mark
from engine.kernels.elementwise.plans import widest
from engine.kernels.family import Setting
from engine.kernels.marks import DEFAULT_THREADS, WRITTEN_OUT
from engine.kernels.nodes import Kernel
from engine.kernels.packed.advise import pack_group
from engine.kernels.packed.lower import PackedConfig, parts_of
from engine.kernels.prune import PruningRule, make_task
from engine.kernels.sketch_rules import INLINE, THREAD_CHOICES, TILING, Choices, Situation
from engine.kernels.space import KernelTemplate, Program, Task, Value, with_counts
from engine.kernels.stitched.block_walks import (
    BlockWalks,
    block_walks,
)
from engine.kernels.stitched.family import STITCHED_FAMILY
from engine.kernels.stitched.placement import plan_parts
from engine.recipe import Entry
from engine.scheduling.nodes import Node, ScheduleTree
from engine.support.divisors import divisors
from engine.support.errors import Unsupported
from engine.target import Target
from engine.target.hardware import WARP
from engine.target.registers import STITCHED_BASE
from engine.tensor.live_values import most_alive

NAME = "parts of one launch"
DECIDED = frozenset(("block", "thread", "vector", "scope"))
MOST_POINTS = 256
"""Of a block: all divisors of a part's points up to it are tried."""
STEPS = (1, 2, 4)
"""Times that the threads of a block go on to further elements of an element-wise part."""
OPEN_PARTS = 4
"""Parts that have a choice: those with most elements."""
ELEMENT_BYTES = 4
"""Of an access, taken as float32: parts may have several element types."""


@dataclass(frozen=True, slots=True)
class _PackedPart:
    """One part of the launch."""

    name: str
    """Of its dimension."""
    statements: tuple[str, ...]
    target: str
    """The statement that marks stand on."""
    total: int
    """Points of a stitched part, elements of another."""
    now: int
    """Points of a block that the advisers chose; of another part the elements of one access."""
    alive: int
    """Values that a thread holds for one element."""
    walks: BlockWalks | None
    """Of a stitched part; an element-wise one has none."""

    @property
    def advised_share(self) -> int:
        """The share of a block that the advisers chose."""
        return self.now if self.walks else 1

    def share(self, program: Program) -> int:
        """Points, or steps, of a block in a program."""
        value = dict(program.values).get(self.name, self.advised_share)
        assert isinstance(value, int)
        return value

    def blocks(self, threads: int, share: int) -> int:
        """Blocks of the part."""
        return -(-self.total // (share if self.walks else threads * self.now * share))

    def longest_loop(self, threads: int, share: int, machine: Target) -> int:
        """Iterations of the longest loop that is not written out; 1 where a block has no room for its intermediates."""
        if self.walks is None:
            return share if share > WRITTEN_OUT else 1
        program, parts = self.walks.program, self.walks.under(threads, share).parts
        try:
            plan = plan_parts(program, parts, self.walks.names, share, {}, machine)
        except Unsupported:
            return 1
        return plan.longest_loop(program.inputs)

    def points_visited(self, threads: int, share: int) -> int:
        """Points that all its blocks visit, those past the ends of loops included."""
        each = self.walks.under(threads, share).points_visited if self.walks else threads * self.now * share
        return self.blocks(threads, share) * each


@dataclass(frozen=True, slots=True)
class Packed(KernelTemplate):
    """The programs of a packed group."""

    parts: tuple[_PackedPart, ...]

    name: ClassVar[str] = NAME
    decided: ClassVar[frozenset[str]] = DECIDED

    def entries(self, program: Program) -> Sequence[Entry]:
        """The threads of all parts, then each part's share of a block."""
        threads = program.number("threads")
        found: list[Entry] = []
        for part in self.parts:
            found.append(mark(part.statements, "outermost", "thread", threads, ""))
            share = part.share(program)
            if part.walks:
                found.append(mark(part.statements, "outermost", "block", share, ""))
                continue
            if part.now > 1:
                found.append(mark((part.target,), "innermost", "vector", part.now, ""))
            found.append(mark((part.target,), "innermost", "block", threads * part.now * share, ""))
        return found

    def work(self, program: Program) -> Work:
        """From the walks of the parts, put right by the count of `kernel`; L2 serves every point that is visited."""
        advised = self.program_of(self.kernel)
        assert advised is not None, "every packed kernel has threads"
        found = with_counts(self._form(program), self._form(advised), self.kernel.facts)
        return replace(found, global_requests=found.l2_bytes // (ELEMENT_BYTES * WARP))

    def _form(self, program: Program) -> Work:
        """The closed form, where a byte and a sector stand for a point."""
        threads, facts = program.number("threads"), self.kernel.facts
        shares = [(part, part.share(program)) for part in self.parts]
        walked = [(p.blocks(threads, n), p.walks.under(threads, n)) for p, n in shares if p.walks]
        # Parts never run in one block: the thread that holds most decides the registers of all.
        values = [part.alive * part.now for part in self.parts if not part.walks]
        steps = [max(1, part.longest_loop(threads, share, self.machine)) for part, share in shares]
        blocks = [part.blocks(threads, share) for part, share in shares]
        visited = sum(part.points_visited(threads, share) for part, share in shares)
        return replace(
            facts,
            blocks=sum(blocks),
            threads=threads,
            serial_steps=max(steps),
            block_steps=sum(n * many for n, many in zip(blocks, steps, strict=True)) if len(set(steps)) > 1 else 0,
            shared_bytes=max((parts.scratch_bytes for _, parts in walked), default=0),
            shared_bytes_moved=sum(blocks * parts.met_bytes for blocks, parts in walked),
            registers=STITCHED_BASE + max((*(parts.elements_held for _, parts in walked), *values)),
            l2_bytes=visited,
            global_sectors=visited,
        )

    def program_of(self, kernel: Kernel) -> Program | None:
        """The program with a kernel's threads and the advisers' shares."""
        config = kernel.tile.config
        if not isinstance(config, PackedConfig):
            return None
        return Program(NAME, (("threads", config.threads), *_shares(self.parts).items()))


def _shares(parts: Sequence[_PackedPart]) -> Mapping[str, Value]:
    """Dimension of each open part -> what the advisers chose."""
    return {part.name: part.advised_share for part in _open(parts)}


def _open(parts: Sequence[_PackedPart]) -> tuple[_PackedPart, ...]:
    return tuple(sorted(parts, key=lambda part: -part.total)[:OPEN_PARTS])


def packed_tasks(group: FusionGroup, kernel: Kernel) -> list[Task]:
    """The one task of a packed group."""
    advice = pack_group(group, Setting(kernel.target))
    found = parts_of(group, kernel.schedule.root)
    parts = tuple(_part(n, part, node, advice.scenario.entries) for n, (part, node) in enumerate(found))
    family = Packed(group, kernel, parts)
    shares: dict[str, tuple[Value, ...]] = {}
    for part in _open(parts):
        own = {part.now, *divisors(part.total, MOST_POINTS)} if part.walks else {*STEPS}
        shares[part.name] = tuple(sorted(own))
    offers: dict[str, Choices] = {TILING: {"threads": THREAD_CHOICES, **shares}, INLINE: {}}
    few = PruningRule("elements per block", lambda p: _too_few(family, p), "one block takes all of them as well")
    situation = Situation(NAME, {"threads": DEFAULT_THREADS, **_shares(parts)}, offers)
    return [make_task(family, situation, (few,), kernel, kernel.target)]


def _part(number: int, part: FusionGroup, node: Node, entries: Sequence[Entry]) -> _PackedPart:
    """A part with its loops and what the advisers say of it."""
    program, is_stitched = part.program, STITCHED_FAMILY.recognises(part)
    everyone, target = tuple(s.name for s in program.statements), widest(program)
    what = ("block" if is_stitched else "vector",)
    marks = (e.value for e in entries if set(e.statements) <= set(everyone) and isinstance(e.value, tuple))
    now = next((value[1] for value in marks if value[:1] == what and isinstance(value[1], int)), 1)
    alive = most_alive(program.statements).values
    if not is_stitched:
        total = math.prod(target.extents.values())
        return _PackedPart(f"part {number}: steps", everyone, target.name, total, now, alive, None)
    walks = block_walks(program, ScheduleTree(node))
    return _PackedPart(f"part {number}: elements", everyone, target.name, walks.points, now, alive, walks)


def _too_few(family: Packed, program: Program) -> str:
    threads = program.number("threads")
    for part in family.parts:
        steps = part.share(program)
        if not part.walks and steps > max(1, -(-part.total // (threads * part.now))):
            return f"{steps} times {threads * part.now} elements of {part.total}"
    return ""
