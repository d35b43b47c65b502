"""A model's launches as nested boxes: runs of equal layers become one box that counts its copies.

Layers are found where the sequence of groups repeats; module paths decide where a copy begins and what it is called.
What does not repeat and is too much for one level is parted, by module paths where there are any, else evenly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from engine.documents.model import GroupDoc, ModelDoc, NodeDoc
from views.format import plural

LONGEST_PERIOD = 256
"""Launches in one copy, at most; longer layers stay unfolded."""
LEVEL = 64
"""Boxes of one level, at most."""
SMALLEST_RUN = 1 / 256
"""Part of a level that copies have to cover to be folded; repetitions by chance are shorter in large levels."""
DEEPEST = 16
"""Module paths are followed so far; deeper levels are parted evenly."""


@dataclass(frozen=True, slots=True)
class GraphBox:
    """A launch, copies of equal launches and boxes, or a part of a level that would be too large."""

    key: str
    title: str
    children: tuple[GraphBox, ...]
    """Boxes of the first copy; empty for a launch."""
    nodes: tuple[NodeDoc, ...]
    """Every launch inside, copy by copy."""
    groups: frozenset[str]
    """Groups of the launches inside."""
    count: int = 1
    operator: str = ""
    """The one operator of its launch that it stands for; "" for all of it."""

    @property
    def period(self) -> int:
        """Launches and operators without a kernel in one copy."""
        return len(self.nodes) // self.count

    @property
    def copy(self) -> tuple[NodeDoc, ...]:
        """Launches of the first copy."""
        return tuple(node for node in self.nodes[: self.period] if node.group)

    @property
    def contents(self) -> str:
        """What one copy holds: "12 kernels"; operators, where it holds no kernel."""
        kernels = len(self.copy)
        return plural(kernels, "kernel") if kernels else plural(self.period, "operator")

    @property
    def is_uncompiled(self) -> bool:
        """Whether it is an operator that no kernel computes."""
        return not self.children and not self.nodes[0].group


@dataclass(frozen=True, slots=True)
class Repetition:
    """`count` equal pieces of `period` launches from `start` on."""

    start: int
    period: int
    count: int


@dataclass(frozen=True, slots=True)
class _Numbering:
    """What the boxes of a model are counted by."""

    noun: str
    of: Mapping[str, int]
    """Node -> its number, from 1."""


def boxes(model: ModelDoc) -> tuple[GraphBox, ...]:
    """The top level of the model's graph."""
    nodes = _in_order(model)
    number = _numbering(nodes, model.is_planned)
    return _divide_level(_fold_repetitions(nodes, number), number)


def _numbering(nodes: Sequence[NodeDoc], is_planned: bool) -> _Numbering:
    """The launches of a model in order; all operators of one without a plan."""
    number, counted = dict[str, int](), 0
    for node in nodes:  # an operator without a kernel has the number of the launch before it
        counted += bool(node.group) or not is_planned
        number[node.id] = max(counted, 1)
    return _Numbering("kernels" if is_planned else "operators", number)


def _in_order(model: ModelDoc) -> tuple[NodeDoc, ...]:
    """The launches, and among them, as launches of no group, the operators that no kernel computes."""
    found, waiting = list[NodeDoc](), list(reversed(model.uncompiled))
    for place, node in enumerate((*model.nodes, None)) if waiting else ():
        while waiting and waiting[-1].after == place:
            each = waiting.pop()
            found.append(NodeDoc(each.id, "", 0, each.kind, each.shape, (each.operator,), each.scope))
        found += [node] if node else []
    return tuple(found) or model.nodes


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


def group_title(group: str, model: ModelDoc | None) -> str:
    """What a group is called in a model; its name where others are called the same, or it is none of the model."""
    title = next((each.title for each in model.groups if each.name == group), group) if model else group
    return group if model and title in ambiguous_titles(model) else title


def longest_run(names: Sequence[str], scopes: Sequence[str]) -> Repetition | None:
    """The repetition that covers most of `names`; where it could begin at several places, the one along `scopes`."""
    number = {name: index for index, name in enumerate(dict.fromkeys(names))}
    codes = np.array([number[name] for name in names])
    best, covered = None, max(3, int(len(codes) * SMALLEST_RUN))
    for period in range(1, min(len(codes) // 2, LONGEST_PERIOD) + 1):
        begin, matches = _longest_true(codes[period:] == codes[:-period])
        count = matches // period + 1
        if count < (3 if period == 1 else 2) or count * period <= covered:
            continue
        if len(set(names[begin : begin + period])) == 1 and period > 1:
            continue
        covered = count * period
        best = _align_repetition(begin, matches + period, period, count, scopes)
    return best


def common_scope(nodes: Sequence[NodeDoc]) -> tuple[str, ...]:
    """The module path that all the launches share."""
    return _common([node.scope for node in nodes])


def scope_title(path: Sequence[str]) -> str:
    """The last two names of a module path without numbers: "encoder layer"."""
    words = [word for word in path if not word.isdigit()]
    return " ".join(words[-2:]).replace("_", " ")


def _fold_repetitions(nodes: Sequence[NodeDoc], number: _Numbering) -> tuple[GraphBox, ...]:
    """Launches in order, with the repetitions among them as copies."""
    found: list[GraphBox] = []
    waiting: list[Sequence[NodeDoc] | GraphBox] = [nodes]
    while waiting:
        piece = waiting.pop()
        if isinstance(piece, GraphBox):
            found.append(piece)
            continue
        run = longest_run([node.group or node.title for node in piece], [node.scope for node in piece])
        if run is None:
            found += [_box(node.id, node.title, (), (node,)) for node in piece]
        else:
            end = run.start + run.period * run.count
            waiting += [piece[end:], _copies(tuple(piece[run.start : end]), run, number), piece[: run.start]]
    return tuple(found)


def _divide_level(level: tuple[GraphBox, ...], number: _Numbering, depth: int = 0) -> tuple[GraphBox, ...]:
    """A level of at most `LEVEL` boxes."""
    if len(level) <= LEVEL:
        return level
    parts = _modules(level, number, depth) if depth < DEEPEST else level
    if len(parts) <= LEVEL:
        return parts
    depths = math.ceil(math.log(len(parts), LEVEL) - 1e-9)
    # Levels of equal size; the powers of exact sizes come out a little too large or too small.
    size = math.ceil(len(parts) ** ((depths - 1) / depths) - 1e-9)
    ranges = (parts[start : start + size] for start in range(0, len(parts), size))
    return tuple(
        _part(_range_title(inside, number), inside, _divide_level(inside, number, DEEPEST)) for inside in ranges
    )


def _modules(level: tuple[GraphBox, ...], number: _Numbering, depth: int) -> tuple[GraphBox, ...]:
    """Neighbours of one module as one box each."""
    paths = {box.key: common_scope(box.nodes) for box in level}
    shared = len(_common_prefix(list(paths.values())))
    found: list[GraphBox] = []
    for path, run in groupby(level, key=lambda box: paths[box.key][: shared + 1]):
        inside = tuple(run)
        if len(path) <= shared or len(inside) in (1, len(level)):
            found += inside
        else:
            title = " ".join(path[-2:]).replace("_", " ")
            found.append(_part(title, inside, _divide_level(inside, number, depth + 1)))
    return tuple(found)


def _part(title: str, inside: Sequence[GraphBox], children: tuple[GraphBox, ...]) -> GraphBox:
    nodes = tuple(node for box in inside for node in box.nodes)
    return _box(f"{nodes[0].id}..{nodes[-1].id}", title, children, nodes)


def _range_title(inside: Sequence[GraphBox], number: _Numbering) -> str:
    first, last = (number.of[node.id] for node in (inside[0].nodes[0], inside[-1].nodes[-1]))
    return f"{number.noun} {first:,} – {last:,}"


def _copies(inside: tuple[NodeDoc, ...], run: Repetition, number: _Numbering) -> GraphBox:
    first = inside[: run.period]
    if run.period == 1:
        return _box(f"{first[0].id}*{run.count}", first[0].title, (), inside, run.count)
    title = scope_title(common_scope(inside)) or "layer"
    children = _divide_level(_fold_repetitions(first, number), number)
    return _box(f"{first[0].id}*{run.count}", title, children, inside, run.count)


def _box(key: str, title: str, children: tuple[GraphBox, ...], nodes: tuple[NodeDoc, ...], count: int = 1) -> GraphBox:
    return GraphBox(key, title, children, nodes, frozenset(node.group for node in nodes if node.group), count)


def _longest_true(flags: np.ndarray) -> tuple[int, int]:
    """Start and length of the longest stretch of True."""
    padded = np.concatenate(([0], flags.astype(np.int8), [0]))
    changes = np.flatnonzero(np.diff(padded))
    if not len(changes):
        return 0, 0
    starts, lengths = changes[::2], changes[1::2] - changes[::2]
    longest = int(np.argmax(lengths))
    return int(starts[longest]), int(lengths[longest])


def _align_repetition(begin: int, length: int, period: int, count: int, scopes: Sequence[str]) -> Repetition:
    slack = length - count * period

    def depth(offset: int) -> int:
        start = begin + offset
        copies = (scopes[start + copy * period : start + (copy + 1) * period] for copy in range(count))
        return sum(len(_common(copy)) for copy in copies)

    return Repetition(begin + max(range(slack + 1), key=depth), period, count)


def _common(scopes: Sequence[str]) -> tuple[str, ...]:
    return _common_prefix([scope.split(".") if scope else [] for scope in dict.fromkeys(scopes)])


def _common_prefix(paths: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """What all the paths begin with."""
    shared: list[str] = []
    for words in zip(*paths, strict=False):
        if len(set(words)) > 1:
            break
        shared.append(words[0])
    return tuple(shared)
