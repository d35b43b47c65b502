"""What of a kernel's verdicts is a problem: what cannot hold, unless a later alternative holds in its place."""

from __future__ import annotations

from engine.documents.model import EntryDoc, KernelDoc, ProblemDoc, ScenarioDoc


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
