"""Whole searches with predicted times: one operator of each of GTA's ten families, and two models."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import ROOT, document

FAMILIES = (
    "gemv-512x256", "gemm-16x512x128", "scan-16x512x128", "mean-64x56x56", "variance-64x56x56",
    "conv1d-1x512x892-512-k3-s1", "conv2d-C5-b1", "conv3d-1x512x2x7x7-512-k3-s1", "dilated-256x56x56-128",
    "transposed-1x256x14x14-256-k3-s1",
)  # fmt: skip
MODELS = ROOT.parent / "shared" / "models"


@pytest.mark.slow
@pytest.mark.parametrize("row", FAMILIES)
def test_an_operator_of_each_family_is_searched_to_the_end(row: str, tmp_path: Path) -> None:
    told = document("tune", f"suite:gta/{row}", "--records", str(tmp_path / "r.db"), "--trials", "6")
    assert told["ended"] == "all trials are spent" or told["ended"] == "every program was tried"
    assert told["best"] and not told["skipped"], "every family has something to choose"
    for best in told["best"].values():
        assert best["origin"] == "predicted" and best["microseconds"] > 0
        assert not best["is_faster"] or best["note"] == "agrees with the reference", best["note"]


@pytest.mark.slow(sentinel=False)
@pytest.mark.parametrize("name", ["bert_base_b1_s128.onnx", "resnet50_b1_ts13.onnx"])
def test_a_model_is_searched_to_the_end(name: str, tmp_path: Path) -> None:
    if not (MODELS / name).is_file():
        pytest.skip(f"{MODELS / name} is not there: the graphs of real models are not part of the repository")
    told = document("tune", str(MODELS / name), "--records", str(tmp_path / "r.db"), "--trials", "3", "--no-check")
    assert told["ended"] == "all trials are spent"
    assert told["trials"] == 3 * len(told["best"]) > 15 and told["repeated"] == 0
    assert sum(best["is_faster"] for best in told["best"].values()) > len(told["best"]) / 2
