"""One run of an ONNX model in ONNX Runtime, every operator as it is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from engine.execution.narrow_floats import in_float32, narrow_tensors
from engine.execution.signed_weights import has_signed_weights, without_signed_weights
from engine.graph.nodes import OperatorGraph, Tensor
from engine.graph.subgraphs import subgraphs
from engine.graph.weights import element_of
from engine.support.errors import Unsupported

Values = dict[str, np.ndarray]

RUNTIME_IR = 10
"""File format version of what ONNX Runtime is given: the onnx package writes newer ones than it reads, and what they
added (element types below one byte, device placement) is in no graph of ours."""


def run_session(model: onnx.ModelProto, subject: str, given: Mapping[str, np.ndarray], outputs: list[str]) -> Values:
    """Run a model in ONNX Runtime; Unsupported where it refuses."""
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as refusals

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # Operators run as they are written: fusions of the runtime would round half precision differently.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if _has_scatter(model.graph):
        # Its threads add to the same element without a lock: sums lose terms (microsoft/onnxruntime issue 18048).
        options.intra_op_num_threads = 1
    options.enable_mem_pattern = options.enable_cpu_mem_arena = False
    narrow = narrow_tensors(model)
    model = in_float32(model, narrow) if narrow else model
    model = without_signed_weights(model) if has_signed_weights(model) else model
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        feeds = {i.name: np.asarray(given[i.name], order="C") for i in session.get_inputs()}
        feeds = {name: value.astype(np.float32) if name in narrow else value for name, value in feeds.items()}
        results = session.run(outputs, feeds)
    except (
        refusals.Fail, refusals.InvalidArgument, refusals.InvalidGraph, refusals.NotImplemented,
        refusals.RuntimeException,
    ) as error:  # fmt: skip
        reason = f"ONNX Runtime {onnxruntime.__version__} does not run it: {str(error).splitlines()[0]}"
        raise Unsupported("reference", subject, reason, "check another group") from None
    values = dict(zip(outputs, results, strict=True))
    kinds = {name: helper.tensor_dtype_to_np_dtype(element) for name, element in narrow.items()}
    return {name: value.astype(kinds[name]) if name in narrow else value for name, value in values.items()}


def _has_scatter(graph: onnx.GraphProto) -> bool:
    return any(node.op_type == "ScatterND" or any(map(_has_scatter, subgraphs(node))) for node in graph.node)


def feed_weights(model: onnx.ModelProto, graph: OperatorGraph) -> None:
    """Turn light and external weights into inputs: they are handed over, not written into the model's bytes."""
    light = {name for name, constant in graph.constants.items() if constant.fill is not None}
    external = {t.name for t in model.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL}
    replace_all(model.graph.node, [n for n in model.graph.node if light.isdisjoint(n.output)])
    replace_all(model.graph.initializer, [t for t in model.graph.initializer if t.name not in external])
    handed_over = (light | external) & graph.constants.keys() - {value.name for value in model.graph.input}
    model.graph.input.extend(tensor_info(graph.tensors[name]) for name in sorted(handed_over))


def replace_all(field: Any, values: Iterable[Any]) -> None:
    """Set a repeated field of a protobuf message, which cannot be assigned to."""
    del field[:]
    field.extend(values)


def tensor_info(tensor: Tensor) -> onnx.ValueInfoProto:
    """The declaration of a tensor of ours in a file."""
    return helper.make_tensor_value_info(tensor.name, element_of(tensor.dtype), tensor.shape)
