"""The author `stitch`: the common dimensions of a stitched group, the share of a block, where intermediates live."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from engine.cost.estimate import model_microseconds
from engine.fusion.legality import row_bytes
from engine.fusion.nodes import FusionGroup
from engine.fusion.shape import Shape
from engine.fusion.stitched import MOST_VECTORS, stitched_shape
from engine.fusion.stitching.shared_memory import stitched_limit
from engine.kernels.advice import AS_IN_TEXT, mark, ranked_scenario
from engine.kernels.family import Setting
from engine.kernels.marks import FEWEST_THREADS, power_up_to
from engine.kernels.nodes import Compile, Kernel
from engine.kernels.preferences import preferences
from engine.recipe import ONLINE, Advice, Entry, Recipe, Scenario
from engine.rewrite.online import online
from engine.support.errors import BadInput, EngineError, Unsupported
from engine.target import Target
from engine.target.hardware import MAX_THREADS
from engine.tensor.nodes import TensorProgram
from engine.tensor.rewrite import plain_iterator

BUSY_ELEMENTS = 2048
"""Elements of its widest part that keep a block busy: 8 for each of 256 threads."""
EACH = 4
"""Elements of its widest part that one thread takes, where there are as many threads."""
LONG = 24 * 1024
"""Elements of a row past which no block keeps it: 24 in registers of each of 1024 threads, or 96 kB."""
MORE = 4
"""Times the points of a block that an alternative takes."""
NEIGHBOURS = 32
"""Points next to each other that a block takes where their elements lie next to each other."""
BLOCKS_PER_SM = 2
"""Blocks that every SM should get before blocks take several points each."""


def stitch_group(group: FusionGroup, machine: Target) -> Advice:
    """The loops that all statements share, outermost first, and what a block of threads does of them."""
    program = group.program
    shape = stitched_shape(program.statements, frozenset(program.outputs), MOST_VECTORS)
    if isinstance(shape, str):
        return Advice("stitch", Scenario())
    share = _share(program, shape, machine)
    pins = pin_rows(program, shape, shape.rows)
    return Advice("stitch", Scenario((*_online(program, shape), *pins, *share.entries(program))))


def stitch_scenarios(group: FusionGroup, setting: Setting, compile_group: Compile) -> Advice:
    """`stitch_group` with what its own kernel says of the intermediates; where accesses disagree, with other shares of
    a block as alternatives.

    Best is what is predicted to take least time of `stitch_group`'s own share and those that request fewer sectors.
    """
    program, machine = group.program, setting.machine
    shape, wishes = stitched_shape(program.statements, frozenset(program.outputs), MOST_VECTORS), preferences(program)
    plain = stitch_group(group, machine)
    if isinstance(shape, str) or not wishes.disagreement:
        labelled = replace(plain.scenario, label=f"all accesses agree: best {AS_IN_TEXT}")
        return with_own_schemes(Advice(plain.author, labelled), group, setting, compile_group)
    own = _share(program, shape, machine)
    before = plain.scenario.entries[: -len(own.entries(program))]
    found: list[tuple[_Share, tuple[Entry, ...], Kernel]] = []
    for share in (own, *own.others()):
        entries = (*before, *share.entries(program))
        try:
            advice = Advice(plain.author, Scenario(entries))
            recipe = Recipe(machine.name, numerics=setting.numerics, groups={group.name: (advice,)})
            found.append((share, entries, compile_group(group, recipe)))
        except EngineError:
            if share == own:
                return plain  # whoever compiles it is told why it has no kernel
    most = found[0][2].facts.global_sectors

    def rank(one: tuple[_Share, tuple[Entry, ...], Kernel]) -> tuple[bool, float]:
        share, _, kernel = one
        return share != own and kernel.facts.global_sectors >= most, model_microseconds(kernel.facts, machine)

    ranked, offered = sorted(found, key=rank), []
    for share, entries, kernel in ranked:
        time = model_microseconds(kernel.facts, machine)
        score = f"{kernel.facts.global_sectors:,} sectors, {time:.3g} µs predicted"
        offered.append((f"{share}, {AS_IN_TEXT}" if share == own else str(share), score, entries))
    scenario = ranked_scenario(offered, f"{wishes.disagreement}; {wishes.scores}")
    return with_schemes(Advice(plain.author, scenario), ranked[0][2].tile.schemes)


def with_own_schemes(advice: Advice, group: FusionGroup, setting: Setting, compile_group: Compile) -> Advice:
    """The advice with what its own kernel says of the intermediates, so that it can be seen and changed."""
    recipe = Recipe(setting.machine.name, numerics=setting.numerics, groups={group.name: (advice,)})
    try:
        kernel = compile_group(group, recipe)
    except EngineError:
        return advice  # whoever compiles it is told why it has no kernel
    return with_schemes(advice, kernel.tile.schemes)


def with_schemes(advice: Advice, schemes: Mapping[str, tuple[str, str]]) -> Advice:
    """The advice with an entry for every intermediate: how the block hands it over, and why.

    schemes: statement -> (scheme, reason), as the kernel that follows from the advice has them.
    """
    entries = tuple(
        Entry((statement,), "innermost", "mark", ("scope", scheme), because=because)
        for statement, (scheme, because) in schemes.items()
    )
    return Advice(advice.author, replace(advice.scenario, entries=(*advice.scenario.entries, *entries)))


def _online(program: TensorProgram, shape: Shape) -> Iterable[Entry]:
    """Sums of a softmax whose rows no block can keep: they find the largest exponent in their own pass over the row."""
    for statement in program.statements:
        own = math.prod(
            i.extent for i in statement.iterators if shape.axes.get((statement.name, i.name)) in shape.columns
        )
        if statement.reduction is None or statement.reduction.operation != "sum" or own <= LONG:
            continue
        try:
            online(program, statement.name)
        except (BadInput, Unsupported):
            continue  # no sum of exponentials relative to their maximum
        because = f"{own:,} elements of a row do not fit in a block: one pass over them instead of two"
        yield Entry((statement.name,), "", "rewrite", (ONLINE,), because=because)


def pin_rows(program: TensorProgram, shape: Shape, rows: Iterable[int]) -> Iterable[Entry]:
    """An entry for each common axis, in this order: one loop around all statements, which blocks are made of."""
    everyone = tuple(s.name for s in program.statements)
    before = ""
    for axis in rows:
        names = tuple(dict.fromkeys(name for (_, name), its in shape.axes.items() if its == axis))
        because = f"all statements share {names[0]}, and no value goes from one of its points to another"
        yield Entry(everyone, f"after {before}" if before else "outermost", "pin", names, because=because)
        before = names[0]


@dataclass(frozen=True, slots=True)
class _Share:
    """What a block takes of a group."""

    points: int
    """Of the dimensions that all statements share."""
    threads: int
    widest: int
    """Elements of the widest statement at one point."""
    total: int
    """Points of the group."""
    has_rows: bool
    """Whether the statements share dimensions."""

    def others(self) -> Iterable[_Share]:
        """Fewer threads for as much, and more neighbours for more threads."""
        if self.threads > FEWEST_THREADS:
            yield replace(self, threads=self.threads // 2)
        more = self.points * MORE
        if self.threads < MAX_THREADS and self.total % more == 0:
            yield replace(self, points=more, threads=self.threads * 2)
        elif self.threads == FEWEST_THREADS:
            yield replace(self, threads=self.threads * 2)

    def entries(self, program: TensorProgram) -> tuple[Entry, ...]:
        """The marks that ask for it."""
        everyone = tuple(s.name for s in program.statements)
        elements = self.widest * self.points
        because = f"{elements} elements of the widest part: {-(-elements // self.threads)} for each thread"
        threads = mark(everyone, "outermost", "thread", self.threads, because)
        if not self.has_rows:
            return (threads,)
        points = f"{self.points} point{'s' * (self.points > 1)}"
        because = f"{self.widest} elements a point: {points} keep a block busy"
        return mark(everyone, "outermost", "block", self.points, because), threads

    def __str__(self) -> str:
        return f"{self.threads} threads for {self.points} point{'s' * (self.points > 1)}"


def _share(program: TensorProgram, shape: Shape, machine: Target) -> _Share:
    """The share that keeps a block busy and gives every SM some."""
    total = math.prod(shape.extents[axis] for axis in shape.rows)
    widest = max(math.prod(i.extent for i in s.iterators) for s in program.statements) // total
    most = max(1, min(BUSY_ELEMENTS // widest, total // (BLOCKS_PER_SM * machine.sm_count)))
    if shape.rows and _across(program, shape):
        most = max(most, NEIGHBOURS)
    shared = sum(row_bytes(shape, program.statements, program.arrays).values())
    most = max(1, min(most, stitched_limit(machine) // max(1, shared)))
    points = next(n for n in range(most, 0, -1) if total % n == 0)
    threads = power_up_to(MAX_THREADS)(max(FEWEST_THREADS, widest * points // EACH))
    return _Share(points, threads, widest, total, bool(shape.rows))


def _across(program: TensorProgram, shape: Shape) -> bool:
    """Whether a reduction's terms lie next to those of other points: blocks with neighbours read whole sectors."""
    for statement in program.statements:
        wide = max(statement.reads(), key=lambda a: len(a.indices), default=None)
        if statement.reduction is not None and wide is not None and wide.indices:
            last = plain_iterator(wide.indices[-1])
            if last is not None and shape.axes.get((statement.name, last)) == shape.rows[-1]:
                return True
    return False

