"""Size of a model after inlining its own functions, computed without inlining them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

import onnx

from engine.graph.limits import MAX_OPERATORS
from engine.graph.subgraphs import subgraphs
from engine.support.errors import BadInput

_Name = tuple[str, str]
"""Domain and name of a function."""


def check_calls(model: onnx.ModelProto, subject: str) -> None:
    """BadInput for recursive functions, and for nested calls that would expand past `MAX_OPERATORS` nodes."""
    bodies = {(function.domain, function.name): function.node for function in model.functions}
    calls = {name: bodies.keys() & set(_operators_called(nodes)) for name, nodes in bodies.items()}
    try:
        order = tuple(TopologicalSorter(calls).static_order())
    except CycleError as error:
        circle = " -> ".join(name for _, name in error.args[1])
        raise BadInput("graph", subject, f"its functions call each other in a circle: {circle}") from None
    sizes: dict[_Name, int] = {}
    for name in order:
        sizes[name] = _size(bodies[name], sizes)
    size = _size(model.graph.node, sizes)
    if size > MAX_OPERATORS:
        reason = f"has {size} nodes once its functions are written out"
        raise BadInput("graph", subject, reason, f"at most {MAX_OPERATORS} are read")


def _size(nodes: Iterable[onnx.NodeProto], sizes: Mapping[_Name, int]) -> int:
    return sum(sizes.get(called, 1) for called in _operators_called(nodes))


def _operators_called(nodes: Iterable[onnx.NodeProto]) -> Iterator[_Name]:
    """The operator of every node, those of subgraphs included."""
    for node in nodes:
        yield node.domain, node.op_type
        for graph in subgraphs(node):
            yield from _operators_called(graph.node)
