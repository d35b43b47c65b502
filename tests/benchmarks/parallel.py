"""How parallel a schedule is, measured in one way for ours and for isl's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

import numpy as np

from engine.scheduling import nodes
from engine.scheduling.nodes import ScheduleTree
from engine.tensor.nodes import TensorProgram

Loop = tuple[bool, Sequence[int]]
"""A band member as one statement sees it: whether it is parallel, and the coefficients of the statement's iterators."""
Levels = Sequence[Loop | None]
"""What stands around a statement, outermost first: loops, and None for a place in a sequence."""


def outer_loops(levels: Levels) -> int:
    """Parallel loops of a statement outside all its sequential ones; sequences on the way do not matter."""
    loops = [level for level in levels if level is not None]
    return _rank([row for _, row in takewhile(lambda loop: loop[0], loops)])


def outermost_band(levels: Levels) -> int:
    """Parallel loops of a statement outside every sequence of its loops: what one launch of a kernel can spread."""
    start = next((k for k, level in enumerate(levels) if level is not None), len(levels))
    return outer_loops([level or (False, ()) for level in levels[start:]])


def _rank(rows: Sequence[Sequence[int]]) -> int:
    """Independent rows: one that is constant for the statement, or repeats others, makes nothing parallel."""
    return int(np.linalg.matrix_rank(np.array(rows, dtype=float))) if rows and rows[0] else 0


def tree_levels(program: TensorProgram, tree: ScheduleTree) -> dict[str, Levels]:
    """Statement -> what stands around it in a schedule of ours."""
    found: dict[str, Levels] = {}
    iterators = {s.name: [i.name for i in s.iterators] for s in program.statements}

    def visit(node: nodes.Node, above: Mapping[str, tuple[Loop | None, ...]]) -> None:
        match node:
            case nodes.Leaf(statements):
                found.update({name: above[name] for name in statements})
            case nodes.Sequence(children):
                for child in children:
                    visit(child, {name: (*above[name], None) for name in nodes.statements_of(child)})
            case nodes.Band(members, _, child):
                loops = {
                    name: tuple((m.parallel, [m.rows[name].coefficient(i) for i in iterators[name]]) for m in members)
                    for name in nodes.statements_of(child)
                }
                visit(child, {name: (*above[name], *added) for name, added in loops.items()})

    visit(tree.root, dict.fromkeys(iterators, ()))
    return found
