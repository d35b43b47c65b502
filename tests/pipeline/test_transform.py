"""The rewritten loop: figure 7 of ALCOP index by index, synchronisation, and what every iteration touches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.pipeline.stage_indices import counters_ahead
from engine.pipeline.transform import pipeline_loops
from engine.target.devices import H200
from engine.tensor.index import Index
from engine.tensor.nodes import Access
from engine.tile.check import check_tile
from engine.tile.nodes import (
    Assign,
    AsyncCopy,
    Barrier,
    Comment,
    Commit,
    For,
    Load,
    TileOp,
    TileProgram,
    UniformIf,
    Wait,
    operations,
)
from tests.pipeline.figure import CHUNK, KI, KO, PART, figure_7


def loop(program: TileProgram, name: str) -> For:
    return next(op for op in operations(program.body) if isinstance(op, For) and op.name == name)


def test_figure_7_index_by_index() -> None:
    """Stages, chunks and the guard of the wait are the figure's; past the last chunk a guard stands for the wrap."""
    program = pipeline_loops(figure_7(), H200)
    assert check_tile(program) == ()
    assert (program.stages, program.register_stages) == (3, 2)
    assert program.buffers["A_shared"].elements == 3 * CHUNK
    assert program.buffers["A_reg"].shape == (2, PART)
    outer, inner = loop(program, "ko"), loop(program, "ki")
    (guard,) = (op for op in outer.body if isinstance(op, UniformIf))
    (copy,) = (op for op in operations(guard.body) if isinstance(op, AsyncCopy))
    assert str(guard.condition) == "-ko + 5"
    assert str(copy.target_position) == f"{CHUNK}*((ko + 2) % 3) + 4*c"
    assert str(copy.source_position) == f"4*c + {CHUNK}*ko + {2 * CHUNK}"
    (load,) = (op for op in inner.body if isinstance(op, Load))
    assert str(load.position) == f"{CHUNK}*(((ki + 1) / {KI} + ko) % 3) + {PART}*((ki + 1) % {KI})"
    assert [str(index) for index in load.slot.indices] == ["(ki + 1) % 2"]
    (wait,) = (op for op in inner.body if isinstance(op, UniformIf))
    assert str(wait.condition) == f"-(ki + 1) % {KI}"
    assert wait.body == (Wait(1), Barrier())
    (use,) = (op for op in operations(inner.body) if isinstance(op, Assign))
    assert use.expression == Access("A_reg", (Index.of("ki").mod(2, {"ki": KI}), Index.of("v")))


def test_shifted_counters_wrap_and_carry() -> None:
    """k -> (k + S - 1) mod E, and the carry goes to the loop around."""
    loops = [For("k", 4, ()), For("j", 5, ()), For("i", 6, ())]
    values = counters_ahead(loops, 3, {"k": 4, "j": 5, "i": 6})
    assert str(values["k"]) == "(k + 3) % 4"
    assert str(values["j"]) == "((k + 3) / 4 + j) % 5"
    for i in range(6):
        for j in range(5):
            for k in range(4):
                point = {"i": Index((), i), "j": Index((), j), "k": Index((), k)}
                later = {name: value.substitute(point, {}).constant for name, value in values.items()}
                assert later["k"] + 4 * later["j"] + 20 * later["i"] == k + 4 * j + 20 * i + 3


def run(body: tuple[TileOp, ...], point: dict[str, int]) -> Iterator[tuple[TileOp, dict[str, int]]]:
    """Every operation as one thread meets it, with the loop counters."""
    for op in body:
        match op:
            case For(name, extent, inner):
                for value in range(extent):
                    yield from run(inner, {**point, name: value})
            case UniformIf(condition, inner):
                if value_of(condition, point) >= 0:
                    yield from run(inner, point)
            case _:
                yield op, point


def value_of(index: Index, point: dict[str, int]) -> int:
    return index.substitute({name: Index((), value) for name, value in point.items()}, {}).constant


COMBINATIONS = [(s, r) for s in range(1, 7) for r in (1, 2, 4)]


@pytest.mark.parametrize("ko", [1, 2, 3, 5, KO])
@pytest.mark.parametrize(("shared", "register"), COMBINATIONS)
def test_every_use_finds_its_part(shared: int, register: int, ko: int) -> None:
    """A thread that runs the rewritten loop adds every part of every chunk once, from copies that have finished."""
    program = pipeline_loops(figure_7(shared, register, ko), H200)
    assert check_tile(program) == ()
    assert program.stages == min(shared, ko)
    assert program.register_stages == register
    memory: dict[int, tuple[int, int]] = {}
    """Element of A_shared -> (element of A, group of copies that brings it)."""
    registers: dict[tuple[int, ...], int] = {}
    committed, finished = 0, 0
    used = []
    for op, point in run(program.body, {}):
        match op:
            case AsyncCopy(_, to, _, start, width):
                first, place = value_of(start, point), value_of(to, point)
                assert place + width <= program.buffers["A_shared"].elements
                memory |= {place + n: (first + n, committed) for n in range(width)}
            case Commit():
                committed += 1
            case Wait(pending):
                finished = max(finished, committed - pending)
            case Load(slot, _, position, width):
                place = value_of(position, point)
                assert place + width <= program.buffers["A_shared"].elements
                found = [memory.get(place + n, (-1, -1)) for n in range(width)]
                stage = tuple(value_of(i, point) for i in slot.indices)
                registers[stage] = found[0][0] if all(group < finished for _, group in found) else -1
            case Assign(_, Access(_, indices)):
                *stage, lane = (value_of(i, point) for i in indices)
                used.append(registers[tuple(stage)] + lane)
    assert used == list(range(ko * CHUNK))


def barriers_of_an_iteration(program: TileProgram) -> int:
    turn = [op for op, point in run(program.body, {}) if point.get("ko") == 1]
    return sum(isinstance(op, Barrier) for op in turn)


@pytest.mark.parametrize(("shared", "register"), COMBINATIONS)
def test_one_barrier_an_iteration(shared: int, register: int) -> None:
    """The barrier after the wait is also what frees the stage to be filled next; a single stage needs another."""
    assert barriers_of_an_iteration(pipeline_loops(figure_7(shared, register), H200)) == (2 if shared == 1 else 1)


def test_a_program_that_asks_for_nothing_stays_as_it_is() -> None:
    program = figure_7(1, 1)
    kept = tuple(op for op in pipeline_loops(program, H200).body if not isinstance(op, Comment))
    assert kept == program.body
