"""The history of one group's advice as a tree: every legal step that was ever taken, and what is known about it.

Undo goes to the parent, redo to the child visited last; an edit after an undo begins a branch and overwrites nothing.
What was refused is no step: it stays beside the tree as a draft.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from engine.documents.model import Check, Time
from engine.execution.nodes import ORDERS
from engine.execution.statistics import FASTER, SLOWER, compare, in_rounds

FIRST = 0
NO_STEP = -1
PREDICTED = "predicted"


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check of a step's kernel found; events are counted over the blocks that ran, never timed."""

    status: str
    """"pass" or "fail"."""
    blocks_run: int
    blocks_total: int
    orders: int
    """How many of `ORDERS`, the first of them, were run."""
    sectors: int
    """32-byte pieces of global memory touched."""
    requests: int
    """Memory instructions of whole warps."""
    levels: tuple[str, ...] = ()
    """What passed in these orders: "source", "ptx"; none in files of earlier versions, which ran the source alone."""

    @staticmethod
    def of(check: Check) -> Checked:
        """The figures of a check that a history keeps."""
        sectors = sum(count.sectors for count in check.counts)
        requests = sum(count.requests for count in check.counts)
        passed = tuple(level for level, outcome in check.levels.items() if outcome == "pass")
        return Checked(check.status, check.blocks_run, check.blocks_total, len(check.orders), sectors, requests, passed)

    @property
    def extent(self) -> str:
        """What was run, with its orders of threads and copies if any: "source and ptx, late and early", "native"."""
        return ", ".join(filter(None, (" and ".join(self.levels) or "source", " and ".join(ORDERS[: self.orders]))))


@dataclass(frozen=True, slots=True)
class Speedup:
    """A part of a time that is saved."""

    part: float
    """Of the time before; negative for a loss."""
    sure: bool
    """Whether the difference is more than noise; a modelled one always is."""
    because: str
    """What the samples say: "-5.0 %, 95 % between -6.0 % and -4.1 %"; "" for a modelled time."""


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """One legal state of a group's advice."""

    text: str
    """The group's whole advice."""
    title: str
    """What changed since the parent, in few words: "Vector 4 on S5"."""
    parent: int
    """Number of the step that was edited; `NO_STEP` for the first."""
    predicted: Time | None = None
    measured: Time | None = None
    """Of a GPU, or "synthetic" in a test: `origin` says which."""
    checked: Checked | None = None
    note: str = ""

    @property
    def time(self) -> Time | None:
        """The measured time where there is one, else the predicted one."""
        return self.measured or self.predicted

    def time_of(self, origin: str) -> Time | None:
        """The step's time of one origin."""
        return next((time for time in (self.measured, self.predicted) if time and time.origin == origin), None)


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """A history as plain, immutable data: what a file holds."""

    steps: tuple[HistoryStep, ...]
    current: int = FIRST
    baseline: int = FIRST
    visited: tuple[tuple[int, int], ...] = ()
    """(step, its child visited last)."""
    draft: str = ""

    @property
    def text(self) -> str:
        """The advice of the step where it stands."""
        return self.steps[self.current].text


@dataclass
class History:
    """The tree of one group's steps, where it stands, and its baseline.  At least one step is always there."""

    steps: list[HistoryStep]
    current: int = FIRST
    baseline: int = FIRST
    draft: str = ""
    """What was asked for last at the current step and is no step: refused, or taken back."""
    draft_shown: bool = False
    """Whether the draft is what the editor shows; undo hides it, redo asks for it again."""
    _visited: dict[int, int] = field(default_factory=dict)
    _children: dict[int, list[int]] = field(default_factory=dict)
    _numbers: dict[str, list[int]] = field(default_factory=dict)
    """Advice -> the steps that have it."""

    def __post_init__(self) -> None:
        for number, step in enumerate(self.steps):
            self._note_step(number, step)

    @classmethod
    def start(cls, text: str, title: str) -> History:
        """A history of one step."""
        return cls([HistoryStep(text, title, NO_STEP)])

    @classmethod
    def of(cls, trail: HistoryRecord) -> History:
        """The history that a file holds.  ValueError where its numbers name steps that are not there."""
        for number, step in enumerate(trail.steps):
            if not (NO_STEP <= step.parent < number) or (step.parent == NO_STEP) != (number == FIRST):
                raise ValueError(f"step {number} says that step {step.parent} is its parent")
        inside = range(len(trail.steps))
        for name, number in (("current", trail.current), ("baseline", trail.baseline)):
            if number not in inside:
                raise ValueError(f"{name} step {number} is not there")
        for parent, child in trail.visited:
            if child not in inside or trail.steps[child].parent != parent:
                raise ValueError(f"step {child} is no child of step {parent}")
        shown = bool(trail.draft)
        return cls(list(trail.steps), trail.current, trail.baseline, trail.draft, shown, dict(trail.visited))

    def trail(self) -> HistoryRecord:
        """The history as plain data."""
        draft = self.draft if self.draft_shown else ""
        return HistoryRecord(tuple(self.steps), self.current, self.baseline, tuple(self._visited.items()), draft)

    @property
    def step(self) -> HistoryStep:
        """Where the history stands."""
        return self.steps[self.current]

    @property
    def text(self) -> str:
        """The advice that the editor shows: a refused draft, or the current step's."""
        return self.draft if self.draft_shown else self.step.text

    @property
    def can_undo(self) -> bool:
        """Whether there is anything to take back."""
        return self.draft_shown or self.step.parent != NO_STEP

    @property
    def can_redo(self) -> bool:
        """Whether there is anything to make again."""
        return bool(self.draft and not self.draft_shown) or bool(self.children(self.current))

    @property
    def next_step(self) -> int:
        """Where redo goes: the child visited last, else the youngest; `NO_STEP` where there is none."""
        children = self.children(self.current)
        return self._visited.get(self.current, children[-1]) if children else NO_STEP

    def children(self, number: int) -> tuple[int, ...]:
        """The steps made from a step, the oldest first."""
        return tuple(self._children.get(number, ()))

    def path(self, number: int) -> tuple[int, ...]:
        """The steps from the first to `number`."""
        found = [number]
        while self.steps[found[-1]].parent != NO_STEP:
            found.append(self.steps[found[-1]].parent)
        return tuple(reversed(found))

    def add(self, text: str, title: str) -> int:
        """Takes a step from where the history stands, or goes to the child that says the same; its number."""
        same = (child for child in self.children(self.current) if self.steps[child].text == text)
        number = next(same, None)
        if number is None:
            number = len(self.steps)
            self.steps.append(HistoryStep(text, title, self.current))
            self._note_step(number, self.steps[number])
        self._visited[self.current] = number
        self._stand(number)
        return number

    def go(self, number: int) -> None:
        """Stands at a step; the way to it becomes the way of redo."""
        for parent, child in pairwise(self.path(number)):
            self._visited[parent] = child
        self._stand(number)

    def refuse(self, text: str) -> None:
        """Keeps what was asked for and cannot be."""
        self.draft, self.draft_shown = text, True

    def undo(self) -> None:
        """Takes back the draft, or goes to the parent."""
        if self.draft_shown:
            self.draft_shown = False
        elif self.step.parent != NO_STEP:
            self._stand(self.step.parent)

    def redo(self) -> str:
        """Goes to the child visited last; where a draft was taken back instead, the text to ask for again."""
        if self.draft:
            return self.draft
        if self.next_step != NO_STEP:
            self._visited[self.current] = self.next_step
            self._stand(self.next_step)
        return ""

    def _note_step(self, number: int, step: HistoryStep) -> None:
        self._children.setdefault(step.parent, []).append(number)
        self._numbers.setdefault(step.text, []).append(number)

    def _stand(self, number: int) -> None:
        self.current = number
        self.draft, self.draft_shown = "", False

    def note(self, number: int, note: str) -> None:
        """Writes a remark to a step."""
        self.steps[number] = replace(self.steps[number], note=note)

    def learn(
        self, text: str, predicted: Time | None = None, measured: Time | None = None, checked: Checked | None = None
    ) -> tuple[int, ...]:
        """Adds figures to every step with this advice; the steps that know more now."""
        known = {"predicted": predicted, "measured": measured, "checked": checked}
        news: dict[str, Any] = {name: value for name, value in known.items() if value is not None}
        changed = []
        for number in self._numbers.get(text, ()):
            step = self.steps[number]
            if any(getattr(step, name) != value for name, value in news.items()):
                self.steps[number] = replace(step, **news)
                changed.append(number)
        return tuple(changed)

    def gain(self, number: int, reference: int, origin: str = "") -> Speedup | None:
        """What a step saves against a reference step, by default in the origin that the step shows.

        None for the reference itself and where the two share no such origin.
        """
        step = self.steps[number]
        now = step.time_of(origin) if origin else step.time
        before = self.steps[reference].time_of(now.origin) if now and reference != NO_STEP else None
        return speedup(now, before) if now and before and number != reference else None


def speedup(now: Time, before: Time) -> Speedup | None:
    """The gain from `before` to `now`; None where they are of other origins or devices."""
    if (now.origin, now.device) != (before.origin, before.device) or before.microseconds <= 0:
        return None
    part = (before.microseconds - now.microseconds) / before.microseconds
    if not (now.samples and before.samples):
        return Speedup(part, True, "")
    found = compare(in_rounds(before.samples, before.rounds), in_rounds(now.samples, now.rounds))
    return Speedup(part, found.verdict in (FASTER, SLOWER), found.because)


def is_plain(trail: HistoryRecord) -> bool:
    """Whether a history holds nothing that opening the model again would not give."""
    first = trail.steps[0]
    return len(trail.steps) == 1 and not (trail.draft or first.note or first.measured or first.checked)


def without_figures(trails: Mapping[str, HistoryRecord]) -> dict[str, HistoryRecord]:
    """The same steps with nothing known about them: what is left of them on another machine."""
    return {
        group: replace(trail, steps=tuple(_bare(trail.steps)))
        for group, trail in trails.items()
        if len(trail.steps) > 1 or trail.draft
    }


def _bare(steps: Iterable[HistoryStep]) -> Iterable[HistoryStep]:
    return (HistoryStep(step.text, step.title, step.parent, note=step.note) for step in steps)
