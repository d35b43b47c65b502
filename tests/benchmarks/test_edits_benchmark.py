"""The benchmark of edits: it runs, every legal edit has a kernel, and its document has the figures that goals name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks import edits


@pytest.mark.slow(sentinel=True)
def test_one_round_writes_its_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "edits.json"
    edits.main(["--rounds", "1", "--random", "12", "--json", str(file)])
    document = json.loads(file.read_text())
    rows = document["rows"]
    assert {row["edit"] for row in rows[:-12]} == set(edits.EDITS) and len(edits.EDITS) >= 12
    assert {row["outcome"] for row in rows[:-12]} == {"a kernel", "refused, with repairs"}
    assert all(len(row["documents"]) == len(row["verdicts"]) == 1 for row in rows)
    assert {row["edit"] for row in rows if row["conflicts"]} >= {"conflict", "conflict of two"}
    figures = document["summary"]
    assert figures["verdicts_milliseconds_worst"] < 3 * edits.BUDGET, "a margin for a busy machine"
    assert 0 < figures["edit_milliseconds_median"] <= figures["edit_milliseconds_worst"]
    assert figures["edit_milliseconds_worst"] < 10 * edits.BUDGET, "tenfold margin for a busy machine"
    assert figures["random_edits"] == 12 and figures["random_edits_too_long"] == 0
    assert "edit_milliseconds_worst" in capsys.readouterr().out
