"""Two concrete instances of a dependence, in words."""

from __future__ import annotations

from engine.poly.nodes import Dependence
from engine.scheduling.nodes import Witness
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Statement, TensorProgram


def witness(program: TensorProgram, dependence: Dependence, source: tuple[int, ...], sink: tuple[int, ...]) -> Witness:
    """A witness that `source` must run before `sink`, and what goes wrong when it does not."""
    first, second = program.statement(dependence.source), program.statement(dependence.sink)
    text = _WORDS[dependence.kind].format(
        first=instance(first, source),
        second=instance(second, sink),
        element=_element(first, second, dependence, source),
    )
    if not dependence.exact:
        text += " (the index is read from memory: it may be any in its range)"
    return Witness(dependence, source, sink, text)


_WORDS = {
    "flow": "{first} writes {element}, {second} reads it first",
    "anti": "{first} reads {element}, {second} overwrites it first",
    "output": "{first} writes {element}, {second} writes it first although its value must stay",
    "reduction": "{first} adds to {element}, {second} adds the next term first",
}


def instance(statement: Statement, values: tuple[int, ...]) -> str:
    """An instance as text, "S1[i=2, j=9]"."""
    named = ", ".join(f"{i.name}={value}" for i, value in zip(statement.iterators, values, strict=True))
    return f"{statement.name}[{named}]"


def _element(source: Statement, sink: Statement, dependence: Dependence, values: tuple[int, ...]) -> str:
    """The element both touch, "m[2]"; the array alone where an index is read from memory."""
    access: Access = source.write
    if dependence.kind == "anti":
        access = next(a for a in source.reads() if a.array == dependence.array)
    if any(index.is_indirect for index in access.indices):
        return dependence.array
    at = dict(zip((i.name for i in source.iterators), values, strict=True))
    inner = ", ".join(str(_value(index, at, source)) for index in access.indices)
    return f"{dependence.array}[{inner}]"


def _value(index: Index, at: dict[str, int], statement: Statement) -> Index:
    return index.substitute({name: Index.of(value) for name, value in at.items()}, statement.extents)
