"""Advice that nobody should write: ten thousand entries, huge numbers, names that do not exist, opposite claims."""

from __future__ import annotations

from collections import Counter
from time import perf_counter

import pytest

from engine.poly.dependences import dependences
from engine.recipe import Advice, Entry, Scenario, entry
from engine.scheduling.compose import compose
from engine.scheduling.legality import check_schedule
from engine.scheduling.nodes import HONOURED, INFEASIBLE, NO_MATCH, Conflict, Scheduled
from engine.scheduling.solve import schedule
from engine.scheduling.text import from_text
from engine.support.errors import BadInput
from tests.support import programs

SOFTMAX = programs.softmax()
COUNT = 10_000
SECONDS = 5.0
"""Far above what it takes, a fraction of a second, and far below what a search for each entry would."""


def solved(*entries: Entry) -> Scheduled:
    needed = dependences(SOFTMAX)
    result = schedule(SOFTMAX, needed, compose((Advice("user", Scenario(entries)),), SOFTMAX))
    assert not check_schedule(SOFTMAX, needed, result.tree)
    return result


MANY = {
    "the same wish again and again": (
        [entry("S0", pin="i", at="outermost")] * COUNT,
        {HONOURED: COUNT},
    ),
    "the same order again and again": (
        [entry("S0", pin="i", at="outermost", required=True)] * COUNT,
        {HONOURED: COUNT},
    ),
    "wishes by turns": (
        [entry(pin="ij"[k % 2], at="outermost") for k in range(COUNT)],
        {HONOURED: COUNT // 2, INFEASIBLE: COUNT // 2},
    ),
    "cuts against a dependence": (
        [entry(cut=("S1", "S0"), at="outermost")] * COUNT,
        {INFEASIBLE: COUNT},
    ),
    "three coefficients by turns": (
        [entry("S0", terms=("i", 1 + k % 3), at="outermost") for k in range(COUNT)],
        {HONOURED: 3334, INFEASIBLE: 6666},
    ),
    "a different split each": (
        [entry("S0", split=1 + k, at="i") for k in range(COUNT)],
        {HONOURED: COUNT},
    ),
    "names that are not there": (
        [entry(f"S{k + 7}", pin=f"q{k}", at=f"z{k}") for k in range(900)],
        {NO_MATCH: 900},
    ),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", MANY)
def test_ten_thousand_entries_get_their_verdicts_at_once(name: str) -> None:
    entries, expected = MANY[name]
    begin = perf_counter()
    result = solved(*entries)
    assert perf_counter() - begin < SECONDS
    assert Counter(v.outcome for v in result.verdicts) == expected


def test_too_many_different_wishes_are_refused_at_once() -> None:
    entries = [entry("S0", terms=("i", k - COUNT // 2), at="outermost") for k in range(COUNT)]
    begin = perf_counter()
    with pytest.raises(BadInput, match="10,000 different entries steer its search") as caught:
        solved(*entries)
    assert perf_counter() - begin < SECONDS
    assert caught.value.subject == "softmax" and "at most 1,000" in caught.value.hint


def test_ten_thousand_orders_that_exclude_each_other_are_a_conflict_of_two() -> None:
    begin = perf_counter()
    with pytest.raises(Conflict) as caught:
        solved(*(entry("S0", pin="ij"[k % 2], at="outermost", required=True) for k in range(COUNT)))
    assert perf_counter() - begin < SECONDS
    assert [placed.path for placed in caught.value.conflicting] == [(0, 0), (0, 1)]


@pytest.mark.parametrize(
    ("line", "outcome", "because"),
    [
        ("S0 @ outermost: terms (i, 1099511627776)", NO_MATCH, "too large"),
        ('S0 @ outermost: terms (((99999999999999999999, S0, i), (1, S0, j)), "<=", 3)', NO_MATCH, "too large"),
        ("S0 @ outermost: objective (i, 9999999999999999)", NO_MATCH, "too large"),
        ("S0 @ outermost: terms (i, 1048576)", HONOURED, "1048576*i"),
        ("S0 @ q: pin i", NO_MATCH, "at q"),
        ("S0 @ after q: parallel true", NO_MATCH, "no dimension after q"),
        ("S9 @ i: pin i", NO_MATCH, "no statement S9"),
        ("S0 @ i: pin zz", NO_MATCH, "no iterator zz"),
    ],
)
def test_what_cannot_be_meant_says_so(line: str, outcome: str, because: str) -> None:
    (advice,) = from_text(f"advice user\n  {line}\n")
    (verdict,) = solved(*advice.scenario.entries).verdicts
    assert verdict.outcome == outcome
    assert because in verdict.because


@pytest.mark.parametrize("parts", ["S0 S1 | S1 S2", "S0 | S1 | S0", "S0 S0 | S1"])
def test_a_cut_that_names_a_statement_twice_is_refused_with_its_line(parts: str) -> None:
    with pytest.raises(BadInput, match="twice") as caught:
        from_text(f"advice user\n  all @ i: cut {parts}\n", "softmax_0")
    assert caught.value.subject == "softmax_0, line 2"


@pytest.mark.parametrize("first", [True, False])
def test_the_first_of_two_opposite_claims_holds(first: bool) -> None:
    result = solved(entry("S0", "S1", parallel=first, at="i"), entry("S0", parallel=not first, at="i"))
    assert [v.outcome for v in result.verdicts] == [HONOURED, INFEASIBLE]
    assert result.verdicts[1].because.startswith("collides with “S0, S1 @ i: parallel")
    assert result.tree.root.members[0].parallel is first


def test_opposite_orders_are_a_conflict_of_both() -> None:
    with pytest.raises(Conflict) as caught:
        solved(entry(parallel=True, at="i", required=True), entry("S0", parallel=False, at="i", required=True))
    assert [placed.path for placed in caught.value.conflicting] == [(0, 0), (0, 1)]
    assert {repair.kind for repair in caught.value.repairs} >= {"relax", "switch off"}
