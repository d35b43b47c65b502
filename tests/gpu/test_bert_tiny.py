"""Every kernel of the built-in model on a real GPU: right, and with a time.  `python -m pytest tests/gpu -m gpu`"""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine.execution.measure import gpu_name
from engine.execution.nodes import Timing

MODEL = Path(__file__).parents[2] / "resources" / "models" / "bert_tiny.onnx"
PLAN = engine.fuse(engine.load(MODEL))
NAMES = [group.name for group in PLAN.groups]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(gpu_name() is None, reason="this machine has no NVIDIA GPU: nothing is measured"),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_is_right_and_gets_a_measured_time(name: str) -> None:
    pytest.importorskip("pycuda", reason="PyCUDA is not installed: pip install pycuda")
    samples: list[float] = []
    found = engine.measure(engine.compile(PLAN.group(name)), on_sample=samples.append)
    assert isinstance(found, Timing), found
    assert found.origin == "measured"
    assert found.samples == tuple(samples)
    assert 0 < found.low <= found.microseconds <= found.high
    assert found.environment is not None
    assert {"device", "date", "cache"} <= found.environment.keys()
    print(f"{name}: {found.microseconds:.2f} us (p20 {found.low:.2f}, p80 {found.high:.2f}) on {found.environment}")
