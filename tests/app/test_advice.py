"""Edits of the text form change what they name and nothing else."""

from __future__ import annotations

from dataclasses import replace

from app.session.advice import (
    with_enabled,
    with_moved,
    with_pasted,
    with_required,
    with_stages,
    without_entry,
)
from app.session.advice_spans import outline
from engine.recipe import Scenario
from engine.scheduling.text import from_text
from tests.app.fake_documents import ADVICE, kernel


def entry(part: str, text: str = ADVICE):
    return next(each for each in kernel("softmax_0", text).entries if part in each.text)


def changed(text: str) -> list[str]:
    return [line for line in text.splitlines() if line not in ADVICE.splitlines()]


def test_switching_off_and_on_again_gives_the_same_text() -> None:
    off = with_enabled(ADVICE, entry("mark lane"), enabled=False)
    assert changed(off) == ["  off all @ innermost: mark lane 32       # because one warp holds a row"]
    assert with_enabled(off, entry("mark lane", off), enabled=True) == ADVICE


def test_required_stays_in_front_of_off() -> None:
    text = ADVICE + "advice user\n  required S2 @ j: pin j\n"
    assert "  required off S2 @ j: pin j\n" in with_enabled(text, entry("S2 @ j", text), enabled=False)


def test_the_author_tells_equal_entries_apart() -> None:
    text = ADVICE + "advice user\n  all @ innermost: mark lane 32\n"
    mine = replace(entry("mark lane", text), author="user")
    assert changed(with_enabled(text, mine, enabled=False))[-1] == "  off all @ innermost: mark lane 32"
    assert with_enabled(text, mine, enabled=False).count("off ") == 1


def test_an_entry_that_the_text_has_not_changes_nothing() -> None:
    foreign = replace(entry("mark lane"), text="all @ innermost: mark lane 64")
    assert with_enabled(ADVICE, foreign, enabled=False) == ADVICE


def test_stages_replace_their_mark_or_become_the_users() -> None:
    assert changed(with_stages(ADVICE, entry("stages"), 3)) == [
        "  S0 @ k: mark stages 3               # because copies of K can run ahead"
    ]
    assert changed(with_stages(ADVICE, entry("mark vector"), 2)) == [
        "advice user",
        "  S1, S3 @ innermost: mark stages 2",
    ]


def test_entries_gather_under_one_heading() -> None:
    once = with_pasted(ADVICE, "S1 @ j: split 4")
    twice = with_pasted(once, "S2 @ j: split 8")
    assert twice.endswith("advice user\n  S1 @ j: split 4\n  S2 @ j: split 8\n")
    before_others = "advice user\n  S1 @ j: split 4\n" + ADVICE
    assert with_pasted(before_others, "S2 @ j: split 8").startswith(
        "advice user\n  S1 @ j: split 4\n  S2 @ j: split 8\nadvice"
    )


ALTERNATIVES = """\
advice map
  all @ i: mark block 8
advice user
  S0 @ j: split 2
  # which of them is better is not known
  either "long"  # rows
    S0 @ j: split 4
    either
      S1 @ j: split 4
    or
      S1 @ j: split 8

  or "short"
    S0 @ j: split 8
  or
    off S2 @ j: pin j
advice tune
  S3 @ j: split 4
"""


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def test_the_outline_has_the_paths_of_the_documents() -> None:
    parsed = from_text(ALTERNATIVES)
    paths: dict[tuple[int, ...], str] = {}

    def visit(scenario: Scenario, path: tuple[int, ...]) -> None:
        paths.update({(*path, k): str(each) for k, each in enumerate(scenario.entries)})
        for k, alternative in enumerate(scenario.alternatives):
            visit(alternative, (*path, k))

    for number, one in enumerate(parsed):
        visit(one.scenario, (number,))
    read = outline(ALTERNATIVES)
    assert {path: read.lines[line].strip() for path, line in read.entries.items()} == paths
    assert [read.author(path) for path in ((0,), (1, 0, 1), (2,))] == ["map", "user", "tune"]


def test_an_alternative_moves_with_all_that_is_in_it() -> None:
    last_first = with_moved(ALTERNATIVES, (1, 2), 0)
    assert [each.label for each in from_text(last_first)[1].scenario.alternatives] == ["", "long", "short"]
    assert sorted(lines_of(last_first)) == sorted(
        lines_of(ALTERNATIVES.replace('either "long"', 'or "long"').replace("  or\n    off", "  either\n    off"))
    ), "every comment and every other line stays"
    assert with_moved(last_first, (1, 0), 2).split() == ALTERNATIVES.split()
    nested = from_text(with_moved(ALTERNATIVES, (1, 0, 1), 0))[1].scenario.alternatives[0].alternatives
    assert [str(each.entries[0]) for each in nested] == ["S1 @ j: split 8", "S1 @ j: split 4"]
    for path, place in (((1, 0), 3), ((1, 0), -1), ((1, 7), 0), ((0, 0), 1)):
        assert with_moved(ALTERNATIVES, path, place) == ALTERNATIVES


def test_equal_entries_are_told_apart_by_their_place() -> None:
    twice = "advice user\n  either\n    S0 @ j: split 4\n  or\n    S0 @ j: split 4\n"
    second = next(each for each in kernel("softmax_0", twice).entries if each.path == (0, 1, 0))
    assert with_enabled(twice, second, enabled=False).splitlines()[-1] == "    off S0 @ j: split 4"


def test_an_entry_is_made_soft_and_taken_out() -> None:
    text = ADVICE + "advice user\n  required off S2 @ j: pin j\n"
    mine = entry("S2 @ j", text)
    assert with_required(text, mine, required=False).endswith("  off S2 @ j: pin j\n")
    assert without_entry(text, mine) == ADVICE + "advice user\n"


def test_a_new_entry_stands_before_alternatives() -> None:
    added = with_pasted(ALTERNATIVES, "S3 @ i: split 2")
    assert [str(each) for each in from_text(added)[1].scenario.entries] == ["S0 @ j: split 2", "S3 @ i: split 2"]


def test_pasted_lines_go_under_their_own_headings() -> None:
    pasted = "    S3 @ i: split 2\nadvice map\n  all @ i: mark warp 2\n"
    text = with_pasted(ADVICE, pasted.replace("    S3", "S3"))
    read = from_text(text)
    assert str(next(one for one in read if one.author == "map").scenario.entries[-1]) == "all @ i: mark warp 2"
    assert str(next(one for one in read if one.author == "user").scenario.entries[-1]) == "S3 @ i: split 2"
    alternatives = "either\n  S0 @ j: split 4\nor\n  S0 @ j: split 8\n"
    assert len(from_text(with_pasted(ADVICE, alternatives))[-1].scenario.alternatives) == 2
