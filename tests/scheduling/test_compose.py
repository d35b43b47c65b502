"""Advice of several authors as one constraint tree, and names that the program does not have."""

from __future__ import annotations

import pytest

from engine.poly.dependences import dependences
from engine.recipe import Advice, Scenario, entry
from engine.scheduling.compose import MAX_SCENARIOS, compose, count_paths, validate
from engine.scheduling.nodes import DISABLED, NOT_REACHED
from engine.scheduling.solve import schedule
from engine.support.errors import BadInput
from tests.support import programs

PROGRAM = programs.softmax()


def choice(*values: int) -> Scenario:
    """Alternatives for one split."""
    return Scenario((), tuple(Scenario((entry("S0", split=v, at="j"),)) for v in values))


def test_root_entries_come_in_order_of_authority() -> None:
    advice = [
        Advice("tune", Scenario((entry(split=2, at="j"),))),
        Advice("user", Scenario((entry(split=4, at="j"),))),
    ]
    tree = compose(advice, PROGRAM)
    assert [p.author for p in tree.root.entries] == ["user", "tune"]
    assert [p.path for p in tree.root.entries] == [(1, 0), (0, 0)], "paths point into the recipe as it was given"


def test_alternatives_of_two_authors_multiply_best_first() -> None:
    tree = compose([Advice("user", choice(1, 2)), Advice("map", choice(3, 4))], PROGRAM)
    paths = [(a.entries[0].entry.value, b.entries[0].entry.value) for a in tree.root.children for b in a.children]
    assert paths == [(1, 3), (1, 4), (2, 3), (2, 4)]


def test_paths_are_bounded_and_what_is_left_out_is_reported() -> None:
    advice = [Advice("user", choice(*range(1, 7))), Advice("map", choice(*range(1, 7)))]
    tree = compose(advice, PROGRAM)
    assert count_paths(tree.root) <= MAX_SCENARIOS
    assert len(tree.beyond) == 4
    verdicts = schedule(PROGRAM, dependences(PROGRAM), tree).verdicts
    assert len(verdicts) == 12 and len({v.placed.path for v in verdicts}) == 12
    assert [v.outcome for v in verdicts[-4:]] == [NOT_REACHED] * 4


def test_disabled_entries_leave_the_tree_but_keep_a_verdict() -> None:
    off = entry("S0", pin="j", at="outermost", required=True, enabled=False)
    tree = compose([Advice("user", Scenario((off,)))], PROGRAM)
    assert not tree.root.entries
    assert [v.outcome for v in schedule(PROGRAM, dependences(PROGRAM), tree).verdicts] == [DISABLED]


@pytest.mark.parametrize(
    ("wish", "is_known"),
    [
        (entry("S7", split=4, at="j"), False),
        (entry(cut=("S0", "S7")), False),
        (entry("S0", "S1", equal=("S0", "S7")), False),
        (entry("S0", pin="q", at="outermost"), True),
        (entry(terms=(((1, "S0", "i"), (-1, "S1", "const")), "<=", 0)), True),
        (entry("S0", objective="q"), True),
        (entry("S0", terms="skew"), True),
        (entry("S0", split=4, at="after q"), True),
        (entry(pin="j", at="innermost"), True),
    ],
    ids=str,
)
def test_statements_that_do_not_exist_are_found(wish, is_known: bool) -> None:
    """Iterators and dimensions that do not exist are no error: their entries get the verdict "matches nothing"."""
    advice = (Advice("user", Scenario((), (Scenario((wish,)),))),)
    if is_known:
        validate(advice, PROGRAM)
    else:
        with pytest.raises(BadInput, match="S7"):
            validate(advice, PROGRAM)
