"""A model's operators as columns, and the answers to queries.

Columns are NumPy arrays over the operators in the file's (topological) order, so that fifty thousand of them are
searched within a keystroke.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from engine.documents.model import GroupDoc, ModelDoc, launch_of_operators
from views.search.query import Condition, PathStep, Query, check_regex, parse

Mask = NDArray[np.bool_]
"""bool[operators]"""
BUDGET = 0.06
"""Seconds that regular expressions may take; what was not looked at by then is not found, and the answer says so."""
LONGEST_NAME = 128
"""Characters of a name that a regular expression sees."""
STRIDE = 256
"""Names between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to a query."""

    operators: tuple[int, ...]
    """Numbers of the operators found, in the file's order; of a path all that lie on one."""
    starts: tuple[int, ...]
    """Of a path those that it begins at; else all of `operators`."""
    groups: Mapping[str, int]
    """Group -> its operators found; 0 where only the group itself answers the query."""
    is_whole: bool = True
    """Whether every operator was looked at."""


class SearchIndex:
    """What is searched of one model."""

    def __init__(self, model: ModelDoc) -> None:
        self.model = model
        operators = model.operators
        self.launch_of = launch_of_operators(model)
        self.node_beside = {each.operator: each.id for each in model.uncompiled}
        """Operator that no kernel computes -> its node in the graph."""
        number = {group.name: index for index, group in enumerate(model.groups)}
        self._names = [operator.name.lower() for operator in operators]
        self._kinds = tuple(dict.fromkeys(operator.kind for operator in operators))
        kind_number = {kind: index for index, kind in enumerate(self._kinds)}
        self._kind = np.array([kind_number[operator.kind] for operator in operators], np.int32)
        launches = [self.launch_of.get(operator.name) for operator in operators]
        self._group = np.array([number.get(node.group, -1) if node else -1 for node in launches], np.int32)
        self._edges = _edges(model)
        self._sources = np.array([source for source, _ in self._edges], np.int32)
        self._targets = np.array([target for _, target in self._edges], np.int32)
        self._attributes = _attributes(model)

    def show_times(self, model: ModelDoc) -> None:
        """Shares are those of `model` from now on, which has the same operators, launches and groups."""
        self.model = model

    def find(self, text: str) -> SearchResult:
        """The operators and groups that a query asks for; QueryError where it cannot be understood."""
        query = parse(text)
        if not query:
            return SearchResult((), (), {})
        clock = _TimeLimit()
        masks = [self._matches(step, clock) for step in query]
        on_path, starts = (masks[0], masks[0]) if len(query) == 1 else self._paths(query, masks)
        counts = np.bincount(self._group[on_path & (self._group >= 0)], minlength=len(self.model.groups))
        groups = {g.name: int(count) for g, count in zip(self.model.groups, counts, strict=True) if count}
        if len(query) == 1:
            alone = np.flatnonzero(self._group_matches(query[0].terms, clock))
            groups |= {self.model.groups[k].name: groups.get(self.model.groups[k].name, 0) for k in alone}
        return SearchResult(_numbers(on_path), _numbers(starts), groups, clock.is_whole)

    def _matches(self, step: PathStep, clock: _TimeLimit) -> Mask:
        mask = np.ones(len(self._names), bool)
        for term in step.terms:
            mask &= self._operators(term, clock)
        return mask

    def _operators(self, term: Condition, clock: _TimeLimit) -> Mask:
        """The operators for which a term holds."""
        match term.kind:
            case "name":
                return np.array([term.text in name for name in self._names], bool)
            case "word":
                named = np.array([term.text in name for name in self._names], bool)
                typed = np.array([term.text in kind.lower() for kind in self._kinds], bool)[self._kind]
                return np.asarray(named | typed | self._inside(self._group_matches((term,), clock)))
            case "type":
                typed = np.array([fnmatchcase(kind.lower(), term.text) for kind in self._kinds], bool)[self._kind]
                return np.asarray(typed | self._inside(self._group_matches((term,), clock)))
            case "attr":
                return self._with_attribute(term)
            case "regex":
                return _regex([operator.name for operator in self.model.operators], term.text, clock)
            case _:
                return self._inside(self._group_matches((term,), clock))

    def _inside(self, groups: Mask) -> Mask:
        """The operators of some groups; `groups` has one element for each of the model's."""
        return np.append(groups, False)[self._group]  # those outside of all groups have -1, the last

    def _group_matches(self, terms: Sequence[Condition], clock: _TimeLimit) -> Mask:
        """The groups that fulfil all the terms by themselves."""
        mask = np.ones(len(self.model.groups), bool)
        for term in terms:
            if term.kind == "regex":
                mask &= _regex([group.name for group in self.model.groups], term.text, clock)
            else:
                mask &= np.array([_group_matches(term, group) for group in self.model.groups], bool)
        return mask

    def _with_attribute(self, term: Condition) -> Mask:
        mask = np.zeros(len(self._names), bool)
        for value, numbers in self._attributes.get(term.text, {}).items():
            if term.value is None or value == term.value:
                mask[numbers] = True
        return mask

    def _paths(self, query: Query, masks: Sequence[Mask]) -> tuple[Mask, Mask]:
        """The operators on any path, and those that one begins at.

        First which operators a path can have reached at each step, then backwards which of these lead to its end.
        """
        stops = [number for number, step in enumerate(query) if not step.many]
        far = [stop - before > 1 for before, stop in pairwise(stops)]  # any number of operators in between
        reached = [masks[0]]
        for stop, is_far in zip(stops[1:], far, strict=True):
            reached.append(masks[stop] & (self._below(reached[-1]) if is_far else self._readers(reached[-1])))
        leading = reached.pop()
        on_path = leading
        for start, is_far in zip(reversed(reached), reversed(far), strict=True):
            above = self._above(leading) if is_far else self._writers(leading)
            leading = start & above
            on_path = on_path | leading
            if is_far:
                on_path |= above & self._below(leading)
        return on_path, leading

    def _readers(self, mask: Mask) -> Mask:
        """What reads a result of an operator in `mask`."""
        found = np.zeros_like(mask)
        found[self._targets[mask[self._sources]]] = True
        return found

    def _writers(self, mask: Mask) -> Mask:
        """What writes an input of an operator in `mask`."""
        found = np.zeros_like(mask)
        found[self._sources[mask[self._targets]]] = True
        return found

    def _below(self, mask: Mask) -> Mask:
        """What any number of steps, but at least one, lead to; edges are in the order of their sources."""
        known, found = bytearray(mask), bytearray(len(mask))
        for source, target in self._edges:
            if known[source]:
                known[target] = found[target] = 1
        return np.frombuffer(found, bool)

    def _above(self, mask: Mask) -> Mask:
        """What leads here in any number of steps, but at least one."""
        known, found = bytearray(mask), bytearray(len(mask))
        for source, target in reversed(self._edges):
            if known[target]:
                known[source] = found[source] = 1
        return np.frombuffer(found, bool)


class _TimeLimit:
    """The time that the regular expressions of one query may take."""

    def __init__(self) -> None:
        self._end = perf_counter() + BUDGET
        self.is_whole = True

    def is_over(self) -> bool:
        """Whether it is used up; from then on the answer is not whole."""
        self.is_whole = self.is_whole and perf_counter() < self._end
        return not self.is_whole


def _regex(names: Sequence[str], pattern: str, clock: _TimeLimit) -> Mask:
    mask = np.zeros(len(names), bool)
    search = check_regex(pattern).search
    for start in range(0, len(names), STRIDE):
        if clock.is_over():
            break
        part = names[start : start + STRIDE]
        mask[start : start + len(part)] = [search(name[:LONGEST_NAME]) is not None for name in part]
    return mask


def _group_matches(term: Condition, group: GroupDoc) -> bool:
    match term.kind:
        case "time":
            return group.share * 100 > term.percent
        case "type":
            return fnmatchcase(group.kind.lower(), term.text)
        case "name" | "word":
            return term.text in group.title.lower() or term.text in group.name.lower()
        case _:
            return False


def _edges(model: ModelDoc) -> list[tuple[int, int]]:
    """(writer, reader) once each, in the order of the writers; a document has its operators in topological order.

    Not sorted: that is one step of Python's, which the window's thread would wait for.
    """
    writer: dict[str, int] = {}
    readers: list[dict[int, None]] = [{} for _ in model.operators]
    for number, operator in enumerate(model.operators):
        for source in [writer[name] for name in operator.inputs if name in writer]:
            readers[source][number] = None
        writer.update(dict.fromkeys(operator.outputs, number))
    return [(source, target) for source, found in enumerate(readers) for target in found]


def _attributes(model: ModelDoc) -> dict[str, dict[str, list[int]]]:
    """Name -> value -> operators, all in lower case."""
    found: dict[str, dict[str, list[int]]] = {}
    for number, operator in enumerate(model.operators):
        for name, value in operator.attributes:
            found.setdefault(name.lower(), {}).setdefault(value.lower(), []).append(number)
    return found


def _numbers(mask: Mask) -> tuple[int, ...]:
    return tuple(np.flatnonzero(mask).tolist())
