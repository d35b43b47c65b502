"""Convolution and transposed convolution over any number of spatial axes.

Points outside the image are guarded reads: they are never made, and stand for 0 (or the lowest value of a maximum).
A convolution reads its image through a framed copy instead, so that its main loop has no guards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from engine.graph.nodes import Operator
from engine.support.errors import BadInput, Unsupported
from engine.tensor.build import Domain, StatementBuilder, accumulator, box
from engine.tensor.index import Index, linear
from engine.tensor.nodes import Access
from engine.tensor.operators.attributes import integer, integers, parameter, present, text
from engine.tensor.operators.layout import read_guarded, read_padded
from engine.tensor.operators.registry import operator
from engine.tensor.operators.standard import standard
from engine.tensor.terms import both, cast, compare, number, position, select


@dataclass(frozen=True, slots=True)
class SlidingWindow:
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


def window(op: Operator, image: Sequence[int], kernel: Sequence[int], result: Sequence[int]) -> SlidingWindow:
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
        # ONNX: SAME_UPPER puts the odd element at the end, SAME_LOWER and output_shape at the start.
        before = tuple(t // 2 if how == "SAME_UPPER" else t - t // 2 for t in total)
    elif how == "VALID":
        before = (0,) * rank
    return SlidingWindow(tuple(kernel), stride, dilation, before)


def windows(x: np.ndarray, over: SlidingWindow, result: Sequence[int], outside: float) -> np.ndarray:
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


def sliding_sizes(over: SlidingWindow, image: Sequence[int], pads: Sequence[int], ceil: bool) -> list[int]:
    """Sizes of the result with the padding given on both sides."""
    total = [size + a + b for size, a, b in zip(image, pads[: len(image)], pads[len(image) :], strict=True)]
    room = [t - (k - 1) * d - 1 for t, k, d in zip(total, over.kernel, over.dilation, strict=True)]
    sizes = [(-(-r // s) if ceil else r // s) + 1 for r, s in zip(room, over.stride, strict=True)]
    started = zip(sizes, over.stride, image, over.before, strict=True)
    return [n - 1 if ceil and (n - 1) * s >= size + b else n for n, s, size, b in started]


def declared_sizes(op: Operator, image: Sequence[int], kernel: Sequence[int]) -> tuple[SlidingWindow, list[int]]:
    """The window and the result's sizes, for meanings, which know no declared shape."""
    rank, how = len(image), text(op, "auto_pad", "NOTSET")
    stride = integers(op, "strides") or (1,) * rank
    if how.startswith("SAME"):
        result = [-(-size // s) for size, s in zip(image, stride, strict=True)]
        return window(op, image, kernel, result), result
    pads = integers(op, "pads") if how == "NOTSET" else None
    over = window(op, image, kernel, image)
    return over, sliding_sizes(over, image, pads or (0,) * (2 * rank), bool(integer(op, "ceil_mode", 0)))


def pad_image(
    build: StatementBuilder, image: str, target: str, places: Sequence[Index], space: Domain, first: int
) -> tuple[str, list[Index]]:
    """The image padded with zeros so that every read is inside it, and the read positions in it; the image itself if no
    padding is needed.

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
    build.emit(frame, cells, read_padded(build, image, inside, cells, 0), because="a frame of zeros around the image")
    return frame, [place + b for place, b in zip(places, before[first:], strict=False)]


@dataclass(frozen=True, slots=True)
class _Sliding:
    """Iterators of a convolution: its result [n, m, *at], then the channels of a group and the window, which are
    reduced."""

    space: Domain
    batch: Index
    channel: Index
    """Of the result, all groups counted."""
    group: Index
    place: Index
    """Of the channel in its group."""
    at: tuple[Index, ...]
    reduced: Index
    """Channel of the group that is summed."""
    inside: tuple[Index, ...]
    """Place in the window."""


def _is_product(op: Operator, build: StatementBuilder) -> bool:
    """Whether both image and weight are arrays; a uniform constant is no factor of a product."""
    return all(isinstance(build.read(name, ()).scalar, Access) for name in op.inputs[:2])


def _sliding(shape: Sequence[int], groups: int, filters: Sequence[int], has_loop: bool) -> _Sliding:
    """The points of a result `shape` in groups of channels; filters: a group's channels summed, then the window.

    has_loop: groups are a loop of their own where each is a matrix product: of several channels from several channels.
    """
    per = shape[1] // groups
    if has_loop and groups > 1 and per > 1 and filters[0] > 1:
        # As two iterators the group is a batch axis of matrix products, which tensor cores can take.
        space = box((shape[0], groups, per, *shape[2:]), filters)
        n, group, place, *rest = space.point
        channel = group * per + place
    else:
        space = box(shape, filters)
        n, channel, *rest = space.point
        # Depthwise and ungrouped convolutions keep one channel iterator: a contiguous axis for vectors.
        group, place = channel.floordiv(per, space.extents), channel.mod(per, space.extents)
    at, (reduced, *inside) = rest[: len(shape) - 2], rest[len(shape) - 2 :]
    return _Sliding(space, n, channel, group, place, tuple(at), reduced, tuple(inside))


def _groups(op: Operator, *channels: int) -> int:
    """The number of groups; BadInput where it does not divide the channels of the image and of the result."""
    groups = integer(op, "group", 1)
    if groups < 1 or any(count % groups for count in channels):
        reason = f"attribute group is {groups}; it has to divide {' and '.join(map(str, channels))} channels"
        raise BadInput("tensor", f"operator {op.name}", reason)
    return groups


def _conv_meaning(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    image, weight = x[:2]
    groups = integer(op, "group", 1)
    over, result = declared_sizes(op, image.shape[2:], weight.shape[2:])
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
def conv(op: Operator, build: StatementBuilder) -> None:
    """Channels first; group g of the result's channels reads group g of the image's.  Then the bias."""
    image, weight, target = op.inputs[0], op.inputs[1], op.outputs[0]
    shape, filters = build.shape(target), build.shape(weight)
    over = window(op, build.shape(image)[2:], filters[2:], shape[2:])
    kind = accumulator("sum", build.dtype(image))
    product_ = build.temporary(target, "product", shape, kind) if present(op, 2) else target
    groups = _groups(op, build.shape(image)[1], shape[1])
    sliding = _sliding(shape, groups, filters[1:], has_loop=_is_product(op, build))
    space, n, m, at, inside = sliding.space, sliding.batch, sliding.channel, sliding.at, sliding.inside
    image, places = pad_image(build, image, target, over.places(at, inside), space, first=2)
    channel = sliding.group * filters[1] + sliding.reduced
    value = cast(build.read(image, (n, channel, *places)), kind) * cast(
        build.read(weight, (m, sliding.reduced, *inside)), kind
    )
    build.emit(product_, space.writing((n, m, *at)), value, reduction="sum", because="convolution")
    if present(op, 2):
        add_bias(build, product_, op.inputs[2], target)


def add_bias(build: StatementBuilder, product_: str, bias: str, target: str) -> None:
    """Append `target = product + bias[channel]`."""
    space = box(build.shape(target))
    value = cast(build.read(bias, [space.written[1]]), build.dtype(product_))
    build.emit(target, space, build.read(product_, space.written) + value, because="bias")


def _akg_conv(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    over, result = _akg_window(op, x[0].shape, x[1].shape)
    parts = windows(np.moveaxis(x[0], -1, 1), over, result, 0)
    return [np.tensordot(parts, np.moveaxis(x[1], -1, 1), ([1, 4, 5], [1, 2, 3]))]


def _akg_window(op: Operator, image: Sequence[int], weight: Sequence[int]) -> tuple[SlidingWindow, list[int]]:
    """Strides and dilations are listed for N, C, H, W; pads as top, bottom, left, right."""
    stride, dilation = integers(op, "stride") or (1,) * 4, integers(op, "dilation") or (1,) * 4
    top, bottom, left, right = integers(op, "pad_list") or (0,) * 4
    over = SlidingWindow(tuple(weight[1:3]), stride[-2:], dilation[-2:], (top, left))
    return over, sliding_sizes(over, image[1:3], (top, left, bottom, right), ceil=False)


@operator("akg.Conv2D", meaning=_akg_conv)
def akg_conv(op: Operator, build: StatementBuilder) -> None:
    """Channels last: image [n, h, w, c], weight [m, kh, kw, c], result [n, h, w, m]."""
    image, weight, target = op.inputs[0], op.inputs[1], op.outputs[0]
    if integer(op, "group", 1) != 1:
        raise Unsupported("tensor", f"operator {op.name}", "has groups", "one group is compiled")
    over, _ = _akg_window(op, build.shape(image), build.shape(weight))
    space = box(build.shape(target), build.shape(weight)[1:])
    n, y, x, m, kh, kw, c = space.point
    kind = accumulator("sum", build.dtype(image))
    image, places = pad_image(build, image, target, over.places((y, x), (kh, kw)), space, first=1)
    value = cast(build.read(image, (n, *places, c)), kind) * cast(build.read(weight, (m, kh, kw, c)), kind)
    build.emit(target, space, value, reduction="sum", because="convolution")


def _transposed_window(
    op: Operator, image: Sequence[int], kernel: Sequence[int], result: Sequence[int]
) -> SlidingWindow:
    """The window of a transposed convolution: what the declared result lacks of the whole one is cut off."""
    rank = len(image)
    ones = (1,) * rank
    stride, dilation = integers(op, "strides") or ones, integers(op, "dilations") or ones
    how, extra = text(op, "auto_pad", "NOTSET"), integers(op, "output_padding") or (0,) * rank
    before = (integers(op, "pads") or (0,) * (2 * rank))[:rank]
    if how.startswith("SAME") or "output_shape" in op.attributes:
        whole = zip(stride, image, extra, kernel, dilation, result, strict=True)
        total = [max(0, s * (n - 1) + e + (k - 1) * d + 1 - size) for s, n, e, k, d, size in whole]
        before = tuple(t // 2 if how == "SAME_UPPER" else t - t // 2 for t in total)
    return SlidingWindow(tuple(kernel), stride, dilation, before)


def spread(build: StatementBuilder, image: str, target: str, stride: Sequence[int]) -> str:
    """The image with `stride - 1` zeros between neighbours along its spatial axes; itself if there are none."""
    if all(s == 1 for s in stride):
        return image
    steps = (1, 1, *stride)
    shape = [(size - 1) * s + 1 for size, s in zip(build.shape(image), steps, strict=True)]
    wide = build.temporary(target, "spread", shape, build.dtype(image))
    cells = box(shape)
    extents, axes = cells.extents, list(zip(cells.written, steps, strict=True))
    value = build.read(image, [index.floordiv(step, extents) for index, step in axes])
    rests = [index.mod(step, extents) for index, step in axes]
    here = [compare("equal", position(rest), 0) for rest in rests if rest.terms]
    build.emit(wide, cells, select(both(*here), value, number(0, value.dtype)), because="zeros between the elements")
    return wide


@operator("onnx.ConvTranspose", meaning=standard)
def conv_transpose(op: Operator, build: StatementBuilder) -> None:
    """The image spread by the stride, then an ordinary convolution with the mirrored window.

    weight[c, m, k]: channel c of the image contributes to channel m of the result within its group.
    """
    image, weight, target = op.inputs[0], op.inputs[1], op.outputs[0]
    shape, filters = build.shape(target), build.shape(weight)
    groups = _groups(op, filters[0], shape[1])
    channels = filters[0] // groups
    over = _transposed_window(op, build.shape(image)[2:], filters[2:], shape[2:])
    kind = accumulator("sum", build.dtype(image))
    product_ = build.temporary(target, "product", shape, kind) if present(op, 2) else target
    sliding = _sliding(shape, groups, (channels, *filters[2:]), has_loop=_is_product(op, build))
    space, n, inside = sliding.space, sliding.batch, sliding.inside
    steps = zip(sliding.at, over.before, inside, over.dilation, strict=True)
    places = [a + before - i * dilation for a, before, i, dilation in steps]
    source, places = pad_image(build, spread(build, image, target, over.stride), target, places, space, first=2)
    channel, written = sliding.group * channels + sliding.reduced, (n, sliding.channel, *sliding.at)
    value = cast(build.read(source, (n, channel, *places)), kind) * cast(
        build.read(weight, (channel, sliding.place, *inside)), kind
    )
    build.emit(product_, space.writing(written), value, reduction="sum", because="transposed convolution")
    if present(op, 2):
        add_bias(build, product_, op.inputs[2], target)


@operator("onnx.Col2Im", meaning=standard)
def col2im(op: Operator, build: StatementBuilder) -> None:
    """Each pixel is the sum over the blocks that cover it; columns[n, channel and place in the block, block]."""
    columns, target = op.inputs[0], op.outputs[0]
    shape, kernel = build.shape(target), parameter(op, build, "block_shape", 2) or ()
    rank = len(kernel)
    ones = (1,) * rank
    stride, dilation = integers(op, "strides") or ones, integers(op, "dilations") or ones
    pads = integers(op, "pads") or (0,) * (2 * rank)
    over = SlidingWindow(kernel, stride, dilation, pads[:rank])
    blocks = sliding_sizes(over, shape[2:], pads, ceil=False)
    space = box(shape, kernel)
    n, c, *rest = space.point
    block, guards = [], []
    for axis in range(rank):
        away = rest[axis] + over.before[axis] - rest[rank + axis] * dilation[axis]
        block.append(away.floordiv(stride[axis], space.extents))
        # `-(away mod stride) >= 0` is the condition that the stride divides `away`.
        guards += [away, away.mod(stride[axis], space.extents) * -1, block[-1] * -1 + (blocks[axis] - 1)]
    row = linear((c, *rest[rank:]), (shape[1], *kernel))
    column = linear(block, blocks)
    guards += [column, column * -1 + (build.shape(columns)[2] - 1)]
    value = read_guarded(build, columns, (n, row, column), guards, space)
    build.emit(target, space, value, reduction="sum", because="sum over the blocks")
