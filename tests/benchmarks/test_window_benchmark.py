"""The benchmark of large graphs: it runs on small ones, and its document has the figures that the goals name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("PySide6", reason="the window needs PySide6")

from tests.benchmarks import window

MARGIN = 5
"""For a machine that does other things, too."""


@pytest.mark.slow(sentinel=True)
def test_it_writes_its_document(
    qtbot: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(window, "REAL", tmp_path / "none.onnx")
    file = tmp_path / "window.json"
    window.main(["--operators", "1000", "--json", str(file)])
    document = json.loads(file.read_text())
    assert [row["graph"] for row in document["rows"]] == ["layers_1000", "blocks_1000"]
    assert all(set(row["search_milliseconds"]) == set(window.QUERIES) for row in document["rows"])
    assert all(row["parsing_seconds"] > 0 and row["expand_milliseconds"] > 0 for row in document["rows"])
    figures = document["summary"]
    assert figures.pop("planned_seconds_50000") >= figures["usable_seconds_50000"]
    assert set(figures) == set(window.BUDGETS) - {f"usable_seconds_{window.REAL_NODES}"}
    assert all(0 < value < MARGIN * window.BUDGETS[name] for name, value in figures.items())
    assert "stall_milliseconds_worst" in capsys.readouterr().out
