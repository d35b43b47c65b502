"""Fixed groups as text, and which groups of two plans of one model are the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.session.history import History, HistoryRecord, is_plain
from engine.documents.model import ModelDoc
from engine.fusion.choices import choices_of, fusion_of
from engine.fusion.stitching.nodes import DEFAULT_POLICY, Fixed
from engine.support.files import parse_json
from engine.support.serialization import from_json

FUSION = "fusion"
"""Key of the history of what is fixed, among those of groups, whose names all end with a number."""
FREE = "{}"
"""The text where nothing is fixed."""


def fixed_text(groups: Iterable[tuple[str, ...]], apart: Iterable[tuple[str, str]]) -> str:
    """What is fixed as a recipe's `fusion`, in JSON: what a step of the history holds."""
    return json.dumps(fusion_of(DEFAULT_POLICY, Fixed(tuple(groups), tuple(apart))), ensure_ascii=False)


def fixed_of(text: str) -> Fixed:
    """What such a text fixes.  BadInput or ValueError where it is none."""
    plain = parse_json(text or FREE)
    _, fixed = choices_of(from_json(dict[str, str], plain))
    return fixed


def fixed_now(histories: Mapping[str, History]) -> str:
    """What is fixed where the histories stand."""
    return histories[FUSION].step.text if FUSION in histories else FREE


def fixed_arguments(text: str) -> dict[str, object]:
    """What is fixed as the worker takes it; nothing where nothing is."""
    fixed = fixed_of(text)
    return {"groups": list(map(list, fixed.groups)), "apart": list(map(list, fixed.apart))} if fixed else {}


@dataclass(frozen=True, slots=True)
class DormantHistory:
    """The history of a group that the present plan does not have, to go on where it comes back."""

    operators: tuple[str, ...]
    """Of its first launch."""
    statements: tuple[str, ...]
    trail: HistoryRecord


@dataclass(frozen=True, slots=True)
class _Group:
    """What makes two groups the same: they compute the same, and share a launch."""

    statements: tuple[str, ...]
    launches: tuple[tuple[str, ...], ...]


def same_groups(old: ModelDoc, new: ModelDoc) -> dict[str, str]:
    """Groups of a plan that another plan of the model has as well: old name -> new name."""
    known, found = _groups(old), _groups(new)
    home = {(group.statements, launch): name for name, group in known.items() for launch in group.launches}
    names: dict[str, str] = {}
    for name, group in found.items():
        before = next((home[group.statements, each] for each in group.launches if (group.statements, each) in home), "")
        if before:
            names.setdefault(before, name)
    return names


def rename_histories(
    histories: Mapping[str, History], asleep: Sequence[DormantHistory], old: ModelDoc, new: ModelDoc
) -> tuple[dict[str, History], list[DormantHistory]]:
    """The histories under the names of a new plan: those of groups that are gone sleep, those that are back wake up."""
    names, before, after = same_groups(old, new), _groups(old), _groups(new)
    kept = {names.get(name, name): each for name, each in histories.items() if name in names or name not in before}
    left = [
        DormantHistory(before[name].launches[0], before[name].statements, trail)
        for name, trail in ((name, history.trail()) for name, history in histories.items())
        if name in before and name not in names and not is_plain(trail)
    ]
    for each in asleep:
        alike = (name for name, group in after.items() if group.statements == each.statements)
        home = next((name for name in alike if each.operators in after[name].launches), "")
        if home and home not in kept:
            kept[home] = History.of(each.trail)
        else:
            left.append(each)
    return kept, left


def heir(group: str, old: ModelDoc, new: ModelDoc) -> str:
    """The group that has most of what a group was; "" where none has any of it."""
    names = same_groups(old, new)
    if group in names:
        return names[group]
    launch = next((set(node.operators) for node in old.nodes if node.group == group), set())
    best = max(new.nodes, key=lambda node: len(launch.intersection(node.operators)), default=None)
    return best.group if best and not launch.isdisjoint(best.operators) else ""


def _groups(model: ModelDoc) -> dict[str, _Group]:
    launches: dict[str, list[tuple[str, ...]]] = {}
    for node in model.nodes:
        launches.setdefault(node.group, []).append(node.operators)
    return {g.name: _Group(g.statements, tuple(launches.get(g.name, [()]))) for g in model.groups}
