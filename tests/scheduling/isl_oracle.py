"""What isl says about a schedule, from the program's memory accesses alone: nothing of `engine.poly` is used.

Every instance of a statement that reduces reads and writes its accumulator.  Two accesses of one element, one of them
a write, must keep the order of the text; terms of an associative reduction may come in any order.
"""

from __future__ import annotations

from collections.abc import Iterator

import islpy

from engine.scheduling.nodes import Band, Leaf, Member, Node, ScheduleTree, Sequence
from engine.tensor.index import Index, Quotient, Remainder
from engine.tensor.nodes import Access, Guard, Statement, TensorProgram

Row = tuple[Index, Member | None]
"""A row and the band member it comes from; None for a place in a sequence."""


def conflicts(program: TensorProgram) -> Iterator[tuple[Statement, Statement, str]]:
    """(first, second, isl condition over their instances s.. and t..) for every order that must be kept."""
    for later, second in enumerate(program.statements):
        for earlier, first in enumerate(program.statements[: later + 1]):
            for a, b, kind in _pairs(first, second):
                if a.array != b.array:
                    continue
                condition = (
                    f"({_domain(first, 's')}) and ({_domain(second, 't')}) and {_same_element(first, second, a, b)}"
                )
                if earlier == later:
                    condition += f" and ({_self_order(first, kind)})"
                yield first, second, condition


def _pairs(first: Statement, second: Statement) -> Iterator[tuple[Access, Access, str]]:
    if first is not second:
        yield from ((first.write, read, "flow") for read in second.reads())
        yield from ((read, second.write, "anti") for read in first.reads())
        yield first.write, second.write, "output"
        return
    if first.reduction is not None and not first.reduction.associative:
        yield first.write, first.write, "accumulate"
    yield from ((read, first.write, "anti") for read in first.reads())


def _self_order(statement: Statement, kind: str) -> str:
    names = [f"{p}{k}" for p in "st" for k in range(len(statement.iterators))]
    source, sink = names[: len(names) // 2], names[len(names) // 2 :]
    if kind == "anti":
        return " or ".join(f"{a} != {b}" for a, b in zip(source, sink, strict=True)) or "false"
    return _lexicographic(source, sink)


def _lexicographic(source: list[str], sink: list[str]) -> str:
    cases = []
    for k in range(len(source)):
        equal = [f"{a} = {b}" for a, b in zip(source[:k], sink[:k], strict=True)]
        cases.append("(" + " and ".join([*equal, f"{source[k]} < {sink[k]}"]) + ")")
    return " or ".join(cases) or "false"


def _domain(statement: Statement, side: str) -> str:
    bounds = [f"0 <= {side}{k} < {i.extent}" for k, i in enumerate(statement.iterators)]
    return " and ".join([*bounds, *_guards(statement.guards, statement, side)]) or "true"


def _guards(guards: tuple[Guard, ...], statement: Statement, side: str) -> list[str]:
    return [f"{text(guard.index, statement, side)} >= 0" for guard in guards]


def _same_element(first: Statement, second: Statement, a: Access, b: Access) -> str:
    equal = [
        _compare(text(x, first, "s"), "=", text(y, second, "t")) for x, y in zip(a.indices, b.indices, strict=True)
    ]
    return " and ".join([*equal, *_guards(a.guards, first, "s"), *_guards(b.guards, second, "t")]) or "true"


def text(index: Index, statement: Statement, side: str) -> str:
    """An index over the instance `side` of a statement, for isl."""
    position = {i.name: f"{side}{k}" for k, i in enumerate(statement.iterators)}
    result = str(index.constant)
    for atom, coefficient in index.terms:
        match atom:
            case str():
                inner = position[atom]
            case Quotient(of, by):
                inner = f"floor(({text(of, statement, side)})/{by})"
            case Remainder(of, by):
                of_text = text(of, statement, side)
                inner = f"(({of_text}) - {by}*floor(({of_text})/{by}))"
            case _:
                raise NotImplementedError(f"{atom} is indirect")
        result += f" + {coefficient}*({inner})"
    return result


def _compare(a: str, relation: str, b: str) -> str:
    return f"{a} - ({b}) {relation} 0"


def rows(node: Node, above: tuple[Row, ...] = ()) -> dict[str, tuple[Row, ...]]:
    """Statement -> its time stamp."""
    match node:
        case Leaf(statements):
            return {s: (*above, (Index((), k), None)) for k, s in enumerate(statements)}
        case Sequence(children):
            found: dict[str, tuple[Row, ...]] = {}
            for k, child in enumerate(children):
                found |= rows(child, (*above, (Index((), k), None)))
            return found
        case Band(members, _, child):
            below = rows(child)
            return {s: (*above, *((m.rows[s], m) for m in members), *rest) for s, rest in below.items()}


def legal(program: TensorProgram, tree: ScheduleTree) -> bool:
    """Whether isl finds no pair out of order and no two instances at one point."""
    times = rows(tree.root)
    for first, second, condition in conflicts(program):
        a, b = times[first.name], times[second.name]
        if not _empty(first, second, f"({condition}) and ({_not_before(first, second, a, b)})"):
            return False
    return all(_unique(statement, times[statement.name]) for statement in program.statements)


def _not_before(first: Statement, second: Statement, a: tuple[Row, ...], b: tuple[Row, ...]) -> str:
    """The second instance does not run after the first."""
    pairs = [(text(x, first, "s"), text(y, second, "t")) for (x, _), (y, _) in zip(a, b, strict=False)]
    cases = []
    for k, (x, y) in enumerate(pairs):
        equal = [_compare(p, "=", q) for p, q in pairs[:k]]
        cases.append("(" + " and ".join([*equal, _compare(y, "<", x)]) + ")")
    cases.append("(" + (" and ".join(_compare(p, "=", q) for p, q in pairs) or "true") + ")")
    return " or ".join(cases)


def _unique(statement: Statement, time: tuple[Row, ...]) -> bool:
    equal = [_compare(text(row, statement, "s"), "=", text(row, statement, "t")) for row, _ in time]
    differ = " or ".join(f"s{k} != t{k}" for k in range(len(statement.iterators))) or "false"
    both = [_domain(statement, "s"), _domain(statement, "t"), *equal, f"({differ})"]
    return _empty(statement, statement, " and ".join(both))


def claims_hold(program: TensorProgram, tree: ScheduleTree) -> bool:
    """Whether no parallel member separates two instances whose order matters and that meet until there."""
    times = rows(tree.root)
    for first, second, condition in conflicts(program):
        equal = [f"({condition})"]
        for (x, member), (y, _) in zip(times[first.name], times[second.name], strict=False):
            a, b = text(x, first, "s"), text(y, second, "t")
            if (
                member is not None
                and member.parallel
                and not _empty(first, second, " and ".join([*equal, _compare(a, "!=", b)]))
            ):
                return False
            equal.append(_compare(a, "=", b))
    return all(_permutable(program, band, above) for band, above in _bands(tree.root, {}))


def _bands(node: Node, above: dict[str, tuple[Row, ...]]) -> Iterator[tuple[Band, dict[str, tuple[Row, ...]]]]:
    """Every band that claims to be permutable, with the time stamps of its statements up to there."""
    match node:
        case Sequence(children):
            for k, child in enumerate(children):
                inner = {s: (*above.get(s, ()), (Index((), k), None)) for s in rows(child)}
                yield from _bands(child, inner)
        case Band(members, permutable, child):
            own = {s: above.get(s, ()) for s in rows(node)}
            if permutable and len(members) > 1:
                yield node, own
            yield from _bands(child, {s: (*time, *((m.rows[s], m) for m in members)) for s, time in own.items()})


def _permutable(program: TensorProgram, band: Band, above: dict[str, tuple[Row, ...]]) -> bool:
    """Whether no member reverses two instances whose order matters and that meet until the band."""
    for first, second, condition in conflicts(program):
        if first.name not in above or second.name not in above:
            continue
        pairs = zip(above[first.name], above[second.name], strict=True)
        equal = [_compare(text(x, first, "s"), "=", text(y, second, "t")) for (x, _), (y, _) in pairs]
        for member in band.members:
            a, b = text(member.rows[first.name], first, "s"), text(member.rows[second.name], second, "t")
            if not _empty(first, second, " and ".join([f"({condition})", *equal, _compare(b, "<", a)])):
                return False
    return True


def _empty(first: Statement, second: Statement, condition: str) -> bool:
    names = [f"s{k}" for k in range(len(first.iterators))] + [f"t{k}" for k in range(len(second.iterators))]
    return bool(islpy.Set(f"{{ [{', '.join(names)}] : {condition} }}").is_empty())
