"""Logs of Kernel Tuner and TVM, written here as their documentation says, are read as runs; other files are refused."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.execution.nodes import PUBLISHED
from engine.records.nodes import IMPORTED, Attempt, Run
from engine.records.reader import RunReader
from engine.support.errors import BadInput

T4_GOOD = {
    "configuration": {"block": 64, "unroll": True, "layout": "row"}, "invalidity": "correct", "correctness": 1,
    "times": {"runtimes": [1.0, 2.0, 6.0]}, "objectives": ["time"],
    "measurements": [{"name": "GFLOP/s", "value": 7.0, "unit": ""}, {"name": "time", "value": 3.0, "unit": "ms"}],
}  # fmt: skip
T4_FAILED = {"configuration": {"block": 128, "unroll": False, "layout": "row"}, "invalidity": "compile",
             "measurements": []}  # fmt: skip
T4_MICROSECONDS = {**T4_GOOD, "measurements": [{"name": "time", "value": 5.5, "unit": "us"}]}
CACHE = {
    "device_name": "NVIDIA A100", "kernel_name": "vector_add", "tune_params_keys": ["block"],
    "tune_params": {"block": [32, 64, 128, 256]}, "objective": "time",
    "cache": {
        "32": {"block": 32, "time": 0.5, "times": [0.4, 0.5, 0.6], "compile_time": 9.0},
        "64": {"block": 64, "time": "RuntimeFailedConfig"},
        "128": {"block": 128, "time": 1e20},
        "256": {"block": 256, "time": {"__error__": "InvalidConfig"}},
    },
}  # fmt: skip
AUTOTVM = {
    "input": ["cuda -keys=cuda,gpu -arch=sm_80 -max_num_threads=1024", "dense.cuda",
              [["TENSOR", [1, 512], "float32"], ["TENSOR", [1000, 512], "float32"], None], {}],
    "config": {"index": 7, "code_hash": None, "entity": [["tile_k", "sp", [-1, 8]], ["unroll", "ot", 1500]]},
    "result": [[3e-5, 1e-5, 2e-5], 0, 1.5, 1.6e9], "version": 0.2,
}  # fmt: skip
AUTOTVM_FAILED = {**AUTOTVM, "result": [[1e9], 2, 10.0, 1.6e9]}


def steps(split: list[int], unroll: int, reads: int = 1) -> list[list[Any]]:
    """A program of the auto scheduler as its log writes it."""
    cached = [["CHR", 2, "shared", [3]] for _ in range(reads)]
    return [["SP", 2, 0, 512, split, 1], ["SP", 2, 4, 512, [4], 1], *cached, ["CA", 3, 4, 1], ["AN", 4, 0, 5],
            ["PR", 4, 0, f"auto_unroll_max_step${unroll}"]]  # fmt: skip


def auto_scheduler(program: list[list[Any]], seconds: list[float], code: int = 0) -> dict[str, Any]:
    """A line of its log."""
    machine = [80, 64, 49152, 2147483647, 1024, 8, 32]
    task = ['["9a8b7c6d5e4f", 512, 512]', "cuda -model=v100", machine, "", 1, []]
    return {"i": [task, [[], program]], "r": [seconds, code, 1.2, 1600000000], "v": "v0.6"}


def meta_schedule(decisions: list[list[Any]], seconds: list[float] | None) -> list[Any]:
    """A line of a tuning database."""
    instructions = [
        ["GetBlock", [], ["matmul", "main"], ["b0"]], ["SamplePerfectTile", ["l1"], [4, 64], ["v1", "v2", "v3", "v4"]],
        ["SampleCategorical", [], [[0, 16, 64], [0.3, 0.3, 0.4]], ["v5"]],
    ]  # fmt: skip
    return [3, [[instructions, decisions], seconds, {"kind": "cuda", "arch": "sm_90", "tag": ""}, []]]


def run_of(path: Path) -> tuple[Run, tuple[Attempt, ...]]:
    """The only run of a log."""
    with RunReader(path) as reader:
        (run,) = reader.runs()
        assert (run.request.origin, run.request.runner) == (PUBLISHED, IMPORTED)
        assert not reader.counts() and not reader.rounds(run.number)
        return run, reader.attempts(run.number)


def document(path: Path, data: object) -> Path:
    path.write_text(json.dumps(data))
    return path


def lines(path: Path, *data: object) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in data))
    return path


def test_t4_results(tmp_path: Path) -> None:
    path = document(tmp_path / "t4.json", {"results": [T4_GOOD, T4_FAILED, T4_MICROSECONDS]})
    run, (good, failed, quick) = run_of(path)
    assert (run.request.strategy, run.request.source) == ("T4 results", str(path))
    assert good.values == (("block", 64), ("unroll", "true"), ("layout", "row")) and good.microseconds == 3000.0
    # 20th and 80th percentile of 1, 2 and 6 ms, linear between neighbours
    assert (good.low, good.high) == (pytest.approx(1400.0), pytest.approx(4400.0))
    assert (failed.microseconds, failed.failure, failed.state) == (None, "compile", "failed")
    assert (quick.microseconds, quick.low) == (5.5, None), "samples have the unit of Kernel Tuner's own files alone"
    (task,) = run.tasks
    assert task.dimensions == {"block": (64, 128), "unroll": ("false", "true"), "layout": ("row",)}
    assert (task.total, task.left) == (2, 2), "the first and the third are one program"


@pytest.mark.parametrize("is_open", [False, True], ids=["whole", "of a run that was interrupted"])
def test_a_cache_of_kernel_tuner(tmp_path: Path, is_open: bool) -> None:
    text = json.dumps(CACHE)
    (tmp_path / "cache.json").write_text(text.removesuffix("}}") + ",\n" if is_open else text)
    run, attempts = run_of(tmp_path / "cache.json")
    assert (run.request.target, run.request.groups) == ("NVIDIA A100", ("vector_add",))
    assert [one.microseconds for one in attempts] == [500.0, None, None, None]
    assert [one.failure for one in attempts] == ["", "RuntimeFailedConfig", "failed", "InvalidConfig"]
    assert [dict(one.values)["block"] for one in attempts] == [32, 64, 128, 256]


def test_a_log_that_is_packed_is_read_like_one_that_is_not(tmp_path: Path) -> None:
    (tmp_path / "cache.json.gz").write_bytes(gzip.compress(json.dumps(CACHE).encode()))
    assert run_of(tmp_path / "cache.json.gz")[1] == run_of(document(tmp_path / "cache.json", CACHE))[1]


def test_a_log_of_autotvm(tmp_path: Path) -> None:
    run, (good, failed) = run_of(lines(tmp_path / "tvm.log", AUTOTVM, AUTOTVM_FAILED))
    assert run.request.target == "cuda -arch=sm_80"
    assert good.group == "dense.cuda (1x512 float32, 1000x512 float32, null)"
    assert dict(good.values) == {"tile_k": "-1x8", "unroll": 1500}
    assert good.microseconds == pytest.approx(20.0), "the median of three"
    assert (failed.microseconds, failed.failure) == (None, "compile")


def test_a_log_of_the_auto_scheduler(tmp_path: Path) -> None:
    trials = (
        auto_scheduler(steps([1, 8, 2], 16), [4e-4]), auto_scheduler(steps([1, 4, 4], 64), [2e-4]),
        auto_scheduler(steps([1, 8, 2], 16, reads=2), [3e-4]), auto_scheduler(steps([1, 1, 1], 0), [1e10], code=6),
    )  # fmt: skip
    run, attempts = run_of(lines(tmp_path / "ansor.json", *trials))
    assert [one.mapping for one in attempts] == ["sketch 1", "sketch 1", "sketch 2", "sketch 1"]
    assert {one.group for one in attempts} == {"9a8b7c6d 512 512"} and run.request.target == "cuda -model=v100"
    assert dict(attempts[1].values) == {
        "split 2.0": "1x4x4", "split 2.4": "4", "compute at 3": "4.1", "annotation 4.0": 5,
        "pragma 4.0": "auto_unroll_max_step$64",
    }  # fmt: skip
    assert attempts[1].microseconds == pytest.approx(200.0)
    assert (attempts[3].microseconds, attempts[3].failure) == (None, "build timeout")


def test_a_database_of_meta_schedule(tmp_path: Path) -> None:
    good, failed = meta_schedule([[1, [8, 2, 4, 8]], [2, 1]], [2e-6, 4e-6]), meta_schedule([[1, [1, 1, 1, 512]]], None)
    run, attempts = run_of(lines(tmp_path / "database_tuning_record.json", good, failed))
    assert (attempts[0].group, attempts[0].mapping, run.request.target) == ("workload 3", "trace 1", "cuda -arch=sm_90")
    assert dict(attempts[0].values) == {"SamplePerfectTile 1": "8x2x4x8", "SampleCategorical 2": 1}
    assert attempts[0].microseconds == pytest.approx(3.0)
    assert (attempts[1].microseconds, attempts[1].failure) == (None, "unknown")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing of the kind", "no file of records, nor a log in JSON"),
        ("{}", "neither “results” nor “cache”"),
        ('{"results": []}', "without a trial"),
        (json.dumps({"results": [T4_GOOD, {"configuration": {}}]}), "result 2 is not understood: it has no “invali"),
        (json.dumps({"results": [{**T4_GOOD, "measurements": []}]}), "none of its measurements is called “time”"),
        (json.dumps({"results": [{**T4_GOOD, "configuration": 3}]}), "result 1 is not understood: it has another"),
        (json.dumps({"results": 5}), "another shape"),
        (json.dumps({"cache": {"32": {"block": 32, "time": -1.0}}, "tune_params_keys": ["block"]}), "-1.0 is no time"),
        (json.dumps({"cache": {}, "kernel_name": "k"}), "has no “tune_params_keys”"),
        (json.dumps(AUTOTVM) + "\n{broken", "line 2 is no JSON"),
        (json.dumps(AUTOTVM) + '\n{"a": 1}', "line 2 is not understood: it is no record of TVM"),
        (json.dumps({**AUTOTVM, "result": [[0.0], 0, 1, 1]}), "line 1 is not understood: 0.0 is no time"),
        ("[1, 2]", "line 1 is not understood: it has another shape"),
        ('{"results": ' + "[" * 100_000, "nested too deeply"),
    ],
)  # fmt: skip
def test_what_is_no_log_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "log.json").write_text(text)
    with pytest.raises(BadInput) as found:
        RunReader(tmp_path / "log.json")
    assert said in str(found.value), found.value


def test_a_packed_log_that_is_cut_short_or_grows_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = gzip.compress(json.dumps(CACHE).encode())
    (tmp_path / "cut.gz").write_bytes(packed[:-20])
    with pytest.raises(BadInput, match="cut short"):
        RunReader(tmp_path / "cut.gz")
    monkeypatch.setattr("engine.records.other_tuners.run.MOST_BYTES", 1 << 20)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b" " * (64 << 20)))
    with pytest.raises(BadInput, match="more than 1 MiB"):
        RunReader(tmp_path / "bomb.gz")


WRITER = """
import sys
from engine.records.nodes import Request
from engine.records.runs import RunLog
from engine.records.store import RecordStore
with RecordStore(sys.argv[1]) as store:
    for _ in range(2):
        RunLog.start(store, Request("m.onnx", "h100", "random", "predicted", "predicted", 1))
        print("written", flush=True)
        sys.stdin.readline()
"""


def test_looking_at_a_file_that_is_written_leaves_its_locks(tmp_path: Path) -> None:
    """A handle of ours that is closed would drop every lock of this process on the file: a writer that ends would
    then delete the log beneath the reader."""
    path, pipes = tmp_path / "r.db", {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], text=True, **pipes) as writer:  # type: ignore[call-overload]
        assert writer.stdin is not None and writer.stdout is not None
        writer.stdout.readline()
        with RunReader(path) as first:
            assert first.run().number == 1
            RunReader(path).close()
            for _ in range(2):
                writer.stdin.write("\n")
                writer.stdin.flush()
            assert writer.wait(20) == 0
            assert Path(f"{path}-wal").exists(), "deleted beneath the reader"
            assert first.run().number == 2


@pytest.mark.parametrize("size", [1, 20, 99, 511, 512, 5000])
def test_a_text_of_any_size_is_no_database(size: int, tmp_path: Path) -> None:
    (tmp_path / "r.db").write_text("x" * size)
    with pytest.raises(BadInput, match="nor a log in JSON"):
        RunReader(tmp_path / "r.db")
