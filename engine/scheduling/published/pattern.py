"""The text of a pattern: a schedule tree in isl's notation, of which published files use a small part.

    { domain: "{ S_0[x, y] : 0 <= x <= 9 and 0 <= y <= 3 }",
      child: { schedule: "[{ S_0[x, y] -> [(x)] }]", child: { schedule: "[{ S_0[x, y] -> [(y)] }]" } } }

Several statements stand in a `sequence` of `filter` nodes.  Schedules are one plain iterator each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator as Iterator_
from collections.abc import Mapping
from itertools import accumulate

from engine.scheduling.published.nodes import Loops, contradiction, unreadable
from engine.support.budgets import MAX_PATTERN_CHARACTERS, MAX_PATTERN_DEPTH, MAX_PATTERN_EXTENT
from engine.tensor.nodes import Iterator

_TEXT_OR_WORD = re.compile(r'"([^"]*)"|([A-Za-z_]\w*)', re.ASCII)
_TUPLE = re.compile(r"\s*([A-Za-z_]\w*)\s*\[([^\[\]]*)\]\s*", re.ASCII)
_RANGE = re.compile(r"\s*0\s*<=\s*([A-Za-z_]\w*)\s*(<=?)\s*(\d{1,19})\s*", re.ASCII)
_BAND = re.compile(r"\s*\[?\s*\{(.*)\}\s*\]?\s*", re.ASCII | re.DOTALL)
_MAP = re.compile(r"\s*([A-Za-z_]\w*)\s*\[([^\[\]]*)\]\s*->\s*\[\s*\(?\s*([^()\[\]]*?)\s*\)?\s*\]\s*", re.ASCII)

Tree = dict[str, object]


def parse_domain(text: str, name: str) -> tuple[Loops, ...]:
    """The statements of `{ S_0[x] : 0 <= x <= 9; S_1[...] : ... }`.  BadInput for anything else."""
    _limit(text, "domain", name)
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise unreadable(name, f"its domain is not “{{ S[x] : 0 <= x <= N }}”: {inner[:60]!r}")
    found = tuple(_loops(part, name) for part in inner[1:-1].split(";"))
    names = [loops.statement for loops in found]
    if len(set(names)) < len(names):
        raise contradiction(name, f"its domain gives {_first_repeated(names)} twice")
    return found


def _loops(part: str, name: str) -> Loops:
    head, _, conditions = part.partition(":")
    match = _TUPLE.fullmatch(head)
    if match is None:
        raise unreadable(name, f"its domain has no statement with iterators in {part.strip()[:60]!r}")
    statement, iterators = match[1], _names(match[2])
    extents: dict[str, int] = {}
    for condition in conditions.split(" and ") if conditions.strip() else ():
        bound = _RANGE.fullmatch(condition)
        if bound is None or bound[1] not in iterators:
            wanted = "conditions are “0 <= iterator <= number”"
            raise unreadable(name, f"the domain of {statement} has the condition {condition.strip()[:60]!r}", wanted)
        if bound[1] in extents:
            raise contradiction(name, f"the domain of {statement} bounds {bound[1]} twice")
        extents[bound[1]] = int(bound[3]) + (bound[2] == "<=")
    open_ones = [i for i in iterators if i not in extents]
    if open_ones:
        raise unreadable(name, f"the domain of {statement} does not bound {', '.join(open_ones)}")
    for iterator, extent in extents.items():
        if not 1 <= extent <= MAX_PATTERN_EXTENT:
            hint = f"from 1 to {MAX_PATTERN_EXTENT}"
            raise unreadable(name, f"{iterator} of {statement} takes {extent} values", hint)
    return Loops(statement, tuple(Iterator(i, extents[i]) for i in iterators))


def parse_pattern(text: str, name: str) -> tuple[Loops, ...]:
    """The statements of a pattern, in the order in which its tree runs them.

    BadInput for text that is no such tree, and where tree and domain disagree.
    """
    _limit(text, "pattern", name)
    tree = parse_tree(text, name)
    domain = tree.get("domain")
    if not isinstance(domain, str):
        raise unreadable(name, "its pattern has no domain")
    statements = {loops.statement: loops for loops in parse_domain(domain, name)}
    order = list(_visit(tree.get("child"), dict.fromkeys(statements, ()), statements, name))
    if sorted(order) != sorted(statements):
        missing = ", ".join(sorted(set(statements) - set(order))) or _first_repeated(order)
        raise contradiction(name, f"the tree of its pattern does not run {missing} exactly once")
    return tuple(statements[s] for s in order)


def _visit(
    node: object, used: Mapping[str, tuple[str, ...]], statements: Mapping[str, Loops], name: str
) -> Iterator_[str]:
    """Statements in the order of the tree below a node; every one must pass a dimension for each of its iterators.

    used: the statements here, with the iterators of the dimensions around them.
    """
    here = dict(used)
    while isinstance(node, dict) and "schedule" in node:
        for statement, iterator in _rows(node["schedule"], name):
            if statement not in here:
                raise contradiction(name, f"its pattern schedules {statement}, which is not there")
            here[statement] += (iterator,)
        node = node.get("child")
    children = node.get("sequence") if isinstance(node, dict) else None
    if isinstance(children, list):
        for child in children:
            if not isinstance(child, dict):
                raise unreadable(name, "a child of a sequence in its pattern is no filter")
            chosen = filter_statements(child.get("filter"), tuple(here), name)
            yield from _visit(child.get("child"), {s: here[s] for s in chosen}, statements, name)
        return
    if node is not None:
        raise unreadable(name, "a node of its pattern is neither schedule nor sequence")
    for statement, dimensions in here.items():
        axes = [axis.name for axis in statements[statement].axes]
        if dimensions and sorted(dimensions) != sorted(axes):
            said = f"{statement} has the iterators {', '.join(axes)} and the dimensions {', '.join(dimensions)}"
            raise contradiction(name, f"in its pattern {said}")
        yield statement


def _rows(text: object, name: str) -> Iterator_[tuple[str, str]]:
    """(statement, its iterator) of one band dimension."""
    band = _BAND.fullmatch(text) if isinstance(text, str) else None
    if band is None:
        raise unreadable(name, "a schedule of its pattern is not “[{ S[x] -> [(x)] }]”")
    for part in band[1].split(";"):
        match = _MAP.fullmatch(part)
        if match is None or match[3] not in _names(match[2]):
            raise unreadable(name, f"a schedule of its pattern is not one plain iterator: {part.strip()[:60]!r}")
        yield match[1], match[3]


def filter_statements(text: object, here: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The statements that a filter names."""
    if not isinstance(text, str):
        raise unreadable(name, "a child of a sequence in its pattern is no filter")
    parts = [_TUPLE.fullmatch(part) for part in text.strip().removeprefix("{").removesuffix("}").split(";")]
    chosen = tuple(match[1] for match in parts if match is not None)
    if len(chosen) != len(parts) or not set(chosen) <= set(here):
        raise contradiction(name, f"its pattern filters {text[:60]!r}, where there is {', '.join(here)}")
    return chosen


def parse_tree(text: str, name: str) -> Tree:
    """The nodes of a tree in isl's notation, which is JSON but for the quotes around its keys; BadInput for no tree."""
    bare = _TEXT_OR_WORD.sub("", text)
    depth = max(accumulate((sign in "{[") - (sign in "}]") for sign in bare), default=0)
    if depth > 2 * MAX_PATTERN_DEPTH:
        raise unreadable(name, f"its pattern is nested deeper than {MAX_PATTERN_DEPTH}")
    try:
        tree = json.loads(_TEXT_OR_WORD.sub(lambda found: json.dumps(found[1] or found[2] or ""), text))
    except ValueError as error:
        raise unreadable(name, f"its pattern cannot be read: {str(error).split(':')[0]}") from None
    if not isinstance(tree, dict):
        raise unreadable(name, "its pattern is no tree")
    return tree


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _limit(text: str, what: str, name: str) -> None:
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise unreadable(name, f"its {what} has {len(text)} characters", f"at most {MAX_PATTERN_CHARACTERS} are read")


def _first_repeated(names: list[str]) -> str:
    return next(n for n in names if names.count(n) > 1)
