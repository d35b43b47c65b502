"""The benchmark of fusion on two models of the repository: its rows, its means, and what it counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks import fusion

MODELS = Path(__file__).parents[2] / "resources" / "models"


@pytest.fixture(scope="module")
def bert() -> fusion.Row:
    return fusion.measured(MODELS / "bert_tiny.onnx")


def test_policies_of_a_small_bert(bert: fusion.Row) -> None:
    """Two layers of a softmax and two norms, the first norm, the mask; a pooler that is a row of products."""
    assert bert.stitch.kernels == bert.alone.kernels - 2, "the softmaxes are part of attention"
    assert bert.alone.kernels <= bert.unpacked.kernels < bert.xla.kernels <= bert.xla_made.kernels
    assert bert.stitch.bytes < bert.xla.bytes
    assert bert.xla.kernels - bert.unpacked.kernels == 2 * 2 + 2 * 2 * 2 + 2, "three kernels become one, seven times"
    assert bert.stitch.microseconds < bert.xla_made.microseconds


def test_means_are_over_models_with_enough_kernels(bert: fusion.Row) -> None:
    assert bert.counts is (bert.xla.kernels >= fusion.FEWEST)
    few = fusion.measured(MODELS / "softmax_96x512.onnx")
    assert (few.xla.kernels, few.stitch.kernels, few.counts) == (3, 1, False)
    means = fusion.summary([few], ())
    assert means["kernels_over_xla"] is None and means["models_counted"] == 0


def test_the_document_holds_rows_and_goals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.json"
    fusion.main([str(MODELS / "softmax_96x512.onnx"), "--json", str(path)])
    document = json.loads(path.read_text())
    assert document["name"] == "fusion" and document["summary"]["goals"]["kernels_over_xla"] == 0.4
    (row,) = document["rows"]
    assert row["xla"]["kernels"] == 3 and row["stitch"]["predicted_microseconds"] > 0
    assert "softmax_96x512" in capsys.readouterr().out
