"""The fusion plan of a graph: partition, build, find equal groups, name them, say why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.fuse.build import Built, GroupBuilder
from engine.fuse.explain import group_reason, group_title, main_word, schemes
from engine.fuse.explore import Partition, explore
from engine.fuse.fold import fold_layouts
from engine.fuse.nodes import Boundary, FusionGroup, FusionPlan, Instance, Launch
from engine.graph.nodes import OperatorGraph
from engine.tensor.nodes import TensorProgram

POLICIES = ("none", "first")
"""`none`: one kernel an operator.  `first`: chains, prologues and epilogues of one reduction or contraction."""


def plan(graph: OperatorGraph, program: TensorProgram, unsupported: Mapping[str, str], policy: str) -> FusionPlan:
    """Partition the graph into groups.

    program: the lowered graph.  unsupported: operators it does not hold, with the reason.
    """
    folded = fold_layouts(program, graph.constants)
    left_out = [op for op in graph.operators if op.name in unsupported]
    partition = explore(folded.program, merge=policy != "none", without_kernel=left_out)
    builder = GroupBuilder(folded.program, _leaving(partition, folded.program), folded.absorbed)
    built = [builder.build(statements, shape) for statements, shape in partition.groups]
    groups, launches = _collect(built, graph)
    return FusionPlan(
        graph=graph.name,
        policy=policy,
        groups=tuple(groups),
        launches=tuple(launches),
        boundaries=tuple(_boundaries(groups, launches, partition)),
        unsupported=dict(unsupported),
        source=graph,
    )


def _leaving(partition: Partition, program: TensorProgram) -> frozenset[str]:
    """Arrays that the program gives out, or that another group than their maker's reads."""
    maker = {s.write.array: number for number, (group, _) in enumerate(partition.groups) for s in group}
    read = {
        access.array
        for number, (group, _) in enumerate(partition.groups)
        for statement in group
        for access in statement.reads()
        if maker.get(access.array, number) != number
    }
    return frozenset(read.union(program.outputs))


def _collect(built: Sequence[Built], graph: OperatorGraph) -> tuple[list[FusionGroup], list[Launch]]:
    """Equal groups once, named after what they do, and the launches in order."""
    kinds = {op.name: op.kind for op in graph.operators}
    members: dict[str, list[Built]] = {}
    for one in built:
        members.setdefault(one.structure, []).append(one)
    numbers: Counter[str] = Counter()
    groups: dict[str, FusionGroup] = {}
    for structure, equal in members.items():
        first = equal[0]
        word = main_word(first, kinds)
        name = f"{word}_{numbers[word]}"
        numbers[word] += 1
        instances = tuple(_aligned(one, first) for one in equal)
        groups[structure] = FusionGroup(
            name=name,
            title=group_title(first, kinds),
            kind=first.kind,
            program=replace(first.program, name=name),
            instances=instances,
            edges=schemes(first.program, first.kind),
            because=group_reason(first, kinds, len(instances)),
            graph=graph,
        )
    place: Counter[str] = Counter()
    launches: list[Launch] = []
    for one in built:
        group = groups[one.structure]
        launches.append(Launch(group.name, place[group.name]))
        place[group.name] += 1
    return list(groups.values()), launches


def _aligned(one: Built, first: Built) -> Instance:
    """The instance of `one` in the array names of `first`: equal groups list their arrays in the same order."""
    names = dict(zip(one.program.arrays, first.program.arrays, strict=True))
    arrays = {names[array]: tensor for array, tensor in one.instance.arrays.items()}
    return replace(one.instance, arrays=arrays, parts={names[a]: part for a, part in one.instance.parts.items()})


def _boundaries(groups: Sequence[FusionGroup], launches: Sequence[Launch], partition: Partition) -> list[Boundary]:
    """Every tensor handed over through global memory."""
    by_name = {g.name: g for g in groups}
    writer: dict[str, str] = {}
    found: dict[tuple[str, str, str], Boundary] = {}
    for launch in launches:
        group = by_name[launch.group]
        instance = group.instances[launch.instance]
        for array in group.program.inputs:
            tensor = instance.arrays[array]
            producer = writer.get(tensor)
            if producer is not None:
                because = next(
                    (partition.refusals[tensor, op] for op in instance.operators if (tensor, op) in partition.refusals),
                    "its other reader or producer was joined first",
                )
                key = (producer, launch.group, because)
                found.setdefault(key, Boundary(producer, launch.group, tensor, because))
        for array in group.program.outputs:
            writer[instance.arrays[array]] = launch.group
    return list(found.values())
