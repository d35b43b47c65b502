"""The benchmark of ALCOP's published speed-ups: its document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.suite import read_suite
from tests.benchmarks import alcop, report


def test_every_operator_of_the_suite_has_a_published_speed_up() -> None:
    assert set(alcop.PUBLISHED) == {row.name for row in read_suite(alcop.SUITE).rows}


def test_it_writes_its_document(tmp_path: Path) -> None:
    file = tmp_path / "alcop.json"
    assert alcop.main(["--operator", "MM_Square_1k", "--operator", "Conv2D_RN50_4", "--json", str(file)]) == 0
    document = json.loads(file.read_text(encoding="utf-8"))
    assert [row["published"] for row in document["rows"]] == [1.32, 1.22]
    for row in document["rows"]:
        assert row["estimate"] > 1 and row["alcop"] > 1 and row["bottleneck"] == pytest.approx(1, abs=0.05)
    assert {"estimate_rank", "alcop_rank", "bottleneck_rank"} <= set(document["summary"])


def test_differences_of_rounding_are_ties() -> None:
    assert report.rank_figure([1.0, 1.0 + 1e-9, 1.0 - 1e-9], [1, 2, 3]) is None
    assert report.rank_figure([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.9486833)
