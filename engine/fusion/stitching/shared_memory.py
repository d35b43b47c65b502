"""Shared memory of a stitched kernel: who may lie where another value lay, and what gives way when it runs short.

Statements are walked in data-flow order with the places that are taken so far (FusionStitching, section 4.4).  A value
takes over the place of a dead one whose maker dominates its own: every path to the new value has passed the old one,
so no part of the block can still be before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.fusion.stitching.instruction_costs import is_expensive
from engine.target import Target
from engine.target.hardware import VECTOR_BYTES
from engine.tensor.nodes import Statement

SCRATCH_BYTES = 8 * 1024
"""Of a block's shared memory: where the warps of a stitched kernel's reductions exchange their partial results."""
_START = ""
"""The vertex before all statements."""


@dataclass(frozen=True, slots=True)
class SharedPlace:
    """Where a value lies in the block's shared memory."""

    array: str
    offset: int
    bytes: int
    after: str = ""
    """The array whose place it takes over, or ""."""


@dataclass(frozen=True, slots=True)
class SharedLayout:
    """The shared memory of one block."""

    places: tuple[SharedPlace, ...]
    bytes: int


def stitched_limit(target: Target) -> int:
    """Bytes of shared memory in which the parts of a stitched kernel may hand values over."""
    return target.shared_limit - SCRATCH_BYTES


def shared_layout(statements: Sequence[Statement], sizes: Mapping[str, int]) -> SharedLayout:
    """Places for the arrays of `sizes` (bytes of one block), made by statements in an order that is legal to run."""
    makers = {s.write.array: s for s in statements}
    number = {s.name: n for n, s in enumerate(statements)}
    last_use = {a.array: number[s.name] for s in statements for a in s.reads()}
    above = _dominators(statements, makers)
    taken: dict[str, SharedPlace] = {}
    top = 0
    for statement in statements:
        array = statement.write.array
        if array not in sizes or array in taken:
            continue
        wanted = -(-sizes[array] // VECTOR_BYTES) * VECTOR_BYTES
        free = [
            place
            for old, place in taken.items()
            if last_use.get(old, -1) < number[statement.name]
            and place.bytes >= wanted
            and makers[old].name in above[statement.name]
            and not any(p.after == old for p in taken.values())
        ]
        if free:
            place = min(free, key=lambda p: p.bytes)
            taken[array] = SharedPlace(array, place.offset, place.bytes, place.array)
        else:
            taken[array] = SharedPlace(array, top, wanted)
            top += wanted
    return SharedLayout(tuple(taken.values()), top)


def _dominators(statements: Sequence[Statement], makers: Mapping[str, Statement]) -> dict[str, set[str]]:
    """For each statement those that every path of data flow to it has passed."""
    import networkx as nx  # a quarter of a second to load, for what few models need

    graph = nx.DiGraph()
    for statement in statements:
        sources = {makers[a.array].name for a in statement.reads() if a.array in makers} - {statement.name}
        graph.add_edges_from((source, statement.name) for source in sorted(sources) or [_START])
    parent = nx.immediate_dominators(graph, _START)
    found: dict[str, set[str]] = {}
    for statement in statements:
        chain: set[str] = set()
        at = statement.name
        while at != _START:
            at = parent[at]
            chain.add(at)
        found[statement.name] = chain
    return found


def degradation_order(statements: Sequence[Statement], arrays: Sequence[str]) -> tuple[str, ...]:
    """Which values to compute again instead of storing them, the first to give way first, when memory is short.

    Cheap element-wise values, expensive ones, those nearest the output first within each; reductions never give way.
    """
    place = {s.write.array: n for n, s in enumerate(statements)}
    makers = {s.write.array: s for s in statements}
    open_ = [a for a in arrays if makers[a].reduction is None]
    return tuple(sorted(open_, key=lambda a: (is_expensive(makers[a].expression), -place[a])))
