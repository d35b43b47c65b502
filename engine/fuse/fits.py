"""How statements fit one kernel, asked of the loop spaces that the code generator has: what the search goes by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from engine.fuse.shape import Shape, common_shape
from engine.fuse.stitched import own_axes, stitched_shape
from engine.stitch.nodes import Fit
from engine.tensor.nodes import Array, Statement


class Fits:
    """The legality of kernels of one program: no value crosses blocks, and the code generator has a form for them."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays

    def __call__(self, statements: Sequence[Statement], kept: frozenset[str]) -> Fit | str:
        """How they fit, or why they do not.  One loop space for all comes first: its kernels are the simplest."""
        shape = common_shape(statements, kept)
        if isinstance(shape, str):
            stitched = stitched_shape(statements, kept)
            if isinstance(stitched, str):
                return stitched if any(s.reduction is not None for s in statements) else shape
            shape = stitched
        return fit_of(shape, statements)


def fit_of(shape: Shape, statements: Sequence[Statement]) -> Fit:
    """What costs need to know of a loop space."""
    rows = math.prod(shape.extents[axis] for axis in shape.rows)
    columns = math.prod(shape.extents[axis] for axis in shape.columns)
    shared = _shared(shape, statements) if shape.kind == "stitched" else frozenset()
    if shape.kind == "stitched":
        own = [s for s in statements if s.name not in shape.inlined]
        columns = max(math.prod(s.extents.values()) for s in own) // max(1, rows)
    return Fit(shape, rows, columns, shared_arrays=shared, inlined=frozenset(shape.inlined))


def _shared(shape: Shape, statements: Sequence[Statement]) -> frozenset[str]:
    """Intermediates that one thread makes and another uses: their readers walk other axes than their maker."""
    makers = {s.write.array: s for s in statements if s.name not in shape.inlined}
    found = set()
    for reader in statements:
        if reader.name in shape.inlined:
            continue
        for access in reader.reads():
            maker = makers.get(access.array)
            if maker is None or not own_axes(maker, shape):
                continue
            if maker.reduction is None and own_axes(maker, shape) == own_axes(reader, shape):
                continue
            parallel = {i.name for i in maker.parallel}
            kept = {shape.axes[maker.name, n] for n in parallel} - set(shape.rows)
            if kept:
                found.add(access.array)
    return frozenset(found)
