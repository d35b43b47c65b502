"""The rates of this machine's CPU are measured and kept, and predictions go by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.execution.native.figures import calibrate_cpu
from engine.target.host_cpu import host_cpu
from tests.support.needs import needs_compiler

MEASURED = ("clock", "fma_rate", "l1_bandwidth", "l2_bandwidth", "l3_bandwidth", "dram_bandwidth", "fork_overhead")


@pytest.mark.slow(sentinel=True)
@needs_compiler
def test_rates_are_measured_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOMSCOPE_DATA", str(tmp_path))
    before, after, path = calibrate_cpu()
    assert path.is_relative_to(tmp_path) and host_cpu() == after != before
    found = after.figures()
    for name in MEASURED:
        assert "measured on" in found[name].source and found[name].value > 0, name
    assert found["l1_bytes"] == before.figures()["l1_bytes"]
    # A core multiplies and adds no faster than 6 GHz allow, and nearer caches are no slower: both by half a magnitude.
    assert 1e9 < found["clock"].value < 6e9
    assert found["l1_bandwidth"].value * 3 > found["l2_bandwidth"].value > found["dram_bandwidth"].value / 3
