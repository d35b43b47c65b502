"""Published coefficients reach the linear program: rows of any kind are honoured, or refused with a reason."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.recipe import Advice
from engine.scheduling.address import places
from engine.scheduling.published.parse import parse
from engine.scheduling.published.translate import translate
from engine.scheduling.text import from_text, to_text
from tests.graph.models import model, node, save
from tests.scheduling.published_files import adding, file_for, group_of, needs_advice, operator, trick

GELU = "Fused_Cast_BiasAdd_Gelu_fusion_7971173442909348882"
"""Two written statements, the second one later."""
IN_TEXT_ORDER = ["[1, 0, ?]", "[0, 1, ?]"]


@pytest.fixture(scope="module")
def bias(tmp_path_factory: pytest.TempPathFactory) -> engine.FusionGroup:
    """z[i,j] = x[i,j] + y[j] over 48 x 16: two axes."""
    return adding(tmp_path_factory.mktemp("bias"), (48, 16), bias=True)


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> engine.FusionGroup:
    """z = x + y over 6 x 8 x 16: one axis for three loops."""
    return adding(tmp_path_factory.mktemp("cube"), (6, 8, 16))


def advice_of(group: engine.FusionGroup, data: dict[str, Any]) -> tuple[Advice, ...]:
    advice = translate(parse(json.dumps(data), "made"), group)
    assert from_text(to_text(advice)) == advice
    return advice


def kernel_of(group: engine.FusionGroup, data: dict[str, Any]) -> engine.Kernel:
    return engine.compile(group, engine.default_recipe(group).with_group(group.name, advice_of(group, data)))


def coefficients(kernel: engine.Kernel) -> dict[str, str]:
    """Entry about coefficients, cuts or splits -> its outcome."""
    found = kernel.verdicts
    return {str(v.placed.entry): v.outcome for v in found if v.placed.entry.field in ("terms", "cut", "split")}


def rows_of(kernel: engine.Kernel, statement: str) -> list[str]:
    return [str(member.rows[statement]) for member in places(kernel.schedule.root)[statement].members]


def two_statements(first: list[str], second: list[str]) -> dict[str, Any]:
    data = json.loads(trick(GELU).read_text())
    for wish, rows in zip(data["soft constraints"], (first, second), strict=True):
        wish["coefficients"] = rows
    return {**data, "gpu": {}}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["[1, 1, 0]", "[0, 1, 0]"], ["i + j", "j"]),
        (["[1, 1, ?]", "[1, 0, ?]"], ["i + j", "i"]),
        (["[2, 0, 0]", "[0, 1, 0]"], ["2*i", "j"]),
        (["[-1, 0, 0]", "[0, 1, 0]"], ["-i", "j"]),
        (["[1, 0, 3]", "[0, 1, 0]"], ["i + 3", "j"]),
        (["[1, -2, 5]", "[0, 3, ?]"], ["i - 2*j + 5", "3*j"]),
        (["[0, 1, ?]", "[1, 0, ?]"], ["j", "i"]),
        (["[1, ?7, ?]", "[?7, 1, ?]"], ["i", "j"]),
        (["[?, ?, ?]", "[1, 0, ?]"], ["j", "i"]),
        (["[1, ?3, ?3]", "[0, 1, ?]"], ["i", "j"]),
    ],
    ids=str,
)
def test_rows_of_any_kind_are_the_schedule(
    bias: engine.FusionGroup, rows: list[str], expected: list[str]
) -> None:
    kernel = kernel_of(bias, file_for((48, 16), rows))
    assert set(coefficients(kernel).values()) == {"honoured"}
    assert rows_of(kernel, "S0") == expected
    assert engine.check(kernel).status == "pass"


@pytest.mark.parametrize(
    ("rows", "expected", "splits"),
    [
        (["[2, ?]"], ["2*i", "2*j", "2*k"], []),
        (["[1, 7]"], ["i", "j", "k + 7"], []),
        (["[-1, ?1] (/64)", "[-1, ?1] (%64, /4)", "[-1, ?1] (%4)"],
         ["-i + 5", "-j + 7", "-k + 15"],
         [("depth 1", 4), ("depth 2", 4)]),
        (["[-1, ?1] (/24)", "[-1, ?1] (%24)"],
         ["(-128*i - 16*j - k + 767) / 24", "(-128*i - 16*j - k + 767) % 24"], [("depth 0", 24)]),
    ],
    ids=["scaled", "shifted", "reversed and tiled", "parts that end inside a row"],
)  # fmt: skip
def test_a_fused_axis_is_a_row_for_each_of_its_loops(
    cube: engine.FusionGroup, rows: list[str], expected: list[str], splits: list[tuple[str, int]]
) -> None:
    data = file_for((768,), rows)
    entries = advice_of(cube, data)[0].scenario.entries
    kernel = kernel_of(cube, data)
    assert {v.outcome for v in kernel.verdicts if v.placed.entry.field == "terms"} == {"honoured"}
    assert rows_of(kernel, "S0")[: len(expected)] == expected
    assert [(e.dimension, e.value) for e in entries if e.field == "split"] == splits
    assert engine.check(kernel).status == "pass"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("3", "5", (["(FUSED + 3) / 64", "(FUSED + 3) % 64"], ["(FUSED + 5) / 64", "(FUSED + 5) % 64"])),
        ("?1", "?2", (["(FUSED) / 64", "(FUSED) % 64"], ["(FUSED) / 64", "(FUSED) % 64"])),
        ("5", "5", (["i", "j", "k + 5"], ["i", "j", "k + 5"])),
        ("?1", "?1", (["i", "j", "k"], ["i", "j", "k"])),
    ],
)
def test_a_fused_axis_is_one_row_where_statements_may_be_shifted_against_each_other(
    first: str, second: str, expected: tuple[list[str], list[str]], tmp_path: Path
) -> None:
    """Other shifts along the axis than one that all have are none along each of its loops."""
    proto = model([node("Relu", "x", "y"), node("Tanh", "y", "z")], {"x": [6, 8, 16]}, ["y", "z"])
    group = group_of(save(tmp_path / "m.onnx", proto))
    data = file_for((768,), [], statements=2)
    for wish, constant in zip(data["soft constraints"], (first, second), strict=True):
        wish["coefficients"] = [f"[1, {constant}] (/64)", f"[1, {constant}] (%64)"]
    kernel = kernel_of(group, data)
    assert set(coefficients(kernel).values()) == {"honoured"}
    for statement, rows in zip(("S0", "S1"), expected, strict=True):
        assert rows_of(kernel, statement)[: len(rows)] == [row.replace("FUSED", "128*i + 16*j + k") for row in rows]
    assert engine.check(kernel).status == "pass"


@pytest.mark.parametrize("inner", [(4, 8), (8, 4), (3, 2)], ids=str)
def test_a_tile_of_two_axes_is_two_splits(bias: engine.FusionGroup, inner: tuple[int, int]) -> None:
    a, b = inner
    rows = [f"[1, 0, ?1] (/{a})", f"[0, 1, ?2] (/{b})", f"[1, 0, ?1] (%{a})", f"[0, 1, ?2] (%{b})"]
    kernel = kernel_of(bias, file_for((48, 16), rows, blocks=[0, 1], threads=[2, 3]))
    held = coefficients(kernel)
    assert {entry for entry in held if "split" in entry} == {f"all @ i: split {a}", f"all @ j: split {b}"}
    assert set(held.values()) == {"honoured"}
    assert engine.check(kernel).status == "pass"


@pytest.mark.few(2)
@needs_advice
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["[1, 1, ?]", "[0, 1, ?]"], ["[1, 1, ?]", "[0, 1, ?]"]),
        (["[1, 0, ?]", "[0, 1, ?]"], ["[-1, 0, ?]", "[0, 1, ?]"]),
        (["[1, 0, 0]", "[0, 1, ?]"], ["[1, 0, 1]", "[0, 1, ?]"]),
        (["[0, 1, ?]", "[1, 0, ?]"], ["[1, 0, ?]", "[0, 1, ?]"]),
        (["[1, 0, ?9]", "[0, 1, ?]"], ["[1, 0, ?9]", "[0, 1, 3]"]),
        (["[0, 0, 0]", "[1, 0, ?]", "[0, 1, ?]"], ["[0, 0, 1]", "[1, 0, ?]", "[0, 1, ?]"]),
    ],
    ids=["both skewed", "one reversed", "shifted", "one interchanged", "linked constants", "one after the other"],
)
def test_statements_may_have_rows_of_their_own(first: list[str], second: list[str]) -> None:
    kernel = kernel_of(group_of(operator(GELU)), two_statements(first, second))
    assert set(coefficients(kernel).values()) == {"honoured"}
    assert engine.check(kernel).status == "pass"


@needs_advice
def test_an_order_that_breaks_a_dependence_is_refuted_by_two_instances() -> None:
    later, earlier = (["[0, 0, 1]", *IN_TEXT_ORDER], ["[0, 0, 0]", *IN_TEXT_ORDER])
    kernel = kernel_of(group_of(operator(GELU)), two_statements(later, earlier))
    (refused,) = (v for v in kernel.verdicts if v.outcome == "infeasible")
    assert refused.placed.entry.field == "cut"
    assert refused.witness is not None
    assert "S0[i=0, j=0] writes" in refused.witness.text


@pytest.mark.parametrize(
    ("rows", "expected", "values"),
    [
        (["[2, ?1, ?]", "[?1, 1, ?]"], ["2*i", "j"], 0),
        (["[1, ?1, 0]", "[?1, 1, 3]"], ["i", "j + 3"], 0),
        (["[?1, 2, ?]", "[1, ?1, ?]"], ["2*j", "i"], 0),
        (["[?1, 0, ?]", "[?1, 1, ?]"], ["i", "i + j"], 1),
    ],
    ids=str,
)
def test_a_link_across_dimensions_is_an_alternative_for_each_value(
    bias: engine.FusionGroup, rows: list[str], expected: list[str], values: int
) -> None:
    data = file_for((48, 16), rows)
    (advice,) = advice_of(bias, data)
    assert [one.label for one in advice.scenario.alternatives] == ["?1 = 0", "?1 = 1"]
    kernel = kernel_of(bias, data)
    assert {v.outcome for v in kernel.verdicts if v.placed.path[1] == values} == {"honoured"}
    assert rows_of(kernel, "S0") == expected
    assert engine.check(kernel).status == "pass"


def test_rows_that_depend_on_each_other_are_refused(bias: engine.FusionGroup) -> None:
    kernel = kernel_of(bias, file_for((48, 16), ["[1, 1, ?]", "[2, 2, ?]"]))
    assert list(coefficients(kernel).values()) == ["honoured", "infeasible"]


def test_random_rows_are_followed_as_the_solver_says(bias: engine.FusionGroup) -> None:
    """The reference: two rows are a schedule exactly if their determinant is not zero; points run in its order."""
    source = random.Random(11)
    honoured = 0
    for _ in range(40):
        rows = [[source.choice([-2, -1, 0, 1, 1, 2]) for _ in range(2)] for _ in range(2)]
        if not any(rows[0]) or not any(rows[1]):
            continue
        constants = [source.choice([0, 3, -2]) for _ in rows]
        texts = [f"[{a}, {b}, {c}]" for (a, b), c in zip(rows, constants, strict=True)]
        kernel = kernel_of(bias, file_for((48, 16), texts))
        independent = rows[0][0] * rows[1][1] != rows[0][1] * rows[1][0]
        outcomes = set(coefficients(kernel).values())
        assert outcomes == ({"honoured"} if independent else {"honoured", "infeasible"}), texts
        if independent:
            honoured += 1
            found = [member.rows["S0"] for member in places(kernel.schedule.root)["S0"].members]
            expected = [(a, b, c) for (a, b), c in zip(rows, constants, strict=True)]
            assert [(r.coefficient("i"), r.coefficient("j"), r.constant) for r in found] == expected
    assert honoured > 20


def explicit(**given: object) -> dict[str, Any]:
    data = file_for((48, 16), IN_TEXT_ORDER)
    del data["soft constraints"]
    return {**data, **given}


@pytest.mark.parametrize(
    ("maps", "expected"),
    [
        (["{ S_0[x, y] -> [(x + y)] }", "{ S_0[x, y] -> [(y)] }"], ["i + j", "j"]),
        (["[{ S_0[x, y] -> [(3 - 2x)] }]", "{ S_0[x, y] -> [y] }"], ["-2*i + 3", "j"]),
        (["{ S_0[x,y] -> [2*(x - y) + 1] }", "{ S_0[x,y] -> [-(y)] }"], ["2*i - 2*j + 1", "-j"]),
    ],
)
def test_an_explicit_schedule_is_followed(bias: engine.FusionGroup, maps: list[str], expected: list[str]) -> None:
    kernel = kernel_of(bias, explicit(schedule=maps))
    assert set(coefficients(kernel).values()) == {"honoured"}
    assert rows_of(kernel, "S0") == expected
    assert engine.check(kernel).status == "pass"


def test_an_explicit_schedule_with_tiles_says_the_same_as_its_rows(bias: engine.FusionGroup) -> None:
    maps = ["floor((x)/4)", "floor(y / 8)", "(x) mod 4", "((y) mod 8)"]
    said = advice_of(bias, explicit(schedule=[f"{{ S_0[x, y] -> [({row})] }}" for row in maps]))
    rows = ["[1, 0, 0] (/4)", "[0, 1, 0] (/8)", "[1, 0, 0] (%4)", "[0, 1, 0] (%8)"]
    assert said == advice_of(bias, file_for((48, 16), rows))


@needs_advice
def test_an_explicit_tree_is_followed(tmp_path: Path) -> None:
    def nest(statement: str, *order: str) -> str:
        inner = f'child: {{ schedule: "[{{ {statement}[x, y] -> [({order[1]})] }}]" }}'
        return f'{{ schedule: "[{{ {statement}[x, y] -> [({order[0]})] }}]", {inner} }}'

    orders = {"S_0": "yx", "S_1": "xy"}
    parts = (f'{{ filter: "{{ {s}[x, y] }}", child: {nest(s, *order)} }}' for s, order in orders.items())
    domain = "{ S_0[x, y] : 0 <= x <= 639; S_1[x, y] : 0 <= x <= 639 }"
    tree = f'{{ domain: "{domain}", child: {{ sequence: [ {", ".join(parts)} ] }} }}'
    data = json.loads(trick(GELU).read_text())
    kernel = kernel_of(group_of(operator(GELU)), {**data, "gpu": {}, "tree": tree})
    assert set(coefficients(kernel).values()) == {"honoured"}
    assert (rows_of(kernel, "S0"), rows_of(kernel, "S9")) == (["j", "i"], ["i", "j"])
    assert engine.check(kernel).status == "pass"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"schedule": ["{ S_0[x, y] -> [(x * y)] }"]}, "is no row"),
        ({"schedule": ["{ S_0[x, y] -> [(x + z)] }"]}, "names z"),
        ({"schedule": ["{ S_0[x] -> [(x)] }"]}, "has 2 iterators, 1 are named"),
        ({"schedule": ["{ S_1[x, y] -> [(x)] }"]}, "no map of a statement"),
        ({"schedule": ["S_0[x, y] -> [(x)]"]}, "is not"),
        ({"schedule": ["{ S_0[x, y] -> [(" + "(" * 400 + "x" + ")" * 400 + ")] }"]}, "is no row"),
        ({"schedule": ["{ S_0[x, y] -> [(floor(x / 0))] }"]}, "is no row"),
        ({"schedule": ["{ S_0[x, y] -> [(__import__('os'))] }"]}, "is no row"),
        ({"schedule": "all"}, "schedule is 'all', not a list"),
        ({"tree": "{ domain: \"{}\", child: { mark: \"x\" } }"}, "neither schedule nor sequence"),
        ({"tree": "{ child: { sequence: [] } }"}, "S_0 has no rows"),
        ({"tree": 7}, "tree is 7, not text"),
    ],
)  # fmt: skip
def test_a_broken_explicit_schedule_is_refused_in_words(
    bias: engine.FusionGroup, given: dict[str, object], words: str
) -> None:
    with pytest.raises(engine.BadInput) as caught:
        advice_of(bias, explicit(**given))
    assert words in str(caught.value)
    assert caught.value.subject == "advice made" and len(str(caught.value)) < 500


def test_every_order_of_three_axes_is_taken(tmp_path: Path) -> None:
    """A depth names the dimension, whatever its rows are."""
    group = adding(tmp_path, (4, 6, 8), bias=True)
    units = {"i": "[1, 0, ?]", "k": "[0, 1, ?]"}
    for order in itertools.permutations(units):
        kernel = kernel_of(group, file_for((24, 8), [units[name] for name in order]))
        assert set(coefficients(kernel).values()) == {"honoured"}
        assert "".join(rows_of(kernel, "S0")) == "".join(order).replace("i", "ij")
