"""What the worker said of groups under some advice: kernels, refusals, checks, and which verdicts are problems."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from engine.documents.exploration import ConflictDoc
from engine.documents.model import Check, CompiledDoc, EntryDoc, KernelDoc, ProblemDoc, ScenarioDoc

Key = tuple[str, str]
"""Group and advice."""
KEPT = 500
"""Kernels of one group that are kept; who comes back to an older one asks the engine again."""


@dataclass(slots=True)
class KernelAnswers:
    """Answers by group and advice, of one plan of one model."""

    kernels: dict[Key, KernelDoc] = field(default_factory=dict)
    refusals: dict[Key, ProblemDoc] = field(default_factory=dict)
    """Advice that gave no kernel at all."""
    checks: dict[Key, Check] = field(default_factory=dict)
    shown: dict[str, KernelDoc] = field(default_factory=dict)
    """The last kernel of a group that could run, for schedule and code."""
    _texts: dict[str, dict[str, None]] = field(default_factory=dict)
    """Group -> the advice of its kernels, the oldest answer first."""

    def add(self, group: str, text: str, kernel: KernelDoc) -> None:
        """Takes a kernel in place of whatever was said before; where its group has many, the oldest goes."""
        self.refusals.pop((group, text), None)
        self.kernels[group, text] = kernel
        own = self._texts.setdefault(group, {})
        own.pop(text, None)
        own[text] = None
        if len(own) > KEPT:
            oldest = next(iter(own))
            del own[oldest], self.kernels[group, oldest]

    def is_known(self, group: str, text: str) -> bool:
        """Whether the engine answered for this advice; what a worker that ended said is no answer."""
        refusal = self.refusals.get((group, text))
        return (group, text) in self.kernels or (refusal is not None and refusal.stage != "service")

    def is_settled(self, group: str, text: str) -> bool:
        """Whether anything was said about this advice."""
        return (group, text) in self.kernels or (group, text) in self.refusals

    def runs(self, group: str, text: str) -> KernelDoc | None:
        """The kernel of this advice, if it is one that can run."""
        kernel = self.kernels.get((group, text))
        return kernel if kernel and kernel.has_kernel else None

    def add_conflict(self, group: str, text: str, found: ConflictDoc) -> bool:
        """Adds the smallest conflicts and the repairs to the verdicts of a kernel; whether the kernel is known."""
        kernel = self.kernels.get((group, text))
        if kernel is not None:
            self.kernels[group, text] = replace(
                kernel, entries=found.entries, conflicting=found.conflicting, repairs=found.repairs, complete=True
            )
        return kernel is not None

    def add_figures(self, group: str, text: str, figures: tuple[CompiledDoc, ...]) -> bool:
        """Adds NVRTC's figures to a kernel; whether the kernel is known."""
        kernel = self.kernels.get((group, text))
        if kernel is not None:
            self.kernels[group, text] = replace(kernel, compiled=figures)
        return kernel is not None

    def keep(self, groups: Collection[str]) -> None:
        """Forgets what was said of other groups."""
        for answers in (self.kernels, self.refusals, self.checks):
            for key in [key for key in answers if key[0] not in groups]:
                del answers[key]
        self.shown = {name: kernel for name, kernel in self.shown.items() if name in groups}
        self._texts = {name: texts for name, texts in self._texts.items() if name in groups}


def problems_of(kernel: KernelDoc) -> list[ProblemDoc]:
    """One for each entry that cannot hold and that nothing stands in for."""
    return [
        ProblemDoc("schedule", entry.text.partition("#")[0].strip(), _reason(entry), "the schedule in use is unchanged")
        for entry in kernel.entries
        if entry.outcome == "infeasible" and not _is_stood_in_for(entry, kernel.scenarios)
    ]


def _reason(entry: EntryDoc) -> str:
    return entry.verdict if entry.witness in entry.verdict else f"{entry.verdict} {entry.witness}"


def _is_stood_in_for(entry: EntryDoc, scenarios: tuple[ScenarioDoc, ...]) -> bool:
    """Whether the entry, or an alternative around it, failed beside one that was taken."""
    taken = {each.path[:-1] for each in scenarios if each.outcome == "taken"}
    failed = (each.path for each in scenarios if each.outcome == "infeasible")
    return any(path[:-1] in taken and entry.path[: len(path)] == path for path in failed)
