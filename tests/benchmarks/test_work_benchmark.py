"""`Work` says what the emulator counts, of every family; what masks change is computed and adds up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import engine
from engine.kernels.families import FAMILIES
from tests.benchmarks import work
from tests.support.needs import needs_compiler

pytestmark = needs_compiler


@pytest.mark.slow(sentinel=True)
def test_the_example_models_are_explained_to_the_last_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "work.json"
    assert work.main(["--quick", "--json", str(file)]) == 0
    document = json.loads(file.read_text())
    rows, summary = document["rows"], document["summary"]
    assert summary["unexplained"] == summary["not_compared"] == 0
    assert summary["equal"] + summary["explained"] == summary["kernels"] == len(rows)
    for family in FAMILIES:
        # No example is one of these: tests/kernels compares the counts of all but the first.
        is_elsewhere = family.name in {"stitched", "scan", "scatter", "window", "recurrence"}
        assert is_elsewhere or summary["families"][family.name], f"no kernel is {family.name}"
    for row in rows:
        told = {name: sum(part.get(name, 0) for part in row["explained"].values()) for name in row["work"]}
        compared = [name for name in row["work"] if not row["note"] or name.endswith("requests")]
        assert all(row["work"][name] - row["counted"][name] == told[name] for name in compared), row["group"]
    assert "NOT EXPLAINED" not in capsys.readouterr().out


def test_a_wrong_count_is_not_explained() -> None:
    (group,) = engine.fuse(engine.load(work.ROOT / "resources" / "models" / "softmax_96x512.onnx")).groups
    kernel = engine.compile(group)
    right = work.compare(kernel)
    wrong = work.compare(replace(kernel, facts=replace(kernel.facts, global_sectors=kernel.facts.global_sectors + 7)))
    assert isinstance(right, work.Row) and isinstance(wrong, work.Row)
    assert right.left == {} and wrong.left == {"global_sectors": 7}
    assert work.summarize([right, wrong])["unexplained"] == 1


@pytest.mark.slow
def test_every_small_kernel_of_the_shared_models_and_suites_is_explained() -> None:
    assert work.main([]) == 0
