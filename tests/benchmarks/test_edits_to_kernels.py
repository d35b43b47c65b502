"""The benchmark of edits that become kernels: a small run, and its document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks import edits_to_kernels
from tests.support.needs import needs_compiler


@pytest.mark.slow(sentinel=True)
@needs_compiler
def test_legal_edits_of_some_groups_have_kernels_that_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "edits.json"
    options = ["--seed", "3", "--groups", "6", "--checks", "6", "--json", str(file)]
    assert edits_to_kernels.main(options) == 0
    document = json.loads(file.read_text())
    figures, told = document["summary"], capsys.readouterr().out
    assert figures["checked"] == figures["passed"] == 6
    assert figures["generated"] <= figures["legal"] and figures["share"] >= 0.97
    assert told.count("refused") == figures["legal"] - figures["generated"], "every refusal is told"
    assert sum(row["check"] == "pass" for row in document["rows"]) == 6
    assert "6 of 6 kernels checked" in told
