"""Operators that move data and change no value: statements whose expression is one access."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from engine.graph.nodes import Operator
from engine.support.errors import BadInput
from engine.tensor.build import Domain, StatementBuilder, box
from engine.tensor.index import Index, delinearize, linear, with_axis
from engine.tensor.nodes import Access, Guard, Literal
from engine.tensor.operators.attributes import axis_of, integer, integers, parameter, parameter_value, present, text
from engine.tensor.operators.registry import operator
from engine.tensor.operators.standard import standard
from engine.tensor.terms import Term, both, compare, number, position, select


def _akg_reshape(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    """0 keeps an axis, -1 is what is left."""
    shape = parameter_value(op, x, "shape", 1) or ()
    return [x[0].reshape([size or x[0].shape[at] for at, size in enumerate(shape)])]


@operator("akg.Reshape", meaning=_akg_reshape)
@operator("akg.ExpandDims", meaning=lambda op, x: [np.expand_dims(x[0], integers(op, "axis") or (0,))])
@operator("akg.Squeeze", meaning=lambda op, x: [np.squeeze(x[0], axis=integers(op, "axis"))])
# Before opset 13 the axes are an attribute, which the standard's implementation does not know.
@operator("onnx.Unsqueeze", meaning=lambda op, x: [np.expand_dims(x[0], parameter_value(op, x, "axes", 1) or ())])
@operator("onnx.Reshape", "onnx.Flatten", "onnx.Squeeze", "onnx.Identity")
def reshape(op: Operator, build: StatementBuilder) -> None:
    """The same elements in the same row-major order, in the declared shape."""
    source, target = op.inputs[0], op.outputs[0]
    before, after = build.shape(source), build.shape(target)
    if math.prod(before) != math.prod(after):
        raise BadInput("tensor", f"operator {op.name}", f"{list(before)} has other elements than {list(after)}")
    build.layout(source, target, lambda b: delinearize(linear(b.written, after), before, b.extents))


@operator("onnx.Transpose", "akg.Transpose", meaning=lambda op, x: [np.transpose(x[0], integers(op, "perm"))])
def transpose(op: Operator, build: StatementBuilder) -> None:
    """Axis `a` of the result is axis `perm[a]` of the operand; by default the order is reversed."""
    rank = len(build.shape(op.inputs[0]))
    perm = integers(op, "perm") or tuple(reversed(range(rank)))
    if sorted(perm) != list(range(rank)):
        raise BadInput("tensor", f"operator {op.name}", f"perm {list(perm)} does not permute {rank} axes")

    def indices(b: Domain) -> list[Index]:
        return [b.written[perm.index(axis)] for axis in range(rank)]

    build.layout(op.inputs[0], op.outputs[0], indices)


def _akg_expand(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    shape = parameter_value(op, x, "shape", 1) or ()
    return [np.broadcast_to(x[0], np.broadcast_shapes(x[0].shape, shape))]


@operator("akg.BroadcastTo", meaning=_akg_expand)
@operator("onnx.Expand")
def expand(op: Operator, build: StatementBuilder) -> None:
    """ONNX Expand and AKG BroadcastTo: axes of one element repeat."""
    space = box(build.shape(op.outputs[0]))
    build.emit(op.outputs[0], space, build.broadcast(op.inputs[0], space))


@operator("onnx.Slice")
def slice_(op: Operator, build: StatementBuilder) -> None:
    """Starts, ends, axes and steps are attributes before opset 10, inputs since."""
    shape = build.shape(op.inputs[0])
    starts, ends = parameter(op, build, "starts", 1) or (), parameter(op, build, "ends", 2) or ()
    axes = parameter(op, build, "axes", 3) or tuple(range(len(starts)))
    steps = parameter(op, build, "steps", 4) or (1,) * len(starts)
    first, stride = [0] * len(shape), [1] * len(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = axis_of(op, axis, len(shape))
        first[at], _, stride[at] = slice(start, end, step).indices(shape[at])
    build.layout(
        op.inputs[0], op.outputs[0], lambda b: [i * s + f for i, s, f in zip(b.written, stride, first, strict=True)]
    )  # fmt: skip


@operator("onnx.Split")
def split(op: Operator, build: StatementBuilder) -> None:
    """Each part starts where the one before ends; their declared shapes say how long they are."""
    axis = axis_of(op, integer(op, "axis", 0), len(build.shape(op.inputs[0])))
    start = 0
    for target in filter(None, op.outputs):
        space = box(build.shape(target))
        at = with_axis(space.written, axis, space.written[axis] + start)
        build.emit(target, space, build.read(op.inputs[0], at))
        start += build.shape(target)[axis]


@operator("onnx.Concat", "akg.Concat", meaning=lambda op, x: [np.concatenate(x, axis=integer(op, "axis", 0))])
def concat(op: Operator, build: StatementBuilder) -> None:
    """One statement for each operand, writing its part of the result."""
    target = op.outputs[0]
    axis = axis_of(op, integer(op, "axis", 0), len(build.shape(target)))
    start = 0
    sources = [source for source in op.inputs if 0 not in build.shape(source)]
    for source in sources:
        space = box(build.shape(source))
        value = build.read(source, space.written)
        part = space.writing(with_axis(space.written, axis, space.written[axis] + start))
        build.emit(target, part, value, covers=len(sources) == 1, because=f"from {start}")
        start += build.shape(source)[axis]


@operator("onnx.Tile", "akg.Tile", meaning=lambda op, x: [np.tile(x[0], parameter_value(op, x, "multiples", 1) or ())])
def tile(op: Operator, build: StatementBuilder) -> None:
    """ONNX and AKG Tile: the whole array repeats along each axis, AKG's also along new ones in front."""
    sizes = build.shape(op.inputs[0])
    added = len(build.shape(op.outputs[0])) - len(sizes)
    build.layout(
        op.inputs[0],
        op.outputs[0],
        lambda b: [i.mod(n, b.extents) for i, n in zip(b.written[added:], sizes, strict=True)],
    )


@operator("onnx.DepthToSpace")
def depth_to_space(op: Operator, build: StatementBuilder) -> None:
    """Channels become blocks of pixels: DCR takes the block from the outer part of the channels, CRD from the inner."""
    size = integer(op, "blocksize", 1)
    channels = build.shape(op.outputs[0])[1]

    def indices(b: Domain) -> list[Index]:
        n, c, y, x = b.written
        block = y.mod(size, b.extents) * size + x.mod(size, b.extents)
        crd = text(op, "mode", "DCR") == "CRD"
        channel = c * (size * size) + block if crd else block * channels + c
        return [n, channel, y.floordiv(size, b.extents), x.floordiv(size, b.extents)]

    build.layout(op.inputs[0], op.outputs[0], indices)


@operator("onnx.SpaceToDepth")
def space_to_depth(op: Operator, build: StatementBuilder) -> None:
    """ONNX SpaceToDepth: blocks of pixels become channels."""
    size, channels = integer(op, "blocksize", 1), build.shape(op.inputs[0])[1]

    def indices(b: Domain) -> list[Index]:
        n, c, y, x = b.written
        if text(op, "mode", "DCR") == "CRD":
            channel, block = c.floordiv(size * size, b.extents), c.mod(size * size, b.extents)
        else:
            block, channel = c.floordiv(channels, b.extents), c.mod(channels, b.extents)
        row, column = block.floordiv(size, b.extents), block.mod(size, b.extents)
        return [n, channel, y * size + row, x * size + column]

    build.layout(op.inputs[0], op.outputs[0], indices)


def read_padded(
    build: StatementBuilder, source: str, indices: Sequence[Index], space: Domain, otherwise: float
) -> Term:
    """Read an element that may lie outside the tensor, where its value is `otherwise`."""
    return read_guarded(build, source, indices, conditions_inside(indices, build.shape(source)), space, otherwise)


def conditions_inside(indices: Sequence[Index], shape: Sequence[int]) -> list[Index]:
    """What is >= 0 where the indices are inside an array of `shape`."""
    return [c for index, size in zip(indices, shape, strict=True) for c in (index, index * -1 + (size - 1))]


def guards_of(conditions: Sequence[Index], space: Domain) -> tuple[Guard, ...]:
    """Conditions (>= 0) as guards, without those that always hold."""
    return tuple(Guard(condition) for condition in conditions if condition.bounds(space.extents)[0] < 0)


def read_guarded(
    build: StatementBuilder,
    source: str,
    indices: Sequence[Index],
    conditions: Sequence[Index],
    space: Domain,
    otherwise: float = 0,
) -> Term:
    """Read an element where all conditions are >= 0, `otherwise` elsewhere; conditions that always hold are dropped."""
    guards = guards_of(conditions, space)
    dtype = build.dtype(source)
    filler = number(otherwise, dtype).scalar
    assert isinstance(filler, Literal)
    return Term(Access(source, tuple(indices), guards, filler if guards else None), dtype)


def _pad_meaning(op: Operator, x: list[np.ndarray]) -> Sequence[np.ndarray]:
    if text(op, "mode", "constant") != "constant":
        return standard(op, x)
    pads = parameter_value(op, x, "pads", 1) or ()
    axes = parameter_value(op, x, "axes", 3) or tuple(range(x[0].ndim))
    value = x[2].item() if present(op, 2) else op.attributes.get("value", 0)
    widths = [(0, 0)] * x[0].ndim
    for at, axis in enumerate(axes):
        widths[axis] = (pads[at], pads[at + len(axes)])
    cut = tuple(
        slice(max(0, -before), size + min(0, after)) for (before, after), size in zip(widths, x[0].shape, strict=True)
    )
    grown = [(max(0, before), max(0, after)) for before, after in widths]
    return [np.pad(x[0][cut], grown, constant_values=value)]


@operator("onnx.Pad", meaning=_pad_meaning)
def pad(op: Operator, build: StatementBuilder) -> None:
    """Elements around the data; negative pads cut."""
    source, rank = op.inputs[0], len(build.shape(op.inputs[0]))
    pads = parameter(op, build, "pads", 1) or ()
    axes = [axis_of(op, axis, rank) for axis in parameter(op, build, "axes", 3) or range(rank)]
    before = {axis: pads[at] for at, axis in enumerate(axes)}
    mode = text(op, "mode", "constant")
    if mode == "constant":
        _pad_by_value(op, build, before)
        return
    result = build.shape(op.outputs[0])
    moved = [axis for axis in sorted(axes) if before[axis] or build.shape(source)[axis] != result[axis]] or [0]
    for axis in moved:
        target, shape = op.outputs[0], (*result[: axis + 1], *build.shape(source)[axis + 1 :])
        if axis != moved[-1]:
            target = build.temporary(op.outputs[0], f"padded{axis}", shape, build.dtype(source))
        _pad_by_elements(build, source, target, axis, before.get(axis, 0), mode)
        source = target


def _pad_by_value(op: Operator, build: StatementBuilder, before: Mapping[int, int]) -> None:
    """Constant padding, by a number or by an element that is known when the kernel runs."""
    source, space = op.inputs[0], box(build.shape(op.outputs[0]))
    indices = [index - before.get(axis, 0) for axis, index in enumerate(space.written)]
    if not present(op, 2):
        value = op.attributes.get("value", 0.0)
        assert isinstance(value, int | float)
        build.emit(op.outputs[0], space, read_padded(build, source, indices, space, value))
        return
    filler = build.read(op.inputs[2], [Index()] * len(build.shape(op.inputs[2])))
    if isinstance(filler.scalar, Literal):
        build.emit(op.outputs[0], space, read_padded(build, source, indices, space, filler.scalar.value))
        return
    inside = [compare("greater_equal", position(c), 0) for c in conditions_inside(indices, build.shape(source))]
    build.emit(op.outputs[0], space, select(both(*inside), read_padded(build, source, indices, space, 0), filler))


def _pad_by_elements(build: StatementBuilder, source: str, target: str, axis: int, before: int, mode: str) -> None:
    """Padding of one axis by its own elements: the nearest, the mirrored ones, or those of the other end."""
    size, space = build.shape(source)[axis], box(build.shape(target))
    place = space.written[axis] - before

    def at(index: Index) -> tuple[Index, ...]:
        return with_axis(space.written, axis, index)

    if mode == "wrap":
        build.emit(target, space, build.read(source, at(place.mod(size, space.extents))), because=f"axis {axis}")
        return
    first, last = Index(), Index((), size - 1)
    if mode == "reflect":
        first, last = place * -1, place * -1 + 2 * (size - 1)
    inside, before_it, behind = (read_padded(build, source, at(index), space, 0) for index in (place, first, last))
    build.emit(target, space, where_outside(place, size, space, inside, before_it, behind), because=f"axis {axis}")


def where_outside(place: Index, size: int, space: Domain, value: Term, first: Term | float, last: Term | float) -> Term:
    """`value`, but `first` where a place can be before an axis of `size`, and `last` where it can be behind."""
    low, high = place.bounds(space.extents)
    if low < 0:
        value = select(compare("less", position(place), 0), first, value)
    if high >= size:
        value = select(compare("greater", position(place), size - 1), last, value)
    return value


def _widths(op: Operator, name: str, rank: int) -> tuple[int, ...]:
    """An amount for each axis; BadInput where there are more or fewer."""
    found = integers(op, name) or (0,) * rank
    if len(found) != rank:
        raise BadInput("tensor", f"operator {op.name}", f"attribute {name} has {len(found)} numbers for {rank} axes")
    return found


def _pad_akg(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    widths = list(zip(_widths(op, "head", x[0].ndim), _widths(op, "tail", x[0].ndim), strict=True))
    return [np.pad(x[0], widths, constant_values=op.attributes.get("pad_val", 0))]


@operator("akg.PadAkg", meaning=_pad_akg)
def pad_akg(op: Operator, build: StatementBuilder) -> None:
    """AKG PadAkg: `head` and `tail` elements of `pad_val` around the data."""
    space = box(build.shape(op.outputs[0]))
    whole, made = build.shape(op.inputs[0]), build.shape(op.outputs[0])
    head, tail = _widths(op, "head", len(whole)), _widths(op, "tail", len(whole))
    if made != tuple(h + size + t for h, size, t in zip(head, whole, tail, strict=True)):
        raise BadInput("tensor", f"operator {op.name}", f"pads {list(whole)} to {list(made)}, not by head and tail")
    value = op.attributes.get("pad_val", 0)
    if not isinstance(value, int | float):
        raise BadInput("tensor", f"operator {op.name}", f"attribute pad_val is {value!r}, a number is needed")
    indices = [index - start for index, start in zip(space.written, head, strict=True)]
    build.emit(op.outputs[0], space, read_padded(build, op.inputs[0], indices, space, value))


def _unpad_akg(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    tail = _widths(op, "tail", x[0].ndim)
    return [x[0][tuple(slice(0, size - cut) for size, cut in zip(x[0].shape, tail, strict=True))]]


@operator("akg.UnPadAkg", meaning=_unpad_akg)
def unpad_akg(op: Operator, build: StatementBuilder) -> None:
    """AKG UnPadAkg: `tail` elements cut off the end of each axis."""
    whole, made = build.shape(op.inputs[0]), build.shape(op.outputs[0])
    if made != tuple(size - cut for size, cut in zip(whole, _widths(op, "tail", len(whole)), strict=True)):
        raise BadInput("tensor", f"operator {op.name}", f"cuts {list(whole)} to {list(made)}, not by tail")
    build.layout(op.inputs[0], op.outputs[0], lambda b: b.written)


@operator("akg.InplaceAssign", meaning=lambda op, x: [x[2] if len(x) > 2 else x[1]])
def inplace_assign(op: Operator, build: StatementBuilder) -> None:
    """The node's own output is input 2; the write into input 0 is an update of the graph, placed last."""
    build.layout(op.inputs[2] if len(op.inputs) > 2 else op.inputs[1], op.outputs[0], lambda b: b.written)


@operator("akg.Assign", meaning=lambda op, x: [x[1]])
def assign(op: Operator, build: StatementBuilder) -> None:
    """AKG Assign: the value itself; the write into the target's buffer is an update of the graph."""
    build.layout(op.inputs[1], op.outputs[0], lambda b: b.written)
