"""The present times of a plan's kernels: the one place that they are taken from, whoever shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.session.history import FIRST, History
from engine.documents.model import GroupDoc, KernelDoc, ModelDoc, Time, with_times


def present_model(
    opened: ModelDoc, histories: Mapping[str, History], kernel: Callable[[str], KernelDoc | None]
) -> ModelDoc:
    """The model with the times of the steps where the groups' histories stand.

    opened: as the engine made it, with the times of the advisers' kernels.  kernel: that of a group's present step, as
    far as it is known.
    """
    known = {group.name: _time(group, histories.get(group.name)) for group in opened.groups}
    times = {name: time for name, time in known.items() if time is not None}
    found = {name: kernel(name) for name in histories}
    return with_times(opened, times, {name: each.bound for name, each in found.items() if each is not None})


def steps_without_time(histories: Mapping[str, History]) -> list[tuple[str, str]]:
    """(group, advice) of the steps that are stood at and whose kernels have no time yet: others than the advisers'."""
    return [
        (name, history.step.text)
        for name, history in histories.items()
        if history.current != FIRST and history.step.predicted is None
    ]


def _time(group: GroupDoc, history: History | None) -> Time | None:
    """The time of a group's present step; None while it is not known."""
    if history is None:
        return group.time
    return history.step.predicted or (group.time if history.current == FIRST else None)
