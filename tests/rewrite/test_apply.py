"""Rewrites as entries of advice: order, verdicts, kernels that are checked, repairs that say them."""

from __future__ import annotations

from dataclasses import replace

import pytest

import engine
from engine.fusion.nodes import FusionGroup
from engine.present.model import kernel_doc, refused_doc
from engine.recipe import Advice, Recipe, Scenario, entry
from engine.rewrite.apply import rewritten
from engine.scheduling.compose import compose, validate
from engine.scheduling.nodes import DISABLED, HONOURED, INFEASIBLE, RELAX, SWITCH_OFF, Conflict
from engine.support.errors import BadInput
from tests.explore.groups import group_of
from tests.support import programs

SOFTMAX, MATMUL = "softmax_96x512", "matmul_bias_gelu_128x256x512"


def advised(text: str, file: str = SOFTMAX) -> Recipe:
    """The advisers' recipe with lines of the user."""
    group = group_of(file)
    return engine.merge_advice(engine.default_recipe(group), group, f"advice user\n{text}")


def compiled(text: str, file: str = SOFTMAX) -> engine.Kernel:
    return engine.compile(group_of(file), advised(text, file))


def outcomes(kernel: engine.Kernel) -> dict[str, tuple[str, str]]:
    rewrites = [v for v in kernel.verdicts if v.placed.entry.field == "rewrite"]
    return {str(v.placed.entry): (v.outcome, v.because) for v in rewrites}


@pytest.mark.parametrize(
    ("file", "lines", "left"),
    [
        (SOFTMAX, ("recompute S1 in S3",), "S0 S1 S2 S3"),
        (SOFTMAX, ("recompute S1 in S2", "recompute S1 in S3"), "S0 S2 S3"),
        (SOFTMAX, ("associative S2", "recompute S1 in S3"), "S0 S1 S2 S3"),
        ("layernorm_64x768", ("recompute S1 in S2",), "S0 S1 S2 S3 S4"),
        (MATMUL, ("recompute S1 in S2", "recompute S1 in S6"), "S0 S2 S3 S4 S5 S6"),
    ],
)
def test_a_rewritten_kernel_computes_what_the_reference_does(file: str, lines: tuple[str, ...], left: str) -> None:
    kernel = compiled("".join(f"  required rewrite {line}\n" for line in lines), file)
    assert [s.name for s in kernel.program.statements] == left.split()
    assert all(outcome == HONOURED for outcome, _ in outcomes(kernel).values())
    assert kernel.source.text != compiled("", file).source.text
    found = engine.check(kernel)
    assert found.status == "pass" and found.elements_compared, found.message


def test_an_ordered_reduction_of_a_real_group_becomes_free_and_is_checked() -> None:
    """As fused every sum is free; with the order of the text required, only the rewrite lets k run in parallel."""
    group = strict(group_of(MATMUL))
    anchor = group.program.statements[0]
    assert anchor.reduction is not None
    wish = entry("S0", pin=anchor.reduction.iterators, at="outermost", required=True)
    parallel = entry("S0", parallel=True, at="outermost", required=True)
    asked = Recipe("h200", groups={group.name: (Advice("user", Scenario((wish, parallel))),)})
    with pytest.raises(Conflict) as caught:
        engine.compile(group, asked)
    (repair,) = [r for r in refused_doc(group, asked, caught.value).repairs if r.kind == "rewrite"]
    assert "  rewrite associative S0  # because " in repair.recipe
    free = engine.default_recipe(group).advise("user", entry("S0", rewrite="associative"))
    kernel = engine.compile(group, free)
    assert not [d for d in kernel.dependences if d.kind == "reduction"]
    assert engine.check(kernel).status == "pass"


@pytest.mark.parametrize(("file", "sums", "alone"), [(SOFTMAX, "S0 S2", "lane"), ("column_sum_1000x384", "S0", "warp")])
def test_threads_share_the_terms_of_a_sum_only_if_it_may_have_any_order(file: str, sums: str, alone: str) -> None:
    group = strict(group_of(file))
    default = engine.default_recipe(group)
    in_order = engine.compile(group, default)
    assert in_order.family == "general" and "its terms must come in order" in in_order.tile.misfit
    assert engine.check(in_order).status == "pass"
    free = default.advise("user", *(entry(name, rewrite="associative") for name in sums.split()))
    one = default.advise("user", entry(*sums.split(), mark=(alone, 1), at="innermost"))
    for asked in (free, one):
        assert engine.check(engine.compile(group, asked)).status == "pass"
    assert engine.compile(group, free).source == engine.compile(group_of(file), default).source


def strict(group: FusionGroup) -> FusionGroup:
    """The group with the terms of every reduction in the order of the text."""
    statements = tuple(
        replace(s, reduction=s.reduction and replace(s.reduction, associative=False)) for s in group.program.statements
    )
    return replace(group, program=replace(group.program, statements=statements))


def test_a_conflict_is_repaired_by_computing_again_in_one_step() -> None:
    """S2 is to run before S1, whose result it reads."""
    group, asked = group_of(SOFTMAX), advised("  required all @ innermost: cut S2 | S1\n")
    with pytest.raises(Conflict) as caught:
        engine.compile(group, asked)
    offered = [r for r in refused_doc(group, asked, caught.value).repairs if r.kind == "rewrite"]
    assert [(r.text, r.path, r.complete) for r in offered] == [
        ("let S2 compute y_exp again, without waiting for S1", (), True)
    ]
    repaired = engine.replace_advice(asked, group, offered[0].recipe)
    kernel = engine.compile(group, repaired)
    assert outcomes(kernel) == {"rewrite recompute S1 in S2": (HONOURED, "S1 stays: its result is read elsewhere")}
    assert engine.check(kernel).status == "pass"


def test_what_cannot_be_made_is_said_and_refused_only_where_required() -> None:
    soft = compiled("  rewrite recompute S0 in S1\n")
    ((outcome, because),) = outcomes(soft).values()
    assert outcome == INFEASIBLE and "every element would be reduced again" in because
    assert soft.program == soft.group.program
    with pytest.raises(Conflict) as caught:
        compiled("  required rewrite recompute S0 in S1\n")
    assert caught.value.reason == because
    assert [str(p.entry) for p in caught.value.conflicting] == ["required rewrite recompute S0 in S1"]
    assert [r.kind for r in caught.value.repairs] == [RELAX, SWITCH_OFF]
    assert len(caught.value.verdicts) == len(soft.verdicts), "every other entry is told, too"


def test_a_rewrite_that_is_off_changes_nothing() -> None:
    off = compiled("  off rewrite recompute S1 in S3  # because registers are scarce\n")
    assert outcomes(off) == {"off rewrite recompute S1 in S3": (DISABLED, "switched off")}
    assert off.source == compiled("").source


def test_the_users_rewrites_come_first_then_those_of_others_in_their_order() -> None:
    """Whoever comes first finds S1; the second reader takes it away; a third finds nothing."""
    first, second = entry("S1", rewrite=("recompute", "S2")), entry("S1", rewrite=("recompute", "S3"))
    advice = (Advice("tune", Scenario((second, first))), Advice("user", Scenario((first,))))
    made = rewritten(programs.softmax(), advice)
    assert [(v.placed.author, v.placed.path, v.outcome) for v in made.verdicts] == [
        ("user", (1, 0), HONOURED),
        ("tune", (0, 0), HONOURED),
        ("tune", (0, 1), INFEASIBLE),
    ]
    assert made.verdicts[1].because == "nobody reads e any more: S1 is gone"
    assert [s.name for s in made.program.statements] == ["S0", "S2", "S3"]


def test_statements_that_a_rewrite_names_must_exist() -> None:
    for line in ("rewrite associative S9", "rewrite recompute S1 in S9"):
        with pytest.raises(BadInput, match="there is no statement S9"):
            advised(f"  {line}\n")
    advised("  rewrite recompute S1 in S3\n")


def test_a_rewrite_stands_in_no_alternative() -> None:
    inside = Scenario((entry("S2", rewrite="associative"),))
    advice = (Advice("user", Scenario((), (inside,))),)
    with pytest.raises(BadInput, match="cannot stand in one of them"):
        compose(advice, programs.softmax())
    with pytest.raises(BadInput, match="cannot stand in one of them"):
        Recipe.from_json(Recipe("h200", groups={"g": advice}).to_json())
    validate((Advice("user", inside),), programs.softmax())


def test_documents_tell_what_was_made_of_the_program() -> None:
    kernel = compiled("  rewrite recompute S1 in S3  # because it is cheap\n")
    document = kernel_doc(kernel)
    (row,) = [e for e in document.entries if e.text.startswith("rewrite")]
    assert (row.author, row.because, row.outcome, row.path) == ("user", "it is cheap", HONOURED, (2, 0))
    assert next(s for s in document.statements if s.name == "S3").text.count("exp") == 1
    assert "S3[i < 96, j < 512]" in next(s for s in document.statements if s.name == "S3").text
    title = "What is computed otherwise than it was fused"
    told = document.explain.split(title)[1].split("\n\n")[0]
    assert "user: rewrite recompute S1 in S3 (because it is cheap): honoured" in told and "exp(" in told
    assert title not in kernel_doc(compiled("")).explain
    difference = engine.compare(compiled(""), kernel)
    assert "+ user: rewrite recompute S1 in S3 (because it is cheap)" in difference.entries


def test_the_menu_of_moves_tries_rewrites() -> None:
    group = group_of(SOFTMAX)
    tried = {move.title: move for move in engine.moves(group).possible}
    move = tried["Recompute S1 in S3"]
    assert move.entries == ("rewrite recompute S1 in S3",) and move.time is not None
    after = engine.replace_advice(engine.default_recipe(group), group, move.recipe)
    back = next(m for m in engine.moves(group, after).possible if m.title == "Keep S1 for S3")
    assert back.entries == ("off rewrite recompute S1 in S3",)
    assert engine.decisions(group, after).rows and engine.space(group, after).points
