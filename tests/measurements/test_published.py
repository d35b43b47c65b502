"""Times that others published: which rows a group finds, and what lies between two sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine.documents.model import PublishedTime
from engine.measurements.published import PublishedProblem, problem_of, published_times, write_table
from engine.support.errors import BadInput
from tests.benchmarks.published_problems import graph_of, problem


def group(k: int) -> engine.FusionGroup:
    return engine.fuse(graph_of(problem("matmul", "bfloat16", m=256, n=512, k=k)), target="h100").groups[0]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "times.csv"
    rows = [(1024, 10.0), (4096, 40.0)]
    write_table(
        (
            (PublishedProblem("matmul", "bfloat16", 2, (1, 256, 512, k)), PublishedTime("cuBLAS", "H100", us, "table"))
            for k, us in rows
        ),
        path,
    )
    return path


def test_a_size_in_the_table_is_found_and_one_between_two_lies_on_their_line(table: Path) -> None:
    assert problem_of(group(1024)) == PublishedProblem("matmul", "bfloat16", 2, (1, 256, 512, 1024))
    (there,) = published_times(group(1024), table)
    assert (there.microseconds, there.source) == (10.0, "table")
    (between,) = published_times(group(2048), table)
    assert between.microseconds == pytest.approx(20.0) and "between 1,024 and 4,096" in between.source
    assert published_times(group(8192), table) == (), "nothing is said beyond the table"


def test_a_broken_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text("operator,dtype\nmatmul,float32\n", encoding="utf-8")
    with pytest.raises(BadInput, match="broken"):
        published_times(group(1024), path)
