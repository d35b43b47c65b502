"""Alternatives of the analyses for products, attention and stitched groups, and what the solver takes of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.kernels.advice import AS_IN_TEXT
from engine.kernels.preferences import preferences
from engine.recipe import Scenario
from tests.kernels.test_tensor_cores import product_group
from tests.semantics.single import Node, write_model
from tests.support.attentions import Attention
from tests.support.needs import needs_compiler

CHANNELS = 64


def gated(folder: Path, places: int) -> engine.FusionGroup:
    """x times a gate of each channel, which a small product makes: squeeze and excitation in one kernel.

    Half as many channels, each a block's, leave so much of the GPU idle that a kernel that splits them is advised.
    """
    nodes: list[Node] = [
        ("Conv", ["s", "w", "b"], ["e"], {}), ("Sigmoid", ["e"], ["g"], {}), ("Mul", ["x", "g"], ["y"], {}),
    ]  # fmt: skip
    inputs = {"s": ("float32", (1, 8, 1, 1)), "x": ("float32", (1, CHANNELS, places, places))}
    weights = {"w": np.ones((CHANNELS, 8, 1, 1), "float32"), "b": np.ones(CHANNELS, "float32")}
    path = write_model(folder / "gated.onnx", nodes, inputs, ["y"], weights)
    return engine.fuse(engine.load(path)).groups[-1]


def product(folder: Path) -> engine.FusionGroup:
    return product_group(folder, (64, 256), (256, 128))


def attention(folder: Path) -> engine.FusionGroup:
    return Attention(queries=128, keys=256, mask="add").group(folder)


GROUPS = {"product": product, "attention": attention, "stitched": lambda folder: gated(folder, 112)}


def scenario_of(group: engine.FusionGroup) -> Scenario:
    """The one with alternatives, of all authors; the last one where none has."""
    advice = engine.default_recipe(group).groups[group.name]
    return max((one.scenario for one in advice), key=lambda scenario: len(scenario.alternatives))


@pytest.mark.parametrize("kind", GROUPS)
def test_where_accesses_disagree_there_are_alternatives_with_their_score(kind: str, tmp_path: Path) -> None:
    group = GROUPS[kind](tmp_path)
    told, offered = preferences(group.program).disagreement, scenario_of(group).alternatives
    assert told.startswith("innermost ") and len(offered) > 1
    assert told in offered[0].entries[0].because and " innermost: score " in offered[0].entries[0].because
    assert sum(AS_IN_TEXT in one.label for one in offered) == 1
    assert len({one.label for one in offered}) == len({one.entries for one in offered}) == len(offered)
    assert all(entry.because for one in offered for entry in one.entries)


@pytest.mark.parametrize("kind", GROUPS)
def test_the_first_is_taken_and_the_others_are_not_reached(kind: str, tmp_path: Path) -> None:
    kernel = engine.compile(GROUPS[kind](tmp_path))
    inside = {v.placed.path[1]: v.outcome for v in kernel.verdicts if len(v.placed.path) > 2}
    assert inside.pop(0) == "honoured" and set(inside.values()) == {"not reached"}


@needs_compiler
def test_a_sibling_is_taken_where_the_first_has_no_kernel_with_what_is_required(tmp_path: Path) -> None:
    """Warps of 64 rows do not fit the best tile, which has 32."""
    group = product(tmp_path)
    labels = [one.label for one in scenario_of(group).alternatives]
    assert labels == [f"tiles of 32 x 32, 2 slices, {AS_IN_TEXT}", "tiles of 64 x 32, 2 slices"]
    wish = "advice user\n  required S0 @ i: mark warp 64\n"
    kernel = engine.compile(group, engine.merge_advice(engine.default_recipe(group), group, wish))
    outcomes = {v.placed.path[1]: v.outcome for v in kernel.verdicts if len(v.placed.path) > 2}
    assert outcomes[0] == "infeasible" and kernel.family == "gemm"
    assert "alternative 1 of 2 given up" in kernel.log[0] and "warp 64" in kernel.log[0]
    assert kernel.tile.constants["TILE_ROWS"] == 64
    assert engine.check(kernel).status == "pass"


@pytest.mark.parametrize("places", [14, 112])
def test_a_share_of_a_block_is_another_than_the_text_s_only_for_fewer_sectors(places: int, tmp_path: Path) -> None:
    group = gated(tmp_path, places)
    recipe, offered = engine.default_recipe(group), scenario_of(group).alternatives
    (number,) = [n for n, one in enumerate(offered) if AS_IN_TEXT in one.label]
    (stitch,) = recipe.groups[group.name]
    chosen = engine.compile(group, recipe)
    alone = replace(stitch, scenario=replace(stitch.scenario, alternatives=(offered[number],)))
    text = engine.compile(group, recipe.with_group(group.name, (alone,)))
    assert number == 0 or chosen.facts.global_sectors < text.facts.global_sectors
    assert engine.predict(chosen).microseconds <= engine.predict(text).microseconds
    assert (number > 0) == (places == 112)
