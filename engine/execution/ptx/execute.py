"""Run a kernel's PTX on the CPU, with the interface of the emulator of CUDA text.

Blocks run side by side in batches, warp after warp: each as far as it comes without the others.  Lanes of a warp that
take different branches run from the one that is furthest back in the text, so that they meet again.  A lane that sleeps
(nanosleep) waits for another block: it goes on once all others have run as far as they come.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.execution.nodes import Emulation, Finding
from engine.execution.ptx.decode import DecodedInstruction, decode, sleeps
from engine.execution.ptx.lanes import WARP_LANES, LaunchState, RunningLanes
from engine.execution.ptx.memory import GlobalMemory
from engine.execution.ptx.nodes import PtxFault, PtxKernel
from engine.execution.ptx.operands import Operands
from engine.execution.ptx.ordering import GridOrder
from engine.execution.ptx.parse import parse
from engine.support.errors import BadInput
from engine.tile.source import CudaSource, KernelLaunch

BATCH = 1 << 25
"""Bytes of registers of the blocks that run side by side: more costs caches, fewer costs calls of NumPy."""
MOST_BLOCKS = 64
ENDED, MEETING, SLEEPING, GATHERING = 1, 2, 3, 4
"""States of a lane besides 0, running: it has returned; it waits at a barrier of its block; it sleeps; it waits for the
other lanes of its warp."""
_FAR = 1 << 60

Arrays = dict[str, np.ndarray]


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
    chosen = range(source.blocks) if blocks is None else source.whole_grids(blocks)
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
        waits = any(map(sleeps, entries.values()))  # then a block may read what others of its launch made
        handed += [b.parameter for b in source.buffers if b.written and (b.read or waits)]
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
        return self._left_counters() if self.ended == self._source.blocks else None

    def _left_counters(self) -> Finding | None:
        """A workspace that must hold zeros when the run ends, and does not."""
        for workspace in self._source.workspaces:
            if workspace.zeroed and self.memory.bytes_of(workspace.parameter)[0].any():
                return Finding("unfinished team", 0, f"{workspace.name} holds other than zeros when the kernel ends")
        return None

    def _launch(self, launch: KernelLaunch, blocks: Sequence[int]) -> Finding | None:
        entry = self._entries[launch.entry]
        shared = _place(entry, "shared", launch.shared_bytes)
        local = _place(entry, "local", 0)
        addresses = {n: self.memory.address(n) for n, v in entry.variables.items() if v.space in ("global", "const")}
        code = decode(entry, Operands(entry, {**addresses, **shared.at, **local.at}))
        threads = math.prod(launch.block)
        state = LaunchState(
            self.memory, self._parameters, GridOrder(self._handed, len(blocks), threads), launch.block, launch.grid,
            shared.bytes, local.bytes,
        )  # fmt: skip
        size = max(1, min(MOST_BLOCKS, BATCH // max(1, len(entry.registers) * threads * 4)))
        if sleeps(entry):  # blocks wait for each other: all must be under way
            size = len(blocks)
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

    def __init__(self, code: Sequence[DecodedInstruction], lanes: RunningLanes, backwards: bool, until: float) -> None:
        self._code, self._lanes, self._until = code, lanes, until
        self._position = np.zeros(lanes.count, np.int64)
        self._state = np.where(lanes.exists, 0, ENDED)
        half = lanes.blocks // 2
        self._is_late = lanes.slot < half if backwards else lanes.slot >= lanes.blocks - half
        self._held_back = np.zeros(lanes.count, bool)
        """Of each lane: whether it comes late to the atomic operation before it."""
        self._warps = range(lanes.warps - 1, -1, -1) if backwards else range(lanes.warps)
        self._at = 0
        """Position of the instruction that runs."""
        self._have_gathered = False
        """Whether no lane of a warp is left to wait for."""
        self._asleep = self._state[:0], self._position[:0]
        """The states and positions of all lanes when sleeping ones were woken last, if no block met since."""

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
                while (running := own[self._state[own] == 0]).size or self._gather(own):
                    if running.size:
                        self._run_together(running)
            if (self._state == ENDED).all():
                self._lanes.end()
                return
            if not self._meet():
                self._wake()

    def _gather(self, own: np.ndarray) -> bool:
        """Let lanes go on that waited for others of their warp, of which none runs any more; whether there are any."""
        waiting = own[self._state[own] == GATHERING]
        self._state[waiting] = 0
        self._have_gathered = waiting.size > 0
        return self._have_gathered

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
            if one.is_of_warp:
                # A loop's end may lie before its head in the text: lanes that were quick there wait for the others.
                if not (self._have_gathered or lanes.are_whole()):
                    self._position[chosen], self._state[chosen] = at, GATHERING
                    return
                self._have_gathered = False
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

    def _control(self, one: DecodedInstruction, chosen: np.ndarray, at: int) -> int | None:
        """The next position of all chosen lanes; None where they do not go on together."""
        name = one.instruction.parts[0]
        held = np.ones(chosen.shape, bool)
        if one.guard is not None:
            held = np.broadcast_to(one.guard(self._lanes), chosen.shape)
        if name == "atom":
            return self._add(one, chosen, held, at)
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
        elif name == "nanosleep":
            self._state[leaving] = SLEEPING
        else:
            self._position[leaving] = at
            self._state[leaving] = MEETING
        return None

    def _add(self, one: DecodedInstruction, chosen: np.ndarray, held: np.ndarray, at: int) -> int | None:
        """Lanes of half of the blocks sleep before an atomic operation, so that not all blocks are always there."""
        late = chosen[held & self._is_late[chosen] & ~self._held_back[chosen]]
        if late.size:
            self._position[chosen] = at
            self._state[late], self._held_back[late] = SLEEPING, True
            return None
        self._held_back[chosen] = False
        if held.any() and one.atomic is not None:
            self._lanes.choose(chosen[held])
            one.atomic(self._lanes)
            self._lanes.choose(chosen)
        return at + 1

    def _meet(self) -> bool:
        """Release the blocks whose threads all wait at one barrier; whether there are any.  No lane can run."""
        lanes = self._lanes
        shape = lanes.warps, lanes.blocks, WARP_LANES
        state, position, across = self._state.reshape(shape), self._position.reshape(shape), (0, 2)
        waits = state == MEETING
        ready = waits.any(axis=across) & ~(state == SLEEPING).any(axis=across)
        lowest = np.where(waits, position, _FAR).min(axis=across)
        highest = np.where(waits, position, -1).max(axis=across)
        ended = ((state == ENDED) & lanes.exists.reshape(shape)).any(axis=across)
        for slot in np.flatnonzero(ready & (ended | (lowest != highest)))[:1]:
            self._at = int(position[:, slot][waits[:, slot]][0])
            if ended[slot]:
                raise PtxFault("divergent barrier", "some threads of the block have ended")
            raise PtxFault("divergent barrier", "threads of the block wait at different barriers")
        for at in np.unique(lowest[ready]):
            self._at = int(at)
            self._release(ready & (lowest == at))
        return bool(ready.any())

    def _release(self, blocks: np.ndarray) -> None:
        """The threads of some blocks pass the barrier at which they wait.  blocks: bool, of each."""
        lanes = self._lanes
        released = np.flatnonzero(blocks[lanes.slot])
        waiting = released[self._state[released] == MEETING]
        self._vote(waiting)
        self._position[waiting] = self._at + 1
        self._state[waiting] = 0
        lanes.pass_barrier(blocks)
        self._asleep = self._state[:0], self._position[:0]

    def _vote(self, waiting: np.ndarray) -> None:
        voted = self._code[self._at].voted
        if voted is None:
            return
        read, write, how = voted
        lanes = self._lanes
        lanes.choose(waiting)
        slot = lanes.slot[waiting]
        said = np.bincount(slot, np.broadcast_to(read(lanes), waiting.shape), lanes.blocks)
        write(lanes, (said > 0 if how == "or" else said == lanes.threads)[slot])

    def _wake(self) -> None:
        """All lanes that have not ended sleep, or wait for one that does: those that sleep look again."""
        asleep = self._state == SLEEPING
        before, now = self._asleep, (self._state.copy(), self._position.copy())
        if all(map(np.array_equal, before, now)):
            self._at = int(self._position[asleep].min()) - 1  # behind which they sleep
            slots = np.unique(self._lanes.slot[asleep])
            message = f"{slots.size} of {self._lanes.blocks} blocks wait for others that do not come"
            raise PtxFault("hang", message)
        self._asleep = now
        self._state[asleep] = 0
