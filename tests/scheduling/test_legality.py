"""Legality: our verdict against isl's on the program's memory accesses, witnesses, and malformed trees."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from engine.poly.dependences import dependences
from engine.scheduling.legality import check_schedule
from engine.scheduling.nodes import Band, ConstraintTree, Leaf, Member, ScheduleTree, Sequence
from engine.scheduling.solve import schedule
from engine.support.errors import BadInput
from engine.tensor.index import Index
from engine.tensor.nodes import TensorProgram
from tests.scheduling import isl_oracle
from tests.scheduling.edits import claiming, cut_apart, edited, tiled
from tests.support import irregular_programs as irregular
from tests.support import programs
from tests.support.random_programs import random_program

PROGRAMS = [
    programs.softmax(6, 7),
    programs.softmax(6, 7, associative=False),
    programs.softmax(3, 3),
    programs.layernorm(5, 6),
    programs.layernorm(5, 6, associative=False),
    programs.matmul_bias_relu(5, 6, 4, associative=False),
    programs.matmul_bias_relu(5, 6, 4),
    programs.elementwise_chain(3, (5, 6)),
    programs.transpose_add(5, 6),
    programs.column_reduction(5, 6, associative=False),
    programs.dropout(5, 6),
    programs.bias_cast(5, 6, 7),
    programs.attention(3, 5, 4),
    programs.in_place_update((5, 6)),
    irregular.reshape(),
    irregular.padded(),
    irregular.concat(),
    irregular.overlapping(),
    irregular.shift_in_place(),
    random_program(3),
    irregular.running_sum(),
    irregular.recurrence(),
]
SCANS = PROGRAMS[-2:]


@pytest.mark.few(8)
@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=lambda n: f"{n}-{PROGRAMS[n].name}")
def test_same_verdict_as_isl_on_random_edits(number: int) -> None:
    _compare_edits(PROGRAMS[number], random.Random(number), 16)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PROGRAMS) + 20))
def test_same_verdict_as_isl_on_five_thousand_edits(number: int) -> None:
    """5,200 edits over 40 programs, 20 of them random with 2 to 9 statements; half a minute:

    python -m pytest -m slow tests/scheduling/test_legality.py
    """
    seed = 100 + number
    program = PROGRAMS[number] if number < len(PROGRAMS) else random_program(seed, 2 + number % 8)
    _compare_edits(program, random.Random(seed), 130)


@pytest.mark.few(4)
@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=lambda n: f"{n}-{PROGRAMS[n].name}")
def test_same_verdict_as_isl_on_random_tile_bands(number: int) -> None:
    _compare_edits(PROGRAMS[number], random.Random(number), 6, tiles=True)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PROGRAMS) + 20))
def test_same_verdict_as_isl_on_five_thousand_tile_bands(number: int) -> None:
    """As above, 5,200 trees some dimensions of which are tiles: nested, interchanged, parallel or permutable."""
    seed = 300 + number
    program = PROGRAMS[number] if number < len(PROGRAMS) else random_program(seed, 2 + number % 8)
    _compare_edits(program, random.Random(seed), 130, tiles=True)


@pytest.mark.few(8)
@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=lambda n: f"{n}-{PROGRAMS[n].name}")
def test_same_verdict_as_isl_on_random_launches(number: int) -> None:
    _compare_edits(PROGRAMS[number], random.Random(500 + number), 8, launches=True)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(40))
def test_same_verdict_as_isl_on_five_thousand_launches_and_scans(number: int) -> None:
    """5,200 trees that are cut outside all loops, tiles in every other program: of all programs above, of the scans
    with other sizes, and random ones."""
    seed = 600 + number
    sizes = ((1, 4), (2, 7), (5, 3))
    scans = [make(*size) for make in (irregular.running_sum, irregular.recurrence) for size in sizes]
    chosen = [*PROGRAMS, *scans]
    program = chosen[number] if number < len(chosen) else random_program(seed, 2 + number % 8)
    _compare_edits(program, random.Random(seed), 130, tiles=number % 2 == 1, launches=True)


def test_random_launches_of_scans_are_of_both_kinds() -> None:
    for program in SCANS:
        tree = schedule(program, dependences(program), ConstraintTree()).tree
        found = [isl_oracle.legal(program, cut_apart(tree, draw)) for draw in map(random.Random, range(12))]
        assert set(found) == {True, False}


def _compare_edits(
    program: TensorProgram, draw: random.Random, count: int, tiles: bool = False, launches: bool = False
) -> None:
    needed = dependences(program)
    whole = schedule(program, needed, ConstraintTree()).tree
    for _ in range(count):
        tree = cut_apart(whole, draw) if launches else whole
        changed = tree if (tiles or launches) and draw.random() < 0.6 else edited(program, tree, draw)
        if tiles:
            changed = tiled(program, changed, draw)
        if draw.random() < 0.25:
            changed = claiming(changed, draw)
        found = check_schedule(program, needed, changed)
        expected = isl_oracle.legal(program, changed) and isl_oracle.claims_hold(program, changed)
        assert (not found) == expected, (changed, found)
        for violation in found:
            _assert_in_boxes(program, violation.witness)


def test_random_edits_are_of_both_kinds() -> None:
    verdicts = {
        isl_oracle.legal(program, edited(program, schedule(program, dependences(program), ConstraintTree()).tree, draw))
        for program in (programs.softmax(4, 5), programs.dropout(4, 5))
        for draw in map(random.Random, range(12))
    }
    assert verdicts == {True, False}


def _assert_in_boxes(program: TensorProgram, witness) -> None:
    for name, values in ((witness.dependence.source, witness.source), (witness.dependence.sink, witness.sink)):
        for iterator, value in zip(program.statement(name).iterators, values, strict=True):
            assert 0 <= value < iterator.extent


def test_witness_names_two_real_instances() -> None:
    program = programs.softmax(64, 128)
    rows = {f"S{k}": Index.of("i") for k in range(4)}
    columns = {f"S{k}": Index.of("j") for k in range(4)}
    members = (Member("i", rows, False, 64), Member("j", columns, False, 128))
    tree = ScheduleTree(Band(members, False, Leaf(("S0", "S1", "S2", "S3"))))
    found = check_schedule(program, dependences(program), tree)
    assert [v.witness.dependence.sink for v in found] == ["S1", "S3"]
    assert found[0].level == "j"
    witness = found[0].witness
    assert witness.text == "S0[i=0, j=127] writes m[0], S1[i=0, j=0] reads it first"
    assert (witness.source, witness.sink) == ((0, 127), (0, 0))


def test_shift_by_the_whole_loop_is_legal_at_the_actual_size_only() -> None:
    """Row j of the maximum against row j + 128 of the exponent: in order up to 129 columns, not for 130."""
    for columns, expected in ((129, 0), (130, 1)):
        program = programs.softmax(8, columns)
        program = replace(program, statements=program.statements[:2], outputs=("e",))
        rows = {"S0": Index.of("i"), "S1": Index.of("i")}
        moved = {"S0": Index.of("j"), "S1": Index.of("j") + 128}
        band = Band((Member("i", rows, False, 8), Member("j", moved, False, columns)), False, Leaf(("S0", "S1")))
        assert len(check_schedule(program, dependences(program), ScheduleTree(band))) == expected


@pytest.mark.parametrize(("parallel", "broken"), [(False, 0), (True, 1)])
def test_a_false_claim_of_parallelism_is_a_violation(parallel: bool, broken: int) -> None:
    program = programs.matmul_bias_relu(6, 5, 7, associative=False)
    program = replace(program, statements=program.statements[:1], outputs=("c",))
    members = tuple(Member(n, {"S0": Index.of(n)}, n != "k" or parallel, e) for n, e in (("i", 6), ("j", 5), ("k", 7)))
    found = check_schedule(program, dependences(program), ScheduleTree(Band(members, True, Leaf(("S0",)))))
    assert len(found) == broken
    assert all(v.level == "k is not parallel" for v in found)


@pytest.mark.parametrize(("permutable", "broken"), [(False, 0), (True, 1)])
def test_a_false_claim_of_permutability_is_a_violation(permutable: bool, broken: int) -> None:
    box = [("i", 6), ("a", 5), ("b", 7)]
    body = programs.at("x", "i", "a", "b")
    summed = programs.statement("S0", box, programs.at("y", "i"), body, ("sum", "a b"), associative=False)
    program = programs.program("sum2", {"x": (6, 5, 7), "y": (6,)}, [summed], "y")
    members = tuple(Member(n, {"S0": Index.of(n)}, False, e) for n, e in box[1:])
    inner = Band(members, permutable, Leaf(("S0",)))
    tree = ScheduleTree(Band((Member("i", {"S0": Index.of("i")}, True, 6),), True, inner))
    found = check_schedule(program, dependences(program), tree)
    assert [v.level for v in found] == ["b is not permutable"] * broken


def test_rows_that_do_not_tell_instances_apart() -> None:
    program = programs.elementwise_chain(1, (4, 6))
    row = {"S0": Index.of("i")}
    flat = {"S0": Index.sum([("i", 6), ("j", 1)])}
    short = {"S0": Index.sum([("i", 5), ("j", 1)])}
    for rows, expected in ((row, 1), (flat, 0), (short, 1)):
        tree = ScheduleTree(Band((Member("i", rows, False, 4),), False, Leaf(("S0",))))
        found = check_schedule(program, dependences(program), tree)
        assert len(found) == expected
        assert all("run at the same point" in v.witness.text for v in found)


@pytest.mark.parametrize(
    ("root", "message"),
    [
        (Leaf(("S0",)), "missing"),
        (Sequence((Leaf(("S0", "S1")), Leaf(("S1",)))), "twice"),
        (Leaf(("S0", "S1", "S7")), "not in the program"),
        (Band((Member("i", {"S0": Index.of("i")}, False, 4),), False, Leaf(("S0", "S1"))), "no row for S1"),
        (
            Band((Member("i", {"S0": Index.of("q"), "S1": Index.of("i")}, False, 4),), False, Leaf(("S0", "S1"))),
            "affine",
        ),
    ],
)
def test_trees_that_do_not_fit_the_program_are_bad_input(root, message: str) -> None:
    program = programs.elementwise_chain(2, (4, 6))
    with pytest.raises(BadInput, match=message):
        check_schedule(program, dependences(program), ScheduleTree(root))


def test_an_indirect_read_waits_for_everything_it_may_touch() -> None:
    program = irregular.gather()
    needed = dependences(program)
    assert [d.exact for d in needed] == [False]
    tree = schedule(program, needed, ConstraintTree()).tree
    assert not check_schedule(program, needed, tree)
    rows = {"S0": Index.of("j"), "S1": Index.of("j")}
    lines = {"S0": Index.of("i"), "S1": Index.of("i")}
    fused = Band((Member("j", rows, True, 6), Member("i", lines, False, 10)), False, Leaf(("S0", "S1")))
    found = check_schedule(program, needed, ScheduleTree(fused))
    assert len(found) == 1 and "it may be any" in found[0].witness.text
