"""Differences between two recipes as readable lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from engine.recipe.recipe import Advice, Recipe, walk_entries

T = TypeVar("T")


def diff(a: Recipe, b: Recipe) -> tuple[str, ...]:
    """What changes from `a` to `b`, one readable line for each change; empty for equal recipes."""
    lines: list[str] = []
    if a.target != b.target:
        lines.append(f"target: {a.target} → {b.target}")
    for name in ("dimensions", "numerics", "fusion"):
        lines += _changed_keys(name, getattr(a, name), getattr(b, name))
    for group in dict.fromkeys((*a.groups, *b.groups)):
        lines += _changed_advice(group, a.groups.get(group), b.groups.get(group))
    return tuple(lines)


def _changed_keys(what: str, a: Mapping[str, object], b: Mapping[str, object]) -> list[str]:
    """One line for each key whose value differs."""
    keys = [key for key in dict.fromkeys((*a, *b)) if a.get(key) != b.get(key)]
    return [f"{what} {key}: {a.get(key, 'none')} → {b.get(key, 'none')}" for key in keys]


def _changed_advice(group: str, a: tuple[Advice, ...] | None, b: tuple[Advice, ...] | None) -> list[str]:
    """Removed and added entries, each under its author; one line about the order if only the order changed."""
    if a == b:
        return []
    if a is None or b is None:
        return [f"group {group}: {'added' if a is None else 'removed'}", *_changed_advice(group, a or (), b or ())]
    before, after = ([line for one in side for line in _lines(one)] for side in (a, b))
    gone = [f"group {group}: - {line}" for line in without(before, after)]
    come = [f"group {group}: + {line}" for line in without(after, before)]
    return gone + come or ([f"group {group}: order or labels of the advice changed"] if a and b else [])


def without(items: Sequence[T], others: Sequence[T]) -> list[T]:
    """Multiset difference: of two equal items, one in `others` removes one."""
    left = list(others)
    result = []
    for item in items:
        if item in left:
            left.remove(item)
        else:
            result.append(item)
    return result


def _lines(advice: Advice) -> list[str]:
    """ "AUTHOR, alternative 2: ENTRY (because ...)" for each entry, with the alternatives it stands in."""
    lines = []
    for (_, *alternatives, _), author, entry in walk_entries((advice,)):
        place = "".join(f", alternative {number + 1}" for number in alternatives)
        lines.append(f"{author}{place}: {entry}" + (f" (because {entry.because})" if entry.because else ""))
    return lines
