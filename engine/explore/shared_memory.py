"""A kernel's shared memory as it is laid out: buffers, their stages, and where permuted chunks lie in the banks."""

from __future__ import annotations

from dataclasses import replace

from engine.cost.alcop_work import copied_buffers
from engine.documents.pipeline import SharedDoc
from engine.graph.nodes import DTYPES
from engine.target.hardware import BANK_BYTES, BANKS, PASS_BYTES, VECTOR_BYTES
from engine.tensorize.nodes import MATRIX_ROWS
from engine.tile.nodes import Buffer, TileProgram, operations
from engine.tile.storage import shared_map


def shared_docs(tile: TileProgram) -> tuple[SharedDoc, ...]:
    """Every shared buffer in the order of its bytes."""
    offsets, _ = shared_map(tile.buffers)
    copied = copied_buffers(tile)
    return tuple(_document(tile, tile.buffers[name], offset, name in copied) for name, offset in offsets.items())


def place(index: int, row_bytes: int, size: int) -> int:
    """Where element `index` lies: `swizzle` of include/swizzle.cuh, for elements of `size` bytes."""
    line, chunks = max(PASS_BYTES, row_bytes), min(PASS_BYTES, row_bytes) // VECTOR_BYTES
    row = index // (line // size) % chunks
    phase = row * 2 % chunks + row * 2 // chunks if size == BANK_BYTES else row
    return index ^ (phase * (VECTOR_BYTES // size))


def _document(tile: TileProgram, buffer: Buffer, offset: int, is_copied: bool) -> SharedDoc:
    size, row_bytes = DTYPES[buffer.dtype], buffer.row_bytes
    stages, in_bytes = tile.stages if is_copied else 1, buffer.elements * size
    plain = SharedDoc(
        buffer.name, _array(tile, buffer.name), offset, in_bytes, stages, in_loop=is_copied, row_bytes=row_bytes,
        swizzle="no swizzle of 16-byte chunks",
    )  # fmt: skip
    if not row_bytes:
        return plain
    chunks, rows = _table(row_bytes, size)
    permuted, unpermuted = (_passes(row_bytes, size, choice) for choice in (True, False))
    swizzle = f"rows of {row_bytes} bytes, chunks permuted"
    return replace(plain, swizzle=swizzle, chunks=chunks, rows=rows, passes=permuted, passes_unpermuted=unpermuted)


def _array(tile: TileProgram, name: str) -> str:
    """What is copied into a buffer; "" where values are computed into it."""
    ops = tuple(operations(tile.body))
    fills = [op for op in ops if name in op.buffers_written]
    stored = {register for op in fills for register in op.buffers_read}
    loads = [op for op in ops if stored.intersection(op.buffers_written)]
    return next((region.buffer for op in (*fills, *loads) for region in op.regions_read), "")


def _table(row_bytes: int, size: int) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """For the places of the first lines of all banks: the chunk along its row, and the row, of what lies there."""
    line, of_row, across = (length // VECTOR_BYTES for length in (max(PASS_BYTES, row_bytes), row_bytes, PASS_BYTES))
    found: dict[int, int] = {}
    for chunk in range(MATRIX_ROWS * line):
        found[place(chunk * VECTOR_BYTES // size, row_bytes, size) * size // VECTOR_BYTES] = chunk
    lines = [[found[number * line + column] for column in range(across)] for number in range(MATRIX_ROWS)]
    chunks = tuple(tuple(chunk % of_row for chunk in row) for row in lines)
    rows = tuple(tuple(chunk // of_row for chunk in row) for row in lines)
    return chunks, rows


def _passes(row_bytes: int, size: int, permuted: bool) -> int:
    """Passes over the banks for the first chunk of eight rows, the most that one bank is asked for."""
    words: dict[int, set[int]] = {}
    for row in range(MATRIX_ROWS):
        index = row * row_bytes // size
        start = (place(index, row_bytes, size) if permuted else index) * size
        for word in range(start // BANK_BYTES, (start + VECTOR_BYTES) // BANK_BYTES):
            words.setdefault(word % BANKS, set()).add(word)
    return max(map(len, words.values()))
