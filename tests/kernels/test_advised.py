"""Kernels that advisers made are those that their advice compiles to, and are taken for nothing else."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest

import engine
from engine import compilation
from engine.kernels.advised import MOST_KERNELS, AdvisedKernels

ROWS = ("suite:alcop/MM_RN50_FC", "suite:attention/32x32x512x512x64", "suite:memory/softmax-32768x256")


def group_of(file: str) -> engine.FusionGroup:
    return engine.fuse(engine.load(file)).groups[0]


def fresh(group: engine.FusionGroup, recipe: engine.Recipe) -> engine.AnyKernel:
    """As if no adviser had compiled."""
    with patch.object(compilation, "_kernels", AdvisedKernels()):
        return engine.compile(group, recipe)


@pytest.mark.parametrize("file", ROWS)
def test_the_kernel_of_the_advice_is_that_of_its_recipe(file: str) -> None:
    group = group_of(file)
    recipe = engine.default_recipe(group)
    with patch.object(compilation, "_compile_unchecked", side_effect=AssertionError):
        taken = engine.compile(group, recipe)
    made = fresh(group, recipe)
    for name in ("group", "recipe", "program", "schedule", "verdicts", "source", "facts"):
        assert getattr(taken, name) == getattr(made, name), name


def test_what_was_edited_is_compiled() -> None:
    group = group_of(ROWS[0])
    recipe = engine.default_recipe(group)
    edited = recipe.advise("user", engine.entry("S0", mark=("stages", 1), at="k"))
    assert engine.compile(group, edited).tile.stages == 1 != engine.compile(group, recipe).tile.stages


def test_another_machine_group_or_numerics_is_compiled() -> None:
    group = group_of(ROWS[0])
    recipe = engine.default_recipe(group)
    others = [(group, replace(recipe, target="a100")), (group_of(ROWS[0]), recipe),
              (group, replace(recipe, numerics={"arithmetic": "faithful"}))]  # fmt: skip
    compiles = patch.object(compilation, "_compile_unchecked", side_effect=ZeroDivisionError)
    for other, asked in others:
        with compiles, pytest.raises(ZeroDivisionError):
            engine.compile(other, asked)
    # A calibration that came in between may choose otherwise.
    calibrated = patch.object(compilation, "calibration_stamp", lambda _: ("file", 1))
    with calibrated, compiles, pytest.raises(ZeroDivisionError):
        engine.compile(group, recipe)


def test_the_oldest_go() -> None:
    group, kept = group_of(ROWS[0]), AdvisedKernels()
    kernel = engine.compile(group)
    advice = [(*kernel.advice,) for _ in range(MOST_KERNELS + 1)]
    for one in advice:
        kept.keep(one, group, "", kernel)
    assert kept.find(advice[0], group, "") is None
    assert kept.find(advice[1], group, "") is kernel is kept.find(advice[-1], group, "")
    assert kept.find((*advice[1],), group, "") is None
