"""Convolution and transposed convolution over any number of spatial axes.

Points outside the image are guarded reads: they are never made, and stand for 0 (or the lowest value of a maximum).
So are those between the elements of an image that a transposed convolution spreads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from engine.graph.nodes import Operator
from engine.support.errors import BadInput, Unsupported
from engine.tensor.build import Domain, StatementBuilder, accumulator, box
from engine.tensor.index import Index, linear
from engine.tensor.nodes import Access, Guard
from engine.tensor.operators.attributes import integer, integers, parameter, present, text
from engine.tensor.operators.layout import conditions_inside, guards_of, read_guarded
from engine.tensor.operators.products import ProductFactor, code_of_zero, multiply_sum, with_codes, with_known_zero
from engine.tensor.operators.registry import operator
from engine.tensor.terms import cast


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """How a window slides: one number for each spatial axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    """Padding in front; what is behind follows from the size of the result."""

    @staticmethod
    def of(op: Operator, kernel: Sequence[int]) -> SlidingWindow:
        """The window as an ONNX operator's attributes give it, without `auto_pad`."""
        rank = len(kernel)
        stride, dilation, before = (integers(op, name) or () for name in ("strides", "dilations", "pads"))
        return SlidingWindow(
            tuple(kernel), stride or (1,) * rank, dilation or (1,) * rank, before[:rank] or (0,) * rank
        )

    def places(self, at: Sequence[Index], inside: Sequence[Index]) -> list[Index]:
        """Where element `inside` of the window stands in the image for the result at `at`."""
        steps = zip(at, self.stride, inside, self.dilation, self.before, strict=True)
        return [a * stride + i * dilation - before for a, stride, i, dilation, before in steps]


def window(op: Operator, image: Sequence[int], kernel: Sequence[int], result: Sequence[int]) -> SlidingWindow:
    """The window of an ONNX operator over spatial sizes; `auto_pad` SAME splits the padding evenly."""
    over, how = SlidingWindow.of(op, kernel), text(op, "auto_pad", "NOTSET")
    if how in ("SAME_UPPER", "SAME_LOWER"):
        reach = zip(result, over.stride, kernel, over.dilation, image, strict=True)
        return replace(over, before=_halves(how, [(r - 1) * s + (k - 1) * d + 1 - size for r, s, k, d, size in reach]))
    return replace(over, before=(0,) * len(image)) if how == "VALID" else over


def _halves(how: str, total: Sequence[int]) -> tuple[int, ...]:
    """The part of a padding that is in front: SAME_UPPER puts the odd element at the end, all others at the start."""
    return tuple(max(0, t) // 2 if how == "SAME_UPPER" else (max(0, t) + 1) // 2 for t in total)


def pad_image(build: StatementBuilder, image: ProductFactor, target: str, space: Domain) -> ProductFactor:
    """The image with zeros, or the code of zero, around it: a factor whose reads outside are guarded."""
    image = with_known_zero(build, image, target)
    guards = guards_of(conditions_inside(image.indices, build.shape(image.name)), space)
    return replace(image, guards=(*image.guards, *guards), filler=code_of_zero(build, image))


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


def _is_product(build: StatementBuilder, *factors: str) -> bool:
    """Whether both image and weight are arrays; a uniform constant is no factor of a product."""
    return all(isinstance(build.read(name, ()).scalar, Access) for name in factors)


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


@operator("onnx.Conv")
def conv(op: Operator, build: StatementBuilder) -> None:
    """Channels first; group g of the result's channels reads group g of the image's.  Then the bias."""
    target = op.outputs[0]
    space, pixels, weights = image_factors(op, build, op.inputs[0], op.inputs[1])
    pixels, weights = with_codes(build, build.shape(target), space, pixels, weights)
    convolve(op, build, space, (pad_image(build, pixels, target, space), weights))


def image_factors(
    op: Operator, build: StatementBuilder, image: str, weight: str
) -> tuple[Domain, ProductFactor, ProductFactor]:
    """The domain and the factors of a convolution, whose pixels may lie outside the image."""
    shape, filters = build.shape(op.outputs[0]), build.shape(weight)
    over = window(op, build.shape(image)[2:], filters[2:], shape[2:])
    groups = _groups(op, build.shape(image)[1], shape[1])
    sliding = _sliding(shape, groups, filters[1:], has_loop=_is_product(build, image, weight))
    n, m, at, inside = sliding.batch, sliding.channel, sliding.at, sliding.inside
    channel = sliding.group * filters[1] + sliding.reduced
    pixels = ProductFactor(image, (n, channel, *over.places(at, inside)))
    return sliding.space.writing((n, m, *at)), pixels, ProductFactor(weight, (m, sliding.reduced, *inside))


def convolve(
    op: Operator,
    build: StatementBuilder,
    space: Domain,
    factors: tuple[ProductFactor, ProductFactor],
    bias: int = 2,
    because: str = "convolution",
) -> None:
    """Append the sum of products of image and weight, then each channel's bias where operand `bias` is there."""
    target = op.outputs[0]
    if not present(op, bias):
        multiply_sum(build, target, space, *factors, because)
        return
    cells, kind = box(build.shape(target)), accumulator("sum", build.dtype(op.inputs[0]))
    product = build.temporary(target, "product", cells.shape, kind)
    multiply_sum(build, product, space, *factors, because)
    value = cast(build.read(op.inputs[bias], [cells.written[1]]), kind)
    build.emit(target, cells, build.read(product, cells.written) + value, because="bias")


def _akg_conv(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    over = _akg_window(op, x[1].shape)
    top, bottom, left, right = _akg_pads(op)
    image = np.pad(x[0], [(0, 0), (top, bottom), (left, right), (0, 0)])
    reach = tuple((k - 1) * d + 1 for k, d in zip(over.kernel, over.dilation, strict=True))
    rows, columns = (slice(None, None, step) for step in over.stride)
    kernel_rows, kernel_columns = (slice(None, None, step) for step in over.dilation)
    parts = sliding_window_view(image, reach, (1, 2))[:, rows, columns, :, kernel_rows, kernel_columns]
    return [np.tensordot(parts, x[1], ([4, 5, 3], [1, 2, 3]))]


def _akg_window(op: Operator, weight: Sequence[int]) -> SlidingWindow:
    """Strides and dilations are listed for N, C, H, W."""
    stride, dilation = integers(op, "stride") or (1,) * 4, integers(op, "dilation") or (1,) * 4
    top, _, left, _ = _akg_pads(op)
    return SlidingWindow(tuple(weight[1:3]), stride[-2:], dilation[-2:], (top, left))


def _akg_pads(op: Operator) -> tuple[int, ...]:
    """Padding at the top, bottom, left and right."""
    return integers(op, "pad_list") or (0,) * 4


@operator("akg.Conv2D", meaning=_akg_conv)
def akg_conv(op: Operator, build: StatementBuilder) -> None:
    """Channels last: image [n, h, w, c], weight [m, kh, kw, c], result [n, h, w, m]."""
    image, weight, target = op.inputs[0], op.inputs[1], op.outputs[0]
    if integer(op, "group", 1) != 1:
        raise Unsupported("tensor", f"operator {op.name}", "has groups", "one group is compiled")
    over = _akg_window(op, build.shape(weight))
    space = box(build.shape(target), build.shape(weight)[1:])
    n, y, x, m, kh, kw, c = space.point
    places = over.places((y, x), (kh, kw))
    pixels = pad_image(build, ProductFactor(image, (n, *places, c)), target, space)
    multiply_sum(build, target, space, pixels, ProductFactor(weight, (m, kh, kw, c)), because="convolution")


def _transposed_window(
    op: Operator, image: Sequence[int], kernel: Sequence[int], result: Sequence[int]
) -> SlidingWindow:
    """The window of a transposed convolution: what the declared result lacks of the whole one is cut off."""
    over, how = SlidingWindow.of(op, kernel), text(op, "auto_pad", "NOTSET")
    if how.startswith("SAME") or "output_shape" in op.attributes:
        extra = integers(op, "output_padding") or (0,) * len(image)
        whole = zip(over.stride, image, extra, kernel, over.dilation, result, strict=True)
        return replace(over, before=_halves(how, [s * (n - 1) + e + (k - 1) * d + 1 - r for s, n, e, k, d, r in whole]))
    return over


def _spread(places: Sequence[Index], steps: Sequence[int], space: Domain) -> tuple[list[Index], tuple[Guard, ...]]:
    """Places in an image with `step - 1` zeros between neighbours, as places in the image itself, and where that holds:
    where the step divides the place.
    """
    extents = space.extents
    # `-(place mod step) >= 0` is the condition that the step divides it.
    between = [place.mod(step, extents) * -1 for place, step in zip(places, steps, strict=True)]
    found = [place.floordiv(step, extents) for place, step in zip(places, steps, strict=True)]
    return found, guards_of(between, space)


@operator("onnx.ConvTranspose")
def conv_transpose(op: Operator, build: StatementBuilder) -> None:
    """The image spread by the stride, in an ordinary convolution with the mirrored window.

    weight[c, m, k]: channel c of the image contributes to channel m of the result within its group.
    """
    image, weight, target = op.inputs[0], op.inputs[1], op.outputs[0]
    shape, filters = build.shape(target), build.shape(weight)
    groups = _groups(op, filters[0], shape[1])
    channels = filters[0] // groups
    over = _transposed_window(op, build.shape(image)[2:], filters[2:], shape[2:])
    sliding = _sliding(shape, groups, (channels, *filters[2:]), has_loop=_is_product(build, image, weight))
    space, n = sliding.space, sliding.batch
    steps = zip(sliding.at, over.before, sliding.inside, over.dilation, strict=True)
    places, guards = _spread([a + before - i * dilation for a, before, i, dilation in steps], over.stride, space)
    channel, written = sliding.group * channels + sliding.reduced, (n, sliding.channel, *sliding.at)
    pixels = pad_image(build, ProductFactor(image, (n, channel, *places), guards=guards), target, space)
    factors = pixels, ProductFactor(weight, (channel, sliding.place, *sliding.inside))
    convolve(op, build, space.writing(written), factors, because="transposed convolution")


@operator("onnx.Col2Im")
def col2im(op: Operator, build: StatementBuilder) -> None:
    """Each pixel is the sum over the blocks that cover it; columns[n, channel and place in the block, block]."""
    columns, target = op.inputs[0], op.outputs[0]
    shape, kernel = build.shape(target), parameter(op, build, "block_shape", 2) or ()
    rank, over = len(kernel), SlidingWindow.of(op, kernel)
    behind = (integers(op, "pads") or (0,) * (2 * rank))[rank:]
    sizes = zip(shape[2:], over.before, behind, kernel, over.dilation, over.stride, strict=True)
    blocks = [(size + a + b - (k - 1) * d - 1) // s + 1 for size, a, b, k, d, s in sizes]
    space = box(shape, kernel)
    n, c, *rest = space.point
    block, guards = [], []
    for axis in range(rank):
        away = rest[axis] + over.before[axis] - rest[rank + axis] * over.dilation[axis]
        block.append(away.floordiv(over.stride[axis], space.extents))
        # `-(away mod stride) >= 0` is the condition that the stride divides `away`.
        guards += [away, away.mod(over.stride[axis], space.extents) * -1, block[-1] * -1 + (blocks[axis] - 1)]
    row = linear((c, *rest[rank:]), (shape[1], *kernel))
    column = linear(block, blocks)
    guards += [column, column * -1 + (build.shape(columns)[2] - 1)]
    value = read_guarded(build, columns, (n, row, column), guards, space)
    build.emit(target, space, value, reduction="sum", because="sum over the blocks")
