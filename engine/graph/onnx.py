"""ONNX models as operator graphs: control flow is written out, then the nodes are walked once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from engine.graph.contributed import write_out_contributed
from engine.graph.contributed_quantized import COMPILED
from engine.graph.control_flow import ROUNDS, has_control_flow, write_out_control_flow
from engine.graph.graph_import import GraphImport
from engine.graph.limits import STANDARD
from engine.graph.model_file import read_model
from engine.graph.nodes import OperatorGraph
from engine.support.cache import digest, keep_file
from engine.support.errors import BadInput


def load_onnx(path: Path, dimensions: Mapping[str, int]) -> OperatorGraph:
    """Read an ONNX model with its symbolic dimensions bound; shapes are static afterwards.

    Shape arithmetic is folded, Constant nodes become constants, Identity and inference-time Dropout vanish, operators
    that no output depends on are left out.  Operators that ONNX does not know, and those behind them whose shapes
    nobody can tell, are entries of `unsupported`; those whose results the data decide are entries of `host`.  Raises
    BadInput, and Unsupported for element types.
    """
    return _read(path, dimensions)[0]


def model_of(graph: OperatorGraph) -> onnx.ModelProto:
    """The model of a graph, with what was decided when it was read written out, and operators of ONNX Runtime's own
    that have rules here, too: what they mean in full precision.  Raises BadInput as `load_onnx`."""
    assert graph.source is not None
    model = read_model(graph.source)
    if has_control_flow(model):
        model = _read(graph.source, graph.dimensions)[1]
    opset = next((one.version for one in model.opset_import if one.domain in STANDARD), 1)
    if any((node.domain, node.op_type) in COMPILED for node in model.graph.node):
        model = _copy(model)
        write_out_contributed(model.graph, opset, COMPILED)
    return model


def write_with_shapes(graph: OperatorGraph, shapes: Mapping[str, Sequence[int]]) -> Path:
    """A file with the same operators as that of a graph, and other shapes of its inputs.

    Raises BadInput where its weights lie beside it.
    """
    model = _copy(model_of(graph))
    if any(weight.data_location == onnx.TensorProto.EXTERNAL for weight in model.graph.initializer):
        raise BadInput("graph", str(graph.source), "has weights beside it")
    for value in model.graph.input:
        if value.name in shapes:
            element = value.type.tensor_type.elem_type
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, element, shapes[value.name]))
    # What follows from the inputs is told again when the file is read.
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    data = model.SerializeToString(deterministic=True)
    return keep_file("shapes", f"{digest(data)}.onnx", data)


def _read(path: Path, dimensions: Mapping[str, int]) -> tuple[OperatorGraph, onnx.ModelProto]:
    """A graph, and its model with known branches and loops written out."""
    model = read_model(path)
    if not has_control_flow(model):
        return GraphImport(model, path, dimensions).run(), model
    try:
        written = _write_out(_copy(model), path, dimensions, is_decided_by_data=True)
    except BadInput:  # a branch that the data never take need not fit
        written = _write_out(model, path, dimensions, is_decided_by_data=False)
    return GraphImport(_copy(written), path, dimensions).run(), written


def _write_out(
    model: onnx.ModelProto, path: Path, dimensions: Mapping[str, int], is_decided_by_data: bool
) -> onnx.ModelProto:
    """Write out known branches and loops, in place, and then those that the data decide; the model."""
    for _ in range(ROUNDS):
        found = GraphImport(_copy(model), path, dimensions)
        found.walk()
        kinds = (False, True) if is_decided_by_data else (False,)
        if not any(write_out_control_flow(model, found, kind, dimensions) for kind in kinds):
            break
    return model


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(model.SerializeToString())


def symbolic_dimensions(path: Path) -> dict[str, list[str]]:
    """Name of every dimension that has to be given a size -> the inputs' axes that have it: ["x, axis 0"]."""
    graph = read_model(path).graph
    initializers = {tensor.name for tensor in graph.initializer}
    found: dict[str, list[str]] = {}
    for value in graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if value.name not in initializers and not dim.HasField("dim_value"):
                found.setdefault(dim.dim_param or f"{value.name}.{axis}", []).append(f"{value.name}, axis {axis}")
    return found
