"""ONNX Runtime's attentions and rotations by positions, written out by the standard's operators.

    com.microsoft.GroupQueryAttention(q, k, v, past, ...)    ->    Mul, Sub, Concat, ..., MatMul, Softmax, MatMul

The definitions are those of ONNX Runtime's ContribOperators.md, masks and lengths as its CPU kernels take them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from engine.graph.contributed_quantized import dequantize
from engine.graph.expansion import SINCE_AXES_OPERAND, Expansion

_SINCE_SPLIT_PARTS = 18
"""Operator set from which on a split says its parts."""
_FILTER = -10000.0
"""What ONNX Runtime adds to scores that a mask leaves out."""
_FUTURE = float(np.finfo(np.float32).min)
"""And to scores of keys behind a query's own, far below what a mask adds: a query all of whose keys are masked sees
those all the same."""
_LAST = 2**31 - 1
_GROUPED = (
    "num_heads", "kv_num_heads", "scale", "softcap", "local_window_size", "do_rotary", "rotary_interleaved", "causal",
    "q_norm_epsilon", "k_norm_epsilon", "qk_norm_epsilon",
)  # fmt: skip
"""Attributes of GroupQueryAttention that are followed, or that say nothing without operands that are refused."""
_GROUPED_OPERANDS = 11
"""The first operand of GroupQueryAttention that is refused: sinks, scales of caches, weights of norms."""


def multi_head_attention(body: Expansion) -> bool:
    """Of queries, keys and values [batch, length, heads * size], with a bias of all three and one of the scores.

    Keys and values may follow those of earlier steps, [batch, heads, length, size], or be all of that form.  A mask is
    one of keys or scores, or says where the keys of each row end.
    """
    queries, keys, values, bias, mask = (body.operand(place) for place in range(5))
    heads, before = int(body.attribute("num_heads", 0)), (body.operand(6), body.operand(7))
    rest = [body.operand(place) for place in (8, 9)]
    if not (heads and keys and values) or any(rest) or not body.has_results_only((0, 1, 2)):
        return False
    if (mask and not _is_known_mask(body, mask, 1)) or any(before) != all(before) or body.rank(keys) not in (None, 3):
        return False
    if bias:
        # Sizes of heads may differ: the bias of each operand is as long as its last axis.
        sizes = [_size(body, x, -1) for x in (queries, keys, values)]
        parts = body.add_all("Split", bias, body.add("Concat", *sizes, axis=0), results=("", "", ""), axis=0)
        queries, keys, values = (body.add("Add", x, b) for x, b in zip((queries, keys, values), parts, strict=True))
    results = body.result(1), body.result(2)
    _attend_heads(body, (queries, keys, values), heads, _Surroundings(mask, body.operand(5), before, results))
    return True


def attention(body: Expansion) -> bool:
    """Queries, keys and values by one product of the input."""
    if body.operand(6):
        return False  # a step of a buffer that past and present share
    product = body.add("MatMul", body.operand(0), body.operand(1))
    return _attend_itself(body, product, _SelfOperands(body.operand(3), body.operand(4), body.operand(5)))


def quantized_attention(body: Expansion) -> bool:
    """The same of codes; scales and zero points of the weights may be one for each column."""
    x = dequantize(body, (body.operand(0), body.operand(3), body.operand(6)))
    weight = dequantize(body, (body.operand(1), body.operand(4), body.operand(7)), axis=1)
    return _attend_itself(body, body.add("MatMul", x, weight), _SelfOperands(body.operand(5), body.operand(8), ""))


@dataclass(frozen=True, slots=True)
class _SelfOperands:
    """Operands of an attention of its own input, "" for absent ones."""

    mask: str
    past: str
    """Keys and values of earlier steps, [2, batch, heads, length, size]."""
    bias: str
    """Of the scores."""


def _attend_itself(body: Expansion, product: str, given: _SelfOperands) -> bool:
    """Of an input's product with the weights of queries, keys and values, which lie side by side."""
    heads, sizes = int(body.attribute("num_heads", 0)), body.integers("qkv_hidden_sizes")
    if not heads or body.attribute("do_rotary", 0) or body.attribute("past_present_share_buffer", 0):
        return False
    if not body.has_results_only((0, 1)) or (sizes and body.opset < SINCE_AXES_OPERAND):
        return False
    if given.mask and not _is_known_mask(body, given.mask, 2):
        return False
    x = body.add("Add", product, body.operand(2)) if body.operand(2) else product
    lengths = [body.constant(np.array(sizes))] if sizes else []
    more = {"num_outputs": 3} if not sizes and body.opset >= _SINCE_SPLIT_PARTS else {}
    first, second, third = body.add_all("Split", x, *lengths, results=("", "", ""), axis=-1, **more)
    before = ("", "")
    if given.past:
        before = _part(body, given.past, 0), _part(body, given.past, 1)
    surroundings = _Surroundings(given.mask, given.bias, before, ("", ""))
    kept = _attend_heads(body, (first, second, third), heads, surroundings)
    if body.result(1):
        body.add("Concat", *(body.unsqueeze(x, 0) for x in kept), axis=0, result=body.result(1))
    return True


def _part(body: Expansion, x: str, place: int) -> str:
    """One element of the first axis, which goes."""
    return body.add("Gather", x, body.constant(np.array(place)), axis=0)


def _is_known_mask(body: Expansion, mask: str, most: int) -> bool:
    """Whether a mask is one of keys or scores, or one number for each row of a batch, or as many as `most`."""
    shape, rows = body.shape(mask), (body.shape(body.operand(0)) or (None,))[0]
    if shape is None:
        return False
    return len(shape) in (2, 3) or (len(shape) == 1 and shape[0] in _counts_of(rows)[:most])


def _counts_of(rows: int | str | None) -> tuple[int | str, ...]:
    """How many ends, or ends and starts, a batch has."""
    return (rows, 2 * rows) if isinstance(rows, int) else (rows,) if rows else ()


def rotary_embedding(body: Expansion) -> bool:
    """Pairs of elements of each head turned by the angles of their position; ranks have to be known."""
    x, positions, cosines, sines = (body.operand(place) for place in range(4))
    rank, of_positions = body.rank(x), body.rank(positions)
    number = int(body.attribute("num_heads", 0))
    if rank not in (3, 4) or of_positions not in (1, 2) or (body.attribute("rotary_embedding_dim", 0) and not number):
        return False
    if body.attribute("is_packed_batching", 0) or body.attribute("scale", 1.0) != 1:
        return False
    if rank == 4:
        heads = body.add("Transpose", x, perm=[0, 2, 1, 3])
    elif number:  # elements behind the angles' stay
        heads = body.add("Reshape", x, body.constant(np.array([0, 0, number, -1])))
    else:
        size = body.add("Mul", _size(body, cosines, 1), body.constant(np.array([2])))
        heads = body.add("Reshape", x, body.add("Concat", body.constant(np.array([0, 0, -1])), size, axis=0))
    if of_positions == 1:  # of the first row; the others follow
        positions = body.add("Add", positions, _range(body, _size(body, heads, 1)))
        positions = body.unsqueeze(positions, 0)
    turned = _rotate(body, heads, positions, (cosines, sines), bool(body.attribute("interleaved", 0)))
    if rank == 4:
        body.add("Transpose", turned, perm=[0, 2, 1, 3], result=body.node.output[0])
    else:
        body.add("Reshape", turned, body.add("Shape", x), result=body.node.output[0])
    return True


def group_query_attention(body: Expansion) -> bool:
    """Attention, causal or not, whose heads of queries share heads of keys, behind the keys of earlier steps."""
    heads, shared = int(body.attribute("num_heads", 0)), int(body.attribute("kv_num_heads", 0))
    before, bias = (body.operand(3), body.operand(4)), body.operand(10)
    if not heads or not shared or any(body.node.input[_GROUPED_OPERANDS:]):
        return False
    window, is_causal = int(body.attribute("local_window_size", -1)), bool(body.attribute("causal", 1))
    if window >= 0 and not is_causal:
        return False  # ONNX Runtime has none
    if any(_is_set(one) for one in body.node.attribute if one.name not in _GROUPED):
        return False
    if any(before) != all(before) or not body.operand(6) or not body.has_results_only((0, 1, 2)):
        return False
    q, k, v = _operands(body, heads, shared)
    lengths = body.add("Cast", body.operand(5), to=onnx.TensorProto.INT64)
    lengths = body.add("Reshape", lengths, body.constant(np.array([-1])))  # without the last key
    past, rows = _past(body, q, lengths), _range(body, _size(body, q, 1))
    positions = body.add("Add", body.unsqueeze(past, 1), body.unsqueeze(rows, 0))  # [batch, length]
    if body.attribute("do_rotary", 0):
        angles, interleaved = (body.operand(7), body.operand(8)), bool(body.attribute("rotary_interleaved", 0))
        places = body.operand(9) or positions
        q, k = (_rotate(body, x, places, angles, interleaved) for x in (q, k))
    q, k, v = (body.add("Transpose", x, perm=[0, 2, 1, 3]) for x in (q, k, v))
    results = body.result(1), body.result(2)
    if any(before):
        k, v = (_behind(body, old, new, past, name) for old, new, name in zip(before, (k, v), results, strict=True))
    else:
        k, v = (body.add("Identity", x, result=name) for x, name in zip((k, v), results, strict=True))
    last = body.unsqueeze(lengths, 1)
    seen = body.add("Min", positions, last) if is_causal else last  # queries of padding see no keys of padding
    mask = _CausalMask(seen, _range(body, _size(body, k, 2)), window)
    if heads != shared:
        k, v = (_repeat(body, x, heads // shared) for x in (k, v))
    scores = _scores(body, q, k)
    if cap := body.attribute("softcap", 0.0):
        capped = body.add("Tanh", body.add("Div", scores, body.number(cap, scores)))
        scores = body.add("Mul", capped, body.number(cap, scores))
    scores = body.add("Add", scores, _causal_bias(body, mask, scores))
    _mix(body, body.add("Add", scores, bias) if bias else scores, v)
    return True


@dataclass(frozen=True, slots=True)
class _CausalMask:
    """Keys that a query may see: those up to its own position, or the last few of them."""

    positions: str
    """Of queries, [batch, length]; [batch, 1] where all of a row see the same."""
    keys: str
    """Of keys, [length]."""
    window: int
    """How many keys; all for -1."""


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What an attention takes and gives beside queries, keys and values; "" for what is absent."""

    mask: str
    bias: str
    """Of the scores."""
    before: tuple[str, str]
    """Keys and values of earlier steps, [batch, heads, length, size]."""
    results: tuple[str, str]
    """Names for those of all steps."""


def _attend_heads(
    body: Expansion, operands: tuple[str, str, str], heads: int, around: _Surroundings
) -> tuple[str, str]:
    """softmax(q k' scale + mask + bias) v for each head, as the node's first result; keys and values of all steps.

    operands: [batch, length, heads * size].
    """
    apart = body.constant(np.array([0, 0, heads, -1]))
    q, k, v = (body.add("Transpose", body.add("Reshape", x, apart), perm=[0, 2, 1, 3]) for x in operands)
    rows = _range(body, _size(body, q, 2))
    past = _size(body, around.before[0], 2) if around.before[0] else ""
    if past:
        k, v = (body.add("Concat", *each, axis=2) for each in zip(around.before, (k, v), strict=True))
    k, v = (body.add("Identity", x, result=n) if n else x for x, n in zip((k, v), around.results, strict=True))
    scores = _scores(body, q, k)
    if around.mask:
        scores = body.add("Add", scores, _mask_bias(body, around.mask, (q, k), scores))
    if body.attribute("unidirectional", 0):
        positions = body.unsqueeze(body.add("Add", rows, past) if past else rows, 0)
        causal = _CausalMask(positions, _range(body, _size(body, k, 2)), -1)
        scores = body.add("Add", scores, _causal_bias(body, causal, scores))
    _mix(body, body.add("Add", scores, around.bias) if around.bias else scores, v)
    return k, v


def _scores(body: Expansion, q: str, k: str) -> str:
    """q k' scale of operands [batch, heads, length, size]."""
    scale = body.attribute("scale", 0.0)
    size = body.add("Cast", _size(body, q, -1), to=onnx.TensorProto.FLOAT)
    factor = body.constant(np.array(scale, np.float32)) if scale else body.add("Reciprocal", body.add("Sqrt", size))
    product = body.add("MatMul", q, body.add("Transpose", k, perm=[0, 1, 3, 2]))
    return body.add("Mul", product, body.cast(factor, q))


def _mix(body: Expansion, scores: str, v: str) -> None:
    """softmax(scores) v, heads side by side, as the node's first result."""
    mixed = body.add("Transpose", body.add("MatMul", body.add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    body.add("Reshape", mixed, body.constant(np.array([0, 0, -1])), result=body.node.output[0])


def _mask_bias(body: Expansion, mask: str, operands: tuple[str, str], like: str) -> str:
    """What a mask [batch, keys] or [batch, queries, keys], 0 for what is left out, adds to scores.

    A mask [batch] says where the keys of each row end, one of [2 batch] where they start as well.  operands: queries
    and keys of all heads.
    """
    if body.rank(mask) == 1:
        seen = _seen_between(body, mask, operands)
    else:
        apart = body.unsqueeze(mask, 1)
        if body.rank(mask) == 2:
            apart = body.unsqueeze(apart, 1)
        seen = body.add("Greater", apart, body.add("CastLike", body.constant(np.array(0)), mask))
    value = body.attribute("mask_filter_value", _FILTER)
    return body.add("Where", seen, body.number(0, like), body.number(value, like))


def _seen_between(body: Expansion, mask: str, operands: tuple[str, str]) -> str:
    """Whether a key lies in front of its row's end, and not in front of its start where there is one."""
    rows, keys = _size(body, operands[0], 0), _range(body, _size(body, operands[1], 2))
    places = body.add("Cast", mask, to=onnx.TensorProto.INT64)
    # Rows without starts have 0 there, which are cut off where starts are given.
    zeros = body.add("Expand", body.constant(np.array([0])), rows)
    places = body.add("Concat", places, zeros, axis=0)
    both = body.add("Add", rows, rows)
    ends = body.add("Slice", places, body.constant(np.array([0])), rows)
    starts = body.add("Slice", places, rows, both)
    ends, starts = (body.unsqueeze(body.unsqueeze(body.unsqueeze(x, 1), 1), 1) for x in (ends, starts))
    return body.add("And", body.add("Less", keys, ends), body.add("Not", body.add("Less", keys, starts)))


def _causal_bias(body: Expansion, mask: _CausalMask, like: str) -> str:
    """What scores [batch, heads, queries, keys] get: the lowest number for keys that a query may not see."""
    positions = body.unsqueeze(body.unsqueeze(mask.positions, 1), 3)
    seen = body.add("Not", body.add("Greater", mask.keys, positions))
    if mask.window >= 0:
        first = body.add("Sub", positions, body.constant(np.array(mask.window)))
        seen = body.add("And", seen, body.add("Greater", mask.keys, first))
    return body.add("Where", seen, body.number(0, like), body.number(_FUTURE, like))


def _operands(body: Expansion, heads: int, shared: int) -> tuple[str, str, str]:
    """Queries, keys and values [batch, length, heads, size], which may be packed as one."""
    q, k, v = (body.operand(place) for place in range(3))
    if k and v:
        counts = (heads, shared, shared)
        q, k, v = (
            body.add("Reshape", x, body.constant(np.array([0, 0, n, -1])))
            for x, n in zip((q, k, v), counts, strict=True)
        )
        return q, k, v
    packed = body.add("Reshape", q, body.constant(np.array([0, 0, heads + 2 * shared, -1])))
    parts = body.constant(np.array([heads, shared, shared]))
    q, k, v = body.add_all("Split", packed, parts, results=("", "", ""), axis=2)
    return q, k, v


def _past(body: Expansion, q: str, lengths: str) -> str:
    """Keys of earlier steps of each row of a batch: none where the whole length is new."""
    length, total = _size(body, q, 1), body.add("Cast", body.operand(6), to=onnx.TensorProto.INT64)
    earlier = body.add("Sub", body.add("Add", lengths, body.constant(np.array([1]))), length)
    return body.add("Where", body.add("Equal", length, total), body.constant(np.array([0])), earlier)


def _behind(body: Expansion, old: str, new: str, past: str, result: str) -> str:
    """New keys behind the `past` first of the old ones, [batch, heads, length, size]."""
    whole, room = body.add("Concat", old, new, axis=2), _size(body, old, 2)
    total = body.add("Cast", body.operand(6), to=onnx.TensorProto.INT64)
    total = body.add("Reshape", total, body.constant(np.array([1])))
    places = body.unsqueeze(_range(body, body.add("Max", room, total)), 0)
    first = body.unsqueeze(past, 1)
    moved = body.add("Add", body.add("Sub", places, first), room)
    last = body.add("Sub", _size(body, whole, 2), body.constant(np.array([1])))
    found = body.add("Min", body.add("Where", body.add("Less", places, first), places, moved), last)
    found = body.unsqueeze(body.unsqueeze(found, 1), 3)
    batch, heads, size = (_size(body, new, axis) for axis in (0, 1, 3))
    shape = body.add("Concat", batch, heads, body.constant(np.array([1])), size, axis=0)
    return body.add("GatherElements", whole, body.add("Expand", found, shape), result=result, axis=2)


def _repeat(body: Expansion, x: str, times: int) -> str:
    """Each head several times, one after the other."""
    apart = body.unsqueeze(x, 2)
    wide = body.add("Expand", apart, body.constant(np.array([1, 1, times, 1, 1])))
    batch, length, size = (_size(body, x, axis) for axis in (0, 2, 3))
    return body.add("Reshape", wide, body.add("Concat", batch, body.constant(np.array([-1])), length, size, axis=0))


def _rotate(body: Expansion, x: str, positions: str, angles: tuple[str, str], interleaved: bool) -> str:
    """The first elements of each head [batch, length, heads, size] turned; positions: [batch or 1, length].

    angles: cosines and sines, [position, half of the elements that are turned].
    """
    cosines, sines = (body.unsqueeze(body.add("Gather", each, positions, axis=0), 2) for each in angles)
    turned = body.add("Mul", _size(body, angles[0], 1), body.constant(np.array([2])))
    zero, last, end = (body.constant(np.array([place])) for place in (0, _LAST, -1))
    rest = body.add("Slice", x, turned, last, end)
    x = body.add("Slice", x, zero, turned, end)
    if interleaved:
        x = body.add("Reshape", x, body.constant(np.array([0, 0, 0, -1, 2])))
        cosines, sines = (body.unsqueeze(each, 4) for each in (cosines, sines))
    more = {"num_outputs": 2} if body.opset >= _SINCE_SPLIT_PARTS else {}
    a, b = body.add_all("Split", x, results=("", ""), axis=-1, **more)
    first = body.add("Sub", body.add("Mul", a, cosines), body.add("Mul", b, sines))
    second = body.add("Add", body.add("Mul", b, cosines), body.add("Mul", a, sines))
    both = body.add("Concat", first, second, axis=-1)
    if interleaved:
        both = body.add("Reshape", both, body.constant(np.array([0, 0, 0, -1])))
    return body.add("Concat", both, rest, axis=-1)


def _size(body: Expansion, x: str, axis: int) -> str:
    """The size of an axis, as one element of a row."""
    return body.add("Gather", body.add("Shape", x), body.constant(np.array([axis])), axis=0)


def _range(body: Expansion, size: str) -> str:
    """0 to a size, which is one element of a row."""
    scalar = body.add("Reshape", size, body.constant(np.array([], np.int64)))
    return body.add("Range", body.constant(np.array(0)), scalar, body.constant(np.array(1)))


def _is_set(attribute: onnx.AttributeProto) -> bool:
    """Whether an attribute asks for something: a number other than 0, or a text other than NONE."""
    return onnx.helper.get_attribute_value(attribute) not in (0, b"NONE", b"")
