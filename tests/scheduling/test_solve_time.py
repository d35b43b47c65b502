"""The time a solve takes, against a budget with a wide margin."""

from __future__ import annotations

from time import perf_counter

import pytest

from engine.poly.dependences import dependences
from engine.scheduling.legality import check_schedule
from engine.scheduling.nodes import ConstraintTree
from engine.scheduling.solve import schedule
from engine.tensor.nodes import TensorProgram
from tests.support import programs


def layers(statements: int) -> TensorProgram:
    """Layer normalisation with a residual, again and again."""
    box, ij = [("i", 64), ("j", 128)], ("i", "j")
    at, apply, make = programs.at, programs.apply, programs.statement
    shapes: dict[str, tuple[int, ...]] = {"x": (64, 128)}
    made = []
    current = "x"
    for layer in range(statements // 6):
        m, c, v, r, y, z = (f"{letter}{layer}" for letter in "mcvryz")
        shapes |= {m: (64,), c: (64, 128), v: (64,), r: (64,), y: (64, 128), z: (64, 128)}
        name = [f"S{6 * layer + k}" for k in range(6)]
        made += [
            make(name[0], box, at(m, "i"), at(current, *ij), ("sum", "j")),
            make(name[1], box, at(c, *ij), apply("sub", at(current, *ij), at(m, "i"))),
            make(name[2], box, at(v, "i"), apply("mul", at(c, *ij), at(c, *ij)), ("sum", "j")),
            make(name[3], [("i", 64)], at(r, "i"), apply("rsqrt", at(v, "i"))),
            make(name[4], box, at(y, *ij), apply("mul", at(c, *ij), at(r, "i"))),
            make(name[5], box, at(z, *ij), apply("add", at(y, *ij), at(current, *ij))),
        ]
        current = z
    return programs.program("layers", shapes, made, current)


@pytest.mark.parametrize(("statements", "milliseconds"), [(30, 30), (102, 100), (300, 400)])
def test_time_budget_with_a_tenfold_margin(statements: int, milliseconds: float) -> None:
    program = layers(statements)
    best = float("inf")
    for _ in range(3):
        start = perf_counter()
        needed = dependences(program)
        result = schedule(program, needed, ConstraintTree())
        assert not check_schedule(program, needed, result.tree)
        best = min(best, (perf_counter() - start) * 1e3)
    assert best < 10 * milliseconds
