"""The fusion plan of a graph: partition, build, find equal groups, name them, say why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.fusion.attention_groups import with_attention
from engine.fusion.channels_last import store_channels_last
from engine.fusion.concat_fusion import join_concatenations
from engine.fusion.group_programs import Built, GroupBuilder
from engine.fusion.group_times import Saving
from engine.fusion.nested_concatenations import write_parts_in_place
from engine.fusion.nodes import Boundary, FusionGroup, FusionPlan, GroupInstance, Launch
from engine.fusion.operator_folding import Folded, fold_layouts
from engine.fusion.partition import FusionRequest, Partition, partition
from engine.fusion.product_chains import with_product_chains
from engine.fusion.product_packs import with_product_packs
from engine.fusion.reasons import group_reason, group_title, main_word, schemes
from engine.fusion.recurrent_steps import with_recurrent_steps
from engine.fusion.row_groups import with_rows
from engine.fusion.stitching.nodes import STITCH
from engine.fusion.sunk_epilogues import with_sunk_epilogues
from engine.fusion.user_groups import check_fixed
from engine.fusion.whole_reductions import with_whole_reductions
from engine.graph.nodes import Operator, OperatorGraph
from engine.support.grouping import group_by
from engine.tensor.nodes import TensorProgram


def plan(
    graph: OperatorGraph, program: TensorProgram, unsupported: Mapping[str, str], request: FusionRequest
) -> FusionPlan:
    """Partition the graph into groups.

    program: the lowered graph.  unsupported: operators it does not hold, with the reason.  Raises BadInput where what
    is fixed cannot be.
    """
    check_fixed(request.fixed, program)
    own = fold_program(program, graph)
    left_out = [op for op in graph.operators if op.name in unsupported]
    parts = build_partition(own.program, left_out, request)
    builder = GroupBuilder(parts.program, _leaving(parts), own.absorbed)
    built = [
        _with_graph_tensors(builder.build(statements, shape), parts.views, own.orders)
        for statements, shape in parts.groups
    ]
    savings = {
        one.structure: parts.savings[number]
        for one, number in zip(reversed(built), reversed(parts.numbers), strict=True) if number in parts.savings
    }  # fmt: skip
    groups, launches = _collect(built, graph, request, savings)
    return FusionPlan(
        graph=graph.name,
        policy=request.policy,
        groups=_together(groups),
        launches=tuple(launches),
        boundaries=tuple(_boundaries(groups, launches, parts)),
        unsupported={name: reason for name, reason in unsupported.items() if name not in graph.host},
        source=graph,
        fixed=request.fixed,
        choice=parts,
        target=request.target.name,
        numerics=request.numerics,
    )


def build_partition(program: TensorProgram, without_kernel: Sequence[Operator], request: FusionRequest) -> Partition:
    """The kernels of a program whose layout statements are folded: of the search, then with the last values of products
    where they are read, and with long reductions, attentions, products with the reductions of their rows, steps of
    recurrences, and products that share a factor, as one kernel where that pays.

    without_kernel: operators of the graph that the program lacks.  Raises BadInput, naming operators and figures, where
    what is fixed cannot be.
    """
    parts, fixed = partition(program, without_kernel, request), request.fixed
    if request.policy != STITCH:
        return parts
    parts = with_sunk_epilogues(with_whole_reductions(parts, fixed, program), fixed)
    found = with_rows(with_attention(parts, parts.program, fixed), parts, fixed)
    found = with_product_chains(found, parts, fixed)
    found = with_recurrent_steps(found, parts, fixed)
    return with_product_packs(found, parts, fixed) if request.packing else found


def fold_program(program: TensorProgram, graph: OperatorGraph) -> Folded:
    """A lowered graph as all policies part it: layouts folded into their readers, few operands side by side joined,
    others written where another one takes them whole, images of convolutions stored channels last."""
    side_by_side = write_parts_in_place(join_concatenations(fold_layouts(program, graph.constants)))
    return store_channels_last(side_by_side, graph)


def _leaving(parts: Partition) -> frozenset[str]:
    """Arrays that the program gives out, or that another group than their maker's reads."""
    numbered = [(number, statement) for number, (group, _) in enumerate(parts.groups) for statement in group]
    makers: dict[str, int] = {}
    several = -1
    for number, statement in numbered:
        array = statement.write.array
        makers[array] = number if makers.get(array, number) == number else several
    read = {array for number, s in numbered for array in s.sources if makers.get(array, number) != number}
    leaving = read.union(parts.program.outputs)
    return frozenset(leaving.union(view for view, array in parts.views.items() if array in leaving))


def _with_graph_tensors(built: Built, views: Mapping[str, str], orders: Mapping[str, tuple[int, ...]]) -> Built:
    """A group with the tensors of the graph that its arrays are stored in, and the orders of their axes."""
    if not views and not orders:
        return built
    arrays = {name: views.get(tensor, tensor) for name, tensor in built.instance.arrays.items()}
    own = {name: orders[tensor] for name, tensor in arrays.items() if tensor in orders}
    return replace(built, instance=replace(built.instance, arrays=arrays, orders=own))


def _together(groups: Sequence[FusionGroup]) -> tuple[FusionGroup, ...]:
    """The groups, each with the tensors that they read and write together."""
    outside = frozenset(g.instances[0].arrays[name] for g in groups for name in (*g.program.inputs, *g.program.outputs))
    return tuple(replace(group, beside=outside) for group in groups)


def _collect(
    built: Sequence[Built], graph: OperatorGraph, request: FusionRequest, savings: Mapping[str, Saving]
) -> tuple[list[FusionGroup], list[Launch]]:
    """Equal groups once, named after what they do, and the launches in order."""
    kinds = {op.name: op.kind for op in graph.operators}
    numbers: Counter[str] = Counter()
    groups: dict[str, FusionGroup] = {}
    for structure, equal in group_by(built, lambda one: one.structure).items():
        first = equal[0]
        word = main_word(first, kinds)
        name = f"{word}_{numbers[word]}"
        numbers[word] += 1
        instances = tuple(_in_names_of(one, first) for one in equal)
        groups[structure] = FusionGroup(
            name=name,
            title=group_title(first, kinds),
            kind=first.kind.name,
            program=replace(first.program, name=name),
            instances=instances,
            edges=schemes(first.program, first.kind),
            because=group_reason(first, kinds, len(instances), savings.get(structure)),
            graph=graph,
            target=request.target.name,
            numerics=request.numerics,
        )
    place: Counter[str] = Counter()
    launches: list[Launch] = []
    for one in built:
        group = groups[one.structure]
        launches.append(Launch(group.name, place[group.name]))
        place[group.name] += 1
    return list(groups.values()), launches


def _in_names_of(one: Built, first: Built) -> GroupInstance:
    """The instance of `one` in the array names of `first`: equal groups list their arrays in the same order."""
    if one.program is first.program:
        return one.instance
    names = dict(zip(one.program.arrays, first.program.arrays, strict=True))
    own = one.instance
    return replace(
        own,
        arrays={names[array]: tensor for array, tensor in own.arrays.items()},
        parts={names[array]: part for array, part in own.parts.items()},
        orders={names[array]: order for array, order in own.orders.items()},
    )


def _boundaries(groups: Sequence[FusionGroup], launches: Sequence[Launch], parts: Partition) -> list[Boundary]:
    """Every tensor handed over through global memory, once for each pair of groups."""
    by_name = {g.name: g for g in groups}
    writers: dict[str, dict[int, None]] = {}  # several, where each writes a part
    found: dict[tuple[str, str], Boundary] = {}
    for number, launch in enumerate(launches):
        group = by_name[launch.group]
        instance = group.instances[launch.instance]
        for array in group.program.inputs:
            tensor = instance.arrays[array]
            for source in writers.get(tensor, ()):
                pair = (launches[source].group, launch.group)
                if pair not in found:
                    found[pair] = Boundary(*pair, tensor, parts.why(source, number).because)
        for array in group.program.outputs:
            writers.setdefault(instance.arrays[array], {})[number] = None
    return list(found.values())
