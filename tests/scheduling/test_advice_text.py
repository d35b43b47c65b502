"""The text form of advice: exact round trips, and errors that name the line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from engine.recipe import Advice, Scenario, entry
from engine.scheduling.text import from_text, to_text
from engine.support.errors import BadInput
from tests.scheduling.strategies import advices

EXAMPLE = """\
# comment
advice map
  all @ i: mark block 1              # because the rows are independent
  S0 @ innermost: mark lane 32       # because one warp holds a row
advice pipeline
  S0 @ k: mark stages 2              # because ...
advice user
  required S1, S2 @ innermost: pin j       # because rows are contiguous
  off S3 @ outermost: parallel true
  all @ outermost: cut S0 | S1 S2
  required rewrite associative S2   # because its order does not matter
  off rewrite recompute S0 in "in"
  either
    S0 @ i: split 4   # a remark
  or
    S0 @ i: split 8
    either "halves"
      S0 @ any: terms (i, 1, (j, -2.5))
"""


def test_the_example_means_what_it_says() -> None:
    inner = Scenario((entry("S0", terms=("i", 1, ("j", -2.5))),), (), "halves")
    assert from_text(EXAMPLE) == (
        Advice(
            "map",
            Scenario(
                (
                    entry(mark=("block", 1), at="i", because="the rows are independent"),
                    entry("S0", mark=("lane", 32), at="innermost", because="one warp holds a row"),
                )
            ),
        ),
        Advice("pipeline", Scenario((entry("S0", mark=("stages", 2), at="k", because="..."),))),
        Advice(
            "user",
            Scenario(
                (
                    entry("S1", "S2", pin="j", at="innermost", required=True, because="rows are contiguous"),
                    entry("S3", parallel=True, at="outermost", enabled=False),
                    entry(cut=("S0", ("S1", "S2")), at="outermost"),
                    entry("S2", rewrite="associative", required=True, because="its order does not matter"),
                    entry("S0", rewrite=("recompute", "in"), enabled=False),
                ),
                (
                    Scenario((entry("S0", split=4, at="i"),)),
                    Scenario((entry("S0", split=8, at="i"),), (inner,)),
                ),
            ),
        ),
    )


def test_printing_is_stable() -> None:
    once = to_text(from_text(EXAMPLE))
    assert to_text(from_text(once)) == once
    assert "  required S1, S2 @ innermost: pin j  # because rows are contiguous\n" in once


@given(advices)
@settings(max_examples=150, deadline=None)
def test_round_trip_is_exact(advice: tuple[Advice, ...]) -> None:
    assert from_text(to_text(advice)) == advice


def test_the_text_of_an_entry_is_one_line_without_the_reason() -> None:
    wish = entry("S1", pin=("i", "j"), at="after k", required=True, because="it is\nso")
    assert str(wish) == "required S1 @ after k: pin i, j"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("S0 @ i: split 4", 1, "advice AUTHOR"),
        ("advice nobody", 1, "no author"),
        ("advice user\n  S0 i: split 4", 2, "'@' is expected"),
        ("advice user\n  S0 @ i split 4", 2, "':' is expected"),
        ("advice user\n  S0 @ i: spilt 4", 2, "no field is called 'spilt'"),
        ("advice user\n  S0 @ i: split four", 2, "factor"),
        ("advice user\n  S0 @ i: split 4 5", 2, "left over"),
        ("advice user\n  S0 @ i: split", 2, "the line ends"),
        ("advice user\n  S0 @ i: mark warm 4", 2, "'warm' is unknown"),
        ("advice user\n  S0 @ i: parallel 3", 2, "true or false"),
        ("advice user\n  all @ i: cut S0", 2, "two or more parts"),
        ("advice user\n  all @ i: cut S0 | S0", 2, "twice"),
        ("advice user\n  or\n    S0 @ i: split 4", 2, "without"),
        ("advice user\n  either\n    S0 @ i: split 4\n  either\n    S0 @ i: split 8", 4, "second"),
        ("advice user\n  either\n    S0 @ i: split 4\n  S0 @ i: split 8", 4, "after alternatives"),
        ("advice user\n  S0 @ i: split 4\n    S0 @ i: split 8", 3, "indentation"),
        ("advice user\n  S0 @ i: pin ?", 2, "cannot read"),
        ("advice user\n  rewrite sideways S0", 2, "no rewrite is called 'sideways'"),
        ("advice user\n  rewrite associative", 2, "the line ends where a statement is expected"),
        ("advice user\n  rewrite associative S0 S1", 2, "left over"),
        ("advice user\n  rewrite recompute S0", 2, "'in' is expected"),
        ("advice user\n  rewrite recompute S0 in", 2, "the line ends"),
        ("advice user\n  S0 @ any: rewrite associative", 2, "about no dimension"),
        ("rewrite associative S0", 1, "advice AUTHOR"),
        ("advice user\n  either\n    rewrite associative S0", 3, "cannot stand in one of them"),
        ('advice user\n  "S0 @ i: split 4', 2, "cannot read"),
        ("advice user\n  S0 @ i: terms (1, 2", 2, "is expected"),
        ("advice user\n  S0 @ i: terms " + "(" * 40, 2, "nested deeper"),
        ("advice user" + "".join("\n" + "  " * (k + 1) + "either" for k in range(50)), 34, "nested deeper"),
    ],
)
def test_errors_name_the_line(text: str, line: int, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        from_text(text, "softmax_0")
    assert caught.value.subject == f"softmax_0, line {line}"
    assert message in caught.value.reason


def test_a_huge_text_is_refused() -> None:
    with pytest.raises(BadInput, match="at most"):
        from_text("advice user\n" * 20_000)
