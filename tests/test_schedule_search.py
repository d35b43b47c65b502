"""The search for a schedule asks code generation about each path, and `engine.schedule` runs the same one."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import engine
from engine.fusion.nodes import FusionGroup
from engine.recipe import MARKS, Advice, Entry, Recipe, Scenario
from engine.scheduling.nodes import HONOURED, INFEASIBLE, NOT_REACHED, ScheduleTree
from engine.scheduling.tree_text import show
from tests.explore.groups import made_of
from tests.kernels.stitched_programs import (
    group_norm,
    layernorm_backward,
    pooled_attention,
    side_by_side,
    stitched,
)
from tests.support.random_programs import random_program

MODELS = Path(__file__).parents[1] / "resources" / "models"
DRAWS = 6
"""Random edits of each group."""


NAMES = (
    "add_relu_odd_3x5x127 add_0", "bert_tiny attention_0", "bert_tiny layernorm_0", "bert_tiny matmul_1",
    "bert_tiny matmul_4", "column_sum_1000x384 reducesum_0", "layernorm_64x768 layernorm_0",
    "matmul_bias_gelu_128x256x512 matmul_0", "reduce_fp16 reducemean_0", "softmax_96x512 softmax_0",
    "transpose_2x12x64x64 transpose_0", "random0", "random1", "random2", "random3", "pooled_attention", "group_norm",
    "packed",
)  # fmt: skip


@cache
def groups() -> dict[str, FusionGroup]:
    """Groups of every kind."""
    found: dict[str, FusionGroup] = {}
    for model in {name.split()[0] for name in NAMES if " " in name}:
        for group in engine.fuse(engine.load(MODELS / f"{model}.onnx")).groups:
            found[f"{model} {group.name}"] = group
    for seed in range(4):
        program = random_program(seed)
        kind = "row reduction" if any(s.reduction for s in program.statements) else "element-wise"
        found[program.name] = made_of(program, kind)
    for source in (pooled_attention(), group_norm(), side_by_side(layernorm_backward(), pooled_attention())):
        found[source.name] = stitched(source)
    return found


def wish(draw: random.Random, group: FusionGroup) -> Entry:
    """A random entry of any field, sensible or not."""
    statements = group.program.statements
    statement, second = draw.choice(statements), draw.choice(statements)
    names = [i.name for i in statement.iterators] or ["i"]
    name, other = draw.choice(names), draw.choice(names)
    at = draw.choice(["outermost", "innermost"] * 3 + [name, name, f"after {name}", "zzz"])
    place = draw.randrange(1, len(statements) + 1)
    order = [s.name for s in statements]
    if draw.random() < 0.2:
        draw.shuffle(order)
    required, small = draw.random() < 0.5, draw.choice([-3, -1, 1, 2, 4, 1 << 40])
    who = draw.choice([(statement.name,), (), (statement.name, second.name)])
    number = draw.choice([1, 3, 4, 1 << 30])
    fields: list[tuple[tuple[str, ...], dict[str, object]]] = [
        (who, {"pin": (name, other)}),
        (who, {"parallel": draw.random() < 0.5}),
        ((), {"cut": (tuple(order[:place]), tuple(order[place:]))}),
        ((), {"equal": (statement.name, second.name)}),
        (who, {"objective": ((name, small),)}),
        (who, {"split": number}),
        (who, {"mark": (draw.choice(MARKS), draw.choice([number, "none"]))}),
        (who, {"terms": draw.choice(["skew", "shift", "reverse"])}),
        ((statement.name,), {"terms": (statement.name, name, small)}),
        ((statement.name,), {"terms": (statement.name, "const", small)}),
        ((statement.name,), {"terms": ((name, 1), (other, small))}),
        ((statement.name,), {"rewrite": ("recompute", second.name)}),
    ]
    said, field = draw.choice(fields)
    try:
        return engine.entry(*said, **field, at="" if "rewrite" in field else at, required=required)
    except engine.BadInput:
        return wish(draw, group)  # no such entry can be written


def edited(draw: random.Random, group: FusionGroup) -> Recipe:
    """A group's recipe under random entries, some of them as alternatives."""
    entries = tuple(wish(draw, group) for _ in range(draw.randint(0, 1)))
    drawn = [wish(draw, group) for _ in range(draw.choice([0, 0, 2, 3]))]
    alternatives = tuple(Scenario((each,)) for each in drawn if each.field != "rewrite")
    recipe = engine.default_recipe(group) if draw.random() < 0.7 else Recipe("h200")
    advice = recipe.groups.get(group.name, ())
    return recipe.with_group(group.name, (*advice, Advice("user", Scenario(entries, alternatives))))


@pytest.mark.few(5)
@pytest.mark.parametrize("name", NAMES)
def test_schedule_and_compile_give_the_same_tree_and_no_edit_ends_in_a_traceback(name: str) -> None:
    draw = random.Random(f"edits of {name}")
    group = groups()[name]
    for _ in range(DRAWS):
        compare(group, edited(draw, group))


def compare(group: FusionGroup, recipe: Recipe) -> None:
    """`engine.schedule` and `engine.compile` of one recipe."""
    try:
        found = engine.schedule(group, recipe)
    except (engine.BadInput, engine.OverBudget):
        return  # an entry that says nothing about this group
    try:
        kernel = engine.compile(group, recipe)
    except (engine.NotTaken, engine.NoKernel) as refused:
        assert found.legal and found.because and refused.scheduled.tree == found.tree
    except engine.Illegal as illegal:
        assert not found.legal and illegal.reason in found.because
    else:
        assert found.legal and not found.because
        assert (found.tree, found.verdicts, found.log) == (kernel.schedule, kernel.verdicts, kernel.log)


def advised(lines: str, name: str = "softmax_96x512 softmax_0") -> tuple[FusionGroup, Recipe]:
    group = groups()[name]
    return group, engine.merge_advice(engine.default_recipe(group), group, f"advice user\n{lines}")


def outcomes(found: engine.Scheduled) -> list[str]:
    return [v.outcome for v in found.verdicts if v.placed.author == "user"]


REFUSED = "required S0 @ innermost: mark lane 4096"
TAKEN = "required S0 @ innermost: mark vector 2"
ILLEGAL = "required all @ innermost: cut S3 | S0 S1 S2"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (f"  either\n    {REFUSED}\n  or\n    {TAKEN}\n", [INFEASIBLE, HONOURED]),
        (f"  either\n    {ILLEGAL}\n  or\n    {REFUSED}\n  or\n    {TAKEN}\n", [INFEASIBLE, INFEASIBLE, HONOURED]),
        (f"  either\n    {TAKEN}\n  or\n    {REFUSED}\n", [HONOURED, NOT_REACHED]),
        (f"  either\n    S1 @ j: mark unroll 1\n    either\n      {REFUSED}\n  or\n    {TAKEN}\n", None),
    ],
)
def test_an_alternative_whose_kernel_is_refused_gives_way_to_its_sibling(lines: str, expected: list[str]) -> None:
    group, recipe = advised(lines)
    kernel = engine.compile(group, recipe)
    found = engine.schedule(group, recipe)
    assert found.legal and not found.because and found.tree == kernel.schedule
    assert expected is None or outcomes(found) == expected
    taken = [v for v in kernel.verdicts if str(v.placed.entry) == TAKEN]
    assert [v.outcome for v in taken] == [HONOURED]
    for verdict in kernel.verdicts:
        if str(verdict.placed.entry) == REFUSED and verdict.outcome == INFEASIBLE:
            assert "a power of two up to 1024" in verdict.because
            assert any("given up" in line and "a power of two up to 1024" in line for line in kernel.log)


def test_required_marks_with_two_values_exclude_each_other() -> None:
    first, second = "required S0 @ j: mark lane 16", "required S0 @ innermost: mark lane 32"
    group, recipe = advised(f"  {first}\n  {second}\n")
    assert not engine.schedule(group, recipe).legal
    with pytest.raises(engine.Conflict) as refused:
        engine.compile(group, recipe)
    assert [str(placed.entry) for placed in refused.value.conflicting] == [first, second]
    assert refused.value.repairs and "collides with" in refused.value.reason
    for other, outcome in ((second.removeprefix("required "), "relaxed"), (first, HONOURED)):
        kernel = engine.compile(*advised(f"  {first}\n  {other}\n"))
        assert [v.outcome for v in kernel.verdicts if v.placed.author == "user"] == [HONOURED, outcome]


def test_analyses_have_alternatives_like_users() -> None:
    group = groups()["softmax_96x512 softmax_0"]
    asked = (("lane", 4096), ("vector", 2))
    marks = [engine.entry("S0", mark=mark, at="innermost", required=True) for mark in asked]
    either = Scenario((), tuple(Scenario((mark,)) for mark in marks))
    for author in ("vectorize", "user"):
        kernel = engine.compile(group, Recipe("h200").with_group(group.name, (Advice(author, either),)))
        assert [v.outcome for v in kernel.verdicts] == [INFEASIBLE, HONOURED]


def test_the_first_legal_schedule_is_shown_where_no_kernel_follows_any() -> None:
    group, recipe = advised(f"  either\n    {REFUSED}\n  or\n    required S1 @ i: mark stages 4\n")
    found = engine.schedule(group, recipe)
    assert found.legal and "a power of two up to 1024" in found.because
    with pytest.raises(engine.NotTaken) as refused:
        engine.compile(group, recipe)
    assert refused.value.scheduled.tree == found.tree


def test_a_required_entry_that_the_own_family_refuses_is_taken_by_the_general_one() -> None:
    group, recipe = advised("  required all @ j: mark thread 64\n")
    kernel = engine.compile(group, recipe)
    assert kernel.family == "general" and "threads of a reduction" in kernel.tile.misfit
    assert engine.check(kernel).status == "pass"


def test_an_illegal_wish_raises_nothing() -> None:
    group, recipe = advised(f"  {ILLEGAL}\n")
    found = engine.schedule(group, recipe)
    assert not found.legal and "breaks the flow" in found.because and INFEASIBLE in outcomes(found)


def test_nothing_is_lowered_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    import engine.compilation as compilation

    group, recipe = advised(f"  either\n    {REFUSED}\n  or\n    required S1 @ i: mark stages 4\n  or\n    {REFUSED}\n")
    seen = []
    lower = compilation.lower
    monkeypatch.setattr(compilation, "lower", lambda *given: [seen.append(given[1]), lower(*given)][1])
    assert engine.schedule(group, recipe).because
    alternatives = 3
    assert len(seen) == len({id(tree) for tree in seen}) <= 2 * alternatives  # with soft advice, and without


REVERSED, MARKED = "S0 @ outermost: terms (S0, i, -1)", "S1 @ innermost: mark vector 2"


def refuse_where(monkeypatch: pytest.MonkeyPatch, refused: Callable[[str], bool]) -> None:
    """Let code generation refuse the schedules whose text says something."""
    import engine.compilation as compilation

    lower = compilation.lower

    def lower_some(group: FusionGroup, tree: ScheduleTree, *given: object) -> object:
        if refused(show(tree, group.program)):
            raise engine.Unsupported("codegen", "this schedule", "is refused here")
        return lower(group, tree, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(compilation, "lower", lower_some)


@pytest.mark.parametrize("below", ["", f"  either\n    {ILLEGAL}\n  or\n    S3 @ innermost: mark unroll 4\n"])
def test_a_soft_entry_that_costs_the_kernel_gives_way_alone(below: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_where(monkeypatch, lambda text: "S0: -i" in text)
    group, recipe = advised(f"  {MARKED}\n  {REVERSED}\n{below}")
    found, kernel = engine.schedule(group, recipe), engine.compile(group, recipe)
    assert found.legal and not found.because and found.tree == kernel.schedule
    verdicts = {str(v.placed.entry): v for v in kernel.verdicts}
    assert verdicts[REVERSED].outcome == INFEASIBLE
    assert verdicts[REVERSED].because == "no kernel follows it: is refused here"
    assert any(line.startswith(f"given up: {REVERSED}") for line in kernel.log)
    assert INFEASIBLE not in {v.outcome for text, v in verdicts.items() if text not in (REVERSED, ILLEGAL)}
    assert "mark vector 2" in {str(v.placed.entry).split(": ")[1] for v in kernel.verdicts if v.outcome == HONOURED}


def test_soft_entries_stay_where_no_kernel_follows_without_them_either(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_where(monkeypatch, lambda text: True)
    group, recipe = advised(f"  {REVERSED}\n")
    found = engine.schedule(group, recipe)
    assert found.legal and found.because == "is refused here" and outcomes(found) == [HONOURED]


def test_a_required_entry_does_not_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_where(monkeypatch, lambda text: "S0: -i" in text)
    group, recipe = advised(f"  required {REVERSED}\n  {MARKED}\n")
    assert engine.schedule(group, recipe).because == "is refused here"
    with pytest.raises(engine.NoKernel, match="is refused here"):
        engine.compile(group, recipe)
