"""Edits of the text form change what they name and nothing else."""

from __future__ import annotations

from dataclasses import replace

from app.advice import with_enabled, with_entry, with_stages
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
    once = with_entry(ADVICE, "S1 @ j: split 4")
    twice = with_entry(once, "S2 @ j: split 8")
    assert twice.endswith("advice user\n  S1 @ j: split 4\n  S2 @ j: split 8\n")
    before_others = "advice user\n  S1 @ j: split 4\n" + ADVICE
    assert with_entry(before_others, "S2 @ j: split 8").startswith(
        "advice user\n  S1 @ j: split 4\n  S2 @ j: split 8\nadvice"
    )
