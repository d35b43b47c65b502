"""What the list under the search field shows of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.documents.model import StatementDoc
from views.format import plural
from views.search.index import SearchIndex, SearchResult

SHOWN = 100
"""Groups, and operators, that the list shows at most."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing to go to: a statement of the selected group, a group, or a launch."""

    title: str
    detail: str
    group: str = ""
    node: str = ""
    """The launch of an operator; "" for a group."""
    statement: str = ""


def hits(index: SearchIndex, found: SearchResult, statements: Sequence[StatementDoc], text: str) -> tuple[Hit, ...]:
    """Statements first, then groups, then operators that belong to a launch."""
    model = index.model
    wanted = text.strip().lower()
    shown = [Hit(f"{each.name}: {each.text}", "statement", statement=each.name) for each in statements
             if wanted and wanted in f"{each.name}: {each.text}".lower()]  # fmt: skip
    for group in model.groups:
        if group.name in found.groups and len(shown) < SHOWN:
            count = found.groups[group.name]
            inside = plural(count, "operator") if count else "group"
            shown.append(Hit(group.title, f"{group.name}   {inside}", group.name))
    operators = (model.operators[number] for number in found.starts[: 2 * SHOWN])
    launches = ((each, index.launch_of.get(each.name)) for each in operators)
    placed = [Hit(each.name, each.kind, launch.group, launch.id) for each, launch in launches if launch]
    return (*shown, *placed[:SHOWN])


def summary(index: SearchIndex, found: SearchResult) -> str:
    """How much was found, in words."""
    if not found.groups and not found.operators:
        text = "nothing found"
    else:
        inside = f" in {plural(len(found.groups), 'group')}" if found.groups else ", none of them in a kernel"
        text = f"{plural(len(found.operators), 'operator')}{inside}"
        if len(found.starts) < len(found.operators):
            text += f", {plural(len(found.starts), 'place')} where a path begins"
    return text if found.is_whole else f"{text}; the expression is slow, not every name was looked at"
