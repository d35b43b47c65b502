"""Models of one operator, run by ONNX Runtime and by the lowered statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from engine.execution.signed_weights import without_signed_weights
from engine.graph.load import load
from engine.graph.nodes import OperatorGraph
from engine.tensor.check import check_program
from engine.tensor.evaluate import evaluate
from engine.tensor.lower import lower, unsupported_operators
from engine.tensor.operators import rule_of

Arrays = Mapping[str, np.ndarray]


def write_model(
    path: Path,
    kind: str,
    operands: Sequence[np.ndarray | None],
    constants: Sequence[int] = (),
    outputs: int = 1,
    opset: int = 18,
    **attributes: object,
) -> dict[str, np.ndarray]:
    """Write a model of one node and return what to feed it.  constants: which operands stand in the file."""
    names = [f"x{at}" if value is not None else "" for at, value in enumerate(operands)]
    results = [f"y{at}" for at in range(outputs)]
    node = helper.make_node(kind, names, results, name="node", **attributes)
    fed = {n: v for at, (n, v) in enumerate(zip(names, operands, strict=True)) if v is not None and at not in constants}
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in fed.items()
    ]
    stored = [numpy_helper.from_array(operands[at], names[at]) for at in constants]
    graph = helper.make_graph([node], kind, inputs, [onnx.ValueInfoProto(name=n) for n in results], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 10
    path.write_bytes(model.SerializeToString())
    return fed


def by_runtime(path: Path, feeds: Arrays) -> dict[str, np.ndarray]:
    """The model's outputs from ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = without_signed_weights(onnx.load(path))  # as a CPU with exact products has it
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def by_statements(path: Path, feeds: Arrays, exact: bool = False) -> dict[str, np.ndarray]:
    """The model's outputs from its statements, which must be sound and complete."""
    graph = load(path)
    assert unsupported_operators(graph) == {}
    program = lower(graph)
    assert check_program(program) == ()
    values = evaluate(program, {**values_of(graph), **feeds}, exact)
    return {name: values[name] for name in graph.outputs}


def by_meaning(path: Path, feeds: Arrays) -> dict[str, np.ndarray]:
    """The model's outputs from the operator's NumPy meaning."""
    graph = load(path)
    (op,) = graph.operators
    rule = rule_of(op)
    assert rule is not None
    known = {**values_of(graph), **feeds}
    results = rule.meaning(op, [known[name] if name else np.empty(0) for name in op.inputs])
    return dict(zip(op.outputs, results, strict=False))


def values_of(graph: OperatorGraph) -> dict[str, np.ndarray]:
    """The constants that have a value in the file."""
    return {name: c.value for name, c in graph.constants.items() if c.value is not None}
