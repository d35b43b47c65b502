"""Operators that the ONNX standard defines by simpler ones: they are written out when a model is read.

The bodies are the standard's own, with the attributes and element types of each node put in.
"""

from __future__ import annotations

import onnx
import onnx.inliner
import onnx.shape_inference

from engine.errors import BadInput

WRITTEN_OUT = (
    "AffineGrid", "Attention", "BlackmanWindow", "CausalConvWithState", "CenterCropPad", "FlexAttention",
    "GroupNormalization", "HammingWindow", "HannWindow", "LinearAttention", "MeanVarianceNormalization",
    "NegativeLogLikelihoodLoss", "RotaryEmbedding", "SoftmaxCrossEntropyLoss", "SwiGLU",
)  # fmt: skip
"""Operators without a tensor expression of their own."""


def write_out(model: onnx.ModelProto, subject: str) -> onnx.ModelProto:
    """The model with its own functions, and the standard's of `WRITTEN_OUT`, replaced by their bodies.

    Raises BadInput for a function that calls itself or whose body does not fit.
    """
    try:
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        kinds = {node.op_type for node in model.graph.node if node.domain in ("", "ai.onnx")}.intersection(WRITTEN_OUT)
        if kinds:
            typed = onnx.shape_inference.infer_shapes(_with_types(model))
            chosen = [("", kind) for kind in WRITTEN_OUT]
            model = onnx.inliner.inline_selected_functions(typed, chosen, inline_schema_functions=True)
    except (RuntimeError, ValueError) as error:
        raise BadInput("graph", subject, f"its functions cannot be written out: {error}") from None
    return model


def _with_types(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the types of its weights declared, which the bodies of some functions depend on."""
    declared = {value.name for value in (*model.graph.input, *model.graph.value_info)}
    for tensor in model.graph.initializer:
        if tensor.name not in declared:
            value = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tuple(tensor.dims))
            model.graph.value_info.append(value)
    return model
