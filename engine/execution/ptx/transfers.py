"""Loads, stores, atomics, fences and asynchronous copies, with what a GPU would trap on or leave undefined.

A value that another block stored may be read only once counters and fences have handed it over.  Within a block, shared
memory that another warp wrote may be read, and what another warp read may be overwritten, only after a barrier.
"""

from __future__ import annotations

import numpy as np

from engine.execution.ptx.lanes import Copies, RunningLanes
from engine.execution.ptx.nodes import Instruction, PtxFault
from engine.execution.ptx.operands import Operands, Read, Step, refuse, type_of

U32 = np.dtype(np.uint32)
_HINTS = frozenset(("L1::no_allocate", "L2::64B", "L2::128B", "L2::256B", "cg", "ca", "cs", "volatile", "weak", "nc"))
"""Modifiers that change no value."""


def decode_load(i: Instruction, operands: Operands) -> Step:
    """ld[.volatile].SPACE[.nc][.vN].TYPE."""
    if i.parts[1] == "param":
        return _decode_parameter(i, operands)
    space, count, dtype = _form(i)
    address, writes = operands.address(i.operands[1]), [operands.write(t) for t in operands.vector(i.operands[0])]
    is_read_only, looks = "nc" in i.parts, i.parts[1] == "volatile"
    unit, signed = dtype.itemsize, dtype.kind == "i"

    def step(lanes: RunningLanes) -> None:
        at = lanes.locate(space, address(lanes), unit * count)
        if is_read_only and lanes.memory.stored_now(at, unit, count).any():
            raise PtxFault("race", "ld.global.nc of memory that this launch stores to")
        lanes.before_read(space, at, unit * count)
        if looks:
            lanes.look_at_counter()
        values = lanes.space(space).read(at, unit, count)
        if signed:
            values = values.view(f"i{unit}")
        for number, write in enumerate(writes):
            write(lanes, values[:, number])

    return step


def _decode_parameter(i: Instruction, operands: Operands) -> Step:
    name = i.operands[1].strip("[] ")
    if i.parts[2:] != ("u64",) or name not in operands.parameters:
        raise refuse(i, "reads a parameter that is no pointer")
    number, write = operands.parameters.index(name), operands.write(i.operands[0])

    def step(lanes: RunningLanes) -> None:
        if number >= len(lanes.parameters):
            raise PtxFault("out of bounds", f"parameter {number} of a launch that packs {len(lanes.parameters)}")
        write(lanes, np.array([lanes.parameters[number]], np.uint64))

    return step


def decode_store(i: Instruction, operands: Operands) -> Step:
    """st[.volatile].SPACE[.vN].TYPE."""
    space, count, dtype = _form(i)
    unit = np.dtype(f"u{dtype.itemsize}")
    address, reads = operands.address(i.operands[0]), [operands.read(t, unit) for t in operands.vector(i.operands[1])]

    def step(lanes: RunningLanes) -> None:
        at = lanes.locate(space, address(lanes), unit.itemsize * count)
        values = np.empty((lanes.selected.size, count), unit)
        for number, read in enumerate(reads):
            values[:, number] = read(lanes)
        lanes.before_write(space, at, unit.itemsize * count)
        lanes.space(space).write(at, values)

    return step


def _form(i: Instruction) -> tuple[str, int, np.dtype[np.generic]]:
    """Space, elements of a lane and their type."""
    space, *modifiers, kind = i.parts[2:] if i.parts[1] == "volatile" else i.parts[1:]
    counts = [int(each[1:]) for each in modifiers if each in ("v2", "v4")]
    if space not in ("global", "shared", "local") or set(modifiers) - _HINTS - {"v2", "v4"}:
        raise refuse(i)
    return space, counts[0] if counts else 1, type_of(i, kind)


def decode_atomic(i: Instruction, operands: Operands) -> Step:
    """atom.global.add.u32: lanes one after another; each sees the sum of those before it."""
    if i.opcode != "atom.global.add.u32":
        raise refuse(i)
    address, value = operands.address(i.operands[1]), operands.read(i.operands[2], U32)
    write = operands.write(i.operands[0])

    def step(lanes: RunningLanes) -> None:
        at = lanes.locate("global", address(lanes), 4)
        added = np.broadcast_to(value(lanes), at.shape)
        before = np.empty(at.shape, np.uint32)
        for lane in range(at.size):
            place = at[lane : lane + 1]
            before[lane] = lanes.memory.read(place, 4, 1)[0, 0]
            lanes.memory.write(place, (before[lane] + added[lane]).reshape(1, 1))
        lanes.add_to_counter()
        write(lanes, before)

    return step


def decode_fence(i: Instruction, operands: Operands) -> Step:
    """membar.gl, fence: what these lanes stored so far is seen by other blocks from here on."""
    if i.opcode not in ("membar.gl", "membar.sys", "membar.cta", "fence.acq_rel.gpu", "fence.sc.gpu"):
        raise refuse(i)
    return (lambda lanes: None) if i.opcode == "membar.cta" else lambda lanes: lanes.fence()


def decode_asynchronous(i: Instruction, operands: Operands) -> Step:
    """cp.async of 4, 8 or 16 bytes, its groups and its waits."""
    if i.opcode == "cp.async.commit_group":
        return lambda lanes: lanes.commit()
    if i.opcode == "cp.async.wait_all":
        return lambda lanes: lanes.wait(0, everything=True)
    if i.opcode == "cp.async.wait_group":
        number = int(i.operands[0])
        return lambda lanes: lanes.wait(number)
    if set(i.parts[2:]) - _HINTS - {"shared", "global"} or len(i.operands) not in (3, 4):
        raise refuse(i)
    target, source = (operands.address(text) for text in i.operands[:2])
    size = int(i.operands[2])
    filled: Read = operands.read(i.operands[3] if len(i.operands) > 3 else str(size), U32)

    def step(lanes: RunningLanes) -> None:
        to = lanes.locate("shared", target(lanes), size)
        count = np.broadcast_to(filled(lanes), to.shape).astype(np.int64)
        if (count > size).any():
            raise PtxFault("out of bounds", f"copies {int(count.max())} bytes into {size}")
        address, origin = np.broadcast_to(source(lanes), to.shape), np.zeros(to.shape, np.int64)
        some = count > 0
        for bytes_read in np.unique(count[some]):
            own = count == bytes_read
            origin[own] = lanes.memory.locate(address[own], int(bytes_read), size)
        lanes.begin(Copies(lanes.selected, lanes.group[lanes.select].copy(), to, origin, size, count))

    return step


DECODERS = {
    "ld": decode_load, "st": decode_store, "atom": decode_atomic, "membar": decode_fence, "fence": decode_fence,
    "cp": decode_asynchronous,
}  # fmt: skip
"""Decoder of each first part of an opcode."""
