"""Conflicts of required entries: the entries that cannot hold together, and repairs that were tried."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import combinations, count

import pytest

from engine.poly.dependences import dependences
from engine.recipe import Advice, Entry, Scenario, entry
from engine.rewrite.apply import rewritten
from engine.scheduling.compose import compose
from engine.scheduling.conflict import repair_advice as repaired_advice
from engine.scheduling.nodes import (
    CUT,
    FIRST_ANSWER,
    HONOURED,
    NOT_REACHED,
    RELAX,
    REWRITE,
    SWITCH_OFF,
    WHOLE,
    Conflict,
    Options,
    Repair,
    Scheduled,
)
from engine.scheduling.solve import schedule
from engine.scheduling.unsat_core import NOT_MINIMAL
from engine.support.errors import OverBudget
from engine.tensor.nodes import TensorProgram
from tests.support import programs

ORDERED = programs.matmul_bias_relu(associative=False)


def solved(program: TensorProgram, *entries: Entry, options: Options = WHOLE) -> Scheduled:
    advice = (Advice("user", Scenario(entries)),)
    made = rewritten(program, advice)
    return schedule(made.program, dependences(made.program), compose(advice, made.program, made.verdicts), options)


def conflict(program: TensorProgram, *entries: Entry, options: Options = WHOLE) -> Conflict:
    with pytest.raises(Conflict) as caught:
        solved(program, *entries, options=options)
    return caught.value


def repaired(program: TensorProgram, entries: tuple[Entry, ...], repair: Repair) -> Scheduled:
    """The solve after a repair, applied as a window would."""
    (changed,) = repaired_advice((Advice("user", Scenario(entries)),), repair)
    return solved(program, *changed.scenario.entries)


def must(*statements: str, **fields: object) -> Entry:
    return entry(*statements, required=True, **fields)  # type: ignore[arg-type]


OUTER_K = (must("S0", pin="k", at="outermost"), must("S0", parallel=True, at="outermost"))
THREE = tuple(must("S0", pin=pair, at="outermost") for pair in combinations("ijk", 2))


def test_a_set_that_is_not_known_to_be_minimal_is_told() -> None:
    """Without any time for it the conflict names all that may have a part in it, and so it says."""
    entries = (must("S2", pin="i", at="outermost"), *OUTER_K)
    assert NOT_MINIMAL not in conflict(ORDERED, *entries).reason
    assert len(conflict(ORDERED, *entries).conflicting) == 2
    hurried = conflict(ORDERED, *entries, options=Options(explaining=0.0, repairing=0.0))
    assert NOT_MINIMAL in hurried.reason and not hurried.is_final
    assert len(hurried.conflicting) == 3 and not hurried.repairs


def test_the_first_answer_has_the_same_outcomes_and_the_last_one_the_repairs() -> None:
    entries = (must("S2", pin="i", at="outermost"), *OUTER_K)
    first, last = (conflict(ORDERED, *entries, options=options) for options in (FIRST_ANSWER, WHOLE))
    assert [v.outcome for v in first.verdicts] == [v.outcome for v in last.verdicts]
    assert (first.is_final, last.is_final) == (False, True)
    assert not first.repairs and last.repairs


def test_the_search_for_the_smallest_conflict_ends_when_nobody_waits_for_it() -> None:
    """Wherever it is broken off, it names at least the entries that conflict, and offers only what was tried."""
    entries = (must("S2", split=4, at="i"), *THREE)
    whole, ends = conflict(ORDERED, *entries), Counter[str]()
    for patience in range(0, 36, 3):
        asked = count()
        options = Options(should_stop=lambda asked=asked, patience=patience: next(asked) >= patience)  # type: ignore[misc]
        try:
            found = conflict(ORDERED, *entries, options=options)
        except OverBudget:
            ends["nothing"] += 1  # the search for a schedule itself was broken off
            continue
        if found.is_final and len(found.repairs) == len(whole.repairs):
            ends["all"] += 1
            continue
        ends["a part"] += 1
        assert {v.placed.path for v in found.verdicts} == {v.placed.path for v in whole.verdicts}
        assert {p.path for p in whole.conflicting} <= {p.path for p in found.conflicting}
        assert len(found.repairs) < len(whole.repairs)
    assert ends.keys() == {"nothing", "a part", "all"}


def test_a_search_without_time_tells_what_it_has() -> None:
    """Soft entries for which no time is left are not reached; a required one leaves nothing to tell."""
    soft = replace(OUTER_K[0], required=False)
    deadline = count()
    late = Options(should_stop=lambda: next(deadline) >= 1)  # the schedule without entries is built
    found = solved(ORDERED, soft, options=late)
    assert [v.outcome for v in found.verdicts] == [NOT_REACHED] and "takes more than" in found.verdicts[0].because
    assert found.tree == solved(ORDERED).tree
    deadline = count()
    with pytest.raises(OverBudget, match="takes more than"):
        solved(ORDERED, OUTER_K[0], options=late)


CONFLICTS = {
    "one entry against the dependences": (programs.softmax(), (must(cut=("S1", "S0"), at="outermost"),), {0}),
    "two entries": (ORDERED, (must("S2", pin="i", at="outermost"), *OUTER_K), {1, 2}),
    "three entries, any two of which hold": (ORDERED, (must("S2", split=4, at="i"), *THREE), {1, 2, 3}),
    "a mark that finds nothing": (programs.softmax(), (must("S0", mark=("vector", 4), at="q"),), {0}),
    "a constraint that contradicts itself": (ORDERED, (must("S0", terms=(("i", 1), ("i", 2))),), {0}),
    "a dimension that only a cut makes": (
        programs.transpose_add(),
        (must("S1", terms="skew", at="i"), must("S2", mark=("thread", 32), at="a")),
        {0},
    ),
    "coefficients against a pin": (
        ORDERED,
        (must("S0", pin="i", at="outermost"), must("S0", terms=("j", 1), at="outermost")),
        {0, 1},
    ),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_the_conflicting_entries_are_the_fewest(name: str) -> None:
    program, entries, expected = CONFLICTS[name]
    found = conflict(program, *entries)
    numbers = {placed.path[-1] for placed in found.conflicting}
    assert numbers == expected
    assert len(found.conflicting) == len(numbers)
    for left_out in numbers:
        solved(program, *(e for k, e in enumerate(entries) if k in numbers - {left_out}))


@pytest.mark.parametrize("name", CONFLICTS)
def test_every_repair_that_is_offered_works(name: str) -> None:
    program, entries, _ = CONFLICTS[name]
    found = conflict(program, *entries)
    assert {r.kind for r in found.repairs} >= {RELAX, SWITCH_OFF}
    assert found.repairs[0].text in found.hint
    for repair in found.repairs:
        assert "\n" not in repair.text
        result = repaired(program, entries, repair)
        required = [v for v in result.verdicts if v.placed.entry.required and v.placed.entry.enabled]
        assert all(v.outcome == HONOURED for v in required)


def test_the_reason_names_all_other_entries() -> None:
    found = conflict(ORDERED, *THREE)
    assert found.subject == str(THREE[2])
    assert "cannot hold together with “required S0 @ outermost: pin i, j”" in found.reason
    assert "“required S0 @ outermost: pin i, k”" in found.reason


def test_a_reversed_cut_is_offered_in_order() -> None:
    found = conflict(programs.softmax(), must(cut=("S1", "S0"), at="outermost"))
    (repair,) = [r for r in found.repairs if r.kind == CUT]
    assert repair.text == "split in the order of the dependences: “required all @ outermost: cut S0 | S1”"


def test_a_part_that_the_others_stand_between_is_split() -> None:
    """S3 needs what S1 and S2 make: no order of these two parts will do, but three parts do."""
    entries = (must(cut=(("S0", "S3"), ("S1", "S2")), at="outermost"),)
    found = conflict(programs.softmax(), *entries)
    (repair,) = [r for r in found.repairs if r.kind == CUT]
    assert repair.entry.value == (("S0",), ("S1", "S2"), ("S3",))
    assert repaired(programs.softmax(), entries, repair).verdicts[0].outcome == HONOURED
    assert repair.text in found.hint, "it loses nothing that was asked for"


def test_a_cut_that_lets_the_rest_hold_is_offered_as_an_entry_more() -> None:
    """S1 shares its loops with S2, which are called a and b; apart from S2 they are called as in S0, i and j."""
    entries = (must("S1", terms="skew", at="i"), must("S2", mark=("thread", 32), at="a"))
    found = conflict(programs.transpose_add(), *entries)
    (repair,) = [r for r in found.repairs if r.kind == CUT]
    assert repair.added and repair.text == "split here: “required all @ outermost: cut S0 S1 | S2”"
    after = repaired_advice((Advice("user", Scenario(entries)),), repair)
    assert after[0].scenario.entries == (entries[0], repair.entry, entries[1])


def test_an_ordered_reduction_is_offered_as_associative() -> None:
    found = conflict(ORDERED, *OUTER_K)
    (repair,) = [r for r in found.repairs if r.kind == REWRITE]
    assert repair.text == "let S0 add the terms of c in any order"
    assert str(repair.entry) == "rewrite associative S0"
    assert all(r.kind != REWRITE for r in conflict(ORDERED, *THREE).repairs), "it would not help there"


def test_a_statement_that_cannot_follow_may_be_left_out() -> None:
    first, wide = must("S0", pin="i", at="outermost"), must("S0", "S1", pin="j", at="outermost")
    found = conflict(ORDERED, first, wide)
    assert "leave S0 out: “required S1 @ outermost: pin j”" in [r.text for r in found.repairs]


def test_a_repair_of_one_of_two_conflicts_names_the_other() -> None:
    cut = must(cut=("S2", "S1"), at="outermost")
    found = conflict(ORDERED, *OUTER_K, cut)
    texts = [r.text for r in found.repairs]
    assert texts
    assert all(f"(then “{cut}” still cannot hold)" in text for text in texts)


def test_a_soft_entry_never_takes_part_at_the_root() -> None:
    soft = replace(OUTER_K[0], required=False)
    result = solved(ORDERED, soft, OUTER_K[1])
    assert result.verdicts[1].outcome == HONOURED


def test_an_entry_that_holds_of_nothing_is_the_conflict_by_itself() -> None:
    """Inside i, S1 has no dimension left: nothing contradicts the pin, and nothing obeys it."""
    vacuous = must("S1", pin="i", at="after i")
    found = conflict(ORDERED, vacuous, must("S1", pin="i", at="innermost"), must("S1", pin="j", at="innermost"))
    assert [placed.entry for placed in found.conflicting] == [vacuous]
    assert found.subject == str(vacuous)
    assert "after i" in found.reason


@pytest.mark.parametrize("seed", range(12))
def test_random_required_pins_report_a_set_without_spare_members(seed: int) -> None:
    draw = random.Random(seed)
    wishes = []
    for _ in range(8):
        name = draw.choice(["S0", "S1", "S2"])
        allowed = tuple(draw.sample(["i", "j", "k"] if name == "S0" else ["i", "j"], draw.choice([1, 2])))
        wishes.append(must(name, pin=allowed, at=draw.choice(["outermost", "innermost", "after i"])))
    found = conflict(ORDERED, *wishes)
    chosen = [wishes[placed.path[-1]] for placed in found.conflicting]
    assert {p.path for p in conflict(ORDERED, *chosen).conflicting} == {(0, k) for k in range(len(chosen))}
    for left_out in range(len(chosen)):
        solved(ORDERED, *chosen[:left_out], *chosen[left_out + 1 :])
