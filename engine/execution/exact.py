"""Values in double precision, where a result of ONNX Runtime is doubted, by the onnx package's own evaluator.

ONNX Runtime adds 2.56 million equal numbers in single precision one after the other, and is off by 1.8e-3.  The
evaluator is NumPy throughout and takes the types that it is given: the nodes of the file run as they are, on floats of
eight bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from engine.execution.runtime_session import feed_weights, replace_all
from engine.graph.nodes import OperatorGraph, is_float
from engine.graph.onnx import model_of
from engine.graph.subgraphs import captured_tensors, subgraphs
from engine.support.errors import OverBudget, Unsupported
from engine.tensor.lower import lower_supported

MOST_POINTS = 2**32
"""Points of a graph's statements past which nothing is computed so: that would take minutes."""

NARROWER = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_REFUSALS = (RuntimeError, TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError)
"""What the evaluator raises for operators that it lacks, or has for other types only."""


def exact_values(
    graph: OperatorGraph, wanted: Sequence[str], known: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Some tensors of an ONNX file, of real numbers, computed in double precision from others.

    known: values of tensors, beside those of constants.  Raises Unsupported where the evaluator lacks an operator,
    OverBudget where that would take minutes.
    """
    if graph.dialect != "onnx" or graph.source is None:
        raise Unsupported("reference", graph.name, "only ONNX files are evaluated in double precision", "")
    if sum(s.points for s in lower_supported(graph)[0].statements) > MOST_POINTS:
        raise OverBudget("reference", graph.name, "is too large for double precision", "check a smaller one")
    model = model_of(graph)
    feed_weights(model, graph)
    nodes = _nodes_between(model, wanted, known.keys())
    made = {name for node in nodes for name in node.output}
    if lacking := [name for name in wanted if name not in made]:
        raise Unsupported("reference", f"tensor {lacking[0]}", "is made by no node of the file", "")
    replace_all(model.graph.node, map(_widen, nodes))
    weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    read = {name for node in nodes for name in (*node.input, *captured_tensors(node))} - made - {""}
    if lacking := sorted(read - weights.keys() - known.keys()):
        raise Unsupported("reference", f"tensor {lacking[0]}", "has no value", "")
    replace_all(model.graph.initializer, ())
    del model.graph.value_info[:]
    replace_all(model.graph.input, (onnx.ValueInfoProto(name=name) for name in sorted(read)))
    replace_all(model.graph.output, (onnx.ValueInfoProto(name=name) for name in wanted))
    return dict(zip(wanted, _evaluate(model, {n: _wide({**weights, **known}[n]) for n in read}, graph), strict=True))


def _nodes_between(model: onnx.ModelProto, wanted: Collection[str], known: Collection[str]) -> list[onnx.NodeProto]:
    """The nodes that make some tensors of known ones."""
    needed, found = set(wanted), []
    for node in reversed(model.graph.node):
        if not needed.isdisjoint(node.output):
            found.append(node)
            needed |= {name for name in (*node.input, *captured_tensors(node)) if name not in known}
    return found[::-1]


def _evaluate(model: onnx.ModelProto, feeds: dict[str, np.ndarray], graph: OperatorGraph) -> list[np.ndarray]:
    from onnx.reference import ReferenceEvaluator  # a slow import that most checks never need

    try:
        with np.errstate(all="ignore"):
            return [np.asarray(value) for value in ReferenceEvaluator(model).run(None, feeds)]
    except _REFUSALS as error:
        reason = f"the onnx package does not evaluate it in double precision: {str(error).splitlines()[0:1]}"
        raise Unsupported("reference", graph.name, reason, "") from None


def _wide(value: np.ndarray) -> np.ndarray:
    return value.astype(np.float64) if is_float(value.dtype) else value


def _widen(node: onnx.NodeProto) -> onnx.NodeProto:
    """The node with its constants, and the types that it casts to, in double precision."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for attribute in copy.attribute:
        if attribute.type == onnx.AttributeProto.TENSOR and attribute.t.data_type in NARROWER:
            attribute.t.CopyFrom(numpy_helper.from_array(_wide(numpy_helper.to_array(attribute.t))))
        elif attribute.name in ("to", "dtype") and attribute.i in NARROWER:
            attribute.i = TensorProto.DOUBLE
        elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            numbers = attribute.f if attribute.name == "value_float" else list(attribute.floats)
            attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(np.array(numbers, np.float64))))
    for body in subgraphs(copy):
        replace_all(body.node, [_widen(inner) for inner in body.node])
    return copy
