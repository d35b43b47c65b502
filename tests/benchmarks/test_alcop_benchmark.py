"""The benchmark of ALCOP's published speed-ups: its document, its figures, its rank correlation by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.suite import read_suite
from tests.benchmarks import alcop


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


@pytest.mark.parametrize(
    ("one", "other", "rho"),
    [
        ([1, 2, 3], [4, 5, 9], 1.0), ([1, 2, 3], [9, 5, 4], -1.0), ([1, 2, 2, 3], [1, 2, 3, 4], 0.9486833),
        ([1, 1], [1, 2], None),
    ],
)  # fmt: skip
def test_a_rank_correlation_counts_order(one: list[float], other: list[float], rho: float | None) -> None:
    found = alcop.rank_correlation(one, other)
    assert found is None if rho is None else found == pytest.approx(rho)
