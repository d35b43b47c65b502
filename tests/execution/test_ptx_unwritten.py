"""Registers that nothing has written: packed where the rest drops them they mean nothing, used they show."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.nvrtc import compile_ptx
from engine.verify.levels import LINE_TABLE
from tests.semantics.single import Node, write_model
from tests.support.needs import needs_nvrtc

pytestmark = needs_nvrtc

GATHERED: list[Node] = [
    ("MatMul", ["x", "w"], ["p"], {}), ("Relu", ["p"], ["r"], {}), ("Gather", ["r", "i"], ["y"], {}),
]  # fmt: skip
"""Indices of 64 bits, of which 32 reach an address of shared memory."""


@pytest.fixture
def kernel(tmp_path: Path) -> engine.Kernel:
    shapes = {"x": ("float32", (49, 512)), "w": ("float32", (512,))}
    indices = {"i": np.random.default_rng(0).integers(0, 49, 256)}  # known not to be negative: nothing is added to them
    path = write_model(tmp_path / "model.onnx", GATHERED, shapes, ["y"], indices, opset=22)
    plan = engine.fuse(engine.load(path))
    return engine.compile(plan.group("matmul_0"))


def text_of(kernel: engine.Kernel) -> str:
    return compile_ptx(kernel.source.text, kernel.target.architecture, LINE_TABLE)


def test_a_half_that_is_shifted_out_may_be_anything(kernel: engine.Kernel) -> None:
    text = text_of(kernel)
    packed = re.search(r"mov\.b64 \t(%rd\d+), \{%r\d+, (%r\d+)\};", text)
    assert packed and len(re.findall(rf"{packed[2]}\b", text)) == 1, "nothing writes the second half"
    assert engine.check(kernel, level="ptx").status == "pass"


def test_a_half_that_reaches_an_address_is_found(kernel: engine.Kernel) -> None:
    planted, count = re.subn(r"shl\.b64 \t(%rd\d+), (%rd\d+), 32;", r"mov.b64 \1, \2;", text_of(kernel), count=1)
    assert count == 1 and engine.check(kernel, level="ptx", ptx=planted).status == "fail"


def test_a_register_that_is_computed_with_must_be_written(kernel: engine.Kernel) -> None:
    planted, count = re.subn(r"(?m)^\tmul\.wide\.s32 .*$", "", text_of(kernel), count=1)
    assert count == 1
    found = engine.check(kernel, level="ptx", ptx=planted)
    assert found.status == "fail" and found.findings[0].kind == "uninitialised"
