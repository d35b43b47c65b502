"""A model's launches as nested boxes: runs of equal layers become one box that counts its copies.

Layers are found where the sequence of groups repeats; module paths decide where a copy begins and what it is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.documents import GroupDoc, ModelDoc, NodeDoc

LONGEST_PERIOD = 256
"""Launches in one copy, at most; longer layers stay unfolded."""


@dataclass(frozen=True, slots=True)
class Box:
    """A launch, or copies of equal launches and boxes."""

    key: str
    title: str
    children: tuple[Box, ...]
    """Boxes of the first copy; empty for a launch."""
    nodes: tuple[NodeDoc, ...]
    """Every launch inside, copy by copy."""
    count: int = 1

    @property
    def period(self) -> int:
        """Launches in one copy."""
        return len(self.nodes) // self.count


@dataclass(frozen=True, slots=True)
class Run:
    """`count` equal pieces of `period` launches from `start` on."""

    start: int
    period: int
    count: int


def boxes(model: ModelDoc) -> tuple[Box, ...]:
    """The top level of the model's graph."""
    return _folded(model.nodes)


def group_times(model: ModelDoc) -> dict[str, float]:
    """Microseconds of one launch of each predicted group."""
    return {group.name: group.time.microseconds for group in model.groups if group.time}


def groups_by_name(model: ModelDoc) -> dict[str, GroupDoc]:
    """The groups of a model under their names."""
    return {group.name: group for group in model.groups}


def ambiguous_titles(model: ModelDoc) -> frozenset[str]:
    """Titles that several groups share; their rows also tell the group's name."""
    counts = Counter(group.title for group in model.groups)
    return frozenset(title for title, count in counts.items() if count > 1)


def longest_run(names: Sequence[str], scopes: Sequence[str]) -> Run | None:
    """The repetition that covers most of `names`; where it could begin at several places, the one along `scopes`."""
    number = {name: index for index, name in enumerate(dict.fromkeys(names))}
    codes = np.array([number[name] for name in names])
    best, covered = None, 3
    for period in range(1, min(len(codes) // 2, LONGEST_PERIOD) + 1):
        begin, matches = _longest_true(codes[period:] == codes[:-period])
        count = matches // period + 1
        if count < (3 if period == 1 else 2) or count * period <= covered:
            continue
        if len(set(names[begin : begin + period])) == 1 and period > 1:
            continue
        covered = count * period
        best = _aligned(begin, matches + period, period, count, scopes)
    return best


def common_scope(nodes: Sequence[NodeDoc]) -> tuple[str, ...]:
    """The module path that all the launches share."""
    return _common([node.scope for node in nodes])


def scope_title(path: Sequence[str]) -> str:
    """The last two names of a module path without numbers: "encoder layer"."""
    words = [word for word in path if not word.isdigit()]
    return " ".join(words[-2:]).replace("_", " ")


def _folded(nodes: Sequence[NodeDoc]) -> tuple[Box, ...]:
    run = longest_run([node.group for node in nodes], [node.scope for node in nodes])
    if run is None:
        return tuple(Box(node.id, node.title, (), (node,)) for node in nodes)
    end = run.start + run.period * run.count
    inside = tuple(nodes[run.start : end])
    return (*_folded(nodes[: run.start]), _copies(inside, run), *_folded(nodes[end:]))


def _copies(inside: tuple[NodeDoc, ...], run: Run) -> Box:
    first = inside[: run.period]
    if run.period == 1:
        return Box(f"{first[0].id}*{run.count}", first[0].title, (), inside, run.count)
    title = scope_title(common_scope(inside)) or "layer"
    return Box(f"{first[0].id}*{run.count}", title, _folded(first), inside, run.count)


def _longest_true(flags: np.ndarray) -> tuple[int, int]:
    """Start and length of the longest stretch of True."""
    padded = np.concatenate(([0], flags.astype(np.int8), [0]))
    changes = np.flatnonzero(np.diff(padded))
    if not len(changes):
        return 0, 0
    starts, lengths = changes[::2], changes[1::2] - changes[::2]
    longest = int(np.argmax(lengths))
    return int(starts[longest]), int(lengths[longest])


def _aligned(begin: int, length: int, period: int, count: int, scopes: Sequence[str]) -> Run:
    slack = length - count * period

    def depth(offset: int) -> int:
        start = begin + offset
        copies = (scopes[start + copy * period : start + (copy + 1) * period] for copy in range(count))
        return sum(len(_common(copy)) for copy in copies)

    return Run(begin + max(range(slack + 1), key=depth), period, count)


def _common(scopes: Sequence[str]) -> tuple[str, ...]:
    paths = [scope.split(".") if scope else [] for scope in scopes]
    shared: list[str] = []
    for words in zip(*paths, strict=False):
        if len(set(words)) > 1:
            break
        shared.append(words[0])
    return tuple(shared)
