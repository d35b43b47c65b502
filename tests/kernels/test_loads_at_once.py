"""Loads that a loop has written out come together in the machine code, or one at a time, as the configuration says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import engine
from engine.execution.sass.mix import read_instructions
from engine.kernels.nodes import Kernel
from engine.kernels.reduction.config import ReductionConfig
from engine.kernels.reduction.space import FIXED, ways
from engine.kernels.space import Program
from engine.present.machine_code import machine_code
from engine.recipe import Advice, Scenario
from tests.benchmarks.speed_graphs import constant, node, plan_of
from tests.support.needs import needs_nvdisasm, needs_nvrtc

CHUNKS = 8
USES = {"MUFU", "FADD", "FFMA", "FMUL", "FSEL", "CALL"}
"""What is done first with a value that was loaded."""


def column_sum(function: str, divisor: float, rows: int, target: str) -> Kernel:
    """Of a function of single floats, by two warps that have 8 chunks written out.  divisor: 0 for none."""
    first = [node(function, "x d" if divisor else "x", "f")] if function else []
    nodes = [*first, constant("axes", 0), node("ReduceSum", "f axes" if function else "x axes", "y", keepdims=0)]
    constants: list[onnx.TensorProto] = [numpy_helper.from_array(np.float32(divisor), "d")] if divisor else []
    (group,) = plan_of(nodes, {"x": (rows, 256)}, target, constants=constants).groups
    (way,) = [one for one in ways(group, engine.compile(group)) if not one.by_row]
    program = Program(way.name, tuple({**FIXED, "sharers": 2, "written_out": CHUNKS}.items()))
    recipe = engine.default_recipe(group)
    asked = Advice("user", Scenario(tuple(way.entries(program))))
    return engine.compile(group, replace(recipe, groups={**recipe.groups, group.name: (asked,)}))


@pytest.mark.few(3)
@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize("target", ["a100", "h100"])
@pytest.mark.parametrize(("function", "divisor", "rows", "turns"), [
    ("", 0.0, 2**16, 1), ("", 0.0, 10_007, 1),  # the second ends within a strip: each load has a guard
    ("Exp", 0.0, 2**16, 1), ("Tanh", 0.0, 2**16, 1), ("Div", 4.0, 2**16, 1),
    ("Div", 3.0, 2**16, CHUNKS), ("Sqrt", 0.0, 2**16, CHUNKS), ("Sigmoid", 0.0, 2**16, CHUNKS),
])  # fmt: skip
def test_loads_come_in_as_many_turns_as_the_configuration_says(
    function: str, divisor: float, rows: int, turns: int, target: str
) -> None:
    kernel = column_sum(function, divisor, rows, target)
    config = kernel.tile.config
    assert isinstance(config, ReductionConfig) and (config.side_by_side, config.load_turns) == (CHUNKS, turns)
    opcodes = [one.opcode for one in read_instructions(machine_code(kernel))[0]]
    begin = opcodes.index("LDG")
    first = next(place for place in range(begin, len(opcodes)) if opcodes[place] in USES)
    ahead = opcodes[begin:first].count("LDG")
    assert ahead >= CHUNKS if turns == 1 else ahead == 1  # more where the compiler writes two strips out
