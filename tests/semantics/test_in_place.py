"""Reductions that overwrite what they read: every thread meets old values before the update and new ones after it."""

from __future__ import annotations

import numpy as np
import pytest

import engine
from engine.fusion.nodes import FusionGroup, GroupInstance
from engine.target import DEFAULT_TARGET
from engine.verify.kernel import check_kernel
from tests.support.programs import apply, at, program, statement


@pytest.mark.parametrize("columns", [40, 65, 900])
@pytest.mark.parametrize("lanes", [1, 8, 32, 128])
def test_a_row_is_centred_in_place_and_summed_again(columns: int, lanes: int) -> None:
    """t = x * x;  m = max x;  x = x - m;  s = sum x;  y = t + s, where t is of the old x."""
    box = [("i", 5), ("j", columns)]
    body = program(
        "centred",
        {"x": (5, columns), "t": (5, columns), "m": (5,), "s": (5,), "y": (5, columns)},
        [
            statement("S0", box, at("t", "i", "j"), apply("mul", at("x", "i", "j"), at("x", "i", "j"))),
            statement("S1", box, at("m", "i"), at("x", "i", "j"), ("max", "j")),
            statement("S2", box, at("x", "i", "j"), apply("sub", at("x", "i", "j"), at("m", "i"))),
            statement("S3", box, at("s", "i"), at("x", "i", "j"), ("sum", "j")),
            statement("S4", box, at("y", "i", "j"), apply("add", at("t", "i", "j"), at("s", "i"))),
        ],
        "x y",
        "x",
    )
    instance = GroupInstance((), {n: n for n in body.arrays}, {s.name: s.operator for s in body.statements})
    group = FusionGroup("centred", "centred", "row reduction", body, (instance,), (), "", DEFAULT_TARGET)
    recipe = engine.default_recipe(group).advise("user", engine.entry("S1", at="innermost", mark=("lane", lanes)))
    kernel = engine.compile(group, recipe)

    x = np.random.default_rng(7).standard_normal((5, columns)).astype(np.float32)
    centred = x - x.max(axis=1, keepdims=True)
    y = x * x + centred.astype(np.float64).sum(axis=1, keepdims=True).astype(np.float32)
    report = check_kernel(kernel, {"x": centred, "y": y}, {"x": x})
    assert report.status == "pass", f"{report.message}\n{kernel.source.text}"


@pytest.mark.parametrize("columns", [40, 900])
def test_a_running_value_of_each_row_is_updated(columns: int) -> None:
    """a = a + max x: every thread of a row reads the old a, one of them writes the new one."""
    box = [("i", 5), ("j", columns)]
    body = program(
        "running",
        {"x": (5, columns), "a": (5,), "m": (5,), "y": (5, columns)},
        [
            statement("S0", box, at("m", "i"), at("x", "i", "j"), ("max", "j")),
            statement("S1", [("i", 5)], at("a", "i"), apply("add", at("a", "i"), at("m", "i"))),
            statement("S2", box, at("y", "i", "j"), apply("sub", at("x", "i", "j"), at("a", "i"))),
        ],
        "a y",
        "a",
    )
    instance = GroupInstance((), {n: n for n in body.arrays}, {s.name: s.operator for s in body.statements})
    group = FusionGroup("running", "running", "row reduction", body, (instance,), (), "", DEFAULT_TARGET)
    kernel = engine.compile(group)
    draw = np.random.default_rng(8)
    x, old = draw.standard_normal((5, columns)).astype(np.float32), draw.standard_normal(5).astype(np.float32)
    new = old + x.max(axis=1)
    report = check_kernel(kernel, {"x": x, "a": new, "y": x - new[:, None]}, {"a": old})
    assert report.status == "pass", f"{report.message}\n{kernel.source.text}"
