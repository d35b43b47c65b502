"""Subgraphs of If, Loop and Scan nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs in a node's attributes: branches of an If, bodies of loops."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def has_subgraphs(node: onnx.NodeProto) -> bool:
    """Whether a node has graphs in its attributes."""
    return any(attribute.type in _GRAPHS for attribute in node.attribute)


def captured_tensors(node: onnx.NodeProto) -> tuple[str, ...]:
    """The outer tensors that a node's subgraphs read: implicit operands."""
    if not has_subgraphs(node):
        return ()
    free: set[str] = set()
    for graph in subgraphs(node):
        own = {value.name for value in (*graph.input, *graph.initializer)}
        own.update(name for inner in graph.node for name in inner.output)
        free.update(name for inner in graph.node for name in (*inner.input, *captured_tensors(inner)))
        free.update(value.name for value in graph.output)
        free -= own
    return tuple(sorted(free - {"", *node.input}))


def rename_reads(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Rename what a node reads, also inside its subgraphs."""
    node.input[:] = [names.get(name, name) for name in node.input]
    for graph in subgraphs(node):
        own = set(_own_names(graph))
        outer = {name: new for name, new in names.items() if name not in own}
        for inner in graph.node:
            rename_reads(inner, outer)
        for value in graph.output:
            value.name = outer.get(value.name, value.name)


def _own_names(graph: onnx.GraphProto) -> Iterator[str]:
    """The tensors that a graph names itself."""
    yield from (value.name for value in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (name for node in graph.node for name in node.output)
