"""Instructions of a whole warp: shuffles, ldmatrix, mma.  Fragments are laid out as the PTX ISA's figures say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from engine.execution.ptx.arithmetic import F32
from engine.execution.ptx.lanes import WARP_LANES, RunningLanes
from engine.execution.ptx.nodes import Instruction, PtxFault
from engine.execution.ptx.operands import Dtype, Operands, Read, Step, Values, refuse

U32, S32 = np.dtype(np.uint32), np.dtype(np.int32)
ALL = np.uint32(0xFFFFFFFF)
LANE = np.arange(WARP_LANES)
GROUP, THREAD = LANE // 4, LANE % 4
"""The ISA's groupID and threadID_in_group of each lane."""


def decode_shuffle(i: Instruction, operands: Operands) -> Step:
    """shfl.sync.MODE.b32 d[|p], a, b, c, mask: another lane's value, or the own one where there is no such lane."""
    if i.parts[1] != "sync" or i.parts[2] not in _SOURCES or i.parts[3:] != ("b32",):
        raise refuse(i)
    target, _, found = i.operands[0].partition("|")
    value, distance, clamp, mask = (operands.read(text, U32) for text in i.operands[1:])
    write, write_found = operands.write(target), operands.write(found or "_")
    source_of = _SOURCES[i.parts[2]]

    def step(lanes: RunningLanes) -> None:
        warps = lanes.whole_warps()
        if (mask(lanes) != ALL).any():
            raise PtxFault("divergent warp", "shuffles among some lanes only, which is not supported")
        by, limit = (np.broadcast_to(read(lanes), warps * WARP_LANES).astype(np.int64) for read in (distance, clamp))
        lane = np.tile(LANE, warps)
        segment = limit >> 8 & 31
        last = lane & segment | limit & 31 & ~segment
        source = source_of(lane, by & 31, lane & segment, segment)
        inside = source >= last if i.parts[2] == "up" else source <= last
        values = np.broadcast_to(value(lanes), warps * WARP_LANES)
        write(lanes, values[np.where(inside, source, lane) + np.arange(warps).repeat(WARP_LANES) * WARP_LANES])
        write_found(lanes, inside)

    return step


_SOURCES: Mapping[str, Callable[[Values, Values, Values, Values], Values]] = {
    "bfly": lambda lane, by, first, segment: lane ^ by,
    "up": lambda lane, by, first, segment: lane - by,
    "down": lambda lane, by, first, segment: lane + by,
    "idx": lambda lane, by, first, segment: first | by & ~segment,
}


def decode_load_matrix(i: Instruction, operands: Operands) -> Step:
    """ldmatrix: 8 x 8 halves a matrix; lanes 8m to 8m + 7 give the rows of matrix m, each lane gets a pair of each."""
    count = {"x1": 1, "x2": 2, "x4": 4}.get(i.parts[4])
    if i.parts[1:4] != ("sync", "aligned", "m8n8") or count is None or i.parts[-2:] != ("shared", "b16"):
        raise refuse(i)
    transpose = "trans" in i.parts
    address, writes = operands.address(i.operands[1]), [operands.write(t) for t in operands.vector(i.operands[0])]

    def step(lanes: RunningLanes) -> None:
        warps = lanes.whole_warps()
        chosen = np.tile(count > LANE // 8, warps)
        at = lanes.locate("shared", address(lanes), 16)
        lanes.before_read("shared", at, 16)
        rows = lanes.shared.read(at[chosen], 2, 8).reshape(warps, count, 8, 8)
        if transpose:
            rows = rows.swapaxes(2, 3)
        # Lane 4r + p gets pair p of row r.
        pairs = np.ascontiguousarray(rows).view(np.uint32).reshape(warps, count, WARP_LANES)
        for number, write in enumerate(writes):
            write(lanes, pairs[:, number].reshape(-1))

    return step


class _FragmentLayout:
    """Where the elements of a lane's registers lie in a matrix."""

    def __init__(self, shape: tuple[int, int], rows: Sequence[Values], columns: Sequence[Values]) -> None:
        """rows, columns: of each element of a lane in order, for all lanes.  shape: of the matrix."""
        self._shape = shape
        places = np.stack(rows, axis=1) * shape[1] + np.stack(columns, axis=1)
        self._places = places.reshape(-1)
        """Of each element, lane after lane, in the matrix row after row."""
        self._held = np.argsort(self._places)
        """The inverse."""

    def matrix(self, elements: Values) -> Values:
        """(warps x lanes, elements) as (warps, *shape)."""
        row_major: Values = elements.reshape(-1, self._held.size).take(self._held, axis=1)
        return row_major.reshape(-1, *self._shape)

    def elements(self, matrix: Values) -> Values:
        """The inverse of `matrix`."""
        lanes: Values = matrix.reshape(-1, self._places.size).take(self._places, axis=1)
        return lanes.reshape(-1, self._places.size // WARP_LANES)


_A16 = _FragmentLayout(
    (16, 16),
    [GROUP, GROUP, GROUP + 8, GROUP + 8] * 2,
    [THREAD * 2 + n % 2 + (8 if n >= 4 else 0) for n in range(8)],
)
"""16 x 16 halves: registers a0 and a2 hold rows 0 to 7, a1 and a3 rows 8 to 15; a2 and a3 the upper columns."""
_B16 = _FragmentLayout((16, 8), [THREAD * 2 + n % 2 + (8 if n >= 2 else 0) for n in range(4)], [GROUP] * 4)
_A32 = _FragmentLayout(
    (16, 32),
    [GROUP + n // 4 % 2 * 8 for n in range(16)],
    [THREAD * 4 + n % 4 + (16 if n >= 8 else 0) for n in range(16)],
)
"""16 x 32 bytes: registers a0 and a2 hold rows 0 to 7, a1 and a3 rows 8 to 15; a2 and a3 the upper columns."""
_B32 = _FragmentLayout((32, 8), [THREAD * 4 + n % 4 + (16 if n >= 4 else 0) for n in range(8)], [GROUP] * 8)
_A8 = _FragmentLayout((16, 8), [GROUP, GROUP + 8] * 2, [THREAD, THREAD, THREAD + 4, THREAD + 4])
_B8 = _FragmentLayout((8, 8), [THREAD, THREAD + 4], [GROUP] * 2)
_SUMS = _FragmentLayout((16, 8), [GROUP, GROUP, GROUP + 8, GROUP + 8], [THREAD * 2, THREAD * 2 + 1] * 2)


def _halves(words: Values) -> Values:
    return words.view(np.float16)


def _bfloats(words: Values) -> Values:
    return (words.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def _tf32(words: Values) -> Values:
    """The hardware ignores the lower 13 bits."""
    return (words & np.uint32(0xFFFFE000)).view(np.float32)


def _signed_bytes(words: Values) -> Values:
    return words.view(np.int8)


def _unsigned_bytes(words: Values) -> Values:
    return words.view(np.uint8)


_BYTES = {"s8": _signed_bytes, "u8": _unsigned_bytes}
_PRODUCTS = {
    "m16n8k16.row.col.f32.f16.f16.f32": (_halves, _halves, _A16, _B16),
    "m16n8k16.row.col.f32.bf16.bf16.f32": (_bfloats, _bfloats, _A16, _B16),
    "m16n8k8.row.col.f32.tf32.tf32.f32": (_tf32, _tf32, _A8, _B8),
    **{f"m16n8k32.row.col.s32.{a}.{b}.s32": (_BYTES[a], _BYTES[b], _A32, _B32) for a in _BYTES for b in _BYTES},
}
"""Form -> how registers of both factors are read, their fragments."""


def decode_product(i: Instruction, operands: Operands) -> Step:
    """mma.sync of the forms above: d = a b + c; products are exact in float64, sums are rounded to float32 once, or
    wrap as int32."""
    known = _PRODUCTS.get(i.opcode.removeprefix("mma.sync.aligned."))
    if known is None:
        raise refuse(i)
    convert_a, convert_b, of_a, of_b = known
    held = S32 if i.parts[-1] == "s32" else F32
    writes = [operands.write(text) for text in operands.vector(i.operands[0])]
    a, b = ([operands.read(text, U32) for text in operands.vector(i.operands[n])] for n in (1, 2))
    c = [operands.read(text, held) for text in operands.vector(i.operands[3])]

    def step(lanes: RunningLanes) -> None:
        count = lanes.whole_warps() * WARP_LANES

        def gather(reads: Sequence[Read], dtype: Dtype) -> Values:
            values = np.empty((count, len(reads)), dtype)
            for number, read in enumerate(reads):
                values[:, number] = read(lanes)
            return values

        left = of_a.matrix(convert_a(gather(a, U32)).astype(np.float64))
        right = of_b.matrix(convert_b(gather(b, U32)).astype(np.float64))
        total = left @ right + _SUMS.matrix(gather(c, held))
        results = _SUMS.elements(total.astype(np.int64).astype(S32) if held == S32 else total.astype(np.float32))
        for number, write in enumerate(writes):
            write(lanes, results[:, number])

    return step


def decode_warp_barrier(i: Instruction, operands: Operands) -> Step:
    """bar.warp.sync: all lanes of the warp come here together.  Barriers of the block are control, not steps."""
    if i.opcode != "bar.warp.sync":
        raise refuse(i)
    mask = operands.read(i.operands[0], U32)

    def step(lanes: RunningLanes) -> None:
        lanes.whole_warps()
        if (mask(lanes) != ALL).any():
            raise PtxFault("divergent warp", "a barrier of some lanes only, which is not supported")
        lanes.pass_warp_barrier()

    return step


DECODERS = {"shfl": decode_shuffle, "ldmatrix": decode_load_matrix, "mma": decode_product, "bar": decode_warp_barrier}
"""Decoder of each first part of an opcode."""
