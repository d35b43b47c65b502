"""Convert engine values to documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np

from engine.compilation import compile_for, default_work, predict_kernel
from engine.cost.estimate import estimate
from engine.cost.nodes import Prediction
from engine.cpu.estimate import CpuPrediction
from engine.cpu.nodes import AnyKernel, CpuKernel
from engine.documents.model import (
    CompiledDoc,
    EdgeDoc,
    EntryDoc,
    GroupDoc,
    KernelDoc,
    LaunchDoc,
    LineDoc,
    ModelDoc,
    NodeDoc,
    OperatorDoc,
    RepairDoc,
    ScheduleDoc,
    StatementDoc,
    UncompiledDoc,
    with_times,
)
from engine.execution.nodes import Compiled
from engine.fusion.nodes import FusionGroup, FusionPlan
from engine.fusion.shape import is_contraction
from engine.graph.nodes import AttributeValue, OperatorGraph
from engine.measurements.published import published_times
from engine.present.dataflow_edges import (
    boundary_edges,
    operator_edges,
    operators_without_kernel,
    result_shape,
    unplanned_operators,
)
from engine.present.dataflow_links import links
from engine.present.explanation import explain
from engine.present.scenario_outcomes import scenario_docs
from engine.present.schedule import schedule_doc
from engine.recipe import Advice, Recipe
from engine.scheduling.conflict import repair_advice
from engine.scheduling.nodes import Conflict, Verdict
from engine.scheduling.text import to_text
from engine.scheduling.untaken_entries import NoKernel, NotTaken
from engine.support.errors import EngineError
from engine.support.units import MICROSECONDS
from engine.target import Target
from engine.target.machines import Machine
from engine.target.machines import machine as find_machine
from engine.tensor.nodes import TensorProgram
from engine.tensor.terms import HALVES
from engine.tensor.traffic import compulsory_bytes, flop_counts

Item = TypeVar("Item")
LONGEST_VALUE = 80
"""Characters of an attribute's value, at most."""


class ListSink(Protocol):
    """Receives each long list of a document when it is complete; returns what the document keeps of it."""

    def __call__(self, key: str, items: tuple[Item, ...], /) -> tuple[Item, ...]:
        """key: the field that the list is for."""


def _all(key: str, items: tuple[Item, ...]) -> tuple[Item, ...]:
    return items


def model_doc(
    graph: OperatorGraph, plan: FusionPlan, recipe: Recipe | None = None, keep: ListSink = _all,
    operators: tuple[OperatorDoc, ...] | None = None,
) -> ModelDoc:  # fmt: skip
    """The fusion plan as a graph of launches with predicted times.

    Every group that fusion did not compile to judge it is compiled now; one that cannot be has no time.  recipe: a
    complete one for the plan's target, by default the advisers'.  keep: is given the lists that grow with the graph
    before the groups are compiled, so that who waits for them can begin.  operators: what is kept of those of the
    graph (`operator_docs`) by who has them before there is a plan.
    """
    machine = find_machine(plan.target)
    if operators is None:
        operators = keep("operators", operator_docs(graph))
    nodes = _nodes(graph, plan)
    beside = tuple(operators_without_kernel(graph, plan))
    between = tuple(boundary_edges(graph, plan, beside))
    reasons = _boundaries(plan, between, beside)
    nodes, edges = keep("nodes", nodes), keep("edges", between)
    inside = keep("links", tuple(links(plan)))
    predictions = {group.name: _predict_group(group, recipe, machine) for group in plan.groups}
    groups = tuple(
        _group_doc(group, tuple(reasons.get(group.name, ())), predictions[group.name], machine) for group in plan.groups
    )
    untimed = ModelDoc(
        graph.name, str(graph.source or ""), machine.name, operators, nodes, edges, groups,
        unsupported=tuple(plan.unsupported.items()), total=None, seconds=(), links=inside,
        uncompiled=beside,
        numerics=tuple(sorted(plan.numerics.items())),
    )  # fmt: skip
    return with_times(untimed, {name: prediction.time() for name, prediction in predictions.items() if prediction})


def unplanned_doc(graph: OperatorGraph, target: str, operators: tuple[OperatorDoc, ...]) -> ModelDoc:
    """A graph before its kernels are planned: operators and the tensors between them.

    operators: what is kept of `operator_docs`.
    """
    beside = tuple(unplanned_operators(graph))
    return ModelDoc(
        graph.name, str(graph.source or ""), target, operators, nodes=(), edges=tuple(operator_edges(graph, beside)),
        groups=(), unsupported=(), total=None, seconds=(), uncompiled=beside, is_planned=False,
    )  # fmt: skip


def operator_docs(graph: OperatorGraph) -> tuple[OperatorDoc, ...]:
    """The operators of a graph, ready to show."""
    return tuple(
        OperatorDoc(
            op.name, op.kind, inputs=tuple([name for name in op.inputs if name]), outputs=op.outputs,
            shape=result_shape(graph, op),
            scope=op.scope,
            attributes=tuple([(name, _value_text(value)) for name, value in op.attributes.items()]),
        )
        for op in graph.operators
    )  # fmt: skip


def _value_text(value: AttributeValue) -> str:
    """An attribute's value on one line: "0,2,1,3", "1e-05", "float32[3, 3]"."""
    if isinstance(value, np.ndarray):
        text = f"{value.dtype}{list(value.shape)}"
    elif isinstance(value, tuple):
        text = ",".join(map(str, value[:LONGEST_VALUE]))
    else:
        text = str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _predict_group(
    group: FusionGroup, recipe: Recipe | None, machine: Machine
) -> Prediction | CpuPrediction | None:
    try:
        work = default_work(group) if recipe is None and isinstance(machine, Target) else None
        if work is not None and isinstance(machine, Target):
            return estimate(work, machine)
        return predict_kernel(compile_for(group, recipe))
    except EngineError:
        return None


def plan_bytes(plan: FusionPlan) -> int:
    """Bytes that all launches of a plan must read and write."""
    return sum(sum(compulsory_bytes(g.program)) * len(g.instances) for g in plan.groups)


def plan_microseconds(plan: FusionPlan) -> float:
    """The predicted time of all launches of a plan under its advisers' recipe; a group without a kernel has none."""
    machine = find_machine(plan.target)
    times = ((_predict_group(group, None, machine), len(group.instances)) for group in plan.groups)
    return sum(time.microseconds * count for time, count in times if time)


def _nodes(graph: OperatorGraph, plan: FusionPlan) -> tuple[NodeDoc, ...]:
    scopes = {op.name: op.scope for op in graph.operators}
    groups = {group.name: (group, _loop_shape(group.program)) for group in plan.groups}
    fixed = {op for group in plan.fixed.groups for op in group}
    nodes = []
    for launch in plan.launches:
        group, shape = groups[launch.group]
        instance = group.instances[launch.instance]
        nodes.append(
            NodeDoc(
                f"{group.name}#{launch.instance}", group.name, launch.instance, group.title, shape, instance.operators,
                scope=_common_scope([scopes.get(op, "") for op in instance.statements.values()]),
                fixed=not fixed.isdisjoint(instance.statements.values()),
            )
        )  # fmt: skip
    return tuple(nodes)


def _common_scope(scopes: Sequence[str]) -> str:
    """The longest common module path."""
    parts = [s.split(".") for s in dict.fromkeys(scopes)]
    shared = []
    for words in zip(*parts, strict=False):
        if len(set(words)) > 1:
            break
        shared.append(words[0])
    return ".".join(shared)


def _boundaries(
    plan: FusionPlan, edges: Iterable[EdgeDoc], beside: Iterable[UncompiledDoc]
) -> dict[str, dict[str, None]]:
    """Group -> why it is apart from the groups and operators beside it, in the plan's order, each sentence once."""
    found: dict[str, dict[str, None]] = {}
    for b in plan.boundaries:
        for name in (b.producer, b.consumer):
            found.setdefault(name, {})[f"{b.producer} → {b.consumer}: {b.because}"] = None
    operators = {each.id: each.operator for each in beside}
    for edge in edges if operators else ():
        if edge.source in operators or edge.target in operators:
            ends = [operators.get(end) or end.rpartition("#")[0] for end in (edge.source, edge.target)]
            for name in (end for end in ends if end):
                found.setdefault(name, {})[f"{' → '.join(filter(None, ends))}: {edge.because}"] = None
    return found


def _group_doc(
    group: FusionGroup, boundaries: tuple[str, ...], prediction: Prediction | CpuPrediction | None, machine: Machine
) -> GroupDoc:
    """A group without time and share, which depend on the other groups."""
    moved = sum(compulsory_bytes(group.program))
    statements = group.program.statements
    anchor = max(statements, key=lambda s: s.points)
    dtype = group.program.arrays[anchor.write.array].dtype
    return GroupDoc(
        group.name, group.title, group.kind, _loop_shape(group.program),
        dtype=dtype, instances=len(group.instances), statements=tuple(map(str, statements)), because=group.because,
        boundaries=boundaries, bytes=moved, flops=flop_counts(group.program)[0],
        bound=prediction.bound if prediction else "", floor=moved / machine.dram_bandwidth.value * MICROSECONDS,
        fits_tensor_cores=dtype in HALVES and any(map(is_contraction, statements)),
        published=published_times(group),
    )  # fmt: skip


def kernel_doc(kernel: AnyKernel) -> KernelDoc:
    """A compiled group, ready to show."""
    prediction = predict_kernel(kernel)
    made = kernel.made if isinstance(kernel, CpuKernel) else kernel.tile
    return KernelDoc(
        group=kernel.group.name,
        recipe=to_text(kernel.advice),
        legal=True,
        dependences=len(kernel.dependences),
        schedule=schedule_doc(kernel.program, kernel.schedule, made.notes),
        entries=entry_docs(kernel.verdicts),
        complete=all(verdict.is_final for verdict in kernel.verdicts),
        statements=_statement_docs(kernel.group, kernel.program, made.placements),
        cuda=kernel.source.text,
        lines=tuple(
            LineDoc(number, line.statements, line.dimensions)
            for number, line in enumerate(kernel.source.lines, 1)
            if line.statements or line.dimensions
        ),
        launches=_launch_docs(kernel),
        stages=0 if isinstance(kernel, CpuKernel) else kernel.tile.stages,
        time=prediction.time(),
        terms=prediction.terms,
        milliseconds=kernel.milliseconds,
        explain=explain(kernel, prediction),
        scenarios=scenario_docs(kernel.advice, kernel.verdicts),
        intrinsic=made.intrinsic,
        family=kernel.family,
        misfit=made.misfit,
        bound=prediction.bound,
    )


def _launch_docs(kernel: AnyKernel) -> tuple[LaunchDoc, ...]:
    """What runs; a call of a CPU's function is a launch of its tasks, each by one thread."""
    if isinstance(kernel, CpuKernel):
        return (LaunchDoc(kernel.source.entry, kernel.facts.tasks, 1, 0),)
    return tuple(LaunchDoc(one.entry, one.blocks, one.block[0], one.shared_bytes) for one in kernel.launches)


def refused_doc(group: FusionGroup, recipe: Recipe, error: Conflict | NoKernel) -> KernelDoc:
    """Document of a group without a kernel: verdicts, repairs, and its schedule if it is legal."""
    advice = recipe.groups.get(group.name, ())
    names = tuple(s.name for s in group.program.statements)
    if isinstance(error, NoKernel | NotTaken):
        schedule = schedule_doc(error.program, error.scheduled.tree)
        verdicts, milliseconds = error.scheduled.verdicts, error.scheduled.milliseconds
    else:
        schedule = ScheduleDoc("domain", ", ".join(names), names, "", False, (), ())
        verdicts, milliseconds = error.verdicts, 0.0
    return KernelDoc(
        group=group.name,
        recipe=to_text(advice),
        legal=isinstance(error, NoKernel | NotTaken),
        dependences=0,
        schedule=schedule,
        entries=entry_docs(verdicts),
        statements=_statement_docs(group, group.program, {}),
        milliseconds=milliseconds,
        explain=str(error),
        conflicting=tuple(placed.path for placed in error.conflicting) if isinstance(error, Conflict) else (),
        repairs=repair_docs(error, advice) if isinstance(error, Conflict) else (),
        complete=error.is_final if isinstance(error, Conflict) else all(verdict.is_final for verdict in verdicts),
        scenarios=scenario_docs(advice, verdicts),
        refused=error.reason if isinstance(error, NoKernel | NotTaken) else "",
    )


def repair_docs(conflict: Conflict, advice: Sequence[Advice]) -> tuple[RepairDoc, ...]:
    """The changes that resolve a conflict of `advice`, ready to show."""
    return tuple(
        RepairDoc(
            repair.kind, repair.placed.path if repair.placed else (), repair.text,
            to_text(repair_advice(advice, repair)), complete=not repair.leaves,
        )
        for repair in conflict.repairs
    )  # fmt: skip


def entry_docs(verdicts: Sequence[Verdict]) -> tuple[EntryDoc, ...]:
    """Every entry with its verdict, in the order of the text form."""
    return tuple(
        EntryDoc(
            v.placed.path, v.placed.author, v.placed.entry.statements, v.placed.entry.dimension,
            str(v.placed.entry), v.placed.entry.because, v.placed.entry.required, v.placed.entry.enabled,
            outcome=v.outcome, verdict=v.because, witness=v.witness.text if v.witness else "",
        )
        for v in sorted(verdicts, key=lambda v: v.placed.path)
    )  # fmt: skip


def _statement_docs(
    group: FusionGroup, program: TensorProgram, placements: Mapping[str, str]
) -> tuple[StatementDoc, ...]:
    """The statements of a program; placements: where their results live, empty without a kernel."""
    operators = group.instances[0].statements
    return tuple(
        StatementDoc(
            s.name, str(s), operators.get(s.name, s.operator), tuple(i.name for i in s.iterators),
            placement=placements.get(s.name, ""),
        )
        for s in program.statements
    )  # fmt: skip


def compiled_doc(compiled: Compiled) -> CompiledDoc:
    """NVRTC's figures, ready to show."""
    return CompiledDoc(compiled.architecture, compiled.registers, compiled.spill_bytes)


def _loop_shape(program: TensorProgram) -> str:
    """Extents of the widest statement: "128×768×3072"."""
    widest = max(program.statements, key=lambda s: (s.points, len(s.iterators)))
    return "×".join(str(i.extent) for i in widest.iterators) or "1"
