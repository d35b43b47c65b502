"""Whether waits and barriers order every copy before its use and every use before the copy that reuses its buffer.

A check of one block's trace by the rules of asynchronous copies: groups complete in the order in which they were
committed, a wait is the thread's own, and only a barrier after it lets all threads read.  The emulator checks the same
of the CUDA text, thread by thread; this says it of the tile program, step by step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.documents.pipeline import HazardDoc
from engine.explore.pipeline_trace import Action, Trace

_TEXTS = {
    "not waited for": "reads it before its copy is waited for",
    "no barrier": "reads it with no barrier after the wait: other threads' copies may not have landed",
    "overwritten": "is copied to while threads may still read it: no barrier since the last read",
    "wrong tile": "holds another tile than the one that is used",
}


@dataclass(slots=True)
class _StageState:
    """What is known of one stage of one buffer."""

    tile: int
    group: int
    """That fills it; a plain store belongs to none and is there at once, for its own thread."""
    barriers: int
    """Barriers before it was written."""
    is_read: bool = False
    """Since the last barrier."""


def hazards(trace: Trace) -> tuple[HazardDoc, ...]:
    """Every hazard of a trace once for each step and stage."""
    return tuple(dict.fromkeys(_Checker(trace).check()))


class _Checker:
    """Follows groups, waits and barriers."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.slots: dict[tuple[str, int], _StageState] = {}
        self.groups = self.complete = self.visible = self.barriers = 0
        self.tiles: dict[str, tuple[int, int]] = {}
        """Buffer -> (tile that was copied last, the group of that copy)."""

    def check(self) -> Iterator[HazardDoc]:
        """Goes through all actions."""
        for action in self.trace.actions:
            match action.kind:
                case "issue":
                    yield from self._issue(action)
                case "commit":
                    self.groups += 1
                case "wait":
                    self.complete = max(self.complete, self.groups - action.pending)
                case "barrier":
                    self.visible, self.barriers = self.complete, self.barriers + 1
                    for slot in self.slots.values():
                        slot.is_read = False
                case "read":
                    yield from self._read(action)

    def _issue(self, action: Action) -> Iterator[HazardDoc]:
        tile, group = self.tiles.get(action.buffer, (-1, -1))
        tile = tile if group == self.groups else tile + 1
        self.tiles[action.buffer] = (tile, self.groups)
        known = self.slots.get((action.buffer, action.stage))
        if known is not None and known.is_read:
            yield _hazard("overwritten", action)
        group = -1 if action.is_blocking else self.groups
        self.slots[action.buffer, action.stage] = _StageState(tile, group, self.barriers)

    def _read(self, action: Action) -> Iterator[HazardDoc]:
        slot = self.slots.get((action.buffer, action.stage))
        if slot is None:
            yield _hazard("not waited for", action)
            return
        slot.is_read = True
        if slot.group >= self.complete:
            yield _hazard("not waited for", action)
        elif slot.group >= self.visible or (slot.group < 0 and slot.barriers == self.barriers):
            yield _hazard("no barrier", action)
        is_last = action.step >= self.trace.steps - 1  # fragments of the tile after it are fetched and not used
        if slot.tile not in (action.step, action.step + 1) and not is_last:
            yield _hazard("wrong tile", action)


def _hazard(kind: str, action: Action) -> HazardDoc:
    where = f"step {action.step}" if action.step >= 0 else "the fill"
    text = f"{where}: stage {action.stage} of {action.buffer} {_TEXTS[kind]}"
    if kind in ("not waited for", "no barrier"):
        text = f"{where} {_TEXTS[kind].replace('it', f'stage {action.stage} of {action.buffer}', 1)}"
    return HazardDoc(kind, action.step, action.stage, text)
