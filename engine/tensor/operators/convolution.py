"""Sliding windows: convolution and pooling over any number of spatial axes.

Points outside the image are guarded reads: they are never made, and stand for 0 (or the lowest value of a maximum).
A convolution reads its image through a framed copy instead, so that its main loop has no guards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import mul

import numpy as np

from engine.errors import Unsupported
from engine.graph.nodes import Operator
from engine.tensor.build import Box, Builder, accumulator, box
from engine.tensor.index import Extents, Index
from engine.tensor.operators.attributes import integer, integers, present, text
from engine.tensor.operators.layout import padded
from engine.tensor.operators.registry import operator
from engine.tensor.terms import Term, cast, maximum, minimum, position


@dataclass(frozen=True, slots=True)
class Window:
    """How a window slides: one number for each spatial axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    """Padding in front; what is behind follows from the size of the result."""

    def places(self, at: Sequence[Index], inside: Sequence[Index]) -> list[Index]:
        """Where element `inside` of the window stands in the image for the result at `at`."""
        steps = zip(at, self.stride, inside, self.dilation, self.before, strict=True)
        return [a * stride + i * dilation - before for a, stride, i, dilation, before in steps]


def window(op: Operator, image: Sequence[int], kernel: Sequence[int], result: Sequence[int]) -> Window:
    """The window of an ONNX operator over spatial sizes; `auto_pad` SAME splits the padding evenly."""
    rank = len(image)
    ones = (1,) * rank
    stride, dilation = integers(op, "strides") or ones, integers(op, "dilations") or ones
    pads = integers(op, "pads") or (0,) * (2 * rank)
    before = pads[:rank]
    how = text(op, "auto_pad", "NOTSET")
    if how in ("SAME_UPPER", "SAME_LOWER"):
        reach = zip(result, stride, kernel, dilation, image, strict=True)
        total = [max(0, (r - 1) * s + (k - 1) * d + 1 - size) for r, s, k, d, size in reach]
        before = tuple(t // 2 if how == "SAME_UPPER" else t - t // 2 for t in total)
    elif how == "VALID":
        before = (0,) * rank
    return Window(tuple(kernel), stride, dilation, before)


def windows(x: np.ndarray, over: Window, result: Sequence[int], outside: float) -> np.ndarray:
    """Every window of an image [n, c, *spatial] as [n, c, *result, *kernel]."""
    rank = len(over.kernel)
    sizes = zip(result, over.stride, over.kernel, over.dilation, strict=True)
    reach = [(r - 1) * s + (k - 1) * d + 1 for r, s, k, d in sizes]
    behind = [max(0, n - size - b) for n, size, b in zip(reach, x.shape[2:], over.before, strict=True)]
    filled = np.pad(x, [(0, 0), (0, 0), *zip(over.before, behind, strict=True)], constant_values=outside)
    parts = np.empty((*x.shape[:2], *result, *over.kernel), x.dtype)
    for inside in product(*map(range, over.kernel)):
        first = [i * d for i, d in zip(inside, over.dilation, strict=True)]
        cut = [slice(f, f + (r - 1) * s + 1, s) for f, r, s in zip(first, result, over.stride, strict=True)]
        parts[(slice(None),) * (2 + rank) + inside] = filled[(slice(None), slice(None), *cut)]
    return parts


def _result(over: Window, image: Sequence[int], pads: Sequence[int], ceil: bool) -> list[int]:
    """Sizes of the result with the padding given on both sides."""
    total = [size + a + b for size, a, b in zip(image, pads[: len(image)], pads[len(image) :], strict=True)]
    room = [t - (k - 1) * d - 1 for t, k, d in zip(total, over.kernel, over.dilation, strict=True)]
    sizes = [(-(-r // s) if ceil else r // s) + 1 for r, s in zip(room, over.stride, strict=True)]
    started = zip(sizes, over.stride, image, over.before, strict=True)
    return [n - 1 if ceil and (n - 1) * s >= size + b else n for n, s, size, b in started]


def _sizes(op: Operator, image: Sequence[int], kernel: Sequence[int]) -> tuple[Window, list[int]]:
    """The window and the result's sizes, for meanings, which know no declared shape."""
    rank, how = len(image), text(op, "auto_pad", "NOTSET")
    stride = integers(op, "strides") or (1,) * rank
    if how.startswith("SAME"):
        result = [-(-size // s) for size, s in zip(image, stride, strict=True)]
        return window(op, image, kernel, result), result
    pads = integers(op, "pads") if how == "NOTSET" else None
    over = window(op, image, kernel, image)
    return over, _result(over, image, pads or (0,) * (2 * rank), bool(integer(op, "ceil_mode", 0)))


def framed(
    build: Builder, image: str, target: str, places: Sequence[Index], space: Box, first: int
) -> tuple[str, list[Index]]:
    """An image that holds every place read, and the places in it: itself, or a copy with a frame of zeros.

    The main loop of a contraction then reads without guards, in whole vectors.  first: the first spatial axis.
    """
    shape = list(build.shape(image))
    before = [0] * len(shape)
    for axis, place in enumerate(places, start=first):
        low, high = place.bounds(space.extents)
        before[axis] = max(0, -low)
        shape[axis] = max(shape[axis], high + 1) + before[axis]
    if tuple(shape) == build.shape(image):
        return image, list(places)
    frame = build.temporary(target, "framed", shape, build.dtype(image))
    cells = box(shape)
    inside = [index - b for index, b in zip(cells.written, before, strict=True)]
    build.emit(frame, cells, padded(build, image, inside, cells, 0), because="a frame of zeros around the image")
    return frame, [place + b for place, b in zip(places, before[first:], strict=False)]


def _conv_meaning(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    image, weight = x[:2]
    groups = integer(op, "group", 1)
    over, result = _sizes(op, image.shape[2:], weight.shape[2:])
    parts = windows(image, over, result, 0)
    rank, per = len(result), weight.shape[1]
    depth = [1, *range(2 + rank, 2 + 2 * rank)]
    pieces = []
    for group, kernel in enumerate(np.split(weight, groups)):
        mine = parts[:, group * per : (group + 1) * per]
        pieces.append(np.moveaxis(np.tensordot(mine, kernel, (depth, list(range(1, 2 + rank)))), -1, 1))
    y = np.concatenate(pieces, axis=1)
    return [y + x[2].reshape(-1, *[1] * rank) if present(op, 2) else y]


@operator("onnx.Conv", meaning=_conv_meaning)
def conv(op: Operator, build: Builder) -> None:
    """Channels first; group g of the result's channels reads group g of the image's. Then the bias."""
    image, weight, target = op.inputs[0], op.inputs[1], op.outputs[0]
    shape, filters = build.shape(target), build.shape(weight)
    over = window(op, build.shape(image)[2:], filters[2:], shape[2:])
    kind = accumulator("sum", build.dtype(image))
    product_ = build.temporary(target, "product", shape, kind) if present(op, 2) else target
    space = box(shape, filters[1:])
    n, m, *rest = space.point
    at, channel, inside = rest[: len(over.kernel)], rest[len(over.kernel)], rest[len(over.kernel) + 1 :]
    group = m.floordiv(shape[1] // integer(op, "group", 1), space.extents)
    image, places = framed(build, image, target, over.places(at, inside), space, first=2)
    value = cast(build.read(image, (n, group * filters[1] + channel, *places)), kind) * cast(
        build.read(weight, (m, channel, *inside)), kind
    )
    build.emit(product_, space, value, reduction="sum", accumulate=kind, because="convolution")
    if present(op, 2):
        space = box(shape)
        bias = cast(build.read(op.inputs[2], [space.written[1]]), kind)
        build.emit(target, space, build.read(product_, space.written) + bias, because="bias")


def _akg_conv(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    over, result = _akg_window(op, x[0].shape, x[1].shape)
    parts = windows(np.moveaxis(x[0], -1, 1), over, result, 0)
    return [np.tensordot(parts, np.moveaxis(x[1], -1, 1), ([1, 4, 5], [1, 2, 3]))]


def _akg_window(op: Operator, image: Sequence[int], weight: Sequence[int]) -> tuple[Window, list[int]]:
    """Strides and dilations are listed for N, C, H, W; pads as top, bottom, left, right."""
    stride, dilation = integers(op, "stride") or (1,) * 4, integers(op, "dilation") or (1,) * 4
    top, bottom, left, right = integers(op, "pad_list") or (0,) * 4
    over = Window(tuple(weight[1:3]), stride[-2:], dilation[-2:], (top, left))
    return over, _result(over, image[1:3], (top, left, bottom, right), ceil=False)


@operator("akg.Conv2D", meaning=_akg_conv)
def akg_conv(op: Operator, build: Builder) -> None:
    """Channels last: image [n, h, w, c], weight [m, kh, kw, c], result [n, h, w, m]."""
    image, weight, target = op.inputs[0], op.inputs[1], op.outputs[0]
    if integer(op, "group", 1) != 1:
        raise Unsupported("tensor", f"operator {op.name}", "has groups", "one group is compiled")
    over, _ = _akg_window(op, build.shape(image), build.shape(weight))
    space = box(build.shape(target), build.shape(weight)[1:])
    n, y, x, m, kh, kw, c = space.point
    kind = accumulator("sum", build.dtype(image))
    image, places = framed(build, image, target, over.places((y, x), (kh, kw)), space, first=1)
    value = cast(build.read(image, (n, *places, c)), kind) * cast(build.read(weight, (m, kh, kw, c)), kind)
    build.emit(target, space, value, reduction="sum", accumulate=kind, because="convolution")


def _max_pool_meaning(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    over, result = _sizes(op, x[0].shape[2:], integers(op, "kernel_shape") or ())
    lowest = -np.inf if x[0].dtype.kind == "f" else np.iinfo(x[0].dtype).min
    parts = windows(x[0], over, result, lowest)
    return [parts.max(axis=tuple(range(2 + len(result), parts.ndim)))]


@operator("onnx.MaxPool", meaning=_max_pool_meaning)
def max_pool(op: Operator, build: Builder) -> None:
    """ONNX MaxPool: the largest element of each window; positions in the frame never win."""
    source, target = op.inputs[0], op.outputs[0]
    if len(op.outputs) > 1 and op.outputs[1]:
        raise Unsupported("tensor", f"operator {op.name}", "gives the places of its maxima", "values are compiled")
    shape, kernel = build.shape(target), integers(op, "kernel_shape") or ()
    over = window(op, build.shape(source)[2:], kernel, shape[2:])
    space = box(shape, kernel)
    n, c, *rest = space.point
    places = over.places(rest[: len(kernel)], rest[len(kernel) :])
    kind = build.dtype(source)
    lowest = -np.inf if "float" in kind else int(np.iinfo(kind).min)
    build.emit(target, space, padded(build, source, (n, c, *places), space, lowest), reduction="max", because="maximum")


def _average_meaning(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    over, result = _sizes(op, x[0].shape[2:], integers(op, "kernel_shape") or ())
    parts = windows(x[0], over, result, 0)
    axes = tuple(range(2 + len(result), parts.ndim))
    counted = windows(np.ones((1, 1, *x[0].shape[2:]), x[0].dtype), over, result, 0)
    everywhere = integer(op, "count_include_pad", 0)
    return [parts.sum(axis=axes) / (np.prod(over.kernel) if everywhere else counted.sum(axis=axes))]


@operator("onnx.AveragePool", meaning=_average_meaning)
def average_pool(op: Operator, build: Builder) -> None:
    """The sum of each window over the number of its points inside the image (or, on request, of all its points)."""
    source, target = op.inputs[0], op.outputs[0]
    shape, kernel, image = build.shape(target), integers(op, "kernel_shape") or (), build.shape(source)[2:]
    over = window(op, image, kernel, shape[2:])
    everywhere = integer(op, "count_include_pad", 0)
    if everywhere and integer(op, "ceil_mode", 0):
        raise Unsupported("tensor", f"operator {op.name}", "its windows leave the padded image", "drop ceil_mode")
    kind = accumulator("sum", build.dtype(source))
    total = build.temporary(target, "sum", shape, kind)
    space = box(shape, kernel)
    n, c, *rest = space.point
    places = over.places(rest[: len(kernel)], rest[len(kernel) :])
    value = padded(build, source, (n, c, *places), space, 0)
    build.emit(total, space, value, reduction="sum", accumulate=kind, because="window sum")
    cells = box(shape)
    inside = all(
        low >= 0 and high < size
        for (low, high), size in zip((p.bounds(space.extents) for p in places), image, strict=True)
    )
    count: Term | float = float(np.prod(kernel))
    if not inside and not everywhere:
        first = over.places(cells.written[2:], [Index()] * len(kernel))
        count = cast(
            reduce(
                mul, (_covered(*axis, cells.extents) for axis in zip(first, kernel, over.dilation, image, strict=True))
            ),
            kind,
        )
    build.emit(target, cells, build.read(total, cells.written) / count, because="mean")


def _covered(first: Index, kernel: int, dilation: int, size: int, extents: Extents) -> Term:
    """How many of `kernel` points `first`, `first + dilation`, ... lie inside an axis: those from 0 on, before size."""
    skipped = (first * -1 + (dilation - 1)).floordiv(dilation, extents)
    reached = (first * -1 + (size + dilation - 1)).floordiv(dilation, extents)
    return minimum(position(reached), kernel) - maximum(position(skipped), 0)
