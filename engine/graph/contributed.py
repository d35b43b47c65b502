"""Operators of ONNX Runtime's own domain that its optimiser leaves in files: written out by the standard's.

    com.microsoft.SkipLayerNormalization(x, skip, gamma)    ->    Add, ReduceMean, Sub, Mul, ReduceMean, ..., Mul

The definitions are those of ONNX Runtime's ContribOperators.md.  A form that is not written out (optional results,
some masks and packed operands) stays as it is and is refused by its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import onnx

from engine.graph.contributed_attention import (
    attention,
    group_query_attention,
    multi_head_attention,
    quantized_attention,
    rotary_embedding,
)
from engine.graph.contributed_quantized import BODIES as QUANTIZED
from engine.graph.contributed_quantized import DOMAIN
from engine.graph.expansion import SINCE_CAST_LIKE, Expansion, Shape

_SINCE_LAYER_NORMALIZATION = 17


def _normalize(body: Expansion, x: str, scale: str, shift: str, is_centred: bool) -> None:
    """Rows to variance (or mean square) 1, scaled and shifted, as the node's first result."""
    if is_centred:
        x = body.add("Sub", x, body.mean_of_row(x))
    variance = body.mean_of_row(body.add("Mul", x, x))
    epsilon = body.number(body.attribute("epsilon", 1e-12 if body.node.op_type.startswith("Skip") else 1e-5), x)
    x = body.add("Div", x, body.add("Sqrt", body.add("Add", variance, epsilon)))
    result = body.node.output[0]
    x = body.add("Mul", x, scale, result="" if shift else result)
    if shift:
        body.add("Add", x, shift, result=result)


def _layer_normalization(body: Expansion) -> bool:
    """The standard's, in operator sets that lack it: over the last axis."""
    if body.opset >= _SINCE_LAYER_NORMALIZATION or not body.has_results_only((0,)) or body.attribute("axis", -1) != -1:
        return False
    _normalize(body, body.operand(0), body.operand(1), body.operand(2), is_centred=True)
    return True


def _simplified_layer_normalization(body: Expansion) -> bool:
    if not body.has_results_only((0,)) or body.attribute("axis", -1) != -1:
        return False
    _normalize(body, body.operand(0), body.operand(1), "", is_centred=False)
    return True


def _skip_layer_normalization(body: Expansion) -> bool:
    """A residual and a bias first; their sum is an optional result."""
    is_centred = body.node.op_type == "SkipLayerNormalization"
    bias = body.operand(4 if is_centred else 3)
    if not body.has_results_only((0, 3)):
        return False
    total = body.node.output[3] if len(body.node.output) > 3 else ""
    x = body.add("Add", body.operand(0), body.operand(1), result="" if bias else total)
    if bias:
        x = body.add("Add", x, bias, result=total)
    _normalize(body, x, body.operand(2), body.operand(3) if is_centred else "", is_centred)
    return True


def _gelu(body: Expansion) -> bool:
    """x/2 (1 + erf(x / sqrt 2)), of a biased operand where there is one."""
    x = body.operand(0)
    if body.operand(1):
        x = body.add("Add", x, body.operand(1))
    grown = body.add("Erf", body.add("Mul", x, body.number(math.sqrt(0.5), x)))
    half = body.add("Mul", x, body.number(0.5, x))
    body.add("Mul", half, body.add("Add", grown, body.number(1, x)), result=body.node.output[0])
    return True


def _fast_gelu(body: Expansion) -> bool:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), of a biased operand where there is one."""
    x = body.operand(0)
    if body.operand(1):
        x = body.add("Add", x, body.operand(1))
    cubic = body.add("Mul", body.add("Mul", body.add("Mul", x, x), x), body.number(0.044715, x))
    inner = body.add("Mul", body.add("Add", x, cubic), body.number(math.sqrt(2 / math.pi), x))
    half = body.add("Mul", x, body.number(0.5, x))
    body.add("Mul", half, body.add("Add", body.add("Tanh", inner), body.number(1, x)), result=body.node.output[0])
    return True


def _quick_gelu(body: Expansion) -> bool:
    """x sigmoid(alpha x)."""
    x = body.operand(0)
    scaled = body.add("Mul", x, body.number(body.attribute("alpha", 1.702), x))
    body.add("Mul", x, body.add("Sigmoid", scaled), result=body.node.output[0])
    return True


def _fused_matmul(body: Expansion) -> bool:
    """alpha a b of operands whose last axes may be swapped; those of one or two axes are swapped by their rank."""
    if body.attribute("transBatchA", 0) or body.attribute("transBatchB", 0):
        return False
    a, b = body.operand(0), body.operand(1)
    if body.attribute("transA", 0):
        a = _swap_axes(body, a)
    if body.attribute("transB", 0):
        b = _swap_axes(body, b)
    alpha, result = body.attribute("alpha", 1.0), body.node.output[0]
    product = body.add("MatMul", a, b, result=result if alpha == 1 else "")
    if alpha != 1:
        body.add("Mul", product, body.number(alpha, product), result=result)
    return True


def _swap_axes(body: Expansion, x: str) -> str:
    """A tensor of any rank with its last two axes swapped: no permutation says that without the rank."""
    return body.add("Einsum", x, equation="...ij->...ji")


_BODIES: Mapping[tuple[str, str], Callable[[Expansion], bool]] = {
    ("", "LayerNormalization"): _layer_normalization,
    ("", "SimplifiedLayerNormalization"): _simplified_layer_normalization,
    (DOMAIN, "SkipLayerNormalization"): _skip_layer_normalization,
    (DOMAIN, "SkipSimplifiedLayerNormalization"): _skip_layer_normalization,
    (DOMAIN, "Gelu"): _gelu, (DOMAIN, "BiasGelu"): _gelu, (DOMAIN, "FastGelu"): _fast_gelu,
    (DOMAIN, "QuickGelu"): _quick_gelu, (DOMAIN, "FusedMatMul"): _fused_matmul,
    (DOMAIN, "MultiHeadAttention"): multi_head_attention, (DOMAIN, "Attention"): attention,
    (DOMAIN, "QAttention"): quantized_attention,
    (DOMAIN, "RotaryEmbedding"): rotary_embedding, (DOMAIN, "GroupQueryAttention"): group_query_attention, **QUANTIZED,
}  # fmt: skip
CONTRIBUTED = frozenset(_BODIES)
"""(domain, operator) of what is written out."""


def write_out_contributed(
    graph: onnx.GraphProto, opset: int, bodies: Mapping[tuple[str, str], Callable[[Expansion], bool]] = _BODIES
) -> None:
    """Replace the nodes of some operators, by default of `CONTRIBUTED`, in a graph where their form is known."""
    if opset < SINCE_CAST_LIKE and not _is_single(graph):
        return
    made: dict[int, list[onnx.NodeProto]] = {}
    shapes, types = _shapes(graph), _types(graph)
    for number, node in enumerate(graph.node):
        write = bodies.get((node.domain, node.op_type))
        if write is None or not any(node.output[:1]):
            continue
        body = Expansion(node, opset, shapes, types)
        # A missing operand would be one that the standard's operators cannot leave out.
        if write(body) and all(name for made_node in body.nodes for name in made_node.input):
            made[number] = body.nodes
    if made:
        nodes = [one for number, node in enumerate(graph.node) for one in made.get(number, (node,))]
        del graph.node[:]
        graph.node.extend(nodes)


def _shapes(graph: onnx.GraphProto) -> dict[str, Shape]:
    """Tensor -> its shape, where the file says it."""
    declared = [v for v in (*graph.input, *graph.value_info, *graph.output) if v.type.tensor_type.HasField("shape")]
    shapes: dict[str, Shape] = {
        value.name: tuple(d.dim_value if d.HasField("dim_value") else d.dim_param
                          for d in value.type.tensor_type.shape.dim)
        for value in declared
    }  # fmt: skip
    return shapes | {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}


def _types(graph: onnx.GraphProto) -> dict[str, int]:
    """Tensor -> its element type, where the file says it."""
    declared = (*graph.input, *graph.value_info, *graph.output)
    types = {value.name: value.type.tensor_type.elem_type for value in declared}
    return types | {tensor.name: tensor.data_type for tensor in graph.initializer}


def _is_single(graph: onnx.GraphProto) -> bool:
    """Whether inputs and weights hold no floats but those of single precision."""
    types = {value.type.tensor_type.elem_type for value in graph.input} | {one.data_type for one in graph.initializer}
    return types.isdisjoint((onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE))
