"""Operators that others define by simpler ones, and scans: they are written out when a model is read.

The bodies are the standard's own, with the attributes and element types of each node put in; those of ONNX Runtime's
operators are in `contributed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

import onnx
import onnx.inliner
import onnx.shape_inference
from onnx import defs

from engine.graph.contributed import CONTRIBUTED, write_out_contributed
from engine.graph.subgraphs import subgraphs
from engine.graph.unroll import unroll
from engine.support.budgets import MAX_OPERATORS
from engine.support.errors import BadInput

WRITTEN_OUT = (
    "Attention", "BlackmanWindow", "CausalConvWithState", "CenterCropPad", "FlexAttention", "GroupNormalization",
    "HammingWindow", "HannWindow", "LinearAttention", "MeanVarianceNormalization", "NegativeLogLikelihoodLoss",
    "RotaryEmbedding", "SoftmaxCrossEntropyLoss", "SwiGLU",
)  # fmt: skip
"""Operators that are replaced by the standard's function bodies, because no tensor expression is defined for them."""

_DOMAIN = "standard.functions"
_REFUSALS = (
    onnx.checker.ValidationError, onnx.shape_inference.InferenceError, RuntimeError, ValueError, TypeError, IndexError,
)  # fmt: skip
"""Exceptions of ONNX's library for damaged models, and of parsing a damaged Scan."""


def write_out(model: onnx.ModelProto, subject: str) -> onnx.ModelProto:
    """The model with its own functions, and the standard's of `WRITTEN_OUT`, replaced by their bodies; scans unrolled.

    Raises BadInput for a function that calls itself or whose body does not fit.
    """
    _check_calls(model, subject)
    try:
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        if any((node.domain, node.op_type) in CONTRIBUTED for node in model.graph.node):
            write_out_contributed(model.graph, _opset(model))
        while bodies := _bodies(model):
            model = onnx.inliner.inline_local_functions(_with_bodies(model, bodies))
        if any(node.op_type == "Scan" for node in model.graph.node):
            unroll(model, _opset(model), _types(model))
    except _REFUSALS as error:
        raise BadInput("graph", subject, f"its functions cannot be written out: {error}") from None
    return model


_Name = tuple[str, str]
"""Domain and name of a function."""


def _check_calls(model: onnx.ModelProto, subject: str) -> None:
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


Bodies = list[tuple[int, onnx.FunctionProto]]
"""Index of a node in the graph -> the function it calls."""


def _bodies(model: onnx.ModelProto) -> Bodies:
    """The bodies of the nodes of `WRITTEN_OUT`; a node whose operator set has none stays as it is."""
    opset = _opset(model)
    chosen = [
        (at, node)
        for at, node in enumerate(model.graph.node)
        if node.op_type in WRITTEN_OUT and node.domain in ("", "ai.onnx") and defs.has(node.op_type, opset, "")
    ]
    types = _types(model) if chosen else {}
    found = []
    for at, node in chosen:
        schema = defs.get_schema(node.op_type, opset)
        node.attribute.extend(absent_attributes(schema, node))
        body = body_of(schema, opset, node, [types.get(name, onnx.TypeProto()) for name in node.input])
        if body is not None:
            found.append((at, body))
    return found


def _with_bodies(model: onnx.ModelProto, bodies: Bodies) -> onnx.ModelProto:
    """The model with nodes made calls of functions of its own, one for each node."""
    model.opset_import.append(onnx.helper.make_opsetid(_DOMAIN, 1))
    for at, body in bodies:
        node = model.graph.node[at]
        body.domain, body.name = _DOMAIN, f"{node.op_type}_{at}"
        del body.opset_import[:]
        body.opset_import.append(onnx.helper.make_opsetid("", _opset(model)))
        model.functions.append(body)
        node.domain, node.op_type = body.domain, body.name
    return model


def absent_attributes(schema: defs.OpSchema, node: onnx.NodeProto) -> list[onnx.AttributeProto]:
    """The attributes that a node leaves to their defaults."""
    given = {attribute.name for attribute in node.attribute}
    return [a.default_value for a in schema.attributes.values() if a.default_value.name not in ("", *given)]


def body_of(
    schema: defs.OpSchema, opset: int, node: onnx.NodeProto, operands: list[onnx.TypeProto]
) -> onnx.FunctionProto | None:
    """The standard's body of a node, where there is one; it may depend on its attributes and its operands' types."""
    depends = schema.has_context_dependent_function
    versions = schema.context_dependent_function_opset_versions if depends else schema.function_opset_versions
    newest = max((v for v in versions if v <= opset), default=opset)
    if depends:
        text, types = node.SerializeToString(), [operand.SerializeToString() for operand in operands]
        written = schema.get_context_dependent_function_with_opset_version(newest, text, types)
    else:
        written = schema.get_function_with_opset_version(newest)
    body = onnx.FunctionProto.FromString(written)
    return body if body.node else None


def _opset(model: onnx.ModelProto) -> int:
    return int(next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1))


def _types(model: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    """Declared and inferred types of all tensors, weights included."""
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    types = {t.name: onnx.helper.make_tensor_type_proto(t.data_type, tuple(t.dims)) for t in model.graph.initializer}
    types.update((value.name, value.type) for value in (*inferred.input, *inferred.value_info, *inferred.output))
    return types
