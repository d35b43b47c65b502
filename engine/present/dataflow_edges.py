"""Tensors between launches, and the operators that no kernel computes among them, as documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from engine.documents.model import EdgeDoc, UncompiledDoc
from engine.fusion.host_program import places_without_kernel
from engine.fusion.nodes import FusionPlan
from engine.graph.nodes import Operator, OperatorGraph, Tensor
from engine.present.dataflow_links import kept_apart

UNPLANNED = "Kernels are not planned yet"


def operators_without_kernel(graph: OperatorGraph, plan: FusionPlan) -> Iterator[UncompiledDoc]:
    """The operators that no kernel computes, in the order in which they run or would."""
    for op, after in places_without_kernel(plan):
        shape = result_shape(graph, op)
        step = graph.host.get(op.name)
        because = str(step) if step else plan.unsupported[op.name]
        yield UncompiledDoc(f"operator {op.name}", op.name, op.kind, shape, because, step is not None, after, op.scope)


def unplanned_operators(graph: OperatorGraph) -> Iterator[UncompiledDoc]:
    """All operators of a graph that nobody has planned kernels for."""
    for op in graph.operators:
        name, shape = f"operator {op.name}", result_shape(graph, op)
        yield UncompiledDoc(name, op.name, op.kind, shape, UNPLANNED, False, 0, op.scope, is_unplanned=True)


def operator_edges(graph: OperatorGraph, operators: Sequence[UncompiledDoc]) -> Iterator[EdgeDoc]:
    """The tensors that operators hand to each other; `operators`: all of the graph's in its order."""
    makers: dict[str, str] = {}
    for each, op in zip(operators, graph.operators, strict=True):
        for name in dict.fromkeys(op.inputs):
            if name in graph.tensors and name not in graph.constants:
                tensor = graph.tensors[name]
                yield EdgeDoc(makers.get(name, ""), each.id, name, shape_text(tensor), tensor.bytes, UNPLANNED)
        makers |= dict.fromkeys(op.outputs, each.id)
    for name in graph.outputs:
        if name in makers:
            tensor = graph.tensors[name]
            yield EdgeDoc(makers[name], "", name, shape_text(tensor), tensor.bytes, "an output of the graph")


def boundary_edges(graph: OperatorGraph, plan: FusionPlan, beside: Sequence[UncompiledDoc]) -> Iterator[EdgeDoc]:
    """The tensors that launches and the operators `beside` them hand to each other."""
    because = {(b.producer, b.consumer): b.because for b in plan.boundaries}
    apart = kept_apart(plan)
    writers: dict[str, dict[str, str]] = {}  # tensor -> node -> group; several, where each writes a part
    reasons = {each.id: _why_apart(each) for each in beside}
    for node, group, reads, writes in _steps(graph, plan, beside):
        for tensor in (graph.tensors[name] for name in reads if name in graph.tensors and name not in graph.constants):
            for source, producer in writers.get(tensor.name, {"": ""}).items():
                reason = because.get((producer, group), "") if source else "an input of the graph"
                reason = reasons.get(node) or reasons.get(source) or reason
                is_kept, shape = (source, node) in apart, shape_text(tensor)
                yield EdgeDoc(source, node, tensor.name, shape, tensor.bytes, reason, is_kept)
        for name in writes:
            writers.setdefault(name, {})[node] = group
    for name in graph.outputs:
        for source in writers.get(name, ()):
            tensor = graph.tensors[name]
            yield EdgeDoc(source, "", name, shape_text(tensor), tensor.bytes, "an output of the graph")


Step = tuple[str, str, Sequence[str], Sequence[str]]
"""Id, group ("" for an operator without a kernel), the tensors that are read, those that are written."""


def _steps(graph: OperatorGraph, plan: FusionPlan, beside: Sequence[UncompiledDoc]) -> Iterator[Step]:
    """Launches and operators without a kernel in order."""
    groups = {group.name: group for group in plan.groups}
    operators = {op.name: op for op in graph.operators} if beside else {}
    waiting = list(reversed(beside))
    for number, launch in enumerate((*plan.launches, None)):
        while waiting and waiting[-1].after == number:
            op = operators[(each := waiting.pop()).operator]
            yield each.id, "", list(dict.fromkeys(filter(None, op.inputs))), [name for name in op.outputs if name]
        if launch is not None:
            group, node = groups[launch.group], f"{launch.group}#{launch.instance}"
            arrays = group.instances[launch.instance].arrays
            inputs, outputs = group.program.inputs, group.program.outputs
            yield node, group.name, [arrays[name] for name in inputs], [arrays[name] for name in outputs]


def _why_apart(each: UncompiledDoc) -> str:
    """Why kernels end there."""
    return f"{each.because}; {'the host does it between kernels' if each.on_host else 'nothing computes it'}"


def result_shape(graph: OperatorGraph, op: Operator) -> str:
    """Shape and type of an operator's first output, as `shape_text` says it; "" where it has none."""
    return next((shape_text(graph.tensors[name]) for name in op.outputs if name in graph.tensors), "")


def shape_text(tensor: Tensor) -> str:
    """ "1 x 128 x 768 float32"."""
    return _shape_text(tensor.shape, tensor.dtype)


@lru_cache(maxsize=1024)
def _shape_text(shape: tuple[int, ...], dtype: str) -> str:
    """Kept: the shapes of a model are few."""
    return f"{' x '.join(map(str, shape)) or 'scalar'} {dtype}"
