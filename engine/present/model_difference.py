"""Two models side by side: operators and kernels that were added, removed or changed, with figures.

Works on documents alone, so that a window, a command and a test can compare whatever they hold.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from engine.documents.difference import ADDED, CHANGED, REMOVED, GroupChange, LaunchChange, ModelDiffDoc, OperatorChange
from engine.documents.exploration import FigureDoc
from engine.documents.model import GroupDoc, ModelDoc, NodeDoc
from engine.present.comparison import entry_lines
from engine.present.operator_matching import Matching, OperatorIndex, input_changes
from engine.recipe import Recipe

NAMED = 3
"""Operators that a reason names."""
EQUAL = 5e-4
"""Part of a time that is no difference: less than the figures show."""


def compare_models(a: ModelDoc, b: ModelDoc, recipes: tuple[Recipe, Recipe] | None = None) -> ModelDiffDoc:
    """What changes from model `a` to model `b`; `engine.present.operator_matching` says what counts as equal.

    A launch is that launch of the other model that covers most of its operators; it changed where they cover different
    ones, where one of these changed, or where the predicted time of one launch did.  recipes: of both, for the entries
    that differ.
    """
    sides = OperatorIndex(a), OperatorIndex(b)
    tried = [(way, tuple(_operator_changes(way))) for way in (Matching(*sides, by_name) for by_name in (True, False))]
    matching, operators = min(tried, key=lambda each: len(each[1]))
    changed = {name for each in operators for name in ((0, each.a), (1, each.b)) if name[1]}
    launches = _Launches(a, b, matching, recipes)
    changes = tuple(launches.changes(changed))
    names = {each.a for each in operators}
    same = [(op.name, matching.b.operators[matching.to_b[x]].name) for x, op in enumerate(matching.a.operators)
            if op.name not in names]  # fmt: skip
    renamed = sum(before != after for before, after in same)
    groups = tuple(sorted(launches.group_changes(changes), key=lambda each: -abs(_time_change(each))))
    return ModelDiffDoc(a.name, b.name, operators, changes, groups, _figures(a, b), len(same), renamed)


def _operator_changes(matching: Matching) -> Iterator[OperatorChange]:
    """Those of the first model in its order, then what the second adds."""
    for x, op in enumerate(matching.a.operators):
        y = matching.to_b.get(x)
        if y is None:
            yield OperatorChange(REMOVED, op.name, "", op.kind, op.shape, (matching.a.launch_of(op), ""))
            continue
        now = matching.b.operators[y]
        because = list(input_changes(matching, x, y))
        old, new = dict(op.attributes), dict(now.attributes)
        because += [
            f"{key} {old.get(key, 'not set')} → {new.get(key, 'not set')}"
            for key in dict.fromkeys((*old, *new))
            if old.get(key) != new.get(key)
        ]
        because += [f"{op.shape} → {now.shape}"] if op.shape != now.shape else []
        if because or op.kind != now.kind:
            kind = op.kind if op.kind == now.kind else f"{op.kind} → {now.kind}"
            launches = matching.a.launch_of(op), matching.b.launch_of(now)
            yield OperatorChange(CHANGED, op.name, now.name, kind, "; ".join(because), launches)
    for y, op in enumerate(matching.b.operators):
        if y not in matching.to_a:
            yield OperatorChange(ADDED, "", op.name, op.kind, op.shape, ("", matching.b.launch_of(op)))


class _Launches:
    """Launches of both models and which of them are the same."""

    def __init__(self, a: ModelDoc, b: ModelDoc, matching: Matching, recipes: tuple[Recipe, Recipe] | None) -> None:
        self._models, self._recipes = (a, b), recipes
        self._groups: tuple[Mapping[str, GroupDoc], ...] = tuple({g.name: g for g in each.groups} for each in (a, b))
        self._names = {matching.a.operators[x].name: matching.b.operators[y].name for x, y in matching.to_b.items()}
        self._covered = tuple({node.id: frozenset(node.operators) for node in each.nodes} for each in (a, b))
        self._pairs = self._pair()
        self._kinds: dict[str, tuple[str, ...]] = {}
        """Changed launch of the first model -> the kinds of its reasons."""
        self._entries: dict[tuple[str, str], tuple[str, ...]] = {}

    def _pair(self) -> dict[str, str]:
        """Launches by the operators that they share, the largest share first."""
        node_of = {op: node.id for node in self._models[1].nodes for op in node.operators}
        shared: Counter[tuple[str, str]] = Counter()
        for node in self._models[0].nodes:
            for op in node.operators:
                home = node_of.get(self._names.get(op, ""))
                if home is not None:
                    shared[node.id, home] += 1
        pairs: dict[str, str] = {}
        taken: set[str] = set()
        for (x, y), _ in shared.most_common():
            if x not in pairs and y not in taken:
                pairs[x] = y
                taken.add(y)
        return pairs

    def changes(self, changed: set[tuple[int, str]]) -> Iterator[LaunchChange]:
        """Launches of the first model in its order, then those that the second adds.

        changed: (0 or 1 for the model, operator) of those that differ.
        """
        after = {node.id: node for node in self._models[1].nodes}
        for node in self._models[0].nodes:
            home = self._pairs.get(node.id, "")
            if not home:
                where = "its operators are in other kernels" if self._survives(node) else "its operators are gone"
                yield LaunchChange(REMOVED, node.id, "", node.title, where)
            elif reasons := dict(self._reasons(node, after[home], changed)):
                self._kinds[node.id] = tuple(reasons)
                yield LaunchChange(CHANGED, node.id, home, after[home].title, "; ".join(reasons.values()))
        old = set(self._names.values())
        for node in self._models[1].nodes:
            if node.id not in self._pairs.values():
                where = "of operators of other kernels" if old & set(node.operators) else "of new operators"
                yield LaunchChange(ADDED, "", node.id, node.title, where)

    def _survives(self, node: NodeDoc) -> bool:
        return any(op in self._names for op in node.operators)

    def _reasons(self, before: NodeDoc, after: NodeDoc, changed: set[tuple[int, str]]) -> Iterator[tuple[str, str]]:
        """What differs between the launches of a pair: (kind, in words)."""
        old = {self._names.get(op, ""): op for op in before.operators}
        left = [op for now, op in old.items() if now not in self._covered[1][after.id]]
        come = [op for op in after.operators if op not in old]
        others = [op for op in after.operators if op in old and (1, op) in changed]
        if left:
            yield "without", f"without {_name_some(left)}"
        if come:
            yield "with", f"with {_name_some(come)}"
        if others:
            yield "operators", f"{_name_some(others)} changed"
        x, y = (self._groups[side].get(node.group) for side, node in enumerate((before, after)))
        if x is None or y is None:
            return
        if self._entry_lines(x, y):
            yield "advice", "other advice"
        times = _microseconds(x) or 0.0, _microseconds(y) or 0.0
        if abs(times[0] - times[1]) > EQUAL * max(times):
            yield "time", "other predicted time"

    def _entry_lines(self, a: GroupDoc, b: GroupDoc) -> tuple[str, ...]:
        """Entries that differ between two groups of as many statements, where both recipes are known."""
        if self._recipes is None or len(a.statements) != len(b.statements):
            return ()
        key = a.name, b.name
        if key not in self._entries:
            before, after = self._recipes
            renamed = Recipe(before.target, groups={b.name: before.groups.get(a.name, ())})
            self._entries[key] = entry_lines(renamed, Recipe(before.target, groups=after.groups), b.name)
        return self._entries[key]

    def group_changes(self, changes: tuple[LaunchChange, ...]) -> Iterator[GroupChange]:
        """Launches of one pair of groups that changed alike, as one row."""
        group_of = tuple({node.id: node.group for node in each.nodes} for each in self._models)
        alike: dict[tuple[str, str, str, tuple[str, ...]], list[LaunchChange]] = defaultdict(list)
        for each in changes:
            x, y = group_of[0].get(each.a, ""), group_of[1].get(each.b, "")
            alike[each.state, x, y, self._kinds.get(each.a, ())].append(each)
        for (state, x, y, _), rows in alike.items():
            old, new = self._groups[0].get(x), self._groups[1].get(y)
            entries = self._entry_lines(old, new) if old and new else ()
            yield GroupChange(
                state, x, y, rows[0].title, len(rows), rows[0].because, (_microseconds(old), _microseconds(new)),
                (old.bytes if old else 0, new.bytes if new else 0), entries, (rows[0].a, rows[0].b),
            )  # fmt: skip


def _name_some(operators: list[str]) -> str:
    more = f" and {len(operators) - NAMED} more" if len(operators) > NAMED else ""
    return ", ".join(operators[:NAMED]) + more


def _microseconds(group: GroupDoc | None) -> float | None:
    return group.time.microseconds if group and group.time else None


def _time_change(change: GroupChange) -> float:
    """Microseconds that all launches of a row take longer."""
    a, b = (time or 0.0 for time in change.microseconds)
    return (b - a) * change.launches


def _figures(a: ModelDoc, b: ModelDoc) -> tuple[FigureDoc, ...]:
    """Of the whole models."""
    moved = tuple(sum(group.bytes * group.instances for group in each.groups) for each in (a, b))
    rows = (
        ("operators", "", len(a.operators), len(b.operators)),
        ("kernels", "", len(a.nodes), len(b.nodes)),
        ("groups", "", len(a.groups), len(b.groups)),
        ("bytes moved", "B", moved[0], moved[1]),
    )
    found = [FigureDoc(name, unit, float(old), float(new), "counted", True) for name, unit, old, new in rows]
    if a.total and b.total and a.total.origin == b.total.origin:
        found.append(FigureDoc("time", "µs", a.total.microseconds, b.total.microseconds, a.total.origin, True))
    return tuple(found)
