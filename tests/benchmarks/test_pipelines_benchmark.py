"""The pipeline benchmark runs on one operator, and its document has the figures that the goals name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks import pipelines
from tests.benchmarks.pipelines_rows import CLASSIC, Configuration
from tests.support.needs import needs_compiler, needs_nvrtc

pytestmark = [needs_compiler, needs_nvrtc]


@pytest.mark.slow(sentinel=True)
def test_one_operator_is_ranked_compiled_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pipelines.json"
    assert pipelines.main(["--quick", "--operator", "MM_BERT_FC1", "--processes", "1", "--json", str(file)]) == 0
    document = json.loads(file.read_text())
    rows, summary = document["rows"], document["summary"]
    assert {row["level"] for row in rows} >= {"unpipelined", "shared"}
    assert sorted(row["rank"] for row in rows if row["rank"])[:2] == [1, 2]
    assert {str(knobs) for knobs in CLASSIC} <= {row["knobs"] for row in rows}
    assert summary["classic_tiles"] == 2 and 200 < summary["classic_tiles_registers"] <= 255
    assert summary["spills_in_top_ten"] == summary["load_conflicts"] == 0 < summary["conflicts_counted_in"]
    assert all(row["bottleneck_microseconds"] <= row["alcop_microseconds"] for row in rows)
    assert summary["predicted_speedup_alcop"] > 1.2 > summary["predicted_speedup_bottleneck"]
    assert "conflicts of" in capsys.readouterr().out


def test_a_spill_in_the_top_ten_or_a_conflict_is_counted() -> None:
    good = Configuration("MM", str(CLASSIC[0]), "shared", 1, 212, 220, 0, 73728, 1, 0.125, 20.0, 18.0, loads=64)
    plain = Configuration("MM", "plain", "unpipelined", 0, 128, 124, 0, 16384, 2, 0.25, 30.0, 18.0)
    bad = Configuration("MM", "deep", "shared", 10, 255, 240, 40, 73728, 1, 0.125, 22.0, 18.0, 64, load_conflicts=3)
    late = Configuration("MM", "late", "shared", 11, 255, 240, 40, 73728, 1, 0.125, 22.0, 18.0)
    assert pipelines.summarize([good, plain])["spills_in_top_ten"] == 0
    summary = pipelines.summarize([good, plain, bad, late])
    assert (summary["spills_in_top_ten"], summary["spilling_configurations"]) == (1, 2)
    assert summary["load_conflicts"] == 3 and summary["conflicts_counted_in"] == 2
    assert summary["predicted_speedup_alcop"] == 1.5
