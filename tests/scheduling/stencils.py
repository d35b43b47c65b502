"""Programs and dependences whose best schedules are sums and shifts of iterators."""

from __future__ import annotations

from engine.poly.nodes import Dependence, Generator
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Guard, Literal, Statement, TensorProgram
from tests.support.programs import apply, at, program, statement


def jacobi(times: int = 10, points: int = 20) -> tuple[TensorProgram, tuple[Dependence, ...]]:
    """One statement over (t, i) whose value at (t + 1, i + d) needs that at (t, i), for d in -1, 0, 1."""
    made = statement("S0", [("t", times), ("i", points)], at("p", "t", "i"), at("x", "t", "i"))
    shape = (times, points)
    return program("jacobi", {"x": shape, "p": shape}, [made], "p"), tuple(
        Dependence("flow", "S0", "S0", "p", _neighbours(d), (times - 1, points - abs(d))) for d in (-1, 0, 1)
    )


def _neighbours(d: int) -> tuple[Generator, ...]:
    """{(t, i) -> (t + 1, i + d)}: one vertex at the lowest i that has such a neighbour, rays along t, i and sizes."""
    low = max(0, -d)
    rays = [((1, 0), (1, 0)), ((0, 0), (1, 0)), ((0, 1), (0, 1)), ((0, 0), (0, 1))]
    return (
        Generator((0, low), (1, low + d), (1, 1), 1),
        *(Generator(move, move, sizes, 0) for move, sizes in rays),
    )


def stencil_chain(steps: int = 3, points: int = 12) -> TensorProgram:
    """Every step reads three neighbours of the step before, with zero outside."""
    i = Index.of("i")

    def read(array: str, by: int) -> Access:
        low, high = Guard(i + by), Guard(i * -1 + (points - 1 - by))
        return Access(array, (i + by,), ((low,) if by < 0 else (high,)) if by else (), Literal(0.0, "float32"))

    made: list[Statement] = []
    for k in range(steps):
        value = apply("add", apply("add", read(f"x{k}", -1), read(f"x{k}", 0)), read(f"x{k}", 1))
        made.append(statement(f"S{k}", [("i", points)], at(f"x{k + 1}", "i"), value))
    return program("stencil", {f"x{k}": (points,) for k in range(steps + 1)}, made, f"x{steps}")


def downwards(points: int = 8) -> TensorProgram:
    """p[i + 1] = p[i] in place: legal from the last to the first only."""
    made = statement("S0", [("i", points - 1)], at("p", Index.of("i") + 1), at("p", "i"), covers=False)
    return program("downwards", {"p": (points,)}, [made], "p", inputs="p")
