"""What the list under the search field shows of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.documents.model import GroupDoc, OperatorDoc, StatementDoc
from views.format import plural
from views.search.index import SearchIndex, SearchResult

SHOWN = 100
"""Groups, and operators, that the list shows at most."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing to go to: a statement of the selected group, a group, a launch, or an operator that is in none."""

    title: str
    detail: str
    group: str = ""
    node: str = ""
    """The launch of an operator, or itself where no kernel computes it; "" for a group."""
    statement: str = ""


def hits(index: SearchIndex, found: SearchResult, statements: Sequence[StatementDoc], text: str) -> tuple[Hit, ...]:
    """Statements first, then groups, then the operators that the graph shows: constants are not among them.

    What is called as was typed comes before all else, a group that is called so before one that only holds what is:
    Return goes to the first.
    """
    model = index.model
    wanted = text.strip().lower()
    shown = [Hit(f"{each.name}: {each.text}", "statement", statement=each.name) for each in statements
             if wanted and wanted in f"{each.name}: {each.text}".lower()]  # fmt: skip
    groups = [group for group in model.groups if group.name in found.groups]
    groups.sort(key=lambda group: not any(wanted in name for name in _names(group)))
    same = [group for group in groups if wanted in _names(group)][:SHOWN]
    others = [group for group in groups if group not in same]
    shown += [_group_hit(group, found) for group in others[: max(SHOWN - len(shown) - len(same), 0)]]
    named = [number for number in found.starts if model.operators[number].name.lower() == wanted]
    operators = (model.operators[number] for number in (*named, *found.starts[: 2 * SHOWN]))
    placed = [hit for hit in dict.fromkeys(_operator_hit(index, operator) for operator in operators) if hit][:SHOWN]
    exact = [hit for hit in placed if hit.title.lower() == wanted] + [_group_hit(group, found) for group in same]
    return (*exact, *shown, *[hit for hit in placed if hit not in exact])


def _group_hit(group: GroupDoc, found: SearchResult) -> Hit:
    count = found.groups[group.name]
    inside = plural(count, "operator") if count else "group"
    return Hit(group.title, f"{group.name}   {inside}", group.name)


def _names(group: GroupDoc) -> tuple[str, str]:
    return group.name.lower(), group.title.lower()


def _operator_hit(index: SearchIndex, operator: OperatorDoc) -> Hit | None:
    launch = index.launch_of.get(operator.name)
    if launch:
        return Hit(operator.name, operator.kind, launch.group, launch.id)
    beside = index.node_beside.get(operator.name)
    return Hit(operator.name, operator.kind, node=beside) if beside else None


def summary(index: SearchIndex, found: SearchResult) -> str:
    """How much was found, in words."""
    if not found.groups and not found.operators:
        text = "nothing found"
    else:
        outside = ", none of them in a kernel" if index.model.is_planned else ""
        inside = f" in {plural(len(found.groups), 'group')}" if found.groups else outside
        text = f"{plural(len(found.operators), 'operator')}{inside}"
        if len(found.starts) < len(found.operators):
            text += f", {plural(len(found.starts), 'place')} where a path begins"
    return text if found.is_whole else f"{text}; the expression is slow, not every name was looked at"
