"""Write footprints: the elements each block writes, from the index maps alone, for all blocks at once.

The maps and the emulator check each other: over all blocks they must cover the group's part of every output exactly
once, and an emulated block must write exactly the elements the maps say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from engine.execution.nodes import Finding
from engine.tensor.index import Element, Index, Quotient, Remainder, linear
from engine.tensor.nodes import Statement, TensorProgram
from engine.tile.source import CudaSource, Footprint, Parameter

CHUNK = 4_000_000
"""Elements evaluated at once."""

Grid = Mapping[str, np.ndarray]


def own_part(program: TensorProgram, array: str) -> np.ndarray:
    """The elements of an output (flat, bool) that the program writes: all, or what its statements say.

    Several groups may fill one array, as a concatenation of large operands does.
    """
    target = program.arrays[array]
    writers = [s for s in program.statements if s.write.array == array]
    if any(s.covers for s in writers):
        return np.ones(target.elements, bool)
    part = np.zeros(target.elements, bool)
    for statement in writers:
        counters = {i.name: i.extent for i in statement.parallel}
        position = linear(statement.write.indices, target.shape)
        for positions in _positions(Footprint(array, position, counters, _conditions(statement)), (0,)):
            part[positions] = True
    return part


def _conditions(statement: Statement) -> tuple[Index, ...]:
    """The guards of an element; those of a reduction only say which terms count."""
    return () if statement.reduction else tuple(guard.index for guard in statement.guards)


def partition_faults(source: CudaSource, program: TensorProgram) -> tuple[Finding, ...]:
    """Outputs whose elements are not written exactly once by all blocks together, as findings."""
    found = (_partition_fault(source, program, buffer) for buffer in source.buffers if buffer.written)
    return tuple(fault for fault in found if fault is not None)


def _partition_fault(source: CudaSource, program: TensorProgram, buffer: Parameter) -> Finding | None:
    times = _times(source, buffer.array, buffer.elements, range(source.blocks))
    if times is None:
        return Finding("out of bounds", 0, f"a store to {buffer.array} can leave the array")
    part = own_part(program, buffer.array)
    for kind, at_fault, how in (
        ("not written", part & (times < 1), "is written by no block"),
        ("written twice", times > 1, "is written {} times"),
        ("written twice", ~part & (times > 0), "is written, and belongs to another kernel"),
    ):
        if at_fault.any():
            element = int(at_fault.argmax())
            return Finding(kind, 0, f"element {element} of {buffer.array} {how.format(times[element])}")
    return None


def written_by(source: CudaSource, array: str, elements: int, blocks: Sequence[int]) -> np.ndarray:
    """The elements of `array` (flat) that the given blocks write."""
    times = _times(source, array, elements, blocks)
    return np.zeros(elements, bool) if times is None else times > 0


def boundary_blocks(source: CudaSource) -> tuple[int, ...]:
    """Blocks of the first launch for which some guard holds for a part or none of their elements: one of each kind, and
    its first and last."""
    total = source.launches[0].blocks
    blocks = np.arange(total)
    chosen = {0, total - 1}
    for footprint in source.footprints:
        for guard in footprint.guards:
            low, high = _bounds(guard, {"block": (blocks, blocks)}, footprint.counters)
            partly = np.flatnonzero((low < 0) & (high >= 0))
            never = np.flatnonzero(high < 0)
            chosen.update(int(found[0]) for found in (partly, never) if found.size)
    return tuple(sorted(chosen))


def first_written(source: CudaSource, array: str) -> np.ndarray:
    """The first element of an array that each block of a kernel's only launch may write; one behind all for none."""
    blocks = np.arange(source.blocks)
    found = np.full(blocks.shape, np.iinfo(np.int64).max)
    for footprint in source.footprints:
        if footprint.array == array:
            low, _ = _bounds(footprint.position, {"block": (blocks, blocks)}, footprint.counters)
            found = np.minimum(found, low)
    return found


def _times(source: CudaSource, array: str, elements: int, blocks: Sequence[int]) -> np.ndarray | None:
    """How often each element is written; None when a position lies outside the array."""
    reached = np.zeros(elements, np.bool_)
    stores = 0
    for position in _stores(source, array, blocks):
        if position.size and (position.min() < 0 or position.max() >= elements):
            return None
        reached[position] = True
        stores += position.size
    # As many elements as stores: each is written once, and counting, which costs more, tells nothing else.
    return reached.view(np.uint8) if np.count_nonzero(reached) == stores else _count(source, array, elements, blocks)


def _count(source: CudaSource, array: str, elements: int, blocks: Sequence[int]) -> np.ndarray:
    """How often each element is written, where all positions lie in the array."""
    times = np.zeros(elements, np.uint8)
    for position in _stores(source, array, blocks):
        if position.size:
            first = int(position.min())
            counted = np.bincount(position - first)  # of the part that these blocks reach, not of the whole array
            reached = times[first : first + counted.size]
            # Saturate: only 0, 1 and more than 1 matter.
            reached[:] = np.minimum(counted + reached, 255)
    return times


def _stores(source: CudaSource, array: str, blocks: Sequence[int]) -> Iterator[np.ndarray]:
    """The positions that stores of some blocks write, some at a time."""
    for launch, own in source.by_launch(blocks):
        for footprint in launch.footprints:
            if footprint.array == array:
                yield from _positions(footprint, own)


def _positions(footprint: Footprint, blocks: Sequence[int]) -> Iterator[np.ndarray]:
    """The positions that a store writes, some blocks at a time."""
    counters = {name: extent for name, extent in footprint.counters.items() if name != "block"}
    per_block = math.prod(counters.values())
    step = max(1, CHUNK // max(1, per_block))
    for start in range(0, len(blocks), step):
        some = np.asarray(blocks[start : start + step], np.int64)
        if "block" not in footprint.counters:
            some = some[:1] if start == 0 else some[:0]
        shape = (len(some), *counters.values())
        grid: dict[str, np.ndarray] = {"block": some.reshape(-1, *[1] * len(counters))}
        for axis, (name, extent) in enumerate(counters.items(), 1):
            grid[name] = np.arange(extent).reshape([-1 if a == axis else 1 for a in range(len(shape))])
        position = np.broadcast_to(_evaluate(footprint.position, grid), shape)
        keep = np.ones(shape, bool)
        for guard in footprint.guards:
            keep &= _evaluate(guard, grid) >= 0
        yield position[keep]


def _evaluate(index: Index, grid: Grid) -> np.ndarray:
    """An index over NumPy grids of its variables."""

    def leaf(atom: str | Element) -> np.ndarray:
        if isinstance(atom, str):
            return grid[atom]
        raise ValueError(f"a footprint cannot depend on {atom}")

    return np.asarray(index.evaluate(leaf), np.int64)


Range = tuple[np.ndarray, np.ndarray]


def _bounds(index: Index, known: Mapping[str, Range], counters: Mapping[str, int]) -> Range:
    """Smallest and largest value over the counters, for every block."""
    low = high = np.asarray(index.constant, np.int64)
    for atom, coefficient in index.terms:
        match atom:
            case str():
                a, b = known.get(atom) or (np.asarray(0), np.asarray(counters[atom] - 1))
            case Quotient(of, by):
                inner = _bounds(of, known, counters)
                a, b = inner[0] // by, inner[1] // by
            case Remainder(of, by):
                inner = _bounds(of, known, counters)
                same = inner[0] // by == inner[1] // by
                a, b = np.where(same, inner[0] % by, 0), np.where(same, inner[1] % by, by - 1)
            case _:
                raise ValueError(f"a guard cannot depend on {atom}")
        low = low + np.minimum(a * coefficient, b * coefficient)
        high = high + np.maximum(a * coefficient, b * coefficient)
    return low, high
