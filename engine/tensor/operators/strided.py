"""Slices with masks: AKG's StridedSlice, as MindSpore documents it.

    begin (1, 0), end (3, 0), strides (1, 1), shrink_axis_mask 2:   y[i] = x[1 + i, 0]

Bit i of a mask speaks of entry i of begin, end and strides: what it begins or ends at does not count, the entry stands
for all axes that no other names (ellipsis), is a new axis of one element, or is an axis that is left out.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from engine.graph.nodes import Operator
from engine.support.errors import BadInput
from engine.tensor.build import StatementBuilder
from engine.tensor.index import Index
from engine.tensor.operators.attributes import integer, parameter, parameter_value
from engine.tensor.operators.registry import operator

Cut = slice | int | None
"""What NumPy indexes an axis with; None makes one."""


def _cuts(op: Operator, entries: Iterable[tuple[int, ...] | None], rank: int) -> tuple[Cut, ...]:
    """The entries as NumPy's, every axis named.  entries: begin, end and strides."""
    begin, end, strides = entries
    if begin is None or end is None or strides is None or not len(begin) == len(end) == len(strides):
        raise BadInput("tensor", f"operator {op.name}", "begin, end and strides are not three lists of one length")
    masks = {name: integer(op, f"{name}_mask", 0) for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}

    def has_mark(name: str, at: int) -> bool:
        return bool(masks[name] >> at & 1)

    cuts: list[Cut] = []
    rest = len(begin)
    for at, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        if has_mark("ellipsis", at):
            rest = len(cuts)
        elif has_mark("new_axis", at):
            cuts.append(None)
        elif has_mark("shrink_axis", at):
            cuts.append(first)
        elif step:
            cuts.append(slice(None if has_mark("begin", at) else first, None if has_mark("end", at) else last, step))
        else:
            raise BadInput("tensor", f"operator {op.name}", f"entry {at} has a stride of 0")
    named = sum(cut is not None for cut in cuts)
    if named > rank or masks["ellipsis"].bit_count() > 1:
        raise BadInput("tensor", f"operator {op.name}", f"its {len(begin)} entries do not fit {rank} axes")
    return (*cuts[:rest], *[slice(None)] * (rank - named), *cuts[rest:])


def _meaning(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    entries = (parameter_value(op, x, name, at) for at, name in enumerate(("begin", "end", "strides"), start=1))
    return [np.atleast_1d(x[0][_cuts(op, entries, x[0].ndim)])]


@operator("akg.StridedSlice", meaning=_meaning)
def strided_slice(op: Operator, build: StatementBuilder) -> None:
    """AKG StridedSlice: bounds and strides are attributes, or constant inputs."""
    source, target = op.inputs[0], op.outputs[0]
    shape = build.shape(source)
    entries = (parameter(op, build, name, at) for at, name in enumerate(("begin", "end", "strides"), start=1))
    cuts = _cuts(op, entries, len(shape))
    sizes = iter(shape)
    ranges = [None if cut is None else _range(op, cut, next(sizes)) for cut in cuts]
    made = tuple(1 if walked is None else len(walked) for walked in ranges if not isinstance(walked, int)) or (1,)
    if made != build.shape(target):
        raise BadInput("tensor", f"operator {op.name}", f"makes {made}, its output has {build.shape(target)}")

    def indices(written: tuple[Index, ...]) -> list[Index]:
        free = iter(written)
        found = []
        for walked in ranges:
            if isinstance(walked, int):
                found.append(Index((), walked))
            elif walked is None:
                next(free)
            else:
                found.append(next(free) * walked.step + walked.start)
        return found

    build.layout(source, target, lambda space: indices(space.written))


def _range(op: Operator, cut: Cut, size: int) -> range | int:
    """The places along an axis that a cut takes, or the one that it keeps."""
    if isinstance(cut, slice):
        return range(*cut.indices(size))
    assert isinstance(cut, int), cut
    if not -size <= cut < size:
        raise BadInput("tensor", f"operator {op.name}", f"takes place {cut} of an axis with {size}")
    return cut % size
