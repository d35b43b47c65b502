"""Schedules that a file says outright: a list of maps, or a schedule tree in isl's notation, as rows of coefficients.

"{ S_0[x, y] -> [(x + y)]; S_1[x, y] -> [(floor(x / 4))] }"    S_0: [1, 1, 0],  S_1: [1, 0, 0] (/4)
{ sequence: [ { filter: "{ S_0[x] }" }, { filter: "{ S_1[x] }" } ] }    S_0: [0, 0],  S_1: [0, 1]
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from engine.scheduling.published.nodes import Loops, PublishedRow, StatementRows, contradiction, unreadable
from engine.scheduling.published.pattern import Tree, filter_statements, parse_tree
from engine.support.budgets import MAX_PATTERN_CHARACTERS, MAX_PATTERN_DEPTH, MAX_ROW_CHARACTERS

_MAP = re.compile(r"\s*([A-Za-z_]\w*)\s*\[([^\[\]]*)\]\s*->\s*\[(.*)\]\s*", re.ASCII | re.DOTALL)
_PRODUCT = re.compile(r"(\d)\s*(?=[A-Za-z_(])", re.ASCII)
_MODULO = re.compile(r"\bmod\b")

_Sum = tuple[dict[str, int], int]
"""Coefficients by iterator, and the constant."""
_Operations = tuple[tuple[str, int], ...]


def rows_of_maps(data: Sequence[object], pattern: Sequence[Loops], name: str) -> tuple[StatementRows, ...]:
    """The rows of a list of maps, one for each dimension.  BadInput for a statement that a dimension leaves out."""
    rows: dict[str, list[PublishedRow]] = {one.statement: [] for one in pattern}
    for number, text in enumerate(data):
        found = _band(text, pattern, f"schedule[{number}]", name)
        for statement, of in rows.items():
            if statement not in found:
                raise contradiction(name, f"schedule[{number}] has no row for {statement}")
            of.append(found[statement])
    return tuple(StatementRows(statement, tuple(of)) for statement, of in rows.items())


def rows_of_tree(text: str, pattern: Sequence[Loops], name: str) -> tuple[StatementRows, ...]:
    """The rows of a schedule tree; a sequence becomes a row of constants."""
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise unreadable(name, f"its tree has {len(text)} characters", f"at most {MAX_PATTERN_CHARACTERS} are read")
    rows: dict[str, list[PublishedRow]] = {one.statement: [] for one in pattern}
    _descend(parse_tree(text, name).get("child"), tuple(rows), rows, pattern, name)
    bare = next((statement for statement, of in rows.items() if not of), None)
    if bare is not None:
        raise contradiction(name, f"its tree says nothing of {bare}: {bare} has no rows")
    return tuple(StatementRows(statement, tuple(of)) for statement, of in rows.items())


def _descend(
    node: object, here: Sequence[str], rows: Mapping[str, list[PublishedRow]], pattern: Sequence[Loops], name: str
) -> None:
    for _ in range(MAX_PATTERN_DEPTH):
        if not isinstance(node, dict) or "schedule" not in node:
            break
        found = _band(node["schedule"], pattern, "a band of its tree", name)
        if set(found) != set(here):
            raise contradiction(name, f"a band of its tree is for {', '.join(found)}, and {', '.join(here)} are there")
        for statement, row in found.items():
            rows[statement].append(row)
        node = node.get("child")
    children = _children(node, name)
    met: list[str] = []
    for number, child in enumerate(children):
        inside = filter_statements(child.get("filter"), tuple(here), name)
        met += inside
        for statement in inside:
            width = len(next(one for one in pattern if one.statement == statement).axes)
            rows[statement].append(PublishedRow((*(0,) * width, number)))
        _descend(child.get("child"), inside, rows, pattern, name)
    if children and sorted(met) != sorted(here):
        raise contradiction(name, f"a sequence of its tree does not run {', '.join(here)} exactly once each")


def _children(node: object, name: str) -> list[Tree]:
    """Those of a sequence; none of a leaf."""
    if node is None:
        return []
    children = node.get("sequence") if isinstance(node, dict) else None
    if not isinstance(children, list) or not all(isinstance(child, dict) for child in children):
        raise unreadable(name, "a node of its tree is neither schedule nor sequence of filters")
    return children


def _band(text: object, pattern: Sequence[Loops], where: str, name: str) -> dict[str, PublishedRow]:
    """Statement -> its row, of "[{ S[x] -> [(x + 1)]; T[x] -> [(x)] }]"."""
    bare = text.strip().removeprefix("[").removesuffix("]").strip() if isinstance(text, str) else ""
    if not (bare.startswith("{") and bare.endswith("}")):
        raise unreadable(name, f"{where} is not “{{ S[x] -> [(x)] }}”")
    found: dict[str, PublishedRow] = {}
    for part in bare[1:-1].split(";"):
        match = _MAP.fullmatch(part)
        loops = next((one for one in pattern if match and one.statement == match[1]), None)
        if match is None or loops is None:
            raise unreadable(name, f"{where} has no map of a statement in {part.strip()[:60]!r}")
        names = [iterator.strip() for iterator in match[2].split(",")] if match[2].strip() else []
        if len(names) != len(loops.axes) or len(set(names)) < len(names):
            raise contradiction(name, f"{where}: {match[1]} has {len(loops.axes)} iterators, {len(names)} are named")
        if match[1] in found:
            raise contradiction(name, f"{where} gives {match[1]} twice")
        found[match[1]] = _row(match[3], names, f"{where}, {match[1]}", name)
    return found


def _row(text: str, names: Sequence[str], where: str, name: str) -> PublishedRow:
    """A sum of iterators, or quotients and remainders of one."""
    python = _MODULO.sub("%", _PRODUCT.sub(r"\1*", text.strip()))
    try:
        if len(python) > MAX_ROW_CHARACTERS:
            raise ValueError
        (coefficients, constant), operations = _quotient(ast.parse(python, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        hint = "for example “x + 2y - 3”, “floor(x / 4)”, “x mod 4”"
        raise unreadable(name, f"{where}: {text.strip()[:60]!r} is no row", hint) from None
    unknown = sorted(set(coefficients) - set(names))
    if unknown:
        raise contradiction(name, f"{where}: its row names {unknown[0][:60]}, its iterators are {', '.join(names)}")
    return PublishedRow((*(coefficients.get(n, 0) for n in names), constant), operations)


def _quotient(node: ast.expr) -> tuple[_Sum, _Operations]:
    """ValueError for what is neither a sum nor a quotient or remainder of one."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "floor":
        (inner,) = node.args
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div):
            found, operations = _quotient(inner.left)
            return found, (*operations, ("/", _count(inner.right)))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Mod):
        found, operations = _quotient(node.left)
        return found, (*operations, ("/" if isinstance(node.op, ast.FloorDiv) else "%", _count(node.right)))
    return _affine(node), ()


def _count(node: ast.expr) -> int:
    coefficients, number = _affine(node)
    if coefficients or not 1 <= number < 2**31:
        raise ValueError
    return number


def _affine(node: ast.expr) -> _Sum:
    """A sum of multiples of iterators; ValueError for anything else."""
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool) and abs(number) < 2**31:
            return {}, number
        case ast.Name(id=name):
            return {name: 1}, 0
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _sum(({}, 0), _affine(operand), -1)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):
            return _sum(_affine(left), _affine(right), 1 if isinstance(sign, ast.Add) else -1)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            (first, factor), (second, other) = _affine(left), _affine(right)
            if first and second:
                raise ValueError
            return _sum(({}, 0), (second, other), factor) if not first else _sum(({}, 0), (first, factor), other)
    raise ValueError


def _sum(first: _Sum, second: _Sum, factor: int) -> _Sum:
    names = dict.fromkeys((*first[0], *second[0]))
    return {n: first[0].get(n, 0) + factor * second[0].get(n, 0) for n in names}, first[1] + factor * second[1]
