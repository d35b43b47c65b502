"""The default schedule, the meaning of entries and alternatives, verdicts, and the time a solve takes."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import pytest

from engine.errors import Illegal
from engine.poly.dependences import dependences
from engine.recipe import Advice, Entry, Scenario, entry
from engine.schedule.compose import compose
from engine.schedule.explain import report, show
from engine.schedule.legality import check_schedule
from engine.schedule.nodes import (
    DISABLED,
    HONOURED,
    INFEASIBLE,
    NO_MATCH,
    NOT_REACHED,
    RELAXED,
    Band,
    Conflict,
    ConstraintTree,
    Scheduled,
    Sequence,
    statements_of,
)
from engine.schedule.solve import schedule
from engine.tensor.nodes import TensorProgram
from tests import irregular_programs as irregular
from tests import programs
from tests.benchmarks.programs import convolution
from tests.random_programs import random_program
from tests.schedule import isl_oracle


def solved(program: TensorProgram, *entries: Entry, alternatives: tuple[Scenario, ...] = ()) -> Scheduled:
    advice = (Advice("user", Scenario(entries, alternatives)),)
    return schedule(program, dependences(program), compose(advice, program))


def outline(scheduled: Scheduled, program: TensorProgram) -> str:
    """The tree without the statements' expressions."""
    lines = show(scheduled.tree, program).splitlines()[1:]
    return "\n".join(line.split("[")[0].rstrip() if ": " in line and "[" in line else line for line in lines)


def outcomes(scheduled: Scheduled) -> list[str]:
    return [v.outcome for v in scheduled.verdicts]


DEFAULTS = {
    "softmax": (
        programs.softmax(),
        """\
  band i = 0 … 63  parallel
    sequence S0 → S1 S2 → S3
      band j = 0 … 127
        S0
      band j = 0 … 127
        S1
        S2
      band j = 0 … 127  parallel
        S3""",
    ),
    "layernorm": (
        programs.layernorm(),
        """\
  band i = 0 … 63  parallel
    sequence S0 → S1 S2 → S3 → S4
      band j = 0 … 127
        S0
      band j = 0 … 127
        S1
        S2
      S3
      band j = 0 … 127  parallel
        S4""",
    ),
    "matmul": (
        programs.matmul_bias_relu(),
        """\
  band i = 0 … 63  parallel
       j = 0 … 31  parallel
    sequence S0 → S1 S2
      band k = 0 … 127
        S0
      S1
      S2""",
    ),
    "chain": (
        programs.elementwise_chain(3),
        """\
  band i = 0 … 31  parallel
       j = 0 … 47  parallel
    S0
    S1
    S2""",
    ),
    "column reduction": (
        programs.column_reduction(),
        """\
  band j = 0 … 47  parallel
    sequence S0 S1 → S2
      band i = 0 … 63
        S0
        S1
      band i = 0 … 63  parallel
        S2""",
    ),
    "a vector over the columns comes first": (
        programs.bias_cast(),
        """\
  sequence S0 → S1 S2
    band j = 0 … 31  parallel
      S0
    band i = 0 … 63  parallel
         j = 0 … 31  parallel
      sequence S1 → S2
        band k = 0 … 127
          S1
        S2""",
    ),
    "terms in order": (
        replace(
            programs.matmul_bias_relu(associative=False),
            statements=programs.matmul_bias_relu(associative=False).statements[:1],
        ),
        """\
  band i = 0 … 63  parallel
       j = 0 … 31  parallel
    band k = 0 … 127
      S0""",
    ),
}


def test_a_padding_does_not_take_the_rows_and_columns_of_a_convolution_from_the_outer_band() -> None:
    """They could share the images alone; each nest of its own has four parallel loops around everything in it."""
    program = convolution(images=2, size=6, channels=4, filters=5)
    root = solved(program).tree.root
    assert isinstance(root, Sequence)
    assert [statements_of(child) for child in root.children] == [("S0",), ("S1", "S2", "S3")]
    assert [[m.name for m in child.members] for child in root.children] == [list("nhwc"), list("nhwf")]
    assert all(m.parallel for child in root.children for m in child.members)


def test_a_softmax_stays_one_nest_although_its_division_has_more_parallel_loops_alone() -> None:
    root = solved(programs.softmax()).tree.root
    assert isinstance(root, Band) and [m.name for m in root.members] == ["i"]


def centred_sum(rows: int = 8, columns: int = 32) -> TensorProgram:
    """m = row sum of x; d = a b; c = d (x - m); s = row sum of c: nothing in d waits for m."""
    box, ij = [("i", rows), ("j", columns)], ("i", "j")
    at, apply = programs.at, programs.apply
    square = (rows, columns)
    return programs.program(
        "centred_sum",
        {"x": square, "a": square, "b": square, "m": (rows,), "d": square, "c": square, "s": (rows,)},
        [
            programs.statement("S0", box, at("m", "i"), at("x", *ij), ("sum", "j")),
            programs.statement("S1", box, at("d", *ij), apply("mul", at("a", *ij), at("b", *ij))),
            programs.statement(
                "S2", box, at("c", *ij), apply("mul", at("d", *ij), apply("sub", at("x", *ij), at("m", "i")))
            ),
            programs.statement("S3", box, at("s", "i"), at("c", *ij), ("sum", "j")),
        ],
        "s",
    )


def test_a_statement_that_waits_for_nothing_keeps_its_parallel_loop() -> None:
    """S1 could join the loop of the second sum, which carries its terms; S2 must wait, so it joins."""
    program = centred_sum()
    expected = """\
  band i = 0 … 7  parallel
    sequence S0 → S1 → S2 S3
      band j = 0 … 31
        S0
      band j = 0 … 31  parallel
        S1
      band j = 0 … 31
        S2
        S3"""
    assert outline(solved(program), program) == expected


def test_a_statement_stays_with_its_reduction_where_nothing_is_to_wait_for() -> None:
    program = centred_sum()
    program = replace(program, statements=program.statements[1:], inputs=(*program.inputs, "m"))
    assert "band j = 0 … 31\n      S1\n      S2\n      S3" in outline(solved(program), program)


@pytest.mark.parametrize("name", DEFAULTS)
def test_default_schedules(name: str) -> None:
    program, expected = DEFAULTS[name]
    assert outline(solved(program), program) == expected


def test_default_schedule_of_attention_shares_batch_and_rows() -> None:
    program = programs.attention()
    text = outline(solved(program), program)
    assert text.startswith(
        "  band b = 0 … 5  parallel\n       i = 0 … 39  parallel\n    sequence S0 S1 S2 → S3 S4 → S5 → S6"
    )


def test_transposed_statements_share_one_nest() -> None:
    program = programs.transpose_add()
    (member, other), child = (b := solved(program).tree.root).members, b.child
    assert {s: str(row) for s, row in member.rows.items()} == {"S0": "i", "S1": "b", "S2": "b"}
    assert {s: str(row) for s, row in other.rows.items()} == {"S0": "j", "S1": "a", "S2": "a"}
    assert child.statements == ("S0", "S1", "S2")


def test_names_are_unique_on_a_path() -> None:
    """s[a] = sum over b of x[a, b], read as y[b, a]: two dimensions want the name of the other's iterator."""
    box = [("i", 8), ("j", 8)]
    first = programs.statement("S0", box, programs.at("t", "i", "j"), programs.at("x", "i", "j"))
    turned = [("j", 8), ("i", 8)]
    second = programs.statement("S1", turned, programs.at("u", "j", "i"), programs.at("t", "j", "i"))
    program = programs.program("turned", {"x": (8, 8), "t": (8, 8), "u": (8, 8)}, [first, second], "u")
    names = [m.name for m in solved(program).tree.root.members]
    assert len(set(names)) == 2


RANDOM = [*map(random_program, range(60))]
SPECIAL = [
    irregular.reshape(),
    irregular.padded(),
    irregular.concat(),
    irregular.overlapping(),
    irregular.shift_in_place(),
    programs.in_place_update((5, 6)),
    programs.softmax(5, 6, associative=False),
    programs.layernorm(5, 6, associative=False),
]


@pytest.mark.parametrize("program", RANDOM + SPECIAL, ids=lambda p: p.name)
def test_schedules_pass_isl_on_memory_accesses(program: TensorProgram) -> None:
    tree = solved(program).tree
    assert isl_oracle.legal(program, tree)
    assert isl_oracle.claims_hold(program, tree)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1500, 50))
def test_schedules_of_five_hundred_programs_pass_isl(seed: int) -> None:
    """500 random programs of 3 to 12 statements; half a minute:

    python -m pytest -m slow tests/schedule/test_solve.py
    """
    for number in range(seed, seed + 50):
        program = random_program(number, 3 + number % 10)
        tree = solved(program).tree
        assert isl_oracle.legal(program, tree), program
        assert isl_oracle.claims_hold(program, tree), program


def test_a_program_without_any_order_is_illegal() -> None:
    """p[i] = p[n - 1 - i] in place reads values that are already gone, in every order."""
    from engine.tensor.index import Index

    mirrored = programs.at("p", Index.of("i") * -1 + 7)
    swap = programs.statement("S0", [("i", 8)], programs.at("p", "i"), mirrored)
    program = programs.program("mirror", {"p": (8,)}, [swap], "p", inputs="p")
    with pytest.raises(Illegal, match="mirror"):
        solved(program)


# Entries, one by one.


def test_pin_outermost_moves_a_loop_outside() -> None:
    program = programs.matmul_bias_relu()
    result = solved(program, entry(pin="j", at="outermost"))
    assert outcomes(result) == [HONOURED]
    assert [m.name for m in result.tree.root.members] == ["j", "i"]


def test_pin_innermost_differs_by_statement() -> None:
    program = programs.transpose_add()
    result = solved(program, entry("S0", pin="j", at="innermost"), entry("S2", pin="a", at="innermost"))
    assert outcomes(result) == [HONOURED, HONOURED]
    result = solved(program, entry("S0", pin="j", at="innermost"), entry("S2", pin="b", at="innermost"))
    assert outcomes(result) == [HONOURED, HONOURED], "the statements are cut apart to obey both"
    assert len(result.tree.root.children) == 2


def test_pin_after_a_dimension() -> None:
    program = programs.matmul_bias_relu()
    result = solved(program, entry("S0", pin="k", at="after i"))
    assert outcomes(result) == [HONOURED]
    assert "band k = 0 … 127\n        band j" in outline(result, program)


def test_reduction_outermost_and_parallel_needs_an_associative_reduction() -> None:
    wishes = (entry("S0", pin="k", at="outermost"), entry("S0", parallel=True, at="outermost"))
    assert outcomes(solved(programs.matmul_bias_relu(), *wishes)) == [HONOURED, HONOURED]
    result = solved(programs.matmul_bias_relu(associative=False), *wishes)
    assert outcomes(result) == [HONOURED, INFEASIBLE]
    witness = result.verdicts[1].witness
    assert witness is not None
    assert witness.text == "S0[i=0, j=0, k=0] adds to c[0, 0], S0[i=0, j=0, k=1] adds the next term first"
    assert "collides with “S0 @ outermost: pin k”" in result.verdicts[1].because


def test_parallel_false_is_a_flag() -> None:
    result = solved(programs.elementwise_chain(), entry(parallel=False, at="i"))
    assert [m.parallel for m in result.tree.root.members] == [False, True]


def test_parallel_on_an_associative_reduction_sets_the_flag() -> None:
    program = programs.matmul_bias_relu()
    assert "k = 0 … 127  parallel" in show(solved(program, entry("S0", parallel=True, at="k")).tree, program)


def test_reversed_cut_is_infeasible_with_two_instances() -> None:
    program = programs.softmax()
    result = solved(program, entry(cut=("S1", "S0"), at="outermost"))
    (verdict,) = result.verdicts
    assert verdict.outcome == INFEASIBLE
    assert verdict.witness is not None
    assert verdict.witness.text == "S0[i=0, j=0] writes m[0], S1[i=0, j=0] reads it first"
    assert result.tree == solved(program).tree, "a dropped entry leaves no trace"


def test_reversed_cut_through_a_third_statement_is_infeasible() -> None:
    (verdict,) = solved(programs.softmax(), entry(cut=("S3", "S0"), at="innermost")).verdicts
    assert (verdict.outcome, verdict.witness is not None) == (INFEASIBLE, True)


def test_cut_at_each_place() -> None:
    program = programs.elementwise_chain(2)
    at = {}
    for dimension in ("outermost", "after i", "innermost", "j", "after j"):
        result = solved(program, entry(cut=("S0", "S1"), at=dimension))
        assert outcomes(result) == [HONOURED], dimension
        at[dimension] = outline(result, program).index("sequence")
    assert at["outermost"] < at["after i"] == at["innermost"] == at["j"] < at["after j"]


def test_marks_and_splits_attach_to_the_dimensions_they_name() -> None:
    program = programs.layernorm()
    result = solved(
        program,
        entry(mark=("block", 1), at="i"),
        entry(mark=("lane", 32), at="innermost"),
        entry("S4", split=4, at="j"),
    )
    assert outcomes(result) == [HONOURED] * 3
    text = show(result.tree, program)
    assert text.count("[block 1]") == 1
    assert text.count("[lane 32]") == 3, "the row loop is innermost for S3 alone, and not marked"
    assert text.count("[split 4]") == 1


def test_equal_compares_coefficients_in_one_loop_or_in_two() -> None:
    program = programs.softmax()
    together = entry("S1", "S2", equal=("S1", "S2"), at="innermost")
    apart = entry("S0", "S2", equal=("S0", "S2"), at="innermost")
    assert outcomes(solved(program, together, apart)) == [HONOURED, HONOURED]


@pytest.mark.parametrize(
    ("wish", "outcome"),
    [
        (entry("S9", pin="i", at="outermost"), NO_MATCH),
        (entry("S0", pin="q", at="outermost"), NO_MATCH),
        (entry("S0", pin="i", at="after q"), NO_MATCH),
        (entry("S0", mark=("vector", 4), at="q"), NO_MATCH),
        (entry("S0", split=4, at="after j"), NO_MATCH),
        (entry(cut=("S0", "S8"), at="outermost"), NO_MATCH),
        (entry("S0", terms=(("i", 1),), at="outermost"), HONOURED),
        (entry("S0", objective="i", at="outermost"), HONOURED),
        (entry("S0", pin="i", at="outermost", enabled=False), DISABLED),
        (entry("S0", pin="j", at="i"), INFEASIBLE),
        (entry("S0", pin="i", at="outermost"), HONOURED),
    ],
    ids=str,
)
def test_every_entry_gets_its_verdict(wish: Entry, outcome: str) -> None:
    result = solved(programs.softmax(), wish)
    assert outcomes(result) == [outcome]
    assert result.verdicts[0].because


def test_a_pin_that_some_statements_cannot_keep_is_relaxed() -> None:
    first = entry("S0", pin="i", at="outermost")
    result = solved(programs.matmul_bias_relu(), first, entry("S0", "S1", pin="j", at="outermost"))
    assert outcomes(result) == [HONOURED, RELAXED]
    assert "holds for S1 only" in result.verdicts[1].because


@pytest.mark.parametrize(
    "wish",
    [
        entry(cut=("S1", "S0"), at="outermost", required=True),
        entry("S9", pin="i", at="outermost", required=True),
        entry("S0", mark=("vector", 4), at="q", required=True),
        entry("S0", terms=(("i", 1), ("i", 2)), at="outermost", required=True),
    ],
    ids=str,
)
def test_a_required_entry_is_never_dropped_silently(wish: Entry) -> None:
    with pytest.raises(Conflict) as caught:
        solved(programs.softmax(), entry(mark=("block", 1), at="i"), wish)
    assert caught.value.subject == str(wish)
    assert caught.value.exit_code == 1
    assert len(caught.value.verdicts) == 2


def test_required_entries_win_over_soft_ones_before_them() -> None:
    soft, required = entry("S0", pin="i", at="outermost"), entry("S0", pin="j", at="outermost", required=True)
    assert outcomes(solved(programs.elementwise_chain(), soft, required)) == [INFEASIBLE, HONOURED]


# Alternatives.


def test_the_first_alternative_that_holds_is_taken() -> None:
    program = programs.matmul_bias_relu(associative=False)
    outer_k = Scenario((entry("S0", pin="k", at="outermost"), entry("S0", parallel=True, at="outermost")))
    outer_j = Scenario((entry("S0", pin="j", at="outermost"),))
    unused = Scenario((entry("S0", pin="i", at="outermost"),))
    result = solved(program, alternatives=(outer_k, outer_j, unused))
    assert outcomes(result) == [NOT_REACHED, INFEASIBLE, HONOURED, NOT_REACHED]
    assert result.tree.root.members[0].name == "j"


def test_backtracking_over_two_levels() -> None:
    """Outer i is fine, but all that may follow it is not: the second alternative is taken."""
    program = programs.matmul_bias_relu(associative=False)
    impossible = Scenario((entry("S0", pin="k", at="after i"), entry("S0", parallel=True, at="k")))
    first = Scenario((entry("S0", pin="i", at="outermost"),), (impossible,))
    second = Scenario((entry("S0", pin="j", at="outermost"),))
    result = solved(program, alternatives=(first, second))
    assert result.tree.root.members[0].name == "j"
    assert outcomes(result)[-1] == HONOURED


def test_when_no_alternative_holds_whole_the_first_is_followed_in_part() -> None:
    bad = entry(cut=("S1", "S0"), at="outermost")
    first = Scenario((entry(pin="i", at="outermost"), bad))
    result = solved(programs.softmax(), alternatives=(first, Scenario((bad,))))
    assert outcomes(result) == [HONOURED, INFEASIBLE, INFEASIBLE]
    assert any("first one is followed" in line for line in result.log)


def test_required_entries_of_alternatives_bind_only_where_they_are_taken() -> None:
    bad = Scenario((entry(cut=("S1", "S0"), at="outermost", required=True),))
    good = Scenario((entry(pin="i", at="outermost"),))
    assert outcomes(solved(programs.softmax(), alternatives=(bad, good))) == [INFEASIBLE, HONOURED]
    with pytest.raises(Conflict):
        solved(programs.softmax(), alternatives=(bad, bad))


def test_report_says_what_became_of_every_entry() -> None:
    program = programs.softmax()
    text = report(solved(program, entry(cut=("S1", "S0"), at="outermost", because="just to see")), program)
    assert "infeasible  user: all @ outermost: cut S1 | S0" in text
    assert "decisions\n  given up" in text


# Time.


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
