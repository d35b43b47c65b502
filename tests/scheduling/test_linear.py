"""Rows with general coefficients: skewing, shifting, linear constraints, links, objectives, and the solver below."""

from __future__ import annotations

import itertools
import random

import pytest

import engine as library
from engine.poly.dependences import dependences
from engine.poly.nodes import Dependence
from engine.recipe import Advice, Entry, Scenario, entry
from engine.scheduling.algebra import complement, rank
from engine.scheduling.compose import compose
from engine.scheduling.integer import Deadline, IntegerProgram
from engine.scheduling.legality import check_schedule
from engine.scheduling.nodes import (
    HONOURED,
    INFEASIBLE,
    NO_MATCH,
    RELAXED,
    Band,
    Conflict,
    Leaf,
    Member,
    Options,
    Scheduled,
    ScheduleTree,
    Sequence,
    walk,
)
from engine.scheduling.solve import schedule
from engine.support.errors import OverBudget
from engine.tensor.index import Index
from engine.tensor.nodes import TensorProgram
from tests.scheduling import isl_oracle, stencils
from tests.support import irregular_programs as irregular
from tests.support import programs
from tests.support.misfits import own_refusal
from tests.support.random_programs import random_program

PLAIN = Options()


def solved(
    program: TensorProgram,
    *entries: Entry,
    needed: tuple[Dependence, ...] | None = None,
    options: Options = PLAIN,
) -> Scheduled:
    needed = dependences(program) if needed is None else needed
    result = schedule(program, needed, compose((Advice("user", Scenario(entries)),), program), options)
    assert not check_schedule(program, needed, result.tree)
    return result


def outcomes(scheduled: Scheduled) -> list[str]:
    return [v.outcome for v in scheduled.verdicts]


def dimensions(scheduled: Scheduled) -> list[dict[str, str]]:
    """The rows of every dimension, from the root down, in the order of the tree."""
    bands = [node for node in walk(scheduled.tree.root) if isinstance(node, Band)]
    return [{s: str(row) for s, row in member.rows.items()} for band in bands for member in band.members]


# Skewing.


def test_jacobi_with_skew_becomes_one_permutable_band() -> None:
    program, needed = stencils.jacobi()
    plain = solved(program, needed=needed)
    assert dimensions(plain) == [{"S0": "t"}, {"S0": "i"}]
    assert len(plain.tree.root.members) == 1, "the loops as they are cannot be tiled"
    skewed = solved(program, entry(terms="skew", at="innermost"), needed=needed)
    assert outcomes(skewed) == [HONOURED]
    assert dimensions(skewed) == [{"S0": "t"}, {"S0": "i + t"}]
    band = skewed.tree.root
    assert band.permutable
    assert [m.name for m in band.members] == ["t", "i"]
    assert [m.extent for m in band.members] == [10, 29]


def test_interchange_of_the_skewed_band_is_legal_and_of_the_plain_one_not() -> None:
    program, needed = stencils.jacobi()
    for by, broken in ((1, 0), (0, 1)):
        rows = [Index.sum([("t", by), ("i", 1)]), Index.of("t")]
        members = tuple(Member(f"d{k}", {"S0": row}, False, 29) for k, row in enumerate(rows))
        found = check_schedule(program, needed, ScheduleTree(Band(members, False, Leaf(("S0",)))))
        assert len(found) == broken
        assert all("S0[t=" in v.witness.text for v in found)


def test_the_wave_front_asked_for_by_terms() -> None:
    program, needed = stencils.jacobi()
    result = solved(program, entry(terms=(("t", 2), ("i", 1)), at="outermost"), needed=needed)
    assert outcomes(result) == [HONOURED]
    assert dimensions(result)[0] == {"S0": "i + 2*t"}


# Shifting and reversal.


def test_shift_fuses_a_chain_of_stencils() -> None:
    program = stencils.stencil_chain()
    assert isinstance(solved(program).tree.root, Sequence)
    result = solved(program, entry(terms="shift", at="outermost"))
    assert dimensions(result) == [{"S0": "i", "S1": "i + 1", "S2": "i + 2"}]
    assert result.tree.root.members[0].extent == 14
    assert not result.tree.root.members[0].parallel
    assert isl_oracle.legal(program, result.tree)


def test_options_shift_and_skew_only_before_a_cut() -> None:
    program = stencils.stencil_chain(2)
    assert dimensions(solved(program, options=Options(shift=True))) == [{"S0": "i", "S1": "i + 1"}]
    softmax = programs.softmax()
    assert solved(softmax, options=Options(shift=True, skew=True)).tree == solved(softmax).tree


def test_a_loop_that_must_run_backwards_is_reversed() -> None:
    program = stencils.downwards()
    result = solved(program)
    assert dimensions(result) == [{"S0": "-i + 6"}]
    assert any("reversals are allowed" in line for line in result.log)
    assert isl_oracle.legal(program, result.tree)


# Constraints, links and objectives.

MATMUL = programs.matmul_bias_relu()


@pytest.mark.parametrize(
    ("wish", "outer"),
    [
        (entry("S0", terms=("j", 1), at="outermost"), "j"),
        (entry("S0", terms=("S0", "i", 0), at="outermost"), "j"),
        (entry(terms=("i", 2), at="outermost"), "2*i"),
        (entry(terms=("i", -1), at="outermost"), "-i + 63"),
        (entry("S0", terms=(((1, "S0", "i"), (-2, "S0", "j")), "=", -1), at="outermost"), "i + j"),
        (entry("S0", terms=(((1, "S0", "j"),), ">=", 3), at="outermost"), "3*j"),
        (entry("S0", terms=(((1, "S0", "i"),), "<=", 0), at="outermost"), "j"),
        (entry("S0", terms=("const", 5), at="outermost"), "i + 5"),
        (entry("S0", terms=("k", 1), at="outermost"), "k"),
        (entry(objective="j", at="outermost"), "j"),
        (entry(objective=((("S0", "i", 1),)), at="outermost"), "j"),
    ],
    ids=str,
)
def test_coefficients_of_the_outermost_row(wish: Entry, outer: str) -> None:
    result = solved(MATMUL, wish)
    assert outcomes(result) == [HONOURED], result.verdicts
    assert dimensions(result)[0]["S0"] == outer
    assert isl_oracle.legal(programs.matmul_bias_relu(), result.tree)


def test_a_dimension_addressed_by_name() -> None:
    result = solved(MATMUL, entry("S0", terms=("j", 2), at="j"))
    assert outcomes(result) == [HONOURED]
    assert [rows["S0"] for rows in dimensions(result) if "S0" in rows] == ["i", "2*j", "k"]


def test_equal_holds_statements_together_that_have_a_choice() -> None:
    """Left alone, a reduction over i and an element-wise statement over (i, j) would differ in what is outermost."""
    box = [("i", 8), ("j", 8)]
    first = programs.statement("S0", box, programs.at("t", "j"), programs.at("x", "i", "j"), ("sum", "i"))
    second = programs.statement("S1", box, programs.at("y", "i", "j"), programs.at("z", "i", "j"))
    shapes = {"x": (8, 8), "z": (8, 8), "t": (8,), "y": (8, 8)}
    program = programs.program("two", shapes, [first, second], "t y")
    wish = entry(equal=("S0", "S1"), at="outermost")
    result = solved(program, entry(cut=("S0", "S1"), at="outermost"), wish)
    assert outcomes(result) == [HONOURED, HONOURED]
    assert set(dimensions(result)[0].values()) == {"j"}
    assert _first_row(result, "S1") == "j", "linked although in another nest"
    alone = solved(program, entry(cut=("S0", "S1"), at="outermost"))
    assert _first_row(alone, "S1") == "i"


def _first_row(scheduled: Scheduled, statement: str) -> str:
    return next(rows[statement] for rows in dimensions(scheduled) if statement in rows)


@pytest.mark.parametrize(
    ("wish", "outcome", "because"),
    [
        (entry("S0", terms=("q", 1)), NO_MATCH, "no iterator q in S0"),
        (entry(terms=("S9", "i", 1)), NO_MATCH, "no statement S9"),
        (entry("S9", terms=("i", 1)), NO_MATCH, "no statement S9"),
        (entry("S0", terms=("i", 2**40)), NO_MATCH, "1099511627776 is too large"),
        (entry("S0", terms=("i", 1.5)), NO_MATCH, "1.5 is not a whole number"),
        (entry("S0", terms=5), NO_MATCH, "write (ITERATOR, NUMBER)"),
        (entry("S0", terms=((("S0", "i"),), "<=", 1)), NO_MATCH, "write (ITERATOR, NUMBER)"),
        (entry("S0", objective=True), NO_MATCH, "an objective is"),
        (entry(equal=("S0", "S8")), NO_MATCH, "fewer than two statements"),
        (entry("S0", terms=("i", 1), at="after k"), NO_MATCH, "S0 has no dimension after k"),
        (entry("S0", terms=(("i", 0), ("j", 0), ("k", 0))), INFEASIBLE, "independent"),
        (entry("S0", terms=(("i", 1), ("i", 2))), INFEASIBLE, "contradicts itself"),
    ],
    ids=str,
)
def test_entries_that_cannot_be_honoured_say_why(wish: Entry, outcome: str, because: str) -> None:
    result = solved(MATMUL, wish)
    assert outcomes(result) == [outcome]
    assert because in result.verdicts[0].because
    assert result.tree == solved(MATMUL).tree


def test_an_illegal_row_is_infeasible_with_two_instances() -> None:
    program, needed = stencils.jacobi()
    result = solved(program, entry(terms=(("t", 1), ("i", 2)), at="outermost"), needed=needed)
    (verdict,) = result.verdicts
    assert verdict.outcome == INFEASIBLE
    assert verdict.witness is not None
    (a, b), (c, d) = verdict.witness.source, verdict.witness.sink
    assert c + 2 * d < a + 2 * b, "the later instance would come first"
    assert verdict.because.startswith("breaks the flow of p: S0 -> S0: S0[t=")


def test_rows_that_cannot_share_a_loop_are_cut_apart() -> None:
    program = programs.elementwise_chain(2, (5, 6))
    turned = entry(terms=(("S0", "i", 1), ("S1", "i", -1)), at="outermost")
    result = solved(program, turned)
    assert outcomes(result) == [HONOURED]
    assert isinstance(result.tree.root, Sequence)


def test_terms_of_several_statements_are_kept_for_those_that_can() -> None:
    first = entry("S0", pin="i", at="outermost")
    result = solved(MATMUL, first, entry(terms=("j", 1), at="outermost"))
    assert outcomes(result) == [HONOURED, RELAXED]
    assert "holds for S1, S2 only" in result.verdicts[1].because


def test_required_terms_fail_by_name() -> None:
    wish = entry("S0", terms=(("i", 1), ("i", 2)), required=True)
    with pytest.raises(Conflict) as caught:
        solved(MATMUL, wish)
    assert caught.value.subject == str(wish)


def softmax_group() -> library.FusionGroup:
    return library.fuse(library.load("resources/models/softmax_96x512.onnx")).groups[0]


def test_a_skewed_schedule_is_legal_and_the_own_family_names_its_nearest_form() -> None:
    group = softmax_group()
    last = group.program.statements[-1].name
    skewed = entry(last, terms=(("i", 1), ("j", 1)), at="innermost")
    needed = dependences(group.program)
    result = schedule(group.program, needed, compose((Advice("user", Scenario((skewed,))),), group.program))
    assert outcomes(result) == [HONOURED] and result.verdicts[0].because == f"{last}: i + j"
    assert not check_schedule(group.program, needed, result.tree)
    assert isl_oracle.legal(group.program, result.tree)
    general = library.compile(group, library.default_recipe(group).advise("user", skewed))
    refused = own_refusal(general)
    assert f"{last} runs over i + j in dimension j of 607, but a loop is one iterator" in refused.reason
    assert refused.hint.startswith("nearest is one iterator there: pin i or j in place of the terms")
    assert library.check(general).status == "pass"
    nearest = entry(last, pin=("i", "j"), at="innermost")
    kernel = library.compile(group, library.default_recipe(group).advise("user", nearest))
    assert [v.outcome for v in kernel.verdicts if v.placed.author == "user"] == [HONOURED]


def test_leave_to_skew_that_is_not_needed_costs_no_kernel() -> None:
    group = softmax_group()
    wish = entry(terms="skew", at="outermost")
    kernel = library.compile(group, library.default_recipe(group).advise("user", wish))
    (verdict,) = (v for v in kernel.verdicts if v.placed.author == "user")
    assert verdict.outcome == HONOURED and verdict.because.startswith("allowed, but not needed")


# Random wishes on random programs, against isl.


def _wish(program: TensorProgram, draw: random.Random) -> Entry:
    statements = [s for s in program.statements if s.iterators]
    first, second = draw.choice(statements), draw.choice(statements)
    name = draw.choice(first.iterators).name
    at = draw.choice(["outermost", "innermost", f"after {name}", name])
    match draw.randrange(5):
        case 0:
            return entry(first.name, terms=(name, draw.choice([-1, 0, 1, 2])), at=at)
        case 1:
            return entry(terms=draw.choice(["skew", "shift"]), at=at)
        case 2:
            return entry(equal=(first.name, second.name), at=at)
        case 3:
            return entry(first.name, objective=name, at=at)
        case _:
            other = draw.choice(second.iterators).name
            total = ((1, first.name, name), (draw.choice([-1, 1]), second.name, other))
            return entry(terms=(total, draw.choice(["=", "<=", ">="]), draw.choice([0, 1])), at=at)


SPECIAL = [irregular.padded(), irregular.shift_in_place(), stencils.stencil_chain(), stencils.downwards()]


@pytest.mark.few(8)
@pytest.mark.parametrize("program", [*map(random_program, range(24)), *SPECIAL], ids=lambda p: p.name)
def test_schedules_under_random_wishes_pass_isl(program: TensorProgram) -> None:
    draw = random.Random(program.name)
    for _ in range(2):
        result = solved(program, *(_wish(program, draw) for _ in range(draw.randint(1, 3))))
        assert isl_oracle.legal(program, result.tree)
        assert isl_oracle.claims_hold(program, result.tree)
        assert "not reached" not in outcomes(result)


@pytest.mark.parametrize("seed", range(12))
def test_linear_constraints_agree_with_pins(seed: int) -> None:
    """`terms (i, 1)` with all others zero says what `pin i` says: both hold or neither does."""
    program = random_program(seed)
    draw = random.Random(seed)
    statement = draw.choice([s for s in program.statements if s.iterators])
    name = draw.choice(statement.iterators).name
    row = tuple((i.name, int(i.name == name)) for i in statement.iterators)
    pinned = solved(program, entry(statement.name, pin=name, at="outermost"))
    linear = solved(program, entry(statement.name, terms=row, at="outermost"))
    assert outcomes(pinned) == outcomes(linear)


# The solver and the algebra below.


@pytest.mark.parametrize("seed", range(30))
def test_integer_programs_against_enumeration(seed: int) -> None:
    draw = random.Random(seed)
    program = IntegerProgram()
    columns = [program.column(draw.randint(-2, 0), draw.randint(1, 3)) for _ in range(3)]
    rows = [([draw.randint(-3, 3) for _ in columns], draw.randint(-4, 4)) for _ in range(3)]
    for factors, low in rows:
        program.require(zip(columns, factors, strict=True), low, float("inf"))
    objectives = [{c: draw.randint(-3, 3) for c in columns} for _ in range(2)]
    points = itertools.product(*(range(program.lower[c], program.upper[c] + 1) for c in columns))
    legal = [p for p in points if all(sum(a * b for a, b in zip(f, p, strict=True)) >= low for f, low in rows)]

    def cost(point: tuple[int, ...]) -> list[int]:
        return [sum(objective[c] * point[c] for c in columns) for objective in objectives]

    found = program.minimise(objectives, Deadline(10, "test"))
    assert (found is None) == (not legal)
    if found is not None:
        assert found in legal
        assert cost(found) == min(map(cost, legal))


def test_a_deadline_is_an_error_with_the_programs_name() -> None:
    with pytest.raises(OverBudget, match="matmul_bias_relu"):
        solved(MATMUL, entry(objective="j"), options=Options(seconds=0))


@pytest.mark.parametrize("seed", range(20))
def test_the_complement_tells_independent_rows(seed: int) -> None:
    draw = random.Random(seed)
    width = draw.randint(1, 4)
    rows = [[draw.randint(-2, 2) for _ in range(width)] for _ in range(draw.randint(0, 3))]
    basis = complement(tuple(map(tuple, rows)), width)
    assert len(basis) == width - rank(rows)
    assert all(sum(a * b for a, b in zip(v, row, strict=True)) == 0 for v in basis for row in rows)
    new = [draw.randint(-2, 2) for _ in range(width)]
    independent = any(sum(a * b for a, b in zip(v, new, strict=True)) for v in basis)
    assert independent == (rank([*rows, new]) > rank(rows))
