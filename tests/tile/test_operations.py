"""What tile operations declare agrees with what their fields hold: no variable, register or buffer is left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Literal, Position, Scalar
from engine.tile.nodes import Comment, LastArrival, Let, Rewrite, Slot, TakeNumber, TileOp, operations
from engine.tile.source import NOWHERE


def kinds(base: type[TileOp] = TileOp) -> Iterator[type[TileOp]]:
    """Every class of operations that the program has."""
    for kind in base.__subclasses__():
        if "__slots__" in vars(kind):  # `dataclass(slots=True)` makes a second class, and the first may still be there
            yield kind
            yield from kinds(kind)


def example(kind: type[TileOp]) -> TileOp:
    """An operation whose every index, register and expression names something of its own: `FIELD_i`, `FIELD_r`."""

    def value(name: str, text: str) -> Any:
        i = Index.of(f"{name}_i")
        registers = Access(f"{name}_r", (i,)), Position(Index.of(f"{name}_p"), "float32")
        inside: tuple[TileOp, ...] = (Let(f"{name}_inside", Index.of(f"{name}_i")), Comment("x"))
        return {
            "Index": i,
            "Slot": Slot(f"{name}_r", (i,)),
            "Slot | None": Slot(f"{name}_r", (i,)),
            "Scalar": Apply("add", registers, "float32"),
            "Scalar | None": Apply("add", registers, "float32"),
            "Literal | None": Literal(0.0, "float32"),
            "tuple[Index, ...]": (i,),
            "tuple[str, ...]": (f"{name}_m",),
            "tuple[TileOp, ...]": inside,
            "tuple[tuple[int, tuple[TileOp, ...]], ...]": ((3, inside), (4, inside)),
            "tuple[tuple[TileOp, ...], ...]": (inside, inside),
            "tuple[tuple[str, ...], ...]": (("S0",), ("S1",)),
            "tuple[int, int]": (1, 2),
            "str": f"{name}_m" if name == "mask" else name,
            "str | None": f"{name}_m" if name == "mask" else None,
            "int": 2,
            "int | None": None,
            "bool": False,
            "bool | int": False,
            "Line": NOWHERE,
        }[text]

    return kind(**{field.name: value(field.name, str(field.type)) for field in fields(kind)})


def held(part: Any) -> Iterator[str]:
    """The names that a field's value holds, found without any declaration."""
    match part:
        case Index():
            yield from part.iterators()
        case Slot(name, indices) | Access(name, indices):
            yield name
            yield from held(indices)
        case Apply(_, operands):
            yield from held(operands)
        case Position(index, _):
            yield from held(index)
        case TileOp():
            return
        case tuple():
            for one in part:
                yield from held(one)
        case str() if part.endswith("_m"):
            yield part


class Renamed(Rewrite):
    """Every variable and register gets a mark."""

    def index(self, index: Index) -> Index:
        return index.substitute({name: Index.of(f"new_{name}") for name in index.iterators()}, {})

    def slot(self, slot: Slot) -> Slot:
        return Slot(f"new_{slot.buffer}", tuple(map(self.index, slot.indices)))

    def scalar(self, value: Scalar) -> Scalar:
        match value:
            case Access(name, indices):
                return Access(f"new_{name}", tuple(map(self.index, indices)))
            case Apply(function, operands, dtype):
                return Apply(function, tuple(map(self.scalar, operands)), dtype)
            case Position(index, dtype):
                return Position(self.index(index), dtype)
            case _:
                return value


KINDS = pytest.mark.parametrize("kind", sorted(kinds(), key=lambda kind: kind.__name__))


@KINDS
def test_every_name_in_a_field_is_declared(kind: type[TileOp]) -> None:
    op = example(kind)
    names = {name for field in fields(kind) for name in held(getattr(op, field.name))}
    assert names == op.names


@KINDS
def test_every_position_lies_in_a_declared_region(kind: type[TileOp]) -> None:
    op = example(kind)
    positions = {(getattr(op, buffer), getattr(op, place)) for place, buffer in kind.positions.items()}
    assert {buffer for buffer, _ in positions} <= set(op.buffers)
    if kind not in (LastArrival, TakeNumber):  # their counters are no data
        assert {(region.buffer, region.position) for region in op.regions} == positions


@KINDS
def test_a_rewrite_reaches_every_part(kind: type[TileOp]) -> None:
    op = example(kind)
    assert op.rewrite(Rewrite()) == op
    changed = op.rewrite(Renamed())
    assert changed.names == {name if name.endswith("_m") else f"new_{name}" for name in op.names}
    below = [(inner, other) for inner, other in zip(operations((op,)), operations((changed,)), strict=True)][1:]
    assert all(other.names == {f"new_{name}" for name in inner.names} for inner, other in below)


@KINDS
def test_bodies_are_what_stands_below(kind: type[TileOp]) -> None:
    op = example(kind)
    below = [inner for body in op.bodies for inner in body.operations]
    assert list(operations((op,)))[1:] == below
    emptied = op.map_bodies(lambda body: ())
    assert not list(operations((emptied,)))[1:]
    assert op.bodies or emptied is op
