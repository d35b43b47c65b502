"""Recipes: building, JSON both ways, refusals, differences."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings

from engine.recipe import VERSION, Advice, Recipe, Scenario, diff, entry
from engine.support.errors import BadInput
from tests.scheduling.strategies import recipes

WISH = entry("S1", pin="j", at="innermost", because="rows are contiguous")


def recipe() -> Recipe:
    return Recipe("h200", {"batch": 8}, {"accumulate": "float32"}, {"policy": "stitch"}).with_group(
        "softmax_0", (Advice("map", Scenario((entry(mark=("lane", 32), at="innermost"),))),)
    )


def test_entry_takes_exactly_one_field() -> None:
    assert WISH.value == ("j",)
    assert entry(cut=("S0", ("S1", "S2"))).value == (("S0",), ("S1", "S2"))
    with pytest.raises(BadInput, match="exactly one field, got none"):
        entry("S0")
    with pytest.raises(BadInput, match="got pin, split"):
        entry("S0", pin="i", split=4)


@pytest.mark.parametrize(
    "fields",
    [
        {"pin": ()},
        {"pin": ("i", 3)},
        {"parallel": 1},
        {"cut": ("S0",)},
        {"cut": ("S0", ("S1", "S0"))},
        {"split": 0},
        {"split": True},
        {"mark": ("warm", 3)},
        {"mark": ("lane", 0)},
        {"mark": ("lane", 2.5)},
        {"terms": (1, float("nan"))},
        {"rewrite": "online softmax"},
        {"rewrite": ()},
        {"rewrite": "recompute"},
        {"rewrite": ("recompute", "S1", "S2")},
        {"rewrite": ("associative", "S1")},
        {"rewrite": "associative", "at": "j"},
    ],
    ids=str,
)
def test_values_that_a_field_cannot_have(fields: dict) -> None:
    with pytest.raises(BadInput):
        entry("S0", **fields)


def test_advise_appends_to_the_authors_advice() -> None:
    first = recipe().advise("user", WISH)
    second = first.advise("user", entry(split=4, at="j")).advise("map", entry(split=2, at="j"))
    assert [a.author for a in second.groups["softmax_0"]] == ["map", "user"]
    assert [len(a.scenario.entries) for a in second.groups["softmax_0"]] == [2, 2]
    assert recipe().groups == {"softmax_0": recipe().groups["softmax_0"]}, "the old recipe stays"


def test_advise_needs_to_know_author_and_group() -> None:
    with pytest.raises(BadInput, match="author"):
        recipe().advise("nobody", WISH)
    with pytest.raises(BadInput, match="which group"):
        recipe().advise("user", WISH, group="gelu_1").advise("user", WISH)
    with pytest.raises(BadInput, match="which group"):
        Recipe("h200").advise("user", WISH)


@given(recipes)
@settings(max_examples=80, deadline=None)
def test_json_round_trip_is_exact(value: Recipe) -> None:
    assert Recipe.loads(json.dumps(value.to_json())) == value


def test_json_of_this_version_reads_the_same_tomorrow() -> None:
    """The stored form, written out: a change here breaks the recipes people have."""
    text = """{"version": 1, "target": "h200", "groups": {"softmax_0": [{"author": "user", "scenario": {"entries": [
        {"statements": ["S1"], "dimension": "innermost", "field": "pin", "value": ["j"],
         "because": "rows are contiguous"}]}}]}}"""
    expected = Recipe("h200", groups={"softmax_0": (Advice("user", Scenario((WISH,))),)})
    assert Recipe.loads(text) == expected
    assert Recipe.loads(text.replace('"groups"', '"rewrites": [], "groups"')) == expected, "as version 1 wrote it"
    rewrite = """{"statements": ["S1"], "dimension": "", "field": "rewrite", "value": ["recompute", "S3"]}"""
    text = f"""{{"version": 2, "target": "h200", "groups": {{"g": [
        {{"author": "user", "scenario": {{"entries": [{rewrite}]}}}}]}}}}"""
    wish = entry("S1", rewrite=("recompute", "S3"))
    assert Recipe.loads(text) == Recipe("h200", groups={"g": (Advice("user", Scenario((wish,))),)})


def test_rewrites_that_version_1_named_are_not_dropped_silently() -> None:
    old = {"version": 1, "target": "h200", "rewrites": ["online_softmax"]}
    with pytest.raises(BadInput, match=r"rewrites: names changes .* \(say “rewrite ...” in the advice of a group\)"):
        Recipe.from_json(old)
    with pytest.raises(BadInput, match="rewrites: is unknown"):
        Recipe.from_json({"version": 2, "target": "h200", "rewrites": []})
    assert Recipe.from_json({**old, "rewrites": []}) == Recipe("h200")


def plain() -> dict:
    return json.loads(json.dumps(recipe().advise("user", WISH).to_json()))


def broken(*path: str | int, value: object) -> dict:
    """The JSON form with one place changed."""
    data = copy.deepcopy(plain())
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return data


ENTRY = ("groups", "softmax_0", 1, "scenario", "entries", 0)


@pytest.mark.parametrize(
    ("data", "subject"),
    [
        ([], "recipe"),
        (broken("version", value=VERSION + 1), "version"),
        (broken("version", value=0), "version"),
        (broken("version", value="1"), "version"),
        (broken("target", value=3), "target"),
        (broken("targets", value="h200"), "targets"),
        (broken("dimensions", "batch", value="8"), "dimensions.batch"),
        (broken("dimensions", "batch", value=True), "dimensions.batch"),
        (broken("groups", "softmax_0", 1, "author", value="nobody"), "groups.softmax_0[1].author"),
        (broken(*ENTRY, "field", value="pim"), "groups.softmax_0[1].scenario.entries[0]"),
        (broken(*ENTRY, "field", value="enabled"), "groups.softmax_0[1].scenario.entries[0]"),
        (broken(*ENTRY, "value", value=7), "groups.softmax_0[1].scenario.entries[0]"),
        (broken(*ENTRY, "value", value=None), "groups.softmax_0[1].scenario.entries[0].value"),
        (broken(*ENTRY, "value", value={"a": 1}), "groups.softmax_0[1].scenario.entries[0].value"),
        (broken(*ENTRY, "required", value="yes"), "groups.softmax_0[1].scenario.entries[0].required"),
        (broken(*ENTRY, "statements", value="S1"), "groups.softmax_0[1].scenario.entries[0].statements"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_json_that_is_not_a_recipe_names_the_place(data: object, subject: str) -> None:
    with pytest.raises(BadInput) as caught:
        Recipe.from_json(data)
    assert caught.value.subject == subject
    Recipe.from_json(plain())


def test_missing_keys_and_unknown_marks_are_named() -> None:
    data = plain()
    del data["groups"]["softmax_0"][0]["scenario"]["entries"][0]["field"]
    with pytest.raises(BadInput, match=r"entries\[0\].field: is missing"):
        Recipe.from_json(data)
    with pytest.raises(BadInput, match="'warm' is unknown"):
        Recipe.from_json(broken("groups", "softmax_0", 0, "scenario", "entries", 0, "value", value=["warm", 1]))


def test_deep_nesting_and_broken_text_are_refused() -> None:
    with pytest.raises(BadInput, match="nested"):
        Recipe.loads('{"version": 1, "target": ' + "[" * 100_000)
    scenario: dict = {}
    for _ in range(200):
        scenario = {"alternatives": [scenario]}
    with pytest.raises(BadInput, match="nested deeper"):
        Recipe.from_json(broken("groups", "softmax_0", 0, "scenario", value=scenario))
    with pytest.raises(BadInput, match=r"r.json, line 2"):
        Recipe.loads('{"version": 1,\n}', "r.json")


def test_diff_reads_like_a_change() -> None:
    a = recipe()
    b = Recipe("a100", {"batch": 16}, a.numerics, {**a.fusion, "join": "S0"}, a.groups).advise("user", WISH)
    assert diff(a, a) == ()
    assert diff(a, b) == (
        "target: h200 → a100",
        "dimensions batch: 8 → 16",
        "fusion join: none → S0",
        "group softmax_0: + user: S1 @ innermost: pin j (because rows are contiguous)",
    )
    c = b.advise("user", entry("S1", rewrite=("recompute", "S3"), because="cheap"))
    assert diff(b, c) == ("group softmax_0: + user: rewrite recompute S1 in S3 (because cheap)",)
    assert diff(b, a)[-1] == "group softmax_0: - user: S1 @ innermost: pin j (because rows are contiguous)"


def test_diff_shows_groups_and_alternatives() -> None:
    choice = Scenario((), (Scenario((WISH,)), Scenario((entry(split=4, at="j"),))))
    a = Recipe("h200", groups={"g": (Advice("user", choice),)})
    b = Recipe("h200", groups={"g": (Advice("user", Scenario((), choice.alternatives[::-1])),), "h": ()})
    assert diff(a, b) == (
        "group g: - user, alternative 1: S1 @ innermost: pin j (because rows are contiguous)",
        "group g: - user, alternative 2: all @ j: split 4",
        "group g: + user, alternative 1: all @ j: split 4",
        "group g: + user, alternative 2: S1 @ innermost: pin j (because rows are contiguous)",
        "group h: added",
    )
