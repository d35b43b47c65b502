"""Files of times: both kinds come out alike, and a broken one is refused by its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.cost.nodes import Work
from engine.execution.nodes import Failure, GpuState, Timing
from engine.measurements import measurements_of, read_measurements
from engine.support.errors import BadInput
from engine.support.serialization import to_json

FACTS = Work(
    blocks=4, threads=128, flops=1000, special=0, dram_bytes_read=4096, dram_bytes_written=2048, l2_bytes=8192
)
STATE = {"seconds": 0.5, "sm_clock": 1980, "memory_clock": 3201, "temperature": 41, "power": 312.4}
ENTRY: dict[str, Any] = {
    "origin": "measured", "microseconds": 3.0, "low": 2.5, "high": 4.0, "samples": [2.5, 3.0, 4.0], "rounds": 3,
    "noise": "", "states": [STATE], "ran": "1 kernel",
    "environment": {"device": "NVIDIA H200", "date": "2026-11-30T10:00:00+00:00"},
    "launches": [{"group": "softmax_0", "kind": "row", "count": 2, "facts": to_json(FACTS), "advice": "advice map"}],
}  # fmt: skip
WRONG = {"failure": "wrong result", "message": "y is off"}


def benchmark(**systems: Any) -> dict[str, Any]:
    row = {"row": "suite:a/b", "flops": 10, "bytes": 20, "floor_microseconds": 1.5, "systems": systems}
    environment = {"device": "NVIDIA H200", "cores": 2, "versions": {"numpy": "2.3"}, "load": [0.5, 1.0]}
    return {"name": "gpu", "environment": environment, "rows": [row], "summary": {}}


def test_a_file_of_the_benchmark() -> None:
    found = measurements_of(benchmark(loomscope=ENTRY, torch=WRONG), "x.json")
    assert (found.device, found.date, found.source) == ("NVIDIA H200", "2026-11-30T10:00:00+00:00", "x.json")
    assert found.environment["versions"] == "numpy 2.3" and found.environment["load"] == "0.5, 1.0"
    (row,) = found.rows
    assert (row.name, row.flops, row.bytes, row.floor) == ("suite:a/b", 10, 20, 1.5)
    assert row.systems["torch"].time == Failure("wrong result", "y is off")
    ours = row.ours
    assert isinstance(ours, Timing) and ours.samples == (2.5, 3.0, 4.0) and ours.states == (
        GpuState(0.5, 1980, 3201, 41, 312.4),
    )
    (launched,) = row.systems["loomscope"].launches
    assert (launched.group, launched.count, launched.facts) == ("softmax_0", 2, FACTS)
    assert launched.advice == "advice map"


def test_a_file_of_measure_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    kernels = [{"group": "softmax_0", "instances": 2, **ENTRY}, {"group": "rank_0", "unsupported": "no kernel"}]
    path.write_text(json.dumps({"schema": 1, "kernels": kernels, "microseconds": 6.0}), encoding="utf-8")
    found = read_measurements(path)
    assert found.device == "NVIDIA H200"
    assert found.rows[0].ours == measurements_of(benchmark(loomscope=ENTRY), "x").rows[0].ours
    assert (found.rows[0].instances, found.rows[0].flops, found.rows[0].bytes) == (2, 1000, 6144)
    assert found.rows[1].systems["loomscope"].time == Failure("unsupported", "no kernel")
    assert found.rows[1].ours is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"microseconds": -1.0}, "a time of -1.0"),
        ({"microseconds": "fast"}, "suite:a/b"),
        ({"origin": "guessed"}, "an origin guessed"),
        ({"states": [{**STATE, "sm_clock": "high"}]}, "sm_clock"),
        ({"launches": [{"group": "g", "kind": "row", "count": 1, "facts": {"blocks": 1}}]}, "threads"),
        ({"environment": {"device": "NVIDIA A100"}}, "several devices: NVIDIA A100, NVIDIA H200"),
    ],
)
def test_a_broken_entry_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput) as caught:
        measurements_of(benchmark(loomscope={**ENTRY, **change}), "x.json")
    assert says in str(caught.value)


ENDLESS = json.dumps({"kernels": [{"group": "g", **ENTRY, "instances": float("inf")}]})


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"rows": 3}', '{"rows": [{"row": "r"}]}', ENDLESS])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=r"x\.json"):
        read_measurements(path)
    with pytest.raises(BadInput, match="there is no such file"):
        read_measurements(tmp_path / "none.json")


def test_a_file_that_is_cut_short_or_of_another_version_is_told_so(tmp_path: Path) -> None:
    whole = json.dumps({"schema": 1, "kernels": [{"group": "softmax_0", **ENTRY}]}, indent=1)
    path = tmp_path / "times.json"
    for length in (len(whole) // 3, len(whole) // 2, len(whole) - 1):
        path.write_text(whole[:length], encoding="utf-8")
        with pytest.raises(BadInput, match="is cut short"):
            read_measurements(path)
    path.write_text(whole.replace('"schema": 1', '"schema": 7'), encoding="utf-8")
    with pytest.raises(BadInput, match="is of version 7, this program reads version 1"):
        read_measurements(path)
