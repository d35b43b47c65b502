"""ATen operators of layers (products, convolutions, norms, pools, attention) as ONNX nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from engine.graph.torch_program.sketch import Call

HALVES = ("float16", "bfloat16")


def _linear(call: Call) -> None:
    made = [call.tensor("input"), call.sketch.transposed_weight(call.tensor("weight"))]
    bias = call.tensor("bias")
    product = call.add("MatMul", made, "" if bias else None)
    if bias:
        call.add("Add", [product, bias])


def _product(call: Call, second: str) -> None:
    call.add("MatMul", [call.tensor("self"), call.tensor(second)])


def _sum_and_product(call: Call, words: tuple[str, str]) -> None:
    """beta * self + alpha * (a @ b)."""
    scales = [float(call.value(name, 1)) for name in ("beta", "alpha")]
    factors = [call.tensor(word) for word in words]
    if len(call.kind.shape) == 2:
        call.add("Gemm", [*factors, call.tensor("self")], alpha=scales[1], beta=scales[0])
        return
    terms = [call.tensor("self"), call.add("MatMul", factors, "")]
    for at, scale in enumerate(scales):
        if scale != 1:
            terms[at] = call.add("Mul", [terms[at], call.sketch.constant(scale, call.kind.dtype)], "")
    call.add("Add", terms)


def _einsum(call: Call) -> None:
    call.add("Einsum", call.tensors("tensors"), equation=call.value("equation"))


def _convolution(call: Call) -> None:
    rank = len(call.kind_of("weight").shape) - 2
    stride, dilation = call.ints("stride", [1], rank), call.ints("dilation", [1], rank)
    operands = [call.tensor("input"), call.tensor("weight"), *filter(None, [call.tensor("bias")])]
    options = {"strides": stride, "dilations": dilation, "group": call.value("groups", 1)}
    padding = call.value("padding", [0])
    if isinstance(padding, str):  # "same" is allowed with strides of 1 alone
        kernel = call.kind_of("weight").shape[2:]
        total = [d * (int(k) - 1) * (padding == "same") for k, d in zip(kernel, dilation, strict=True)]
        call.add("Conv", operands, pads=[*(n // 2 for n in total), *(n - n // 2 for n in total)], **options)
        return
    pads = call.ints("padding", [0], rank) * 2
    if call.value("transposed", "transpose" in call.node.target):
        beyond = call.ints("output_padding", [0], rank)
        call.add("ConvTranspose", operands, pads=pads, output_padding=beyond, **options)
    else:
        call.add("Conv", operands, pads=pads, **options)


def _batch_norm(call: Call) -> None:
    if call.value("training", False):
        raise KeyError("batch normalisation of a training step")
    channels = int(call.kind_of("input").shape[1])
    given = [_affine(call, name, (channels,), value) for name, value in (("weight", 1), ("bias", 0))]
    statistics = [call.tensor("running_mean"), call.tensor("running_var")]
    if "" in statistics:
        raise KeyError("batch normalisation without running statistics")
    call.add("BatchNormalization", [call.tensor("input"), *given, *statistics], epsilon=call.value("eps", 1e-5))


def _affine(call: Call, name: str, shape: tuple[int, ...], value: int) -> str:
    """A scale or an offset; all ones or zeros where there is none."""
    return call.tensor(name) or call.sketch.constant(np.full(shape, value), call.kind.dtype)


def _layer_norm(call: Call) -> None:
    shape = tuple(call.ints("normalized_shape"))
    operands = [call.tensor("input"), _affine(call, "weight", shape, 1), *filter(None, [call.tensor("bias")])]
    call.add("LayerNormalization", operands, axis=-len(shape), epsilon=call.value("eps", 1e-5))


def _group_norm(call: Call) -> None:
    """Each group of channels as one channel of an instance norm."""
    word = "num_groups" if call.has("num_groups") else "group"
    groups, x, shape = call.value(word), call.tensor("input"), call.kind_of("input").shape
    channels = int(shape[1])
    rows = call.add("Reshape", [x, call.sketch.constant([0, groups, -1], np.int64)], "")
    plain = [call.sketch.constant(np.full(groups, value), call.kind.dtype) for value in (1, 0)]
    eps = call.value("eps", 1e-5)
    made = call.add("InstanceNormalization", [rows, *plain], "", epsilon=eps)
    made = call.add("Reshape", [made, call.add("Shape", [x], "")], "")
    wide = call.sketch.constant([channels] + [1] * (len(shape) - 2), np.int64)
    for kind, name in (("Mul", "weight"), ("Add", "bias")):
        if call.tensor(name):
            made = call.add(kind, [made, call.add("Reshape", [call.tensor(name), wide], "")], "")
    call.add("Identity", [made])


def _rms_norm(call: Call) -> None:
    """Halves in float32, rounded before the scale."""
    axes, own = list(range(-len(call.ints("normalized_shape")), 0)), call.kind.dtype
    wide = np.dtype(np.float32) if own.name in HALVES else own
    x = call.operand("input", wide)
    mean = call.add("ReduceMean", [call.add("Mul", [x, x], ""), call.sketch.constant(axes, np.int64)], "", keepdims=1)
    eps = call.sketch.constant(call.value("eps", float(np.finfo(np.float32).eps)), wide)
    root = call.add("Sqrt", [call.add("Add", [mean, eps], "")], "")
    made = call.sketch.cast(call.add("Div", [x, root], ""), own, wide)
    call.add("Mul", [made, call.tensor("weight")]) if call.tensor("weight") else call.add("Identity", [made])


def _max_pool(call: Call) -> None:
    rank = call.rank() - 2
    kernel = call.ints("kernel_size", (), rank)
    call.add("MaxPool", [call.tensor("self")], kernel_shape=kernel, strides=call.ints("stride", (), rank) or kernel,
             pads=call.ints("padding", [0], rank) * 2, dilations=call.ints("dilation", [1], rank),
             ceil_mode=int(call.value("ceil_mode", False)))  # fmt: skip


def _average_pool(call: Call) -> None:
    rank = call.rank() - 2
    kernel = call.ints("kernel_size", (), rank)
    if call.has("divisor_override"):
        raise KeyError("a divisor of its own")
    call.add("AveragePool", [call.tensor("self")], kernel_shape=kernel, strides=call.ints("stride", (), rank) or kernel,
             pads=call.ints("padding", [0], rank) * 2, ceil_mode=int(call.value("ceil_mode", False)),
             count_include_pad=int(call.value("count_include_pad", True)))  # fmt: skip


def _adaptive_pool(call: Call) -> None:
    """Windows of one size, where the result's sizes divide the operand's."""
    shape, made = call.kind_of("self").shape[2:], call.kind.shape[2:]
    if set(made) == {1}:
        call.add("GlobalAveragePool", [call.tensor("self")])
        return
    pairs = [(int(size), int(parts)) for size, parts in zip(shape, made, strict=True)]
    if any(size % parts for size, parts in pairs):
        raise KeyError("windows of several sizes")
    kernel = [size // parts for size, parts in pairs]
    call.add("AveragePool", [call.tensor("self")], kernel_shape=kernel, strides=kernel)


def _attention(call: Call) -> None:
    """softmax(q k^T scale + mask) v."""
    query, key, value = (call.tensor(name) for name in ("query", "key", "value"))
    shape, keys = call.kind_of("query").shape, call.kind_of("key").shape
    if call.value("dropout_p", 0.0):
        raise KeyError("dropout in attention")
    if len(shape) != len(keys):
        raise KeyError("heads on one side alone")
    if len(shape) > 2 and shape[-3] != keys[-3]:
        key, value = (_shared_heads(call, name, int(shape[-3])) for name in ("key", "value"))
    scale = call.value("scale", 1 / math.sqrt(int(shape[-1])))
    axes = [*range(len(keys) - 2), len(keys) - 1, len(keys) - 2]
    scores = call.add("MatMul", [query, call.add("Transpose", [key], "", perm=axes)], "")
    scores = call.add("Mul", [scores, call.sketch.constant(scale, call.kind.dtype)], "")
    lowest = call.sketch.constant(-np.inf, call.kind.dtype)
    mask = call.tensor("attn_mask")
    if call.value("is_causal", False):
        seen = np.tril(np.ones((int(shape[-2]), int(keys[-2])), np.bool_))
        scores = call.add("Where", [call.sketch.constant(seen), scores, lowest], "")
    if mask and call.kind_of("attn_mask").dtype == np.bool_:
        scores = call.add("Where", [mask, scores, lowest], "")
    elif mask:
        scores = call.add("Add", [scores, mask], "")
    weights = call.add("Softmax", [scores], "", axis=-1)
    if mask:  # a query that no key may be seen by gets zeros, where a softmax of the lowest number alone has none
        nothing = call.sketch.constant(0, call.kind.dtype)
        weights = call.add("Where", [call.add("IsNaN", [weights], ""), nothing, weights], "")
    call.add("MatMul", [weights, value])


def _shared_heads(call: Call, name: str, heads: int) -> str:
    """Keys or values, each head repeated for the queries that share it."""
    *front, own, rows, size = (int(n) for n in call.kind_of(name).shape)
    inner = call.sketch.constant([-3], np.int64)
    apart = call.add("Unsqueeze", [call.tensor(name), inner], "")
    wide = call.sketch.constant([*front, own, heads // own, rows, size], np.int64)
    return call.add("Reshape", [call.add("Expand", [apart, wide], ""),
                                call.sketch.constant([*front, heads, rows, size], np.int64)], "")  # fmt: skip


def _resize(call: Call, mode: str) -> None:
    is_aligned = call.value("align_corners", False)
    place = "asymmetric" if mode == "nearest" else "align_corners" if is_aligned else "pytorch_half_pixel"
    sizes = call.sketch.constant([int(size) for size in call.kind.shape], np.int64)
    word = call.tensor("input") or call.tensor("self")
    call.add("Resize", [word, "", "", sizes], mode=mode, coordinate_transformation_mode=place,
             nearest_mode="floor" if mode == "nearest" else None)  # fmt: skip


def _pixel_shuffle(call: Call) -> None:
    call.add("DepthToSpace", [call.tensor("self")], blocksize=call.value("upscale_factor"), mode="CRD")


RULES: Mapping[str, Callable[[Call], object]] = {
    "linear": _linear, "mm": partial(_product, second="mat2"), "bmm": partial(_product, second="mat2"),
    "matmul": partial(_product, second="other"), "mv": partial(_product, second="vec"),
    "dot": partial(_product, second="tensor"), "addmm": partial(_sum_and_product, words=("mat1", "mat2")),
    "baddbmm": partial(_sum_and_product, words=("batch1", "batch2")), "einsum": _einsum,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d",
                     "conv_transpose3d"), _convolution),
    "batch_norm": _batch_norm, "_native_batch_norm_legit_no_training": _batch_norm, "layer_norm": _layer_norm,
    "native_layer_norm": _layer_norm, "group_norm": _group_norm, "native_group_norm": _group_norm,
    "rms_norm": _rms_norm, "scaled_dot_product_attention": _attention, "pixel_shuffle": _pixel_shuffle,
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices"), _max_pool),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), _average_pool),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d"),
                    _adaptive_pool),
    "upsample_nearest2d": partial(_resize, mode="nearest"), "upsample_bilinear2d": partial(_resize, mode="linear"),
}  # fmt: skip
"""Name of an ATen operator, without its overload -> what it is."""
