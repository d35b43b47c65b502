"""The author `stitch`: the common dimensions of a stitched group, the share of a block, where intermediates live."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from engine.fusion.legality import row_bytes
from engine.fusion.nodes import FusionGroup
from engine.fusion.shape import Shape
from engine.fusion.stitched import stitched_shape
from engine.fusion.stitching.shared_memory import stitched_limit
from engine.kernels.advice import mark
from engine.kernels.family import Setting
from engine.kernels.marks import FEWEST_THREADS, power_up_to
from engine.kernels.nodes import Compile
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
NEIGHBOURS = 32
"""Points next to each other that a block takes where their elements lie next to each other."""
BLOCKS_PER_SM = 2
"""Blocks that every SM should get before blocks take several points each."""


def stitch_group(group: FusionGroup, machine: Target) -> Advice:
    """The loops that all statements share, outermost first, and what a block of threads does of them."""
    program = group.program
    shape = stitched_shape(program.statements, frozenset(program.outputs))
    if isinstance(shape, str):
        return Advice("stitch", Scenario())
    entries = (*_online(program, shape), *_pins(program, shape), *_blocks(program, shape, machine))
    return Advice("stitch", Scenario(entries))


def with_own_schemes(advice: Advice, group: FusionGroup, setting: Setting, compile_group: Compile) -> Advice:
    """The advice with what its own kernel says of the intermediates, so that it can be seen and changed."""
    recipe = Recipe(setting.machine.name, groups={group.name: (advice,)})
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
    return Advice(advice.author, Scenario((*advice.scenario.entries, *entries), advice.scenario.alternatives))


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


def _pins(program: TensorProgram, shape: Shape) -> Iterable[Entry]:
    """An entry for each common axis: one loop around all statements, which blocks are made of."""
    everyone = tuple(s.name for s in program.statements)
    before = ""
    for axis in shape.rows:
        names = tuple(dict.fromkeys(name for (_, name), its in shape.axes.items() if its == axis))
        because = f"all statements share {names[0]}, and no value goes from one of its points to another"
        yield Entry(everyone, f"after {before}" if before else "outermost", "pin", names, because=because)
        before = names[0]


def _blocks(program: TensorProgram, shape: Shape, machine: Target) -> Iterable[Entry]:
    everyone = tuple(s.name for s in program.statements)
    total = math.prod(shape.extents[axis] for axis in shape.rows)
    widest = max(math.prod(i.extent for i in s.iterators) for s in program.statements) // total
    most = max(1, min(BUSY_ELEMENTS // widest, total // (BLOCKS_PER_SM * machine.sm_count)))
    if shape.rows and _across(program, shape):
        most = max(most, NEIGHBOURS)
    shared = sum(row_bytes(shape, program.statements, program.arrays).values())
    most = max(1, min(most, stitched_limit(machine) // max(1, shared)))
    points = next(n for n in range(most, 0, -1) if total % n == 0)
    threads = power_up_to(MAX_THREADS)(max(FEWEST_THREADS, widest * points // EACH))
    if shape.rows:
        because = f"{widest} elements a point: {points} point{'s' if points > 1 else ''} keep a block busy"
        yield mark(everyone, "outermost", "block", points, because)
    because = f"{widest * points} elements of the widest part: {EACH} for each thread, or as near as it gets"
    yield mark(everyone, "outermost", "thread", threads, because)


def _across(program: TensorProgram, shape: Shape) -> bool:
    """Whether a reduction's terms lie next to those of other points: blocks with neighbours read whole sectors."""
    for statement in program.statements:
        wide = max(statement.reads(), key=lambda a: len(a.indices), default=None)
        if statement.reduction is not None and wide is not None and wide.indices:
            last = plain_iterator(wide.indices[-1])
            if last is not None and shape.axes.get((statement.name, last)) == shape.rows[-1]:
                return True
    return False

