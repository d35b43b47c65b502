"""The meaning of entries and alternatives, and what is said to have become of each."""

from __future__ import annotations

import pytest

from engine.recipe import Entry, Scenario, entry
from engine.scheduling.nodes import (
    DISABLED,
    HONOURED,
    INFEASIBLE,
    NO_MATCH,
    NOT_REACHED,
    RELAXED,
    Conflict,
)
from engine.scheduling.tree_text import report, show
from tests.scheduling.solving import outcomes, outline, solved
from tests.support import programs


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
