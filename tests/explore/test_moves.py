"""The menu of next steps: what it quotes is what one gets, and what it refuses has a reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count

import pytest

import engine
from engine.documents.exploration import MoveDoc
from tests.explore.groups import FILES, SHARED, advised, group_of, needs_shared

SOFTMAX = "softmax_96x512"
USER = "advice user\n  all @ i: mark block 4  # tried by hand\n"


def titled(moves: tuple[MoveDoc, ...], title: str) -> MoveDoc:
    (found,) = (move for move in moves if move.title == title)
    return found


@pytest.mark.few(3)
@pytest.mark.parametrize("file", FILES)
def test_applying_a_move_gives_exactly_what_it_quotes(file: str) -> None:
    group = group_of(file)
    now = engine.compile(group)
    before = engine.predict(now).microseconds
    menu = engine.moves(group)
    assert menu.complete and menu.possible
    for move in menu.possible:
        kernel = engine.compile(group, engine.replace_advice(now.recipe, group, move.recipe))
        assert move.time is not None and move.time.origin == "predicted"
        assert engine.predict(kernel).microseconds == move.time.microseconds
        assert move.gain == pytest.approx(1 - move.time.microseconds / before, abs=1e-12)
        assert kernel.source.text != now.source.text
        honoured = {str(v.placed.entry) for v in kernel.verdicts if v.outcome == "honoured"}
        assert set(move.entries) <= honoured
        assert move.why_not == "" and move.recipe != menu.recipe


@needs_shared
@pytest.mark.parametrize("name", ["layernorm", "dropoutgrad_reducesum"])
def test_so_it_does_for_published_operators(name: str) -> None:
    group = engine.fuse(engine.load(SHARED / "akg" / "stitch" / f"{name}.json")).groups[0]
    recipe = engine.default_recipe(group)
    menu = engine.moves(group, recipe)
    assert len(menu.possible) > 5
    for move in menu.possible:
        kernel = engine.compile(group, engine.replace_advice(recipe, group, move.recipe))
        assert move.time is not None and engine.predict(kernel).microseconds == move.time.microseconds


@pytest.mark.parametrize("file", FILES)
def test_the_menu_is_sorted_and_what_is_impossible_has_a_reason(file: str) -> None:
    menu = engine.moves(group_of(file))
    gains = [move.gain for move in menu.possible]
    assert gains == sorted(gains, reverse=True)
    assert len({move.title for move in (*menu.possible, *menu.impossible)}) == len(menu.possible) + len(menu.impossible)
    for move in menu.impossible:
        assert move.why_not and move.time is None and move.recipe == ""
        assert "report it" not in move.why_not


def test_an_interchange_that_only_the_general_family_follows_is_possible_and_tells_its_cost() -> None:
    move = titled(engine.moves(group_of(SOFTMAX)).possible, "Interchange i and j")
    assert move.entries[0] == "S0, S1, S2, S3 @ outermost: pin j"
    kernel = engine.compile(group_of(SOFTMAX), advised(group_of(SOFTMAX), move.recipe))
    now, then = (engine.predict(one).microseconds for one in (engine.compile(group_of(SOFTMAX)), kernel))
    assert move.gain == pytest.approx(1 - then / now, abs=1e-12)
    assert kernel.family == "general"
    assert titled(engine.moves(group_of("transpose_2x12x64x64")).possible, "Interchange k and l").kind == "order"


def test_a_join_that_a_reduction_forbids_shows_two_instances() -> None:
    move = titled(engine.moves(group_of(SOFTMAX)).impossible, "Join S0 with S1 S2")
    assert "y_max" in move.why_not and move.witness.startswith("S0[i=0, j=511]")


def test_a_limit_of_the_kernel_is_told() -> None:
    menu = engine.moves(group_of(SOFTMAX))
    assert "at most 4" in titled(menu.impossible, "Vector width 4 → 8").why_not
    assert titled(menu.possible, "Vector width 4 → 2").time is not None


def test_steps_that_fail_for_one_reason_are_told_once() -> None:
    impossible = engine.moves(group_of("matmul_bias_gelu_128x256x512")).impossible
    reasons = [(m.kind, m.why_not, m.witness) for m in impossible]
    assert len(set(reasons)) == len(reasons)
    assert "Split k by 4, and 1 more" in {m.title for m in impossible}


def test_the_users_own_number_gives_way_to_the_new_one() -> None:
    group = group_of(SOFTMAX)
    move = titled(engine.moves(group, advised(group, USER)).possible, "Rows per block 4 → 2")
    assert move.recipe == "advice user\n  all @ i: mark block 2\n"


def test_a_users_entry_wins_over_the_advisers_that_stays() -> None:
    group = group_of(SOFTMAX)
    move = titled(engine.moves(group).possible, "Rows per block 1 → 2")
    kernel = engine.compile(group, advised(group, move.recipe))
    block = {v.placed.author: v.outcome for v in kernel.verdicts if str(v.placed.entry).find("mark block") > 0}
    assert block == {"user": "honoured", "map": "relaxed"}
    assert kernel.source.grid == (48, 1, 1)


@pytest.mark.parametrize("author", ["user", "stitch"])
def test_joining_switches_off_the_cut(author: str) -> None:
    group = group_of(SOFTMAX)
    cut = "all @ innermost: cut S0 | S1 | S2 | S3  # because of the paper\n"
    move = titled(engine.moves(group, advised(group, f"advice {author}\n  {cut}")).possible, "Join S0 | S1 | S2 | S3")
    assert move.recipe == f"advice {author}\n  off {cut}"
    assert move.entries == ("off all @ innermost: cut S0 | S1 | S2 | S3",)


def stop_after(trials: int) -> Callable[[], bool]:
    asked = count()
    return lambda: next(asked) >= trials


def test_a_newer_request_ends_the_trials_and_the_next_call_goes_on() -> None:
    group = group_of(SOFTMAX)
    whole = engine.moves(group)
    known: dict[str, MoveDoc | None] = {}
    first = engine.moves(group, should_stop=stop_after(3), known=known)
    assert not first.complete and len(known) == 3
    assert {*first.possible, *first.impossible} < {*whole.possible, *whole.impossible}
    asked: list[None] = []
    again = engine.moves(group, should_stop=lambda: bool(asked.append(None)), known=known)
    assert again == whole
    assert len(asked) == len(known) - 3


def test_a_refused_recipe_has_no_moves() -> None:
    group = group_of(SOFTMAX)
    backwards = advised(group, "advice user\n  required all @ innermost: cut S3 | S0 S1 S2\n")
    with pytest.raises(engine.Conflict):
        engine.moves(group, backwards)


def test_moves_of_a_general_kernel_are_of_what_that_kernel_reads() -> None:
    """Its group's family has other marks, whose numbers the advisers gave: the general kernel reads none of them."""
    group = group_of(SOFTMAX)
    recipe = engine.default_recipe(group).advise("user", engine.entry(mark=("family", "general"), at="outermost"))
    now = engine.compile(group, recipe)
    assert now.family == "general"
    menu = engine.moves(group, recipe)
    threads = [move.title for move in menu.possible if move.kind == "thread"]
    assert {f"Threads per block {now.facts.threads * 2}", f"Threads per block {now.facts.threads // 2}"} >= set(threads)
    assert threads and not any(" → " in move.title for move in (*menu.possible, *menu.impossible))
    for move in menu.possible:
        kernel = engine.compile(group, engine.replace_advice(recipe, group, move.recipe))
        assert words(kernel.source.text) != words(now.source.text), move.title


def words(text: str) -> list[str]:
    """What is left of a text where names do not count: operators and numbers, outside of comments."""
    lines = [line.partition("//")[0] for line in text.splitlines()]
    return [part for line in lines for part in re.findall(r"\b\d[\w.]*|[^\w\s]", line)]
