"""Data flow inside launches, operator to operator, and pairs that a user keeps apart, as documents."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from engine.documents.model import LinkDoc
from engine.fusion.nodes import FusionGroup, FusionPlan, Intermediate
from engine.support.grouping import UnionFind

PACKING = "packing"
"""Scheme of parts that share nothing but their launch."""


def links(plan: FusionPlan) -> Iterator[LinkDoc]:
    """The tensors passed between operators of one launch, once for each pair."""
    groups = {group.name: group for group in plan.groups}
    known: dict[Hashable, tuple[_Link, ...]] = {}
    for launch in plan.launches:
        group = groups[launch.group]
        if len(group.program.statements) < 2:
            continue
        instance, node = group.instances[launch.instance], f"{launch.group}#{launch.instance}"
        operators = [instance.statements[s.name] for s in group.program.statements]
        names = list(dict.fromkeys(operators))
        alike = launch.group, tuple(map(names.index, operators))
        if alike not in known:
            numbers = {s.name: names.index(op) for s, op in zip(group.program.statements, operators, strict=True)}
            known[alike] = tuple(_inside(group, numbers))
        for link in known[alike]:
            tensor = instance.arrays.get(link.array, link.array)
            ends = names[link.producer], names[link.consumer]
            yield LinkDoc(node, *ends, tensor, link.scheme, link.bytes, link.because)


@dataclass(frozen=True, slots=True)
class _Link:
    """A link between two operators of a group, shared by all launches with the same operators."""

    producer: int
    """Number of an operator, in order of appearance."""
    consumer: int
    array: str
    """Of the group's program; "" where a launch is all that is shared."""
    scheme: str
    bytes: int
    because: str


def _how(group: FusionGroup, operators: Mapping[str, int], edge: Intermediate) -> Intermediate:
    """The edge that says how an operator's result is handed over: what an operator makes of its reduction, a mean of a
    sum, every thread makes anew of what the reduction hands it."""
    program = group.program
    reduced = {s.write.array for s in program.statements if s.reduction is not None}
    inner = [
        before
        for before in group.edges
        if before.consumer == edge.producer and operators[before.producer] == operators[edge.producer]
    ]
    if len(inner) != 1 or inner[0].array not in reduced:
        return edge
    return inner[0] if program.arrays[inner[0].array].elements == program.arrays[edge.array].elements else edge


def kept_apart(plan: FusionPlan) -> frozenset[tuple[str, str]]:
    """Pairs of launches, "GROUP#INSTANCE", that would fuse if a user did not keep their operators apart."""
    named = {operator for pair in plan.fixed.apart for operator in pair}
    groups = {group.name: group for group in plan.groups}
    homes: dict[str, list[str]] = {}
    for launch in plan.launches if named else ():
        for operator in named.intersection(groups[launch.group].instances[launch.instance].operators):
            homes.setdefault(operator, []).append(f"{launch.group}#{launch.instance}")
    return frozenset(
        (first, second)
        for producer, consumer in plan.fixed.apart
        for first in homes.get(producer, ())
        for second in homes.get(consumer, ())
    )


def _inside(group: FusionGroup, operators: Mapping[str, int]) -> Iterator[_Link]:
    """The links of a launch, then those between its parts.  operators: statement -> number of its operator."""
    program = group.program
    parts = UnionFind(dict.fromkeys(operators[s.name] for s in program.statements))
    found: set[tuple[int, int, str]] = set()
    written: set[str] = set(program.outputs)
    for edge in group.edges:
        producer, consumer = operators[edge.producer], operators[edge.consumer]
        parts.union(producer, consumer)
        if producer == consumer or (producer, consumer, edge.array) in found:
            continue
        found.add((producer, consumer, edge.array))
        size = program.arrays[edge.array].bytes
        saved = size if edge.array in written else 2 * size
        written.add(edge.array)  # a write is saved once, a read for every reader
        how = _how(group, operators, edge)
        yield _Link(producer, consumer, edge.array, how.scheme, saved, how.because)
    heads = list(dict.fromkeys(parts[operators[s.name]] for s in program.statements))
    for before, after in pairwise(heads):
        yield _Link(before, after, "", PACKING, 0, "no value leads from one to the other: they share a launch")
