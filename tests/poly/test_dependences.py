"""Dependences: which there are, and their generators against isl's `coefficients()` and against enumeration."""

from __future__ import annotations

from itertools import product

import islpy
import numpy as np
import pytest

from engine.poly.box import at_actual_sizes
from engine.poly.dependences import dependences
from engine.poly.nodes import Dependence
from engine.tensor.index import Index
from engine.tensor.nodes import TensorProgram
from tests.scheduling import isl_oracle
from tests.support import irregular_programs as irregular
from tests.support import programs
from tests.support.random_programs import random_program


def listed(program: TensorProgram) -> list[str]:
    return [str(d) for d in dependences(program)]


def test_softmax_has_only_flow_when_its_reductions_are_associative() -> None:
    expected = ["flow of m: S0 -> S1", "flow of e: S1 -> S2", "flow of e: S1 -> S3", "flow of s: S2 -> S3"]
    assert listed(programs.softmax()) == expected


def test_a_reduction_in_fixed_order_depends_on_itself() -> None:
    found = listed(programs.matmul_bias_relu(associative=False))
    assert found == ["reduction of c: S0 -> S0", "flow of c: S0 -> S1", "flow of d: S1 -> S2"]
    assert listed(programs.matmul_bias_relu(associative=True)) == found[1:]


def test_in_place_update_gives_anti_dependences() -> None:
    assert listed(programs.in_place_update()) == ["anti of p: S0 -> S1"]
    assert listed(irregular.shift_in_place()) == ["anti of p: S0 -> S0"]


def test_parts_that_overlap_are_ordered_and_disjoint_ones_are_not() -> None:
    assert listed(irregular.concat()) == ["flow of t: S0 -> S2", "flow of t: S1 -> S2"]
    assert "output of t: S0 -> S1" in listed(irregular.overlapping())


def test_indices_that_never_meet_give_nothing() -> None:
    box = [("i", 8)]
    made = programs.statement("S0", box, programs.at("t", "i", 0), programs.at("x", "i"), covers=False)
    read = programs.statement("S1", box, programs.at("y", "i"), programs.at("t", "i", 1))
    assert listed(programs.program("columns", {"x": (8,), "t": (8, 2), "y": (8,)}, [made, read], "y")) == []


def test_an_empty_box_depends_on_nothing() -> None:
    assert listed(programs.softmax(0, 16)) == []


def test_weight_is_the_bytes_handed_over() -> None:
    weights = {d.array: d.weight for d in dependences(programs.softmax(64, 128))}
    assert weights == {"m": 64 * 4, "e": 64 * 128 * 4, "s": 64 * 4}


def test_sizes_from_four_on_are_symbols() -> None:
    small, large = (dependences(programs.elementwise_chain(2, shape))[0] for shape in ((3, 2), (300, 200)))
    assert (small.symbols, len(small.generators)) == ((), 4)
    assert (large.symbols, len(large.generators)) == ((300, 200), 5)
    assert max(max(g.source + g.sink + g.sizes) for g in large.generators) == 1


def test_generators_are_shared_by_equal_patterns() -> None:
    first, second = dependences(programs.elementwise_chain(3))
    assert first.generators is second.generators


def pairs(program: TensorProgram) -> dict[tuple[str, str], set[tuple[int, ...]]]:
    """(source, sink) -> every pair of instances whose order matters, enumerated by isl."""
    found: dict[tuple[str, str], set[tuple[int, ...]]] = {}
    for first, second, condition in isl_oracle.conflicts(program):
        names = [f"s{k}" for k in range(len(first.iterators))] + [f"t{k}" for k in range(len(second.iterators))]
        points: list[tuple[int, ...]] = []
        every = islpy.Set(f"{{ [{', '.join(names)}] : {condition} }}")
        width = len(names)
        every.foreach_point(
            lambda p, width=width, points=points: points.append(
                tuple(p.get_coordinate_val(islpy.dim_type.set, k).to_python() for k in range(width))
            )
        )
        if points:
            found.setdefault((first.name, second.name), set()).update(points)
    return found


SMALL = [
    programs.softmax(4, 5),
    programs.softmax(2, 3),
    programs.matmul_bias_relu(4, 3, 5),
    programs.transpose_add(4, 6),
    programs.bias_cast(4, 5, 2),
    programs.column_reduction(5, 3),
    irregular.reshape(4, 6, 3),
    irregular.padded(6),
    irregular.concat(3, 4),
    *map(random_program, range(6)),
]


@pytest.mark.parametrize("program", SMALL, ids=lambda p: p.name)
def test_vertices_at_actual_sizes_span_exactly_the_pairs(program: TensorProgram) -> None:
    """For flow of associative programs: every pair lies in the hull of the vertices, every vertex is a pair."""
    expected = {key: points for key, points in pairs(program).items() if key[0] != key[1]}
    found: dict[tuple[str, str], list[Dependence]] = {}
    for dependence in dependences(program):
        if dependence.source != dependence.sink:
            found.setdefault((dependence.source, dependence.sink), []).append(dependence)
    ordered = {s.name for s in program.statements if s.reduction is not None and not s.reduction.associative}
    assert found.keys() == expected.keys()
    for key, listed in found.items():
        vertices = [g for d in listed for g in at_actual_sizes(d)]
        assert all(g.one == 1 for g in vertices)
        corners = {(*g.source, *g.sink) for g in vertices}
        assert corners <= expected[key]
        if key[0] not in ordered:
            low, high = np.min([*corners], axis=0), np.max([*corners], axis=0)
            assert np.array_equal(low, np.min([*expected[key]], axis=0))
            assert np.array_equal(high, np.max([*expected[key]], axis=0))


def polyhedron(dependence: Dependence, condition: str) -> islpy.BasicSet:
    """{[sizes, source, sink]} with sizes as dimensions, which is the polyhedron that the generators describe."""
    g = dependence.generators[0]
    names = [f"{p}{k}" for p, part in zip("nst", (g.sizes, g.source, g.sink), strict=True) for k in range(len(part))]
    return islpy.BasicSet(f"{{ [{', '.join(names)}] : {condition} }}")


def cone_of(piece: islpy.BasicSet) -> set[tuple[int, ...]]:
    """Rows of isl's `coefficients()`: one, then each dimension."""
    cone = piece.coefficients()
    width = cone.dim(islpy.dim_type.set)
    rows = set()
    for constraint in cone.get_constraints():
        row = [constraint.get_coefficient_val(islpy.dim_type.set, k).to_python() for k in range(width)]
        rows.add(tuple(row))
        if constraint.is_equality():
            rows.add(tuple(-v for v in row))
    return rows


def same_cone(a: set[tuple[int, ...]], b: set[tuple[int, ...]]) -> bool:
    """Whether two finite sets of rows have the same non-negative hull: the same dual cone, by isl."""

    def dual(rows: set[tuple[int, ...]]) -> islpy.Set:
        width = len(next(iter(rows)))
        names = [f"c{k}" for k in range(width)]
        parts = [" + ".join(f"{v}*{n}" for v, n in zip(row, names, strict=True)) + " >= 0" for row in rows]
        return islpy.Set(f"{{ [{', '.join(names)}] : {' and '.join(parts)} }}")

    return bool(dual(a).is_equal(dual(b)))


CONES = [
    ("identity", programs.elementwise_chain(2, (64, 32)), 0, "s0=t0 and s1=t1 and 0<=s0<n0 and 0<=s1<n1"),
    ("transpose", programs.transpose_add(64, 32), 0, "s0=t1 and s1=t0 and 0<=t0<n0 and 0<=t1<n1"),
    (
        "reduction result",
        programs.softmax(64, 32),
        0,
        "s0=t0 and 0<=t0<n0 and 0<=t1<n1 and 0<=s1<n2",
    ),
    (
        "ordered reduction result",
        programs.softmax(64, 32, associative=False),
        1,
        "s0=t0 and 0<=t0<n0 and 0<=t1<n1 and s1=n2-1 and n2>=1",
    ),
    (
        "next term",
        programs.softmax(64, 32, associative=False),
        0,
        "s0=t0 and 0<=t0<n0 and t1=s1+1 and 0<=s1<n1",
    ),
    ("broadcast", programs.bias_cast(64, 32, 16), 1, "s0=t1 and 0<=t0<n0 and 0<=t1<n1"),
    ("small constants", programs.elementwise_chain(2, (64, 3)), 0, "s0=t0 and s1=t1 and 0<=s0<n0 and 0<=s1<3"),
]


@pytest.mark.parametrize(("name", "program", "number", "condition"), CONES, ids=[c[0] for c in CONES])
def test_generators_are_the_rows_of_coefficients(
    name: str, program: TensorProgram, number: int, condition: str
) -> None:
    dependence = dependences(program)[number]
    piece = polyhedron(dependence, condition)
    ours = {(g.one, *g.sizes, *g.source, *g.sink) for g in dependence.generators}
    assert same_cone(ours, cone_of(piece)), name
    wrong = {(one, *rest[:-1], rest[-1] + 1) for one, *rest in ours}
    assert not same_cone(wrong, cone_of(piece))


def test_divisions_are_exact() -> None:
    """y[n] = t[n / 8, n % 8]: source (i, j) and sink n with n = 8 i + j, nothing wider."""
    found = dependences(irregular.reshape(6, 8, 4))
    flow = next(d for d in found if (d.source, d.sink) == ("S0", "S1"))
    assert flow.exact
    assert all(g.sink[0] == 8 * g.source[0] + g.source[1] for g in flow.generators)


def test_an_indirect_read_is_widened_and_says_so() -> None:
    (flow,) = dependences(irregular.gather(10, 6))
    assert not flow.exact
    rows = {(g.source[0], g.sink[0]) for g in at_actual_sizes(flow)}
    assert rows == set(product((0, 9), (0, 7)))


def test_shifted_reads_within_bounds_have_a_closed_form() -> None:
    """y[i] = t[i + 2] for i < 8 of 10 elements."""
    made = programs.statement("S0", [("i", 10)], programs.at("t", "i"), programs.at("x", "i"))
    read = programs.statement("S1", [("i", 8)], programs.at("y", "i"), programs.at("t", Index.of("i") + 2))
    (flow,) = dependences(programs.program("window", {"x": (10,), "t": (10,), "y": (8,)}, [made, read], "y"))
    assert flow.symbols == (8,)
    assert all(g.source[0] == g.sink[0] + 2 * g.one for g in flow.generators)
