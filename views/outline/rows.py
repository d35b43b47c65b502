"""The model's boxes as outline rows, and the filter that keeps some of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from engine.documents.model import GroupDoc, ModelDoc
from views.hierarchy import GraphBox, ambiguous_titles, common_scope, group_times, groups_by_name, scope_title
from views.rows import TreeRow

SHOWN_FIRST = 200
"""Rows that are in sight without opening any, at most; the model's own children always are."""


@dataclass(frozen=True, slots=True)
class OutlineItem:
    """What an outline row shows."""

    count: int
    group: str = ""
    launches: int = 0
    """Of a group: how often it is launched at this place, in all copies of what is above it."""
    kind: str = ""
    name: str = ""
    """The group's name where its title alone is ambiguous."""
    share: float = 0.0
    """Part of the model's predicted time, 0..1."""
    microseconds: float = 0.0
    """All launches below together; 0 where nothing is predicted."""
    cost: float = 0.0
    """One launch's time against the dearest group's, 0..1."""


def outline(model: ModelDoc, top: Sequence[GraphBox]) -> tuple[TreeRow, ...]:
    """The model, under it layers, scopes and groups in the order in which they run.  `top`: the model's boxes."""
    return timed_rows(_OutlineBuilder(model).rows(top), model)


def timed_rows(rows: Sequence[TreeRow], model: ModelDoc) -> tuple[TreeRow, ...]:
    """The same rows with the times of the model's groups: what a row takes is the sum of what is under it."""
    times = group_times(model)
    dearest = max(times.values(), default=1.0) or 1.0
    spent: dict[str, float] = {}

    def add(row: TreeRow) -> float:
        below = sum([add(child) for child in row.children])
        each = times.get(row.value.group, 0.0)
        spent[row.key] = below + each * row.value.launches
        return spent[row.key]

    total = sum([add(row) for row in rows]) or 1.0

    def with_time(row: TreeRow) -> TreeRow:
        item, takes = row.value, spent[row.key]
        cost = times.get(item.group, 0.0) / dearest
        value = replace(item, share=takes / total, microseconds=takes, cost=cost)
        return replace(row, value=value, children=tuple([with_time(child) for child in row.children]))

    return tuple([with_time(row) for row in rows])


def opened_first(rows: Sequence[TreeRow]) -> frozenset[str]:
    """Keys of the rows that start open: level by level as long as not too many rows come into sight."""
    opened: set[str] = set()
    level, shown = list(rows), len(rows)
    while level and shown + sum(len(row.children) for row in level) <= SHOWN_FIRST:
        opened |= {row.key for row in level if row.children}
        level = [child for row in level for child in row.children]
        shown += len(level)
    return frozenset(opened | {row.key for row in rows})


def filter_rows(rows: Sequence[TreeRow], groups: Collection[str]) -> tuple[TreeRow, ...]:
    """The rows of these groups, with the rows above them."""
    kept: list[TreeRow] = []
    for row in rows:
        children = filter_rows(row.children, groups)
        if children or (isinstance(row.value, OutlineItem) and row.value.group in groups):
            kept.append(replace(row, children=children))
    return tuple(kept)


class _OutlineBuilder:
    """Rows that have no times yet."""

    def __init__(self, model: ModelDoc) -> None:
        self._model = model
        self._groups = groups_by_name(model)
        self._ambiguous = ambiguous_titles(model)

    def rows(self, top: Sequence[GraphBox]) -> tuple[TreeRow, ...]:
        return (TreeRow("model", self._model.name, OutlineItem(1), self._level(top, 1, "")),)

    def _level(self, level: Sequence[GraphBox], copies: int, path: str) -> tuple[TreeRow, ...]:
        """Rows of one level; neighbours of one module go under a row for it, launches of one group become one row."""
        level = [box for box in level if not box.is_uncompiled]
        prefix = len(common_scope([node for box in level for node in box.nodes]))
        parts: dict[str, list[GraphBox]] = {}
        for box in level:
            scope = common_scope(box.nodes)[prefix : prefix + 1]
            name = "" if box.children or not scope or scope[0].isdigit() else scope[0]
            parts.setdefault(name or f"#{box.key}", []).append(box)
        if len(parts) == 1:
            return self._groups_of(level, copies, path)
        loose = [name for name, inside in parts.items() if len({box.nodes[0].group for box in inside}) < 2]
        rows: list[TreeRow] = []
        pending: list[GraphBox] = []
        for name, inside in parts.items():
            if name in loose:
                pending += inside
                continue
            rows += self._groups_of(pending, copies, path)
            pending = []
            rows.append(self._scope(name, inside, copies, path))
        return (*rows, *self._groups_of(pending, copies, path))

    def _scope(self, name: str, inside: Sequence[GraphBox], copies: int, path: str) -> TreeRow:
        key = f"{path}/{name}"
        children = self._groups_of(inside, copies, key)
        return TreeRow(key, scope_title((name,)), OutlineItem(1), children)

    def _groups_of(self, level: Sequence[GraphBox], copies: int, path: str) -> tuple[TreeRow, ...]:
        counts: dict[str, int] = {}
        for box in level:
            if not box.children:
                counts[box.nodes[0].group] = counts.get(box.nodes[0].group, 0) + len(box.nodes) * copies
        rows: list[TreeRow] = []
        done: set[str] = set()
        for box in level:
            name = box.nodes[0].group
            if box.children:
                rows.append(self._layer(box, copies, path))
            elif name not in done:
                done.add(name)
                rows.append(self._group(self._groups[name], counts[name], f"{path}/{name}", copies))
        return tuple(rows)

    def _layer(self, box: GraphBox, copies: int, path: str) -> TreeRow:
        key = f"{path}/{box.key}"
        children = self._level(box.children, copies * box.count, key)
        return TreeRow(key, box.title, OutlineItem(box.count), children)

    def _group(self, group: GroupDoc, count: int, key: str, copies: int) -> TreeRow:
        item = OutlineItem(
            count=count // copies if count % copies == 0 else count,
            group=group.name,
            launches=count,
            kind=group.kind,
            name=group.name if group.title in self._ambiguous else "",
        )
        return TreeRow(key, group.title, item, tip=f"{group.name}: {group.title}, {group.shape}")


def rows_of_group(rows: Sequence[TreeRow], group: str) -> list[str]:
    """Keys of the rows that stand for a group."""
    found = [row.key for row in rows if isinstance(row.value, OutlineItem) and row.value.group == group]
    return found + [key for row in rows for key in rows_of_group(row.children, group)]
