"""The table of measured rows: ratios, geometric means, and every row that is behind named with its peer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.benchmarks import gpu_table


def row(name: str, floor: float, **times: float | str) -> dict[str, Any]:
    """Made times: a number, or the kind of a failure."""

    def entry(time: float | str) -> dict[str, Any]:
        if isinstance(time, str):
            return {"failure": time, "message": "made for this test"}
        return {"origin": "measured", "microseconds": time, "ran": "something", "environment": {"device": "a test GPU"}}

    systems = {system: entry(time) for system, time in times.items()}
    return {"row": f"suite:x/{name}", "flops": 1, "bytes": 1, "floor_microseconds": floor, "systems": systems}


ROWS = [
    row("ahead", 50.0, loomscope=60.0, torch=240.0, xla=120.0),
    row("behind", 8.0, loomscope=20.0, torch=10.0, xla="wrong result"),
    row("failed", 8.0, loomscope="crash", torch=10.0, xla=10.0),
    row("alone", 30.0, loomscope=40.0, torch="missing", xla="missing"),
]


def write(path: Path, device: str = "a test GPU", rows: list[dict[str, Any]] = ROWS) -> Path:
    environment = {"device": device, "date": "2000-01-01T00:00:00+00:00"}
    path.write_text(json.dumps({"environment": environment, "rows": rows, "summary": {}}), encoding="utf-8")
    return path


def test_ratios_of_a_file() -> None:
    found = gpu_table.summary({"environment": {"device": "a test GPU"}, "rows": ROWS}, "x.json")
    # The fastest peer takes twice and half as long; torch alone four times and half as long.
    assert found["best_peer_over_ours"] == pytest.approx((2 * 0.5) ** 0.5)
    assert found["peers_over_ours"] == {"torch": pytest.approx((4 * 0.5) ** 0.5), "xla": pytest.approx(2.0)}
    assert found["floor_over_ours"] == pytest.approx((50 / 60 * 8 / 20 * 30 / 40) ** (1 / 3))
    assert found["floor_over_ours_past_20_us"] == pytest.approx((50 / 60 * 30 / 40) ** 0.5)
    assert (found["behind"], found["rows_without_ours"]) == (["suite:x/behind"], 1)


def test_the_table_names_what_is_behind_and_what_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_table.main([str(write(tmp_path / "a.json"))]) == 0
    out = capsys.readouterr().out
    assert "Measured on a test GPU, 2000-01-01" in out
    assert "| suite:x/ahead | 50 | 60 | 240 | 120 | 2 | 0.833 |" in out
    assert "| suite:x/behind | 8 | 20 | 10 | wrong result | 0.5 | 0.4 |" in out
    assert "Rows under 0.9 of the best peer: 1\n- suite:x/behind: 0.50 of torch (something)" in out
    assert "Rows without a time of ours: 1\n- suite:x/failed: crash: made for this test" in out


def test_the_run_s_own_ceilings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """100 MB in 25 us by the fastest are 4 TB/s: at that rate a row of 200 MB takes 50 us."""
    copy = {**row("copy", 20.0, loomscope=50.0, torch=25.0), "row": "suite:calibration/copy", "bytes": 100_000_000}
    product = {**row("product", 5.0, torch=10.0), "row": "suite:calibration/product", "flops": 5_000_000_000}
    good = {**row("good", 50.0, loomscope=52.0), "bytes": 200_000_000}
    bad = {**row("bad", 50.0, loomscope=100.0), "bytes": 200_000_000}
    bound = {**row("bound", 50.0, loomscope=1000.0), "bytes": 200_000_000, "flops": 100_000_000_000}
    assert gpu_table.main([str(write(tmp_path / "a.json", rows=[copy, product, good, bad, bound]))]) == 0
    out = capsys.readouterr().out
    assert "4 TB/s (torch on suite:calibration/copy)," in out
    assert "500 TFLOP/s (torch on suite:calibration/product)" in out
    assert "under 0.90 of that bandwidth: 2\n- suite:calibration/copy: 0.50\n- suite:x/bad: 0.50\n" in out


@pytest.mark.parametrize(("factor", "tie"), [(1.0, True), (1.01, True), (1.2, False), (0.8, False)])
def test_a_difference_within_the_noise_is_marked(
    factor: float, tie: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = np.random.default_rng(5)
    one = row("r", 5.0, loomscope=10.0, torch=10.0 * factor)
    for name, scale in (("loomscope", 10.0), ("torch", 10.0 * factor)):
        one["systems"][name] |= {"samples": (scale * stream.normal(1, 0.02, 40)).tolist(), "rounds": 8}
    assert gpu_table.main([str(write(tmp_path / "a.json", rows=[one]))]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| suite:x/r ")]
    assert ("~" in line) == tie, line


@pytest.mark.parametrize(
    ("also", "status", "says"), [((), 0, "Synthetic times, NOT measured, on"), ((ROWS[0],), 2, "mix")]
)
def test_only_measured_times_are_called_so(
    also: tuple[dict[str, Any], ...], status: int, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up = row("made-up", 1.0, loomscope=2.0)
    made_up["systems"]["loomscope"]["origin"] = "synthetic"
    assert gpu_table.main([str(write(tmp_path / "a.json", rows=[made_up, *also]))]) == status
    said = "".join(capsys.readouterr())
    assert says in said and "Measured" not in said


def test_files_of_two_devices_make_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = [row("r", 1.0, loomscope=2.0)]
    other[0]["systems"]["loomscope"]["environment"]["device"] = "another GPU"
    files = [write(tmp_path / "a.json"), write(tmp_path / "b.json", "another GPU", other)]
    assert gpu_table.main([str(path) for path in files]) == 2
    assert "several devices" in capsys.readouterr().err
