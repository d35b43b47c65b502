"""Files of times and manifests compared: verdicts with their reasons, and what must not be compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.regression.outcomes import kind_of
from tests.support.commands import MODELS, SOFTMAX, document, loomscope, refused


def measured(scale: float, spread: float = 0.002, device: str = "a test GPU", seed: int = 0) -> dict[str, Any]:
    """What `measure --json` writes of one kernel that takes about `scale` microseconds; made for this test."""
    samples = (scale * np.random.default_rng(seed).normal(1, spread, 50)).tolist()
    return {
        "group": "softmax_0", "instances": 2, "origin": "measured", "microseconds": float(np.median(samples)),
        "samples": samples, "rounds": 10, "noise": "", "environment": {"device": device},
    }  # fmt: skip


def times(path: Path, *kernels: dict[str, Any]) -> str:
    path.write_text(json.dumps({"schema": 1, "kernels": kernels, "microseconds": 1.0}), encoding="utf-8")
    return str(path)


def test_a_slower_kernel_is_seen_and_closes_the_gate(tmp_path: Path) -> None:
    a, b = times(tmp_path / "a.json", measured(10.0)), times(tmp_path / "b.json", measured(10.8, seed=1))
    (row,) = document("compare", a, b)["rows"]
    assert row["verdict"] == "slower" and row["low"] < 1.08 < row["high"]
    assert loomscope("compare", a, b, "--max-slowdown", "10%").returncode == 0
    done = loomscope("compare", a, b, "--max-slowdown", "5%")
    assert done.returncode == 1 and "softmax_0: measured" in done.stderr
    assert loomscope("compare", b, a, "--max-slowdown", "0").returncode == 0, "faster is no slowdown"


def test_noise_is_no_significant_change(tmp_path: Path) -> None:
    a, b = (times(tmp_path / f"{n}.json", measured(10.0, 0.2, seed=n)) for n in (3, 4))
    (row,) = document("compare", a, b)["rows"]
    assert row["verdict"] == "no significant change"
    assert loomscope("compare", a, b, "--max-slowdown", "0").returncode == 0


def test_what_only_one_file_has_is_said(tmp_path: Path) -> None:
    a = times(tmp_path / "a.json", measured(10.0), {**measured(3.0), "group": "old"})
    b = times(tmp_path / "b.json", measured(10.0), {"group": "bad", "failure": "crash", "message": "it fell"})
    rows = {row["name"]: row["verdict"] for row in document("compare", a, b)["rows"]}
    assert rows == {"softmax_0": "no significant change", "old": "only in A"}


def test_times_of_other_devices_and_origins_are_not_compared(tmp_path: Path) -> None:
    a = times(tmp_path / "a.json", measured(10.0))
    b = times(tmp_path / "b.json", measured(10.0, device="another GPU"))
    assert "another device than a.json: a test GPU and another GPU" in refused("compare", a, b)
    c = tmp_path / "c.json"
    c.write_text(json.dumps(document("predict", SOFTMAX)), encoding="utf-8")
    assert "another origin" in refused("compare", a, str(c))


def test_predictions_are_compared_without_an_interval(tmp_path: Path) -> None:
    a = tmp_path / "a.json"
    content = document("predict", SOFTMAX)
    a.write_text(json.dumps(content), encoding="utf-8")
    content["kernels"][0]["microseconds"] *= 1.5
    b = times(tmp_path / "b.json", *content["kernels"])
    (row,) = document("compare", str(a), b)["rows"]
    assert (row["verdict"], row["origin"], row["low"]) == ("slower", "predicted", None)
    assert row["ratio"] == pytest.approx(1.5)
    assert document("compare", str(a), str(a))["rows"][0]["verdict"] == "no significant change"


def test_manifests_are_compared_figure_by_figure(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    assert loomscope("generate", SOFTMAX, "-o", str(tmp_path / "k")).returncode == 0
    a = tmp_path / "k" / "manifest.json"
    assert kind_of(a) == "manifest"
    assert loomscope("compare", str(a), str(a)).stdout == "no difference\n"
    content = json.loads(a.read_text(encoding="utf-8"))
    content["kernels"][0]["compiled"]["sm_80"]["registers"] += 8
    content["launches"] *= 2
    b = tmp_path / "b.json"
    b.write_text(json.dumps(content), encoding="utf-8")
    figures = {
        (row["name"], row["figure"]): (row["a"], row["b"]) for row in document("compare", str(a), str(b))["rows"]
    }
    assert figures["", "kernels"] == (1, 2)
    before, after = figures["softmax_0", "registers sm_80"]
    assert after == before + 8
    assert "manifests hold no times" in refused("compare", str(a), str(b), "--max-slowdown", "5")
    del content["kernels"][0]["launches"][0]["grid"]
    b.write_text(json.dumps(content), encoding="utf-8")
    assert "is no manifest" in refused("compare", str(a), str(b))


@pytest.mark.slow(sentinel=True)
def test_manifests_of_kernels_for_a_cpu_are_compared_too(tmp_path: Path) -> None:
    assert loomscope("generate", SOFTMAX, "-o", str(tmp_path), "--target", "avx2").returncode == 0
    manifest = str(tmp_path / "manifest.json")
    assert loomscope("compare", manifest, manifest).stdout == "no difference\n"



@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{}", "no file that can be compared"),
        ("[1]", "is no JSON object"),
        ("{", "is cut short"),
        ('{"kernels": [{"group": "g", "microseconds": -1, "origin": "measured"}]}', "holds no times"),
        ('{"kernels": [{"group": "g", "microseconds": 1}]}', "holds no times"),
        ('{"kernels": 3}', "holds no times"),
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "b.json").write_text(content, encoding="utf-8")
    a = times(tmp_path / "a.json", measured(1.0))
    assert says in refused("compare", a, str(tmp_path / "b.json"))


def test_two_kinds_are_not_compared(tmp_path: Path) -> None:
    recipe = str(tmp_path / "r.json")
    assert loomscope("recipe", SOFTMAX, "-o", recipe).returncode == 0
    a = times(tmp_path / "a.json", measured(1.0))
    assert "holds a recipe" in refused("compare", a, recipe)
    assert "goes with recipes" in refused("compare", a, a, "--model", SOFTMAX)
    assert "is no JSON" in refused("compare", a, str(MODELS / "bert_tiny.onnx"))
    (tmp_path / "b.json").write_text(json.dumps({"format": "loomscope-baseline", "version": 1, "groups": {}}))
    assert "is a baseline" in refused("compare", a, str(tmp_path / "b.json"))


def test_a_limit_that_is_no_percentage_is_refused(tmp_path: Path) -> None:
    a = times(tmp_path / "a.json", measured(1.0))
    for limit in ("-1", "many", "inf%"):
        assert loomscope("compare", a, a, f"--max-slowdown={limit}").returncode == 2
