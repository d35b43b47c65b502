"""The process that has the GPU, with PyTorch on the CPU and our kernels in the emulator: right, or told why not."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import pytest

import engine
from engine.execution.emulate.build import host_compiler
from engine.measurements import measurements_of, read_measurements
from engine.measurements.nodes import OURS
from engine.suite import read_row
from engine.support.errors import BadInput
from tests.benchmarks import gpu, gpu_table, gpu_worker, prepared
from tests.benchmarks.gpu_process import ROOT, GpuProcess
from tests.benchmarks.peers import Case

torch = pytest.importorskip("torch", reason="PyTorch is not installed: the benchmark's process is not run here")
pytest.importorskip("cuda.bindings.nvrtc")

pytestmark = pytest.mark.torch
STAND_IN = ROOT / "tests" / "gpu" / "stand_in"
ROWS = ("suite:gta/gemm-16x512x128", "suite:gta/gemv-512x16")
WORKER = (sys.executable, "-m", "tests.gpu.stand_in.worker")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if host_compiler() is None:
        pytest.skip("this machine has no C++ compiler: nothing is emulated")
    folder = tmp_path_factory.mktemp("kernels")
    for row in ROWS:
        prepared.write(*prepared.prepare(row, "h200"), folder)
    return folder


@pytest.fixture
def process(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("LOOMSCOPE_STAND_IN_KERNELS", str(kernels))
    monkeypatch.setenv("PYTHONPATH", f"{STAND_IN}:{ROOT}")
    made = GpuProcess(quiet=100.0, kernels=kernels, worker=WORKER)
    yield made
    made.close()


def test_rows_of_one_process(process: GpuProcess) -> None:
    first = process.measure_row(ROWS[0], (OURS, "torch", "cublaslt", "cudnn"))
    assert {name for name, entry in first.items() if "microseconds" in entry} == {OURS, "torch", "cublaslt"}
    assert first["cudnn"]["failure"] == "unsupported"
    ours = first[OURS]
    assert ours["origin"] == "synthetic", "a time of the CPU is no measured one"
    assert ours["environment"]["method"] == "one run between two events"
    assert len(ours["samples"]) == 2 and ours["environment"]["cache"].startswith("cold, 2 copies")
    second = process.measure_row(ROWS[1], (OURS,))
    assert second[OURS]["seed"] != ours["seed"], "values are drawn anew"
    (row,) = measurements_of({"rows": [{"row": ROWS[0], "systems": first}]}, "x").rows
    (launched,) = row.systems[OURS].launches
    assert launched.facts.tensor_flops > 0 and launched.facts.registers
    assert len(row.systems["torch"].time.states) == 2  # type: ignore[union-attr]


def test_the_whole_command_and_its_table(
    process: GpuProcess, kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Rows in, a file, a table and no calibration out: times of a stand-in are not measured ones."""
    monkeypatch.setattr(gpu, "gpu_name", lambda: "stand-in")
    monkeypatch.setattr(gpu, "GpuProcess", partial(GpuProcess, worker=WORKER))
    rows = [word for row in ROWS for word in ("--row", row.rpartition("/")[2])]
    systems = "loomscope,torch,cudnn"
    arguments = ["--suite", "gta", *rows, "--systems", systems, "--kernels", str(kernels), "-o", str(tmp_path)]
    assert gpu.main(arguments) == 0
    path = tmp_path / "gpu-gta.json"
    found = read_measurements(path)
    assert [row.name for row in found.rows if row.ours] == [ROWS[1], ROWS[0]], "in the suite's order"
    assert found.rows[0].systems["torch"].version == torch.__version__
    assert gpu_table.main([str(path)]) == 0
    table = capsys.readouterr().out
    assert "| row | floor | loomscope | torch | cudnn | best peer / ours | floor / ours |" in table
    assert "Rows without a time of ours: 0" in table
    with pytest.raises(BadInput, match="stand-in, which no target describes"):
        engine.calibrate([path])


def test_a_result_that_nobody_wrote_gets_no_time(process: GpuProcess, kernels: Path) -> None:
    path = kernels / "gta" / "gemv-512x16.h200.json"
    right = path.read_text(encoding="utf-8")
    path.write_text(json.dumps({**json.loads(right), "launches": []}), encoding="utf-8")
    try:
        found = process.measure_row(ROWS[1], (OURS, "torch"))
    finally:
        path.write_text(right, encoding="utf-8")
    assert found[OURS]["failure"] == "wrong result" and "off by nan" in found[OURS]["message"]
    assert "microseconds" in found["torch"]


def test_a_driver_older_than_the_compiler_is_told(process: GpuProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_CUDA", "12040")
    found = process.measure_row(ROWS[1], (OURS, "torch"))
    assert found[OURS]["failure"] == "MissingCapability"
    assert "knows CUDA 12, the kernels were compiled for CUDA 13" in found[OURS]["message"]
    assert "microseconds" in found["torch"]


def test_a_row_that_cannot_be_compiled_says_why(process: GpuProcess, kernels: Path) -> None:
    path = kernels / "gta" / "gemv-512x16.h200.json"
    right = path.read_text(encoding="utf-8")
    path.write_text(json.dumps({**json.loads(right), "unsupported": {"matmul_0": "no such form"}}), encoding="utf-8")
    try:
        found = process.measure_row(ROWS[1], (OURS,))
    finally:
        path.write_text(right, encoding="utf-8")
    assert found[OURS]["failure"] == "unsupported" and "matmul_0: no such form" in found[OURS]["message"]


def test_what_is_prepared_is_read_as_it_was(kernels: Path) -> None:
    kept = prepared.read(ROWS[0], "h200", kernels)
    assert kept is not None and kept == prepared.prepare(ROWS[0], "h200")
    assert prepared.read(ROWS[0], "a100", kernels) is None
    assert prepared.read("suite:gta/none", "h200", kernels) is None


def test_inputs_come_from_the_seed_and_lie_in_their_ranges() -> None:
    graph = engine.load("suite:memory/batchnorm-relu-64x2048x7x7")
    case = Case(read_row("suite:memory/batchnorm-relu-64x2048x7x7")[1], onnx.load(str(graph.source)), "cpu")
    one, same, other = (gpu_worker.make_inputs(torch, "cpu", graph, case, seed) for seed in (1, 1, 2))
    for name in graph.inputs:
        assert torch.equal(one[name], same[name]) and not torch.equal(one[name], other[name])
    assert float(one["variance"].min()) >= 0.5 and float(one["variance"].max()) <= 1.5
    assert float(one["x"].min()) < -3
