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


@needs_compiler
@needs_nvrtc
@pytest.mark.few(8)
@pytest.mark.parametrize("seed", range(2000))
def test_kernels_compile_and_are_right(seed: int, tmp_path: Path) -> None:
    chain = OperatorChain(seed)
    plan = engine.fuse(engine.load(chain.write(tmp_path / "chain.onnx")))
    assert not plan.unsupported, f"{plan.unsupported}\n{chain}"
    for group in plan.groups:
        kernel = engine.compile(group, engine.default_recipe(group))
        for architecture in ARCHITECTURES:
            compile_cuda(kernel.source.text, architecture)
        checked = engine.check(kernel, level="ptx")
        if checked.status == "unsupported":  # too large for the executor, or an instruction that it does not know
            checked = engine.check(kernel)
        assert checked.status == "pass", f"{group.name}: {checked.message}\n{chain}\n{kernel.source.text}"


def test_the_graphs_are_over_nearly_all_operators() -> None:
    """What reads floats and stands among the cases of opset 13 and later."""
    ours = {name.removeprefix("onnx.") for name in RULES if name.startswith("onnx.")}
    assert len(kinds([OperatorChain(seed) for seed in range(250)]) & ours) >= 80
