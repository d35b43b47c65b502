"""Entries about coefficients, on every kind of group: a kernel of its own family or a general one, or a conflict."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import pytest

import engine
from engine import Conflict, Entry, Unsupported, entry
from engine.fusion.nodes import FusionGroup
from engine.recipe import Value
from engine.scheduling.nodes import Band, walk
from engine.tensor.nodes import Statement
from tests.kernels.stitched_programs import pooled_attention, stitched
from tests.support.checked_programs import check_program
from tests.support.commands import MODELS
from tests.support.misfits import own_refusal
from tests.support.needs import needs_compiler

TRIED = 12
"""Entries of each group."""
FILES = ("softmax_96x512", "column_sum_1000x384", "transpose_2x12x64x64", "add_relu_odd_3x5x127")


@cache
def groups() -> dict[str, FusionGroup]:
    """A group of every kind, by its kind; of the model that has attention, its first of each."""
    plans = [engine.fuse(engine.load(MODELS / f"{file}.onnx")) for file in ("bert_tiny", *FILES)]
    found = [group for plan in plans for group in plan.groups] + [stitched(pooled_attention())]
    return {group.kind: group for group in reversed(found)}


def wishes(statement: Statement) -> Iterator[Value]:
    """Constants, multiples, reversals, absences and a sum of iterators in a statement's row."""
    name, iterators = statement.name, [iterator.name for iterator in statement.iterators]
    yield from ((name, "const", number) for number in (4, 1, 0, -1))
    yield from ((name, iterator, number) for iterator in iterators for number in (2, 0, -1))
    if len(iterators) > 1:
        yield (name, iterators[0], 1), (name, iterators[1], 1)


def entries(group: FusionGroup) -> list[Entry]:
    """Some wishes about the statements in some dimension of the default schedule."""
    kernel = engine.compile(group)
    bands = [node for node in walk(kernel.schedule.root) if isinstance(node, Band)]
    dimensions = sorted({member.name for band in bands for member in band.members})
    every = [
        entry(terms=wish, at=at, required=True)
        for statement in kernel.program.statements
        for wish in wishes(statement)
        for at in ("innermost", "outermost", *dimensions)
    ]
    return random.Random(7).sample(every, TRIED)


KINDS = (
    "attention", "contraction", "row reduction", "column reduction", "element-wise", "packed", "stitched", "layout",
)  # fmt: skip


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_wish_about_coefficients_gives_a_kernel_or_a_refusal(kind: str) -> None:
    group = groups()[kind]
    recipe = engine.default_recipe(group)
    for wish in entries(group):
        try:
            engine.compile(group, recipe.advise("user", wish, group=group.name))
        except (Conflict, Unsupported) as refusal:
            assert refusal.reason


@pytest.mark.parametrize("kind", KINDS)
@needs_compiler
def test_a_sum_of_iterators_has_a_general_kernel_and_the_own_family_says_why(kind: str) -> None:
    """A loop is one iterator in every other family."""
    group = groups()[kind]
    recipe = engine.default_recipe(group)
    widest = max(engine.compile(group).program.statements, key=lambda s: len(s.iterators))
    wish = entry(widest.name, terms=tuple((i.name, 1) for i in widest.iterators[-2:]), at="innermost", required=True)
    kernel = engine.compile(group, recipe.advise("user", wish, group=group.name))
    assert kernel.family == "general"
    assert f"{widest.name} runs over" in own_refusal(kernel).reason
    found = engine.check(kernel) if group.graph else check_program(kernel)
    assert found.status == "pass", found.message


@pytest.mark.parametrize("kind", KINDS)
@needs_compiler
def test_a_shifted_row_has_a_kernel_of_its_own_family_where_the_whole_loop_is_shifted(kind: str) -> None:
    group = groups()[kind]
    recipe = engine.default_recipe(group)
    plain = engine.compile(group)
    first, families = plain.program.statements[0], []
    for at in ("innermost", "outermost"):
        wish = entry(terms=(first.name, "const", 4), at=at, required=True)
        try:
            kernel = engine.compile(group, recipe.advise("user", wish, group=group.name))
        except Conflict:
            continue
        families.append(kernel.family)
        if kernel.family == plain.family:
            assert kernel.source.text == plain.source.text
        else:
            assert "runs over" in own_refusal(kernel).reason
            found = engine.check(kernel) if group.graph else check_program(kernel)
            assert found.status == "pass", found.message
    assert plain.family in families


@pytest.mark.parametrize("kind", KINDS)
def test_no_shift_is_what_a_kernel_has_in_any_case(kind: str) -> None:
    group = groups()[kind]
    recipe = engine.default_recipe(group)
    plain = engine.compile(group, recipe)
    wish = entry(terms=(plain.program.statements[0].name, "const", 0), at="outermost", required=True)
    assert engine.compile(group, recipe.advise("user", wish, group=group.name)).tile.body == plain.tile.body
