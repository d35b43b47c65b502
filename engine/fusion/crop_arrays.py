"""Arrays of which a group touches one contiguous block become arrays of that block.

Time steps of a recurrence, operands of a concatenation and slices then are the same kernel at other places:
    h[i, j] = x[7, i, j] * 2   of x[30, 4, 16]   ->   h[i, j] = x[i, j] * 2   of x[4, 16], from element 448 on
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from engine.fusion.nodes import TensorBlock
from engine.graph.nodes import DTYPES
from engine.target.hardware import VECTOR_BYTES
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Array, Statement, TensorProgram
from engine.tensor.rewrite import rewrite_reads

Block = tuple[tuple[int, ...], tuple[int, ...]]
"""(first index, extent) along every axis."""


def crop_arrays(program: TensorProgram) -> tuple[TensorProgram, Mapping[str, TensorBlock]]:
    """The program over the blocks that it touches, and where they lie in the arrays that it had."""
    blocks = {name: block for name in _candidates(program) if (block := _block(program, name)) is not None}
    if not blocks:
        return program, {}

    def read(access: Access) -> Access:
        if access.array not in blocks:
            return access
        starts = blocks[access.array][0]
        return replace(access, indices=tuple(i - start for i, start in zip(access.indices, starts, strict=True)))

    arrays = {n: replace(a, shape=blocks[n][1]) if n in blocks else a for n, a in program.arrays.items()}
    statements = (replace(rewrite_reads(s, read), write=read(s.write)) for s in program.statements)
    parts = {}
    for name, (starts, _) in blocks.items():
        tensor = program.arrays[name]
        parts[name] = TensorBlock(_place(starts, tensor.shape), tensor.elements)
    whole = tuple(_covering(statement, arrays) for statement in statements)
    return replace(program, arrays=arrays, statements=whole), parts


def _candidates(program: TensorProgram) -> list[str]:
    """Arrays in global memory that are either read or written, nowhere under a guard."""
    # What is updated in place is read and written through one pointer, which stays that of the whole array.
    updated = set(program.inputs) & set(program.outputs)
    guarded = {a.array for s in program.statements for a in (*s.reads(), s.write) if a.guards}
    outside = dict.fromkeys((*program.inputs, *program.outputs))
    return [name for name in outside if name not in updated | guarded and program.arrays[name].elements > 1]


def _block(program: TensorProgram, name: str) -> Block | None:
    """The contiguous block of an array that all accesses stay in, where it is a part that any vector can start at."""
    array = program.arrays[name]
    touched = [
        (access.indices, statement.extents)
        for statement in program.statements
        for access in (*statement.reads(), statement.write)
        if access.array == name
    ]
    starts, shape = [0] * len(array.shape), list(array.shape)
    for axis, size in enumerate(array.shape):
        bounds = [indices[axis].bounds(extents) for indices, extents in touched]
        low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
        starts[axis], shape[axis] = low, high - low + 1
        if high > low:  # behind an axis that runs, a block is contiguous only if it is whole
            break
        assert 0 <= low < size, f"{name} is accessed outside"
    # A pointer into the middle of an array must keep the alignment that vector loads of the kernel rely on.
    if tuple(shape) == array.shape or _place(tuple(starts), array.shape) * DTYPES[array.dtype] % VECTOR_BYTES:
        return None
    return tuple(starts), tuple(shape)


def _place(indices: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """Row-major place of an element."""
    return int(np.ravel_multi_index(indices, shape))


def writes_block(statement: Statement, arrays: Mapping[str, Array]) -> bool:
    """Whether a statement writes one contiguous block of its array: the same kernel does at other places."""
    runs = False
    for index, size in zip(statement.write.indices, arrays[statement.write.array].shape, strict=True):
        low, high = index.bounds(statement.extents)
        if runs and (low, high) != (0, size - 1):
            return False
        runs = runs or high > low
    return True


def _covering(statement: Statement, arrays: Mapping[str, Array]) -> Statement:
    """The statement, noted as covering its array where it now writes all of it."""
    written = math.prod(i.extent for i in statement.parallel)
    plain = all(index.is_affine for index in statement.write.indices) and not statement.guards
    whole = plain and written == arrays[statement.write.array].elements and not _repeats(statement.write.indices)
    return replace(statement, covers=True) if whole and not statement.covers else statement


def _repeats(indices: Sequence[Index]) -> bool:
    """Whether two axes run with one iterator: as many points, but not every element."""
    names = [name for index in indices for name in index.iterators()]
    return len(set(names)) < len(names)
