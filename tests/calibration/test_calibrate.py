"""From files to predictions that say what they were fitted to; files that make no calibration are refused.

The times are made with known figures of a machine that there is not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import engine
from engine.cost.calibration import Calibration, calibration_file, calibration_of, keep_calibration
from engine.support.errors import BadInput
from engine.support.serialization import to_json
from tests.calibration.test_fit import H200, TRUE, observations, scaled
from tests.support.commands import SOFTMAX, document, loomscope, refused


def file(path: Path, *, device: str = "NVIDIA H200", rows: int = 1000, **entry: Any) -> Path:
    """What the GPU benchmark writes of the rows of `test_fit`."""
    made = []
    for one in observations(scaled(H200, TRUE), noise=0.02)[:rows]:
        ((count, facts),) = one.launches
        launch = {"group": "g", "kind": one.kind, "count": count, "facts": to_json(facts)}
        time = {"origin": "measured", "microseconds": one.microseconds, "environment": {"device": device}}
        ours = {**time, "launches": [launch], **entry}
        made.append({"row": f"suite:x/{one.name}", "systems": {"loomscope": ours}})
    head = {"name": "gpu", "environment": {"device": device, "date": "2000-01-01"}, "summary": {}}
    path.write_text(json.dumps({**head, "rows": made}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Calibration:
    return engine.calibrate([file(tmp_path_factory.mktemp("files") / "times.json")])


def test_figures_and_errors_of_a_file(made: Calibration) -> None:
    assert (made.target, made.device, made.files, made.date) == ("h200", "NVIDIA H200", ("times.json",), "2000-01-01")
    for name, factor in TRUE.items():
        figure = made.figures[name]
        assert figure.value / figure.before == pytest.approx(factor, rel=0.06), name
    assert "tf32_rate" not in made.figures, "no row depends on it"
    kinds = {error.kind: error for error in made.errors}
    assert list(kinds)[-1] == "all" and "contraction on tensor cores" in kinds
    assert kinds["all"].rows == 37 and kinds["all"].before > 0.2 > 0.06 > kinds["all"].after


@pytest.mark.parametrize("rows", [18, 19])
def test_a_figure_that_no_row_speaks_of_keeps_its_value(rows: int, tmp_path: Path) -> None:
    """Which rows depend on the bandwidth of L2 is known only once the others are fitted: of 18 too few do."""
    found = engine.calibrate([file(tmp_path / "times.json", rows=rows)]).figures
    assert min(figure.rows for figure in found.values()) >= 3
    assert ("l2_bandwidth" in found) == (rows == 19)


def test_predictions_use_what_is_kept_and_say_so(
    made: Calibration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOMSCOPE_DATA", str(tmp_path))
    group = engine.fuse(engine.load(SOFTMAX)).groups[0]
    kernel = engine.compile(group)
    before = engine.predict(kernel)
    path = keep_calibration(made)
    assert path == calibration_file("h200") and calibration_of("h200") == made and calibration_of("a100") is None
    after = engine.predict(kernel)
    assert (before.note, after.note) == ("uncalibrated", made.note)
    assert made.note.startswith("calibrated on times.json, error ")
    # A small kernel: half as much again for a launch, which is most of its time.
    assert after.microseconds == pytest.approx(before.microseconds * 1.5, rel=0.2)
    assert engine.kernel_doc(kernel).time.note == made.note
    assert engine.compile(group).source.text == kernel.source.text, "a recipe makes the same text everywhere"
    path.unlink()
    assert engine.predict(kernel) == before


def test_the_verb_prints_figures_and_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOMSCOPE_DATA", str(tmp_path / "data"))
    times = file(tmp_path / "times.json")
    found = document("calibrate", str(times))
    assert found["figures"]["dram_bandwidth"]["rows"] >= 6
    assert Path(found["file"]).is_relative_to(tmp_path / "data")
    assert document("predict", SOFTMAX)["kernels"][0]["note"].startswith("calibrated on times.json")
    said = loomscope("calibrate", str(times)).stdout
    assert "dram_bandwidth" in said and "contraction on tensor cores" in said and "delete it to undo" in said


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"device": "NVIDIA A100-SXM4-80GB"}, "which is not NVIDIA H200"),
        ({"device": "AMD Instinct MI300X"}, "which no target describes"),
        ({"rows": 11}, "holds 11 quiet measured times"),
        ({"noise": "times drift by +9%"}, "holds 0 quiet measured times"),
        ({"launches": []}, "holds 0 quiet measured times"),
        ({"origin": "synthetic"}, "holds 0 quiet measured times"),
    ],
)
def test_files_that_make_no_calibration_are_refused(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput) as caught:
        engine.calibrate([file(tmp_path / "t.json", **changes)], "h200" if "AMD" not in str(changes) else None)
    assert says in caught.value.reason


def test_files_of_two_devices_are_refused(tmp_path: Path) -> None:
    one, other = file(tmp_path / "a.json"), file(tmp_path / "b.json", device="NVIDIA H100 80GB HBM3")
    with pytest.raises(BadInput, match="several devices: NVIDIA H200, NVIDIA H100"):
        engine.calibrate([one, other])
    assert "is no JSON" in refused("calibrate", str(Path(__file__)))


@pytest.mark.parametrize("text", ["[]", "{", '{"format": "loomscope-calibration", "version": 1}'])
def test_a_broken_calibration_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("LOOMSCOPE_DATA", str(tmp_path))
    path = calibration_file("h200")
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    assert "delete it" in refused("predict", SOFTMAX)
