"""Rows of the suites on a real GPU, and what only a GPU can show of measuring.  `python -m pytest tests/gpu -m gpu`"""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine.execution.measure import MeasureJob, gpu_name, measure_kernels
from engine.execution.nodes import Failure, Timing
from engine.execution.statistics import SAME, compare, in_rounds
from engine.measurements.nodes import OURS
from tests.benchmarks.gpu_process import GpuProcess
from tests.benchmarks.peers import PEERS
from tests.fusion.test_recurrent_steps import layer
from tests.semantics.single import write_model

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(gpu_name() is None, reason="this machine has no NVIDIA GPU: nothing is measured"),
]
ROWS = (
    "suite:gta/gemm-256x1024x256", "suite:gta/mean-64x56x56", "suite:alcop/BMM_BERT_QK", "suite:gta/conv2d-C11-b1",
    "suite:alcop/MM_RN50_FC",
)  # fmt: skip
"""The last one with blocks that share a depth: every launch leaves their counters as it found them."""


@pytest.mark.parametrize("reference", ROWS)
def test_a_row_is_right_and_gets_a_measured_time(reference: str) -> None:
    pytest.importorskip("pycuda", reason="PyCUDA is not installed: pip install pycuda")
    for group in engine.fuse(engine.load(reference)).groups:
        found = engine.measure(engine.compile(group))
        assert isinstance(found, Timing), found
        print(f"{reference} {group.name}: {found.microseconds:.2f} us; {found.noise or 'quiet'}; {found.environment}")


def test_counters_that_are_no_multiple_of_a_vector(tmp_path: Path) -> None:
    """Three tiles have counters of 12 bytes; the sums beside them are stored 16 bytes at a time."""
    pytest.importorskip("pycuda", reason="PyCUDA is not installed: pip install pycuda")
    inputs = {"x": ("float32", (32, 8192)), "w": ("float32", (8192, 96))}
    path = write_model(tmp_path / "m.onnx", [("MatMul", ["x", "w"], ["y"], {})], inputs, ["y"])
    (group,) = engine.fuse(engine.load(path)).groups
    kernel = engine.compile(group)
    assert kernel.source.team > 1
    found = engine.measure(kernel)
    assert isinstance(found, Timing), found


def test_blocks_that_all_meet(tmp_path: Path) -> None:
    """Steps of an LSTM in one launch, beside as many launches."""
    pytest.importorskip("pycuda", reason="PyCUDA is not installed: pip install pycuda")
    graph = layer(tmp_path, "LSTM", 9, 16, 256)
    (group,) = (one for one in engine.fuse(graph).groups if one.kind == "recurrence")
    found = engine.measure(engine.compile(group))
    assert isinstance(found, Timing), found
    print(f"8 steps in one launch: {found.microseconds:.2f} us, {engine.predict(engine.compile(group))}")


def test_a_kernel_against_itself_is_no_significant_change() -> None:
    pytest.importorskip("pycuda", reason="PyCUDA is not installed: pip install pycuda")
    group = engine.fuse(engine.load("suite:gta/gemm-1024x1024x1024")).groups[0]
    kernel = engine.compile(group)
    expected, before = engine.api.group_values(group)
    trial = MeasureJob(kernel.source, engine.nvrtc(kernel, kernel.target.architecture), {**expected, **before})
    found = measure_kernels([trial, trial])
    assert not isinstance(found, Failure), found
    a, b = (in_rounds(one.timing.samples, one.timing.rounds) for one in found)
    difference = compare(a, b, interleaved=True)
    assert difference.verdict == SAME, difference
    environment = found[0].timing.environment
    assert environment is not None and environment["method"].startswith(("replay of a graph", "one launch"))


def test_a_row_beside_its_peers() -> None:
    """One process, the same buffers: whoever is installed is right and gets a time, or says why not."""
    for package in ("pycuda", "torch"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    process = GpuProcess()
    found = process.measure_row("suite:gta/gemm-1024x1024x1024", (OURS, *PEERS))
    process.close()
    for name in (OURS, "torch", "cublaslt"):
        assert found[name].get("microseconds", 0) > 0, found[name]
    assert all("microseconds" in entry or entry["failure"] in ("missing", "unsupported") for entry in found.values())
    for name, entry in found.items():
        print(f"{name}: {entry.get('microseconds', entry.get('message'))}, {entry.get('ran', '')}")
