"""The tuning of ten operators on a GPU machine, without one: what it would run, keep, say and go on with."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.measurements import read_measurements
from engine.measurements.nodes import OURS
from engine.records.reader import RunReader
from engine.suite import read_row
from engine.tuning.search import LATE
from tests.benchmarks import gpu, prepared
from tests.benchmarks.gpu_process import ROOT, GpuProcess
from tests.benchmarks.test_gpu_benchmark import worker
from tests.gpu import measure_all, tuning
from tests.support.needs import needs_compiler, needs_nvrtc

ROW = "suite:gta/gemm-16x512x128"
FAKE = worker("""
    for line in sys.stdin:
        request = json.loads(line)
        for name in request["systems"]:
            say(event="begin", system=name)
            entry(name, 4.0 if name == "loomscope" else 8.0)
        say(event="done")
""")


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuning.Call:
    """One small row, tuned by predicted times, beside peers whose times are made up."""
    monkeypatch.setattr(tuning, "GpuProcess", partial(GpuProcess, worker=FAKE))
    return tuning.Call((ROW,), (OURS, "torch", "triton"), tmp_path / "out", "h200", "predicted", 4, 2.0)


def test_the_ten_rows_are_of_every_kind_and_there() -> None:
    assert len(set(tuning.ROWS)) == 10
    kinds = {read_row(reference)[1].operator for reference in tuning.ROWS}
    assert kinds == {"matmul", "matmul-bias-gelu", "batched-matmul", "conv", "softmax", "layernorm"}
    assert set(tuning.SYSTEMS) >= {OURS, "cublaslt", "cudnn", "triton", "torch.compile"}


def test_a_dry_run_names_every_search_and_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuning.main(["-o", "out", "--dry-run"]) == 0
    said = capsys.readouterr().out
    for reference in tuning.ROWS:
        assert f"app tune {reference} --target h200 --runner measured --trials 50 --minutes 1.20" in said
        assert f"\n{reference} " in said, "the row beside its peers"


def test_a_machine_without_a_gpu_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tuning, "gpu_name", lambda: None)
    assert tuning.main(["-o", str(tmp_path)]) == 3
    assert "there is no NVIDIA GPU" in capsys.readouterr().err


@pytest.mark.slow(sentinel=True)
@needs_nvrtc
def test_a_row_is_tuned_measured_and_told_and_a_second_call_repeats_nothing(
    call: tuning.Call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tuning.run(call, "a test GPU") == []
    with RunReader(call.records) as reader:
        assert len(reader.attempts(1)) == 4
    found = read_measurements(call.output / "tuned.json")
    assert [row.name for row in found.rows] == [ROW]
    kept = prepared.read(ROW, "h200", call.output / "kernels")
    assert kept is not None, "the benchmark's process finds the tuned kernels"
    best = json.loads(call.document(ROW).read_text(encoding="utf-8"))["best"]["matmul_0"]
    if best["is_faster"]:
        plain, _ = prepared.prepare(ROW, "h200")
        assert kept[0].kernels["matmul_0"].text != plain.kernels["matmul_0"].text
    said = (call.output / "tuning.md").read_text(encoding="utf-8")
    assert f"{best['microseconds']:.2f} predicted" in said and "best peer / ours" in said and "| 2 |" in said
    assert "Synthetic times, NOT measured" in said

    def never(*_: Any) -> None:
        raise AssertionError("the row was tuned already")

    monkeypatch.setattr(tuning, "tune", never)
    monkeypatch.setattr(GpuProcess, "measure_row", never)
    assert tuning.run(call, "a test GPU") == []


@needs_nvrtc
def test_a_search_that_fails_or_does_not_end_leaves_the_row_as_it_was(
    call: tuning.Call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call.recipe(ROW).parent.mkdir(parents=True)
    monkeypatch.setattr(tuning, "GRACE", 0.5)
    monkeypatch.setattr(
        tuning.Call, "command", lambda *_: (sys.executable, "-c", "import time; time.sleep(60)")
    )
    assert not tuning.tune(call, ROW, 0.0)
    assert "did not end in time" in capsys.readouterr().out and not call.document(ROW).exists()
    monkeypatch.setattr(tuning.Call, "command", lambda *_: (sys.executable, "-c", "raise SystemExit(1)"))
    assert not tuning.tune(call, ROW, 1.0)
    assert not call.document(ROW).exists()


@pytest.mark.slow(sentinel=True)
@needs_nvrtc
def test_a_search_that_its_time_ended_goes_on_and_its_row_is_timed_again(
    call: tuning.Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tuning.run(call, "a test GPU") == []
    said = json.loads(call.document(ROW).read_text(encoding="utf-8"))
    call.document(ROW).write_text(json.dumps(said | {"ended": LATE}), encoding="utf-8")
    timed: list[str] = []

    def measure(process: GpuProcess, reference: str, systems: Sequence[str]) -> dict[str, Any]:
        timed.append(reference)
        return {name: {"microseconds": 3.0, "origin": "synthetic"} for name in systems}

    monkeypatch.setattr(GpuProcess, "measure_row", measure)
    assert tuning.run(call, "a test GPU") == [] and timed == [ROW]
    with RunReader(call.records) as reader:
        assert {one.state for one in reader.attempts(2)} == {"reused"}, "what was tried is not tried again"
    more = replace(call, trials=6)
    assert not tuning.is_searched(more, ROW) and tuning.is_searched(call, ROW)


def test_time_that_is_over_leaves_rows(call: tuning.Call) -> None:
    late = replace(call, minutes=0.0)
    assert tuning.run(late, "a test GPU") == [ROW]
    assert not call.records.exists()


@needs_nvrtc
@needs_compiler
@pytest.mark.torch
def test_tuned_kernels_are_right_beside_pytorch(call: tuning.Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark's own process, with the emulator and PyTorch's CPU in the place of the GPU."""
    pytest.importorskip("torch", reason="PyTorch is not installed: the benchmark's process is not run here")
    monkeypatch.setenv("LOOMSCOPE_STAND_IN_KERNELS", str(call.output / "kernels"))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'tests' / 'gpu' / 'stand_in'}:{ROOT}")
    stand_in = (sys.executable, "-m", "tests.gpu.stand_in.worker")
    monkeypatch.setattr(tuning, "GpuProcess", partial(GpuProcess, worker=stand_in))
    assert tuning.run(replace(call, systems=(OURS, "torch")), "stand-in") == []
    (row,) = read_measurements(call.output / "tuned.json").rows
    assert row.ours is not None and row.ours.origin == "synthetic"


def test_the_script_for_minutes_on_a_machine_tunes_where_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", "--out", str(tmp_path / "out"), "--site", str(tmp_path / "s"), "--dry-run", "--minutes", "9"]
    assert measure_all.main([*arguments, "--tuning"]) == 0
    said = capsys.readouterr().out
    assert "tests.gpu.tuning -o" in said and "tests.benchmarks.gpu --suite" not in said
    assert measure_all.main([*arguments, "--tuning", "--suite", "memory"]) == 0
    said = capsys.readouterr().out
    assert "tests.gpu.tuning -o" in said and "tests.benchmarks.gpu --suite memory" in said
    assert measure_all.main(arguments) == 0
    assert "tests.gpu.tuning -o" not in capsys.readouterr().out
    assert gpu.NAME != tuning.NAME, "the table of all rows does not take the tuned ones for them"
