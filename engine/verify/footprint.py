"""Which elements each block of a kernel writes, from the index maps alone, for all blocks at once.

The maps and the emulator check each other: over all blocks they must cover every output exactly once, and an emulated
block must write exactly the elements the maps say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from engine.codegen.nodes import CudaSource, Footprint
from engine.tensor.index import Index, Quotient, Remainder

CHUNK = 4_000_000
"""Elements evaluated at once."""

Grid = Mapping[str, np.ndarray]


def partition_faults(source: CudaSource) -> tuple[str, ...]:
    """Outputs that all blocks together do not write exactly once, in words."""
    faults: list[str] = []
    for buffer in source.buffers:
        if not buffer.written:
            continue
        times = _times(source, buffer.array, buffer.elements, range(_blocks(source)))
        if times is None:
            faults.append(f"a store to {buffer.array} can leave the array")
        elif times.min() < 1:
            faults.append(f"element {int(times.argmin())} of {buffer.array} is written by no block")
        elif times.max() > 1:
            faults.append(f"element {int(times.argmax())} of {buffer.array} is written {int(times.max())} times")
    return tuple(faults)


def written_by(source: CudaSource, array: str, elements: int, blocks: Sequence[int]) -> np.ndarray:
    """The elements of `array` (flat) that the given blocks write."""
    times = _times(source, array, elements, blocks)
    return np.zeros(elements, bool) if times is None else times > 0


def boundary_blocks(source: CudaSource) -> tuple[int, ...]:
    """Blocks for which some guard holds for a part or none of their elements: one of each kind, and first and last."""
    total = _blocks(source)
    blocks = np.arange(total)
    chosen = {0, total - 1}
    for footprint in source.footprints:
        for guard in footprint.guards:
            low, high = _bounds(guard, {"block": (blocks, blocks)}, footprint.counters)
            partly = np.flatnonzero((low < 0) & (high >= 0))
            never = np.flatnonzero(high < 0)
            chosen.update(int(found[0]) for found in (partly, never) if found.size)
    return tuple(sorted(chosen))


def _blocks(source: CudaSource) -> int:
    return math.prod(source.grid)


def _times(source: CudaSource, array: str, elements: int, blocks: Sequence[int]) -> np.ndarray | None:
    """How often each element is written; None when a position lies outside the array."""
    times = np.zeros(elements, np.uint8)
    for footprint in source.footprints:
        if footprint.array != array:
            continue
        for position in _positions(footprint, blocks):
            if position.size and (position.min() < 0 or position.max() >= elements):
                return None
            times += np.bincount(position, minlength=elements).astype(np.uint8)
    return times


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
    result = np.asarray(index.constant, np.int64)
    for atom, coefficient in index.terms:
        match atom:
            case str():
                value = grid[atom]
            case Quotient(of, by):
                value = _evaluate(of, grid) // by
            case Remainder(of, by):
                value = _evaluate(of, grid) % by
            case _:
                raise ValueError(f"a footprint cannot depend on {atom}")
        result = result + value * coefficient
    return result


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
