"""Random graphs over all operators: every kernel compiles for both instruction sets and is right as text or as PTX."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine.execution.nvrtc import compile_cuda
from engine.target import ARCHITECTURES
from engine.tensor.operators import RULES
from tests.semantics.operator_chains import OperatorChain, kinds
from tests.support.needs import needs_compiler, needs_nvrtc

SHORT, LONG = 200, 2000
"""Graphs of up to two operators, and of up to four, which are slow."""


@pytest.mark.few(16)
@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize(
    ("seed", "most"),
    [*((seed, 2) for seed in range(SHORT)), *(pytest.param(seed, 4, marks=pytest.mark.slow) for seed in range(LONG))],
)
def test_kernels_compile_and_are_right(seed: int, most: int, tmp_path: Path) -> None:
    chain = OperatorChain(seed, most)
    plan = engine.fuse(engine.load(chain.write(tmp_path / "chain.onnx")))
    assert not plan.unsupported, f"{plan.unsupported}\n{chain}"
    for group in plan.groups:
        kernel = engine.compile(group, engine.default_recipe(group))
        checked = engine.check(kernel, level="ptx")  # which compiles for the target
        compiled = {kernel.target.architecture}
        if checked.status == "unsupported":  # too large for the executor, or an instruction that it does not know
            checked, compiled = engine.check(kernel), set()
        for architecture in ARCHITECTURES.keys() - compiled:
            compile_cuda(kernel.source.text, architecture)
        assert checked.status == "pass", f"{group.name}: {checked.message}\n{chain}\n{kernel.source.text}"


def test_the_graphs_are_over_nearly_all_operators() -> None:
    """What reads floats and stands among the cases of opset 13 and later."""
    ours = {name.removeprefix("onnx.") for name in RULES if name.startswith("onnx.")}
    assert len(kinds([OperatorChain(seed, most=2) for seed in range(SHORT)]) & ours) >= 80
