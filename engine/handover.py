"""What the launches of a plan hand over inside, operator to operator, and what a person keeps apart, ready to show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from networkx.utils import UnionFind

from engine.documents import LinkDoc
from engine.fuse.nodes import Edge, FusionGroup, FusionPlan, Instance

PACKING = "packing"
"""The scheme of parts that share a launch and nothing else."""


def links(plan: FusionPlan) -> Iterator[LinkDoc]:
    """Every tensor that one operator of a launch hands to another one of it, once for each pair."""
    groups = {group.name: group for group in plan.groups}
    for launch in plan.launches:
        group = groups[launch.group]
        if len(group.program.statements) > 1:
            yield from _inside(group, group.instances[launch.instance], f"{launch.group}#{launch.instance}")


def _how(group: FusionGroup, operators: Mapping[str, str], edge: Edge) -> Edge:
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
    """Pairs of launches, "GROUP#INSTANCE", that would be one but for operators that a person keeps apart."""
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


def _inside(group: FusionGroup, instance: Instance, node: str) -> Iterator[LinkDoc]:
    """The links of one launch, then those between its parts."""
    program, operators = group.program, instance.statements
    parts = UnionFind(dict.fromkeys(operators[s.name] for s in program.statements))
    found: set[tuple[str, str, str]] = set()
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
        tensor, how = instance.arrays.get(edge.array, edge.array), _how(group, operators, edge)
        yield LinkDoc(node, producer, consumer, tensor, how.scheme, saved, how.because)
    heads = list(dict.fromkeys(parts[operators[s.name]] for s in program.statements))
    for before, after in pairwise(heads):
        yield LinkDoc(node, before, after, "", PACKING, 0, "no value leads from one to the other: they share a launch")
