"""What became of alternatives, against what the solver's schedule shows."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine.present.model import kernel_doc, refused_doc
from engine.scheduling.nodes import Conflict

MODEL = Path(__file__).parents[1] / "resources" / "models" / "softmax_96x512.onnx"
BACKWARDS = "required all @ innermost: cut S3 | S0 S1 S2"


def outcomes(text: str) -> list[tuple[tuple[int, ...], str, str]]:
    """(path, label, outcome) of every alternative of the softmax under the user's advice."""
    group = engine.fuse(engine.load(str(MODEL))).groups[0]
    recipe = engine.replace_advice(engine.default_recipe(group, "h200"), group, f"advice user\n{text}")
    try:
        document = kernel_doc(engine.compile(group, recipe))
    except Conflict as conflict:
        document = refused_doc(group, recipe, conflict)
    assert all(scenario.author == "user" for scenario in document.scenarios)
    return [(scenario.path, scenario.label, scenario.outcome) for scenario in document.scenarios]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('  either "a"\n    all @ i: mark block 2\n  or "b"\n    all @ i: mark block 4\n', ["taken", "not reached"]),
        (f'  either "a"\n    {BACKWARDS}\n  or "b"\n    all @ i: mark block 4\n', ["infeasible", "taken"]),
        (f'  either "a"\n    {BACKWARDS}\n  or "b"\n    {BACKWARDS}\n', ["infeasible", "infeasible"]),
        (f'  either "a"\n    off {BACKWARDS}\n  or "b"\n    all @ i: mark block 4\n', ["taken", "not reached"]),
        (f'  either "a"\n    {BACKWARDS}\n  or "b"\n', ["infeasible", "taken"]),
    ],
)
def test_the_first_alternative_that_holds_is_taken(text: str, expected: list[str]) -> None:
    assert outcomes(text) == [((0, 0), "a", expected[0]), ((0, 1), "b", expected[1])]


def test_nested_alternatives_follow_the_one_they_stand_in() -> None:
    text = (
        '  either "outer"\n    all @ i: mark block 2\n'
        f'    either "bad"\n      {BACKWARDS}\n    or "good"\n      S1 @ j: mark vector 2\n'
        '  or "last"\n    either "never"\n      S1 @ j: mark vector 4\n'
    )
    assert outcomes(text) == [
        ((0, 0), "outer", "taken"),
        ((0, 0, 0), "bad", "infeasible"),
        ((0, 0, 1), "good", "taken"),
        ((0, 1), "last", "not reached"),
        ((0, 1, 0), "never", "not reached"),
    ]
    failing = text.replace("S1 @ j: mark vector 2", BACKWARDS)
    assert [outcome for *_, outcome in outcomes(failing)][:3] == ["infeasible"] * 3
    assert outcomes(failing)[3][2] == "taken"


def test_without_alternatives_there_is_nothing_to_tell() -> None:
    assert outcomes("  all @ i: mark block 2\n") == []
