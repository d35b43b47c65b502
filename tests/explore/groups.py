"""Groups that the tests of this folder look at."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import engine
from engine.fusion.nodes import FusionGroup, GroupInstance
from engine.target import DEFAULT_TARGET
from engine.tensor.nodes import TensorProgram

MODELS = Path(__file__).parents[2] / "resources" / "models"
SHARED = Path(__file__).parents[3] / "shared"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is absent: the real graphs are not shipped")
FILES = (
    "softmax_96x512",
    "layernorm_64x768",
    "matmul_bias_gelu_128x256x512",
    "transpose_2x12x64x64",
    "column_sum_1000x384",
    "add_relu_odd_3x5x127",
)


@cache
def group_of(file: str) -> FusionGroup:
    """The first group of a built-in model."""
    return engine.fuse(engine.load(MODELS / f"{file}.onnx")).groups[0]


def made_of(program: TensorProgram, kind: str = "row reduction") -> FusionGroup:
    """A group of one hand-written program."""
    instance = GroupInstance((), {}, {})
    return FusionGroup(program.name, program.name, kind, program, (instance,), (), "written by hand", DEFAULT_TARGET)


def advised(group: FusionGroup, text: str) -> engine.Recipe:
    """The advisers' recipe with exactly this advice."""
    return engine.replace_advice(engine.default_recipe(group), group, text)
