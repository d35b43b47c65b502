"""Why two neighbours of a sequence node do not share their loops: the dependence that sharing would violate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.poly.nodes import Dependence
from engine.scheduling.legality import check_schedule
from engine.scheduling.nodes import Band, Leaf, Member, Node, ScheduleTree, Witness
from engine.scheduling.nodes import Sequence as Sequenced
from engine.tensor.nodes import TensorProgram


def why_loops_apart(
    program: TensorProgram, dependences: Sequence[Dependence], tree: ScheduleTree, first: Node, second: Node
) -> Witness | None:
    """Two instances in the wrong order if neighbours in a sequence of `tree` shared their loops.

    None where no dependence forbids it, or where they have no loops to share.
    """
    shared = _shared_loops(first, second)
    if shared is None:
        return None
    broken = check_schedule(program, dependences, ScheduleTree(_with(tree.root, {id(first): shared, id(second): None})))
    return broken[0].witness if broken else None


def _shared_loops(first: Node, second: Node) -> Node | None:
    """One nest for the statements of two, their loops one by one; None where these differ."""
    match first, second:
        case Leaf(before), Leaf(after):
            return Leaf((*before, *after))
        case Band(ours, _, inner), Band(theirs, _, other):
            alike = len(ours) == len(theirs) and all(a.extent == b.extent for a, b in zip(ours, theirs, strict=True))
            child = _shared_loops(inner, other) if alike else None
            if child is None:
                return None
            return Band(tuple(_join(a, b) for a, b in zip(ours, theirs, strict=True)), False, child)
    return None


def _join(a: Member, b: Member) -> Member:
    return replace(a, rows={**a.rows, **b.rows}, parallel=False)


def _with(node: Node, changed: Mapping[int, Node | None]) -> Node:
    """The tree with some nodes replaced, by their identity; None leaves one out."""
    match node:
        case Leaf():
            return node
        case Band(own, permutable, child):
            return Band(own, permutable, _with(child, changed))
        case Sequenced(children):
            kept = (changed.get(id(c), c) if id(c) in changed else _with(c, changed) for c in children)
            return Sequenced(tuple(c for c in kept if c is not None))
