"""Steps of a recurrence in one launch, whose blocks all meet between them.

    h1 = f(h0 @ r, x1)  |  h2 = f(h1 @ r, x2)  |  ...      every block makes its part of h1, and waits for all of h1

Each step is what a stitched kernel is.  What one step makes and another reads lies in global memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from engine.fusion.anchors import is_product
from engine.fusion.kinds import RECURRENCE, STITCHED
from engine.fusion.nodes import FusionGroup
from engine.fusion.shape import Shape
from engine.fusion.stitched import MOST_AXES, MOST_VECTORS, stitched_shape
from engine.tensor.nodes import Statement

ONE_STEP = "no product among them needs all of what another made: they are one step"
"""Why statements are no recurrence."""


def recurrence_steps(statements: Sequence[Statement]) -> list[tuple[Statement, ...]]:
    """The statements cut before each product that reads what the step so far made.

    statements: in an order that is legal to run, which the steps keep.
    """
    steps: list[list[Statement]] = [[]]
    for statement in statements:
        made = {s.write.array for s in steps[-1]}
        if is_product(statement) and not made.isdisjoint(statement.sources):
            steps.append([])
        steps[-1].append(statement)
    return [tuple(step) for step in steps]


def recurrence_shape(statements: Sequence[Statement], kept: frozenset[str] = frozenset()) -> Shape | str:
    """The loop space of a recurrence, or why the statements are none.

    Steps share no loop: their axes are numbered alike, so that equal steps call them by the same names.  kept: arrays
    needed outside.
    """
    steps = recurrence_steps(statements)
    if len(steps) < 2:
        return ONE_STEP
    axes: dict[tuple[str, str], int] = {}
    extents: dict[int, int] = {}
    splits: dict[tuple[str, str], int] = {}
    for step in steps:
        handed = {array for other in steps if other is not step for s in other for array in s.sources}
        shape = stitched_shape(step, kept | handed, MOST_VECTORS)
        if isinstance(shape, str):
            return shape
        if shape.inlined or not _has_all_rows(step, shape):
            return f"{step[0].operator} and what follows it compute some values in several blocks"
        number = {axis: n for n, axis in enumerate((*shape.rows, *shape.columns))}
        axes |= {key: number[axis] for key, axis in shape.axes.items()}
        splits |= shape.splits
        for axis, n in number.items():
            extents[n] = max(extents.get(n, 1), shape.extents[axis])
    if len(extents) > MOST_AXES:
        return f"a step has {len(extents)} different loops, a kernel names at most {MOST_AXES}"
    return Shape(RECURRENCE, axes, (), tuple(sorted(extents)), extents, (), splits)


def _has_all_rows(step: Sequence[Statement], shape: Shape) -> bool:
    """Whether every statement walks all axes that blocks are made of."""
    rows = set(shape.rows)
    return all(rows <= {shape.axes[s.name, i.name] for i in s.iterators} for s in step)


def step_group(group: FusionGroup, names: Collection[str]) -> FusionGroup:
    """Some statements of a recurrence as a stitched group of their own.  names: theirs."""
    program = group.program
    statements = [s for s in program.statements if s.name in names]
    own = program.cut_out(statements, program.needed_outside(statements))
    return replace(group, program=replace(own, name=program.name), kind=STITCHED.name)
