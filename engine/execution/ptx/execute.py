"""Run a kernel's PTX on the CPU, with the interface of the emulator of CUDA text.

Blocks run side by side in batches, warp after warp: each as far as it comes without the others.  Lanes of a warp that
take different branches run from the one that is furthest back in the text, so that they meet again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.execution.nodes import Emulation, Finding
from engine.execution.ptx import arithmetic, convert, transfers, warp
from engine.execution.ptx.lanes import LaunchState, RunningLanes
from engine.execution.ptx.memory import GlobalMemory
from engine.execution.ptx.nodes import Instruction, PtxFault, PtxKernel
from engine.execution.ptx.operands import Operands, Read, Step, Write, refuse
from engine.execution.ptx.ordering import GridOrder
from engine.execution.ptx.parse import parse
from engine.support.errors import BadInput
from engine.tile.source import CudaSource, KernelLaunch

BATCH = 1 << 25
"""Bytes of registers of the blocks that run side by side: more costs caches, fewer costs calls of NumPy."""
MOST_BLOCKS = 64
ENDED, MEETING = 1, 2
"""States of a lane besides 0, running: it has returned; it waits at a barrier of its block."""
_FAR = 1 << 60
_BOOL = np.dtype(np.bool_)

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class _Decoded:
    """An instruction ready to run."""

    instruction: Instruction
    step: Step | None
    """None for branches, barriers and returns."""
    guard: Read | None
    target: int = 0
    """Of a branch."""
    voted: tuple[Read, Write, str] | None = None
    """Of a barrier with a vote: what each thread says, where the result goes, "and" or "or"."""


def execute(
    source: CudaSource,
    ptx: str,
    arrays: Mapping[str, np.ndarray],
    *,
    blocks: Sequence[int] | None = None,
    order: str = "late",
    timeout: float = 120,
) -> tuple[Emulation, Arrays, Arrays]:
    """Run some blocks (None: all) of the kernel that `source` was compiled to; arguments and results as of `emulate`.

    ptx: its compiled text.  "late": warps run in order and copies land at their wait; "early": warps and blocks run
    backwards and copies land when they are issued.  timeout: seconds of processor time, so that a busy machine calls no
    kernel a hang.  A fault ends the run and is its finding.  Raises Unsupported for an instruction that is not known,
    BadInput for text that is not PTX of this kernel.
    """
    entries = parse(ptx)
    missing = [launch.entry for launch in source.launches if launch.entry not in entries]
    if missing:
        raise BadInput("run", "the PTX", f"has no kernel {missing[0]}; it has {', '.join(entries)}")
    run = _PtxRun(source, entries, arrays, order == "early", time.thread_time() + timeout)
    chosen = range(source.blocks) if blocks is None else blocks
    finding = run.launches(chosen)
    outputs: Arrays = {}
    masks: Arrays = {}
    for buffer in (buffer for buffer in source.buffers if buffer.written):
        held, stored = run.memory.bytes_of(buffer.parameter)
        given = arrays.get(buffer.array)
        shape = given.shape if given is not None else (buffer.elements,)
        outputs[buffer.array] = held.copy().view(buffer.dtype).reshape(shape)
        masks[buffer.array] = np.asarray(stored.reshape(buffer.elements, -1).any(axis=1)).reshape(shape)
    findings = (finding,) if finding else ()
    return Emulation(order, run.ended, source.blocks, findings, ()), outputs, masks


class _PtxRun:
    """One run of all launches."""

    def __init__(
        self, source: CudaSource, entries: Mapping[str, PtxKernel], arrays: Mapping[str, np.ndarray], early: bool,
        until: float,
    ) -> None:  # fmt: skip
        self._source, self._entries, self._early, self._until = source, entries, early, until
        sizes = {b.parameter: (b.elements * np.dtype(b.dtype).itemsize, b.alignment) for b in source.buffers}
        sizes |= {w.parameter: (w.bytes, w.alignment) for w in source.workspaces}
        pointers = tuple(sizes)
        variables = {
            name: variable for entry in entries.values() for name, variable in entry.variables.items()
            if variable.space in ("global", "const")
        }  # fmt: skip
        sizes |= {name: (variable.size, variable.alignment) for name, variable in variables.items()}
        self.memory = GlobalMemory(sizes)
        for buffer in source.buffers:
            if buffer.array in arrays:
                self.memory.fill(buffer.parameter, arrays[buffer.array])
        for workspace in source.workspaces:
            if workspace.zeroed:
                self.memory.fill(workspace.parameter, np.zeros(workspace.bytes, np.uint8))
        for name, variable in variables.items():
            self.memory.fill(name, np.frombuffer(variable.values.ljust(variable.size, b"\0"), np.uint8))
        self._parameters = tuple(self.memory.address(name) for name in pointers)
        handed = [w.parameter for w in source.workspaces]
        handed += [b.parameter for b in source.buffers if b.read and b.written]
        self._handed = [self.memory.regions[name] for name in handed]
        self.ended = 0
        """Blocks that came to their end."""

    def launches(self, blocks: Sequence[int]) -> Finding | None:
        """Run the blocks of each launch in turn; the fault that ended the run, if any."""
        for launch, own in self._source.by_launch(blocks):
            if own:
                finding = self._launch(launch, own)
                if finding:
                    return finding
            self.memory.end_launch()
        return None

    def _launch(self, launch: KernelLaunch, blocks: Sequence[int]) -> Finding | None:
        entry = self._entries[launch.entry]
        shared = _place(entry, "shared", launch.shared_bytes)
        local = _place(entry, "local", 0)
        addresses = {n: self.memory.address(n) for n, v in entry.variables.items() if v.space in ("global", "const")}
        code = _decode(entry, Operands(entry, {**addresses, **shared.at, **local.at}))
        threads = math.prod(launch.block)
        state = LaunchState(
            self.memory, self._parameters, GridOrder(self._handed, len(blocks) * threads), launch.block, launch.grid,
            shared.bytes, local.bytes,
        )  # fmt: skip
        size = max(1, min(MOST_BLOCKS, BATCH // max(1, len(entry.registers) * threads * 4)))
        batches = [(first, blocks[first : first + size]) for first in range(0, len(blocks), size)]
        clock = 0
        for first, batch in reversed(batches) if self._early else batches:
            lanes = RunningLanes(state, batch, first, self._early)
            lanes.clock = clock
            machine = _BatchControl(code, lanes, self._early, self._until)
            try:
                with np.errstate(all="ignore"):  # infinities and NaN are values here as on a GPU
                    machine.run()
            except PtxFault as fault:
                return machine.finding(fault)
            clock = lanes.clock
            self.ended += len(batch)
        return None


@dataclass(frozen=True, slots=True)
class _Placed:
    """Variables of one space, one after another."""

    at: Mapping[str, int]
    bytes: int


def _place(entry: PtxKernel, space: str, dynamic: int) -> _Placed:
    """dynamic: bytes that the launch adds for the one variable without a size."""
    at, end = {}, 0
    own = [(name, v) for name, v in entry.variables.items() if v.space == space]
    # Last the variable that the launch sizes (extern __shared__), so that nothing lies behind it.
    for name, variable in sorted(own, key=lambda one: not one[1].size):
        end = -(-end // variable.alignment) * variable.alignment
        at[name] = end
        end += variable.size or dynamic
    return _Placed(at, end)


class _BatchControl:
    """The control of blocks that run side by side: branches, barriers, ends."""

    def __init__(self, code: Sequence[_Decoded], lanes: RunningLanes, backwards: bool, until: float) -> None:
        self._code, self._lanes, self._until = code, lanes, until
        self._position = np.zeros(lanes.count, np.int64)
        self._state = np.where(lanes.exists, 0, ENDED)
        self._warps = range(lanes.warps - 1, -1, -1) if backwards else range(lanes.warps)
        self._at = 0
        """Position of the instruction that runs."""

    def finding(self, fault: PtxFault) -> Finding:
        """A fault at the instruction that ran last."""
        one = self._code[min(self._at, len(self._code) - 1)].instruction
        return Finding(fault.kind, one.cuda_line, f"PTX line {one.line}, {one}: {fault}")

    def run(self) -> None:
        """Until all lanes have ended."""
        each = self._lanes.blocks * 32
        while True:
            for warp_number in self._warps:
                own = np.arange(warp_number * each, (warp_number + 1) * each)
                while (running := own[self._state[own] == 0]).size:
                    self._run_together(running)
            if (self._state == ENDED).all():
                self._lanes.end()
                return
            self._meet()

    def _run_together(self, running: np.ndarray) -> None:
        """Run the lanes that are furthest back until they part, wait, end or meet others."""
        positions = self._position[running]
        # Branches of a kernel join behind them in the text: who is there waits until the others have caught up.
        lowest = int(positions.min())
        behind = positions == lowest
        chosen = running if behind.all() else running[behind]
        others = positions[~behind]
        self._advance(chosen, lowest, int(others.min()) if others.size else _FAR)

    def _advance(self, chosen: np.ndarray, at: int, limit: int) -> None:
        lanes, code = self._lanes, self._code
        lanes.choose(chosen)
        while at < limit:
            if at >= len(code):
                raise PtxFault("crash", "runs past the last instruction")
            self._at = at
            lanes.clock += 1
            if lanes.clock % 256 == 0 and time.thread_time() > self._until:
                raise PtxFault("hang", "was still running at the limit of time")
            one = code[at]
            if one.step is None:
                following = self._control(one, chosen, at)
                if following is None:
                    return
                at = following
                continue
            if one.guard is None:
                one.step(lanes)
            else:
                held = np.broadcast_to(one.guard(lanes), chosen.shape)
                if held.any():
                    lanes.choose(chosen[held])
                    one.step(lanes)
                    lanes.choose(chosen)
            at += 1
        self._position[chosen] = at

    def _control(self, one: _Decoded, chosen: np.ndarray, at: int) -> int | None:
        """The next position of all chosen lanes; None where they do not go on together."""
        name = one.instruction.parts[0]
        held = np.ones(chosen.shape, bool)
        if one.guard is not None:
            held = np.broadcast_to(one.guard(self._lanes), chosen.shape)
        if name == "bra":
            if held.all():
                return one.target
            if not held.any():
                return at + 1
            self._position[chosen] = np.where(held, one.target, at + 1)
            return None
        if not held.any():
            return at + 1
        leaving = chosen[held]
        self._position[chosen] = at + 1
        if name in ("ret", "exit"):
            self._state[leaving] = ENDED
        else:
            self._position[leaving] = at
            self._state[leaving] = MEETING
        return None

    def _meet(self) -> None:
        """All lanes wait or have ended: release the blocks whose threads are at one barrier."""
        lanes = self._lanes
        for slot in range(lanes.blocks):
            own = np.flatnonzero(lanes.slot == slot)
            states = self._state[own][lanes.exists[own]]
            if (states == ENDED).all():
                continue
            waiting = own[self._state[own] == MEETING]
            self._at = int(self._position[waiting[0]])
            if (states == ENDED).any():
                raise PtxFault("divergent barrier", "some threads of the block have ended")
            if (self._position[waiting] != self._at).any():
                raise PtxFault("divergent barrier", "threads of the block wait at different barriers")
            self._vote(waiting)
            self._position[waiting] = self._at + 1
            self._state[waiting] = 0
            lanes.pass_barrier(own)

    def _vote(self, waiting: np.ndarray) -> None:
        voted = self._code[self._at].voted
        if voted is None:
            return
        read, write, how = voted
        self._lanes.choose(waiting)
        said = read(self._lanes)
        write(self._lanes, np.broadcast_to(said.any() if how == "or" else said.all(), waiting.shape))


_DECODERS = {**arithmetic.DECODERS, **convert.DECODERS, **transfers.DECODERS, **warp.DECODERS}


def _decode(entry: PtxKernel, operands: Operands) -> list[_Decoded]:
    """All instructions of a kernel; raises Unsupported for the first that is not known."""
    return [_decode_one(instruction, entry, operands) for instruction in entry.code]


def _decode_one(i: Instruction, entry: PtxKernel, operands: Operands) -> _Decoded:
    guard = operands.read(("!" if i.negated else "") + i.guard, _BOOL) if i.guard else None
    name = i.parts[0]
    if i.opcode in ("bra", "bra.uni"):
        return _Decoded(i, None, guard, entry.labels[i.operands[0]])
    if i.opcode in ("ret", "exit"):
        return _Decoded(i, None, guard)
    if i.opcode == "bar.sync" and i.operands == ("0",):
        return _Decoded(i, None, guard)
    if i.opcode in ("bar.red.or.pred", "bar.red.and.pred") and i.operands[1] == "0" and len(i.operands) == 3:
        voted = operands.read(i.operands[2], _BOOL), operands.write(i.operands[0]), i.parts[2]
        return _Decoded(i, None, guard, voted=voted)
    if name not in _DECODERS:
        raise refuse(i)
    return _Decoded(i, _DECODERS[name](i, operands), guard)
