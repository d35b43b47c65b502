"""Documents and recipes survive JSON; what does not fit is refused with its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.documents.model import GroupDoc, ScheduleDoc, Time
from engine.recipe import Advice, Entry, Recipe, Scenario
from engine.support.errors import BadInput
from engine.support.serialization import from_json, to_json

TREE = ScheduleDoc(
    "band", "i", ("S0",), "i", True, ("block 8",), (ScheduleDoc("statement", "S0", ("S0",), "", False, (), ()),)
)
GROUP = GroupDoc(
    "g",
    "g",
    "layout",
    "8",
    "float32",
    1,
    ("S0",),
    "",
    (),
    1,
    2,
    "memory",
    0.5,
    Time(1.0, "predicted", samples=(1.0,)),
    0.25,
)
RECIPE = Recipe(
    "h200",
    dimensions={"batch": 8},
    groups={
        "g": (
            Advice(
                "user",
                Scenario(
                    (Entry(("S0", "S1"), "outermost", "cut", (("S0",), ("S1",)), required=True, because="x"),),
                    (Scenario((Entry((), "i", "mark", ("block", 1)),)), Scenario((Entry((), "i", "parallel", True),))),
                ),
            ),
        )
    },
)


@pytest.mark.parametrize("value", [TREE, GROUP, RECIPE, Time(2.0, "measured")])
def test_values_survive(value: Any) -> None:
    data = json.loads(json.dumps(to_json(value)))
    assert from_json(type(value), data) == value


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"microseconds": "fast"}, "microseconds"),
        ({"samples": [1.0, None]}, r"samples\[1\]"),
        ({"samples": 1.0}, "samples"),
        ({"colour": "red"}, "colour"),
        ({"origin": True}, "origin"),
    ],
)
def test_misfits_are_named_by_their_place(change: dict[str, Any], place: str) -> None:
    with pytest.raises(BadInput, match=place):
        from_json(Time, {**to_json(Time(1.0, "predicted")), **change})


def test_a_missing_field_is_named_and_one_with_a_default_is_not_missed() -> None:
    assert from_json(Time, {"microseconds": 1, "origin": "predicted"}) == Time(1.0, "predicted")
    with pytest.raises(BadInput, match=r"origin: .*missing"):
        from_json(Time, {"microseconds": 1.0})


def test_a_place_deep_in_a_recipe_is_named_from_the_top() -> None:
    data = to_json(RECIPE)
    data["groups"]["g"][0]["scenario"]["entries"][0]["required"] = "yes"
    with pytest.raises(BadInput, match=r"groups\.g\[0\]\.scenario\.entries\[0\]\.required"):
        from_json(Recipe, data)


def test_what_is_no_plain_data_is_a_programming_error() -> None:
    with pytest.raises(TypeError):
        to_json(object())
