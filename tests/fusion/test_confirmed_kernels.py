"""Kernels that the search's model would join, and the estimate has the last word on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.fusion.nodes import FusionPlan
from engine.fusion.partition import _EstimateJudge
from tests.fusion.test_whole_rows import groups_of
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_compiler


def group_norm(folder: Path, channels: int, groups: int, size: int) -> FusionPlan:
    """A norm of groups of channels, scaled and shifted channel by channel, as exporters write it."""
    shape = (1, channels, size, size)
    nodes: list[Node] = [
        ("Reshape", ["x", "flat"], ["r"], {}), ("InstanceNormalization", ["r", "one", "zero"], ["n"], {}),
        ("Reshape", ["n", "whole"], ["b"], {}), ("Mul", ["b", "g"], ["s"], {}), ("Add", ["s", "h"], ["y"], {}),
    ]  # fmt: skip
    inputs = {"x": ("float32", shape), "g": ("float32", (channels, 1, 1)), "h": ("float32", (channels, 1, 1))}
    constants = {
        "flat": np.array([1, groups, -1]), "whole": np.array(shape), "one": np.ones(groups, np.float32),
        "zero": np.zeros(groups, np.float32),
    }  # fmt: skip
    path = write_model(folder / "m.onnx", nodes, {**inputs}, ("y",), constants)
    return engine.fuse(engine.load(path))


@pytest.mark.parametrize(("size", "is_one"), [(7, True), (14, False)])
def test_a_norm_over_a_large_image_uses_more_than_one_block(size: int, is_one: bool, tmp_path: Path) -> None:
    """Four walks over 25,088 elements by one SM are quicker than three launches, over 100,352 they are not."""
    assert (len(group_norm(tmp_path, 512, 1, size).launches) == 1) == is_one


def test_a_norm_of_many_groups_is_one_kernel(tmp_path: Path) -> None:
    (launch,) = group_norm(tmp_path, 2048, 256, 7).launches
    assert launch.instance == 0


def rotated(name: str, result: str) -> list[Node]:
    """Heads of queries or keys, x cos + (-right half, left half) sin."""
    return [
        ("Reshape", [name, f"{name}_shape"], [f"{name}_v"], {}),
        ("Transpose", [f"{name}_v"], [f"{name}_t"], {"perm": [0, 2, 1, 3]}),
        ("Split", [f"{name}_t"], [f"{name}_left", f"{name}_right"], {"axis": -1, "num_outputs": 2}),
        ("Neg", [f"{name}_right"], [f"{name}_minus"], {}),
        ("Concat", [f"{name}_minus", f"{name}_left"], [f"{name}_turned"], {"axis": -1}),
        ("Mul", [f"{name}_t", "cos"], [f"{name}_a"], {}), ("Mul", [f"{name}_turned", "sin"], [f"{name}_b"], {}),
        ("Add", [f"{name}_a", f"{name}_b"], [result], {}),
    ]  # fmt: skip


@needs_compiler
def test_rotated_queries_and_keys_share_a_launch(tmp_path: Path) -> None:
    inputs = {
        "q": ("float16", (2, 128, 2048)), "k": ("float16", (2, 128, 256)),
        "cos": ("float16", (128, 64)), "sin": ("float16", (128, 64)),
    }  # fmt: skip
    constants = {"q_shape": np.array([2, 128, 32, 64]), "k_shape": np.array([2, 128, 4, 64])}
    nodes = [*rotated("q", "y"), *rotated("k", "z")]
    path = write_model(tmp_path / "m.onnx", nodes, {**inputs}, ("y", "z"), constants)
    plan = engine.fuse(engine.load(path))
    assert len(groups_of(plan)) == 1
    assert plan.groups[0].kind == "packed", "blocks of one row would walk heads, 64 elements apart"
    assert engine.check(engine.compile(plan.groups[0])).status == "pass"


@pytest.mark.parametrize("pays", [True, False])
def test_what_the_estimate_says_decides(pays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(_: _EstimateJudge, *__: object) -> bool:
        return pays

    monkeypatch.setattr(_EstimateJudge, "_pays", judge)
    assert (len(group_norm(tmp_path, 2048, 256, 7).launches) == 1) is pays
