"""Operators of ONNX Runtime's own domain that its optimiser leaves in files: written out by the standard's.

    com.microsoft.SkipLayerNormalization(x, skip, gamma)    ->    Add, ReduceMean, Sub, Mul, ReduceMean, ..., Mul

The definitions are those of ONNX Runtime's ContribOperators.md.  A form that is not written out (optional results,
masks, caches of keys, packed operands) stays as it is and is refused by its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

DOMAIN = "com.microsoft"
_SINCE_AXES = 18
"""Operator set from which on reductions take their axes as an operand."""
_SINCE_LAYER_NORMALIZATION = 17
_SINCE_CAST_LIKE = 15


class _Expansion:
    """The nodes that stand for one node, with names of their own."""

    def __init__(self, node: onnx.NodeProto, opset: int) -> None:
        self.node, self.opset = node, opset
        self.nodes: list[onnx.NodeProto] = []
        # Names of nodes may repeat, those of tensors may not.
        self._label, self._scope = node.output[0], node.name or node.output[0]

    def operand(self, place: int) -> str:
        """The name of an operand, "" for an absent one."""
        return self.node.input[place] if place < len(self.node.input) else ""

    def has_results_only(self, places: tuple[int, ...]) -> bool:
        """Whether the node has no other results than these."""
        return all(not name or at in places for at, name in enumerate(self.node.output))

    def attribute(self, name: str, default: float) -> float:
        """A number among the attributes."""
        for one in self.node.attribute:
            if one.name == name:
                return float(helper.get_attribute_value(one))
        return default

    def add(self, kind: str, *operands: str, result: str = "", **attributes: object) -> str:
        """A node of the standard; the name of its result."""
        return self.add_all(kind, *operands, results=(result,), **attributes)[0]

    def add_all(self, kind: str, *operands: str, results: tuple[str, ...], **attributes: object) -> tuple[str, ...]:
        """A node with several results, named where a name is empty."""
        place = f"{kind}_{len(self.nodes)}"
        names = tuple(name or f"{self._label}/{place}:{at}" for at, name in enumerate(results))
        self.nodes.append(helper.make_node(kind, operands, names, name=f"{self._scope}/{place}", **attributes))
        return names

    def number(self, value: float, like: str) -> str:
        """A scalar of the type of a tensor."""
        return self.cast(self.constant(np.array(value, np.float32)), like)

    def cast(self, x: str, like: str) -> str:
        """A tensor of single precision in the type of another; of operator sets without CastLike all are of it."""
        return self.add("CastLike", x, like) if self.opset >= _SINCE_CAST_LIKE else x

    def constant(self, value: np.ndarray) -> str:
        """A constant."""
        return self.add("Constant", value=numpy_helper.from_array(value))

    def mean_of_row(self, x: str) -> str:
        """The mean over the last axis, which stays as one element."""
        if self.opset >= _SINCE_AXES:
            return self.add("ReduceMean", x, self.constant(np.array([-1])), keepdims=1)
        return self.add("ReduceMean", x, axes=[-1], keepdims=1)


def _normalize(body: _Expansion, x: str, scale: str, shift: str, is_centred: bool) -> None:
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


def _layer_normalization(body: _Expansion) -> bool:
    """The standard's, in operator sets that lack it: over the last axis."""
    if body.opset >= _SINCE_LAYER_NORMALIZATION or not body.has_results_only((0,)) or body.attribute("axis", -1) != -1:
        return False
    _normalize(body, body.operand(0), body.operand(1), body.operand(2), is_centred=True)
    return True


def _simplified_layer_normalization(body: _Expansion) -> bool:
    if not body.has_results_only((0,)) or body.attribute("axis", -1) != -1:
        return False
    _normalize(body, body.operand(0), body.operand(1), "", is_centred=False)
    return True


def _skip_layer_normalization(body: _Expansion) -> bool:
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


def _gelu(body: _Expansion) -> bool:
    """x/2 (1 + erf(x / sqrt 2)), of a biased operand where there is one."""
    x = body.operand(0)
    if body.operand(1):
        x = body.add("Add", x, body.operand(1))
    grown = body.add("Erf", body.add("Mul", x, body.number(math.sqrt(0.5), x)))
    half = body.add("Mul", x, body.number(0.5, x))
    body.add("Mul", half, body.add("Add", grown, body.number(1, x)), result=body.node.output[0])
    return True


def _fast_gelu(body: _Expansion) -> bool:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), of a biased operand where there is one."""
    x = body.operand(0)
    if body.operand(1):
        x = body.add("Add", x, body.operand(1))
    cubic = body.add("Mul", body.add("Mul", body.add("Mul", x, x), x), body.number(0.044715, x))
    inner = body.add("Mul", body.add("Add", x, cubic), body.number(math.sqrt(2 / math.pi), x))
    half = body.add("Mul", x, body.number(0.5, x))
    body.add("Mul", half, body.add("Add", body.add("Tanh", inner), body.number(1, x)), result=body.node.output[0])
    return True


def _quick_gelu(body: _Expansion) -> bool:
    """x sigmoid(alpha x)."""
    x = body.operand(0)
    scaled = body.add("Mul", x, body.number(body.attribute("alpha", 1.702), x))
    body.add("Mul", x, body.add("Sigmoid", scaled), result=body.node.output[0])
    return True


def _fused_matmul(body: _Expansion) -> bool:
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


def _swap_axes(body: _Expansion, x: str) -> str:
    """A tensor of any rank with its last two axes swapped: no permutation says that without the rank."""
    return body.add("Einsum", x, equation="...ij->...ji")


def _multi_head_attention(body: _Expansion) -> bool:
    """Of queries, keys and values [batch, length, heads * size], with a bias of all three and one of the scores."""
    queries, keys, values, bias = (body.operand(place) for place in range(4))
    heads, rest = int(body.attribute("num_heads", 0)), [body.operand(place) for place in (4, 6, 7, 8, 9)]
    if not (heads and keys and values) or any(rest) or not body.has_results_only((0,)):
        return False
    if bias:
        # Sizes of heads may differ: the bias of each operand is as long as its last axis.
        sizes = [_last_size(body, x) for x in (queries, keys, values)]
        parts = body.add_all("Split", bias, body.add("Concat", *sizes, axis=0), results=("", "", ""), axis=0)
        queries, keys, values = (body.add("Add", x, b) for x, b in zip((queries, keys, values), parts, strict=True))
    _attend(body, (queries, keys, values), heads, body.operand(5))
    return True


def _last_size(body: _Expansion, x: str) -> str:
    return body.add("Gather", body.add("Shape", x), body.constant(np.array([-1])), axis=0)


def _attention(body: _Expansion) -> bool:
    """Queries, keys and values by one product of the input, equally long."""
    heads, rest = int(body.attribute("num_heads", 0)), [body.operand(place) for place in (3, 4, 6)]
    sizes = any(one.name == "qkv_hidden_sizes" for one in body.node.attribute)
    if not heads or any(rest) or sizes or body.attribute("unidirectional", 0) or body.attribute("do_rotary", 0) or (
        not body.has_results_only((0,))
    ):  # fmt: skip
        return False
    x = body.add("MatMul", body.operand(0), body.operand(1))
    if body.operand(2):
        x = body.add("Add", x, body.operand(2))
    more = {"num_outputs": 3} if body.opset >= _SINCE_AXES else {}
    first, second, third = body.add_all("Split", x, results=("", "", ""), axis=-1, **more)
    _attend(body, (first, second, third), heads, body.operand(5))
    return True


def _attend(body: _Expansion, operands: tuple[str, str, str], heads: int, added: str) -> None:
    """softmax(q k' scale + added) v for each head, as the node's first result."""
    apart = body.constant(np.array([0, 0, heads, -1]))
    q, k, v = (body.add("Reshape", x, apart) for x in operands)
    size = body.add("Cast", _last_size(body, q), to=onnx.TensorProto.FLOAT)
    scale = body.attribute("scale", 0.0)
    factor = body.constant(np.array(scale, np.float32)) if scale else body.add("Reciprocal", body.add("Sqrt", size))
    factor = body.cast(factor, q)
    q, v = (body.add("Transpose", x, perm=[0, 2, 1, 3]) for x in (q, v))
    scores = body.add("Mul", body.add("MatMul", q, body.add("Transpose", k, perm=[0, 2, 3, 1])), factor)
    if added:
        scores = body.add("Add", scores, added)
    mixed = body.add("Transpose", body.add("MatMul", body.add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    body.add("Reshape", mixed, body.constant(np.array([0, 0, -1])), result=body.node.output[0])


_BODIES: Mapping[tuple[str, str], Callable[[_Expansion], bool]] = {
    ("", "LayerNormalization"): _layer_normalization,
    ("", "SimplifiedLayerNormalization"): _simplified_layer_normalization,
    (DOMAIN, "SkipLayerNormalization"): _skip_layer_normalization,
    (DOMAIN, "SkipSimplifiedLayerNormalization"): _skip_layer_normalization,
    (DOMAIN, "Gelu"): _gelu, (DOMAIN, "BiasGelu"): _gelu, (DOMAIN, "FastGelu"): _fast_gelu,
    (DOMAIN, "QuickGelu"): _quick_gelu, (DOMAIN, "FusedMatMul"): _fused_matmul,
    (DOMAIN, "MultiHeadAttention"): _multi_head_attention, (DOMAIN, "Attention"): _attention,
}  # fmt: skip
CONTRIBUTED = frozenset(_BODIES)
"""(domain, operator) of what is written out."""


def write_out_contributed(graph: onnx.GraphProto, opset: int) -> None:
    """Replace the nodes of `CONTRIBUTED` in a graph where their form is known."""
    if opset < _SINCE_CAST_LIKE and not _is_single(graph):
        return
    made: dict[int, list[onnx.NodeProto]] = {}
    for number, node in enumerate(graph.node):
        write = _BODIES.get((node.domain, node.op_type))
        if write is None or not any(node.output[:1]):
            continue
        body = _Expansion(node, opset)
        # A missing operand would be one that the standard's operators cannot leave out.
        if write(body) and all(name for made_node in body.nodes for name in made_node.input):
            made[number] = body.nodes
    if made:
        nodes = [one for number, node in enumerate(graph.node) for one in made.get(number, (node,))]
        del graph.node[:]
        graph.node.extend(nodes)


def _is_single(graph: onnx.GraphProto) -> bool:
    """Whether inputs and weights hold no floats but those of single precision."""
    types = {value.type.tensor_type.elem_type for value in graph.input} | {one.data_type for one in graph.initializer}
    return types.isdisjoint((onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE))
