"""The command line from outside: exit codes, one JSON document, errors in the user's words."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from app.cli import times, verbs
from app.cli.compile_job import CompileJob
from engine.documents.model import PublishedTime
from engine.support.errors import BadInput
from tests.support.commands import MODELS, ROOT, SOFTMAX, document, loomscope, program


def test_help_is_quick_and_names_every_exit_code() -> None:
    started = time.monotonic()
    done = program("--help")
    # A tenth of this without load; importing the engine or Qt would take longer than the limit allows under load.
    assert time.monotonic() - started < 5
    assert done.returncode == 0
    assert all(f"{code} " in done.stdout for code in range(4))


def test_help_is_whole_lines_and_an_error_of_usage_is_one() -> None:
    done = loomscope("--help")
    rows = [line for line in done.stdout.partition("Commands:")[2].splitlines() if line.startswith("  ")]
    assert len(rows) > 20 and not any("..." in row for row in rows)
    assert "<bool>" not in loomscope("tune", "--help").stdout, "a switch takes no value"
    wrong = loomscope("explain", SOFTMAX)
    assert wrong.returncode == 2 and wrong.stderr.splitlines()[-1] == "Error: Missing option '--group'."


@pytest.mark.slow(sentinel=True)
def test_the_help_of_render_names_every_panel_and_tab() -> None:
    from app.shell.panels import PERSPECTIVES
    from app.shell.render import PictureOptions, render

    said = loomscope("render", "--help").stdout
    for option, names in (("panel", None), ("tab", None), ("perspective", PERSPECTIVES)):
        if names is None:
            with pytest.raises(BadInput) as caught:
                render(SOFTMAX, "/dev/null", PictureOptions(**{option: "none of that name"}))  # type: ignore[arg-type]
            names = caught.value.hint.removeprefix("one of ").split(", ")
        flat = " ".join(said.split())
        assert all(name.lower() in flat for name in names), option


def test_help_imports_neither_engine_nor_qt() -> None:
    check = "import sys, app.cli.main; print([m for m in ('engine', 'PySide6', 'onnx', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("inspect", "absent.onnx"), 2, "absent.onnx"),
        (("inspect", str(ROOT / "README.md")), 2, "README.md"),
        (("fuse", SOFTMAX, "--dim", "batch"), 2, "NAME=VALUE"),
        (("fuse", SOFTMAX, "--dim", "batch=-1"), 2, "NAME=VALUE"),
        (("fuse", SOFTMAX, "--dim", "batch=0"), 2, "has no dimension batch"),
        (("fuse", SOFTMAX, "--policy", "best"), 2, "best"),
        (("predict", SOFTMAX, "--target", "h300"), 2, "h300"),
        (("explain", SOFTMAX, "--group", "softmax_9"), 2, "softmax_9"),
        (("schedule", SOFTMAX, "--recipe", "absent.json"), 2, "absent.json"),
        (("weave", SOFTMAX), 2, "weave"),
    ],
)
def test_what_cannot_be_done_is_said_in_words(arguments: tuple[str, ...], code: int, words: str) -> None:
    done = loomscope(*arguments)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("arguments", [(), ("open", SOFTMAX)])
def test_without_a_display_the_other_ways_are_named(arguments: tuple[str, ...]) -> None:
    done = program(*arguments)
    assert done.returncode == 3
    assert all(words in done.stderr for words in ("display", "loomscope render", "loomscope verify"))
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_group_that_is_misspelt_gets_the_names_that_exist() -> None:
    done = loomscope("explain", SOFTMAX, "--group", "softmx_0")
    assert "softmax_0" in done.stderr


def test_inspect_lists_operators_and_tensors() -> None:
    found = document("inspect", SOFTMAX)
    assert [op["kind"] for op in found["operators"]] == ["Softmax"]
    assert found["unsupported"] == []
    assert {tuple(t["shape"]) for t in found["tensors"]} == {(96, 512)}


def test_fuse_keeps_its_keys() -> None:
    found = document("fuse", "example")
    keys = {"operators", "kernels", "memory_bound_kernels", "bytes_unfused", "bytes_fused", "groups"}
    assert keys <= found.keys()
    assert found["kernels"] == sum(group["instances"] for group in found["groups"]) < found["operators"]
    assert 0 < found["bytes_fused"] < found["bytes_unfused"]
    assert all({"name", "operators", "schemes", "because"} <= group.keys() for group in found["groups"])


def test_schedule_keeps_its_keys() -> None:
    (group,) = document("schedule", SOFTMAX)["groups"]
    assert group["legal"] is True
    assert group["tree"]["children"]
    assert {"entry", "verdict", "because"} <= group["verdicts"][0].keys()


def test_a_conflict_is_told_with_its_repairs(tmp_path: Path) -> None:
    path = tmp_path / "advice.txt"
    path.write_text("advice user\n  required all @ innermost: cut S3 | S0 S1 S2\n")
    done = loomscope("schedule", SOFTMAX, "--tree", str(path))
    assert done.returncode == 1
    told = " ".join(done.stderr.split())
    witness, heading, repairs = told.partition("tried and found to help, one at a time:")
    assert heading and "S3[i=0, j=0] reads it first" in witness
    assert "cut S0 S1 S2 | S3" in repairs and "optional" in repairs and "switch off" in repairs
    assert "hint" not in told
    path.write_text("advice user\n  all @ innermost: cut S3 | S0 S1 S2\n")
    soft = loomscope("schedule", SOFTMAX, "--tree", str(path))
    assert (soft.returncode, "found to help" in soft.stderr) == (0, False)


def test_predict_says_its_origin() -> None:
    found = document("predict", SOFTMAX)
    assert found["environment"] == {"model": "softmax_96x512", "target": "h200"}
    (kernel,) = found["kernels"]
    assert (kernel["origin"], kernel["note"]) == ("predicted", "uncalibrated")
    assert kernel["microseconds"] > 0


def test_a_recipe_goes_out_and_comes_back(tmp_path: Path) -> None:
    path = str(tmp_path / "r.json")
    assert loomscope("recipe", SOFTMAX, "-o", path).returncode == 0
    assert json.loads(Path(path).read_text())["target"] == "h200"
    with_file = document("schedule", SOFTMAX, "--recipe", path)["groups"]
    without = document("schedule", SOFTMAX)["groups"]
    assert [g["tree"] for g in with_file] == [g["tree"] for g in without]


def test_a_recipe_with_an_unknown_field_is_refused_by_its_place(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    loomscope("recipe", SOFTMAX, "-o", str(path))
    path.write_text(json.dumps({**json.loads(path.read_text()), "colour": "red"}))
    done = loomscope("schedule", SOFTMAX, "--recipe", str(path))
    assert done.returncode == 2
    assert "colour" in done.stderr


def test_verify_checks_a_kernel_against_the_reference() -> None:
    found = document("verify", SOFTMAX)
    assert found["summary"] == {"pass": 1, "fail": 0, "unsupported": 0}
    (group,) = found["groups"]
    assert group["max_error"] <= group["tolerance"]
    assert group["elements_compared"] == len(group["orders"]) * 96 * 512
    assert group["blocks_run"] == group["blocks_total"]
    assert len(group["orders"]) == 2


def test_verify_counts_memory_events_by_line() -> None:
    (group,) = document("verify", str(MODELS / "transpose_2x12x64x64.onnx"))["groups"]
    counts = {count["kind"]: count for count in group["counts"]}
    assert counts.keys() == {"global load", "shared store", "shared load", "global store"}
    for count in counts.values():
        assert count.keys() == {"line", "kind", "width", "requests", "sectors", "conflicts", "passes"}
        assert count["requests"] == 2 * 12 * 64 * 64 // (32 * 4)
        coalesced = 16 * count["requests"] if count["kind"].startswith("global") else 0
        assert (count["width"], count["sectors"], count["conflicts"]) == (16, coalesced, 0)
        assert count["passes"] == (4 * count["requests"] if count["kind"] == "shared load" else 0)


def test_verify_of_one_group_prints_the_counts_beside_their_lines() -> None:
    done = loomscope("verify", SOFTMAX, "--group", "softmax_0")
    assert done.returncode == 0
    (load,) = (line for line in done.stdout.splitlines() if "global load" in line)
    assert ".load<4>" in load and " 16 " in load, "512 bytes a warp are 16 sectors"
    assert "global load" not in loomscope("verify", SOFTMAX).stdout
    native = loomscope("verify", SOFTMAX, "--group", "softmax_0", "--target", "cpu")
    assert "pass" in native.stdout and "Counted" not in native.stdout, "kernels for CPUs are executed, not counted"


def test_verify_names_the_entry_that_no_kernel_takes(tmp_path: Path) -> None:
    made = tmp_path / "recipe.json"
    entry = {"statements": ["S0"], "dimension": "innermost", "field": "mark", "value": ["lane", 4096], "required": True}
    advice = [{"author": "user", "scenario": {"entries": [entry]}}]
    made.write_text(json.dumps({"version": 2, "target": "h200", "groups": {"softmax_0": advice}}))
    done = loomscope("verify", SOFTMAX, "--recipe", str(made), "--json")
    (row,) = json.loads(done.stdout)["groups"]
    assert (done.returncode, row["status"]) == (1, "fail")
    assert row["message"].startswith("required S0 @ innermost: mark lane 4096: ")


def test_the_version_is_said() -> None:
    done = loomscope("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("loomscope")


@pytest.mark.parametrize(
    "verb", "open render inspect fuse recipe schedule generate verify predict measure calibrate explain moves".split()
)
def test_the_help_of_a_verb_names_its_exit_codes(verb: str) -> None:
    done = loomscope(verb, "--help")
    assert done.returncode == 0
    assert "Exit codes: 0 done" in done.stdout
    assert len(done.stdout.splitlines()) < 40


def test_measure_without_a_gpu_says_what_to_install() -> None:
    from engine.execution.measure import gpu_name

    if gpu_name() is not None:
        pytest.skip("this machine has a GPU; tests/gpu measures with it")
    done = loomscope("measure", SOFTMAX)
    assert done.returncode == 3
    assert "there is no NVIDIA GPU" in done.stderr and "pip install pycuda" in done.stderr


def test_moves_are_listed_with_their_effect_and_the_impossible_with_reasons() -> None:
    done = loomscope("moves", SOFTMAX, "--group", "softmax_0")
    assert done.returncode == 0
    possible, impossible = done.stdout.split("Not possible")
    assert "Rows per block 1 → 2" in possible and "mark block 2" in possible
    assert "S0[i=0, j=511] writes y_max[0]" in impossible
    document = json.loads(loomscope("moves", SOFTMAX, "--group", "softmax_0", "--json").stdout)
    assert document["complete"] and {"possible", "impossible"} <= document.keys()


def test_explain_tells_the_whole_story() -> None:
    done = loomscope("explain", SOFTMAX, "--group", "softmax_0")
    assert done.returncode == 0, done.stderr
    assert "predicted" in done.stdout
    assert "published" not in done.stdout, "no table lists a softmax of this size"


def test_explain_and_predict_tell_the_same_published_times(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = CompileJob(str(ROOT / SOFTMAX), None, {}, only="softmax_0")
    listed = (PublishedTime("PyTorch", "H100", 21.3, "a table"),)
    monkeypatch.setattr("engine.measurements.published.published_times", lambda group: listed)
    line = "softmax_0: another kernel takes 21.3 µs by PyTorch on H100, published in a table"
    for verb in (verbs.explain, lambda job: times.predict(job, False)):
        verb(job)
        assert capsys.readouterr().out.count(line) == 1


def test_doctor_has_a_row_for_everything_a_verb_may_need(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("QT_QPA_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    rows = {row["name"]: row for row in document("doctor")["rows"]}
    assert {"Python", "display", "C++ compiler", "NVRTC", "GPU", "PyCUDA", "nvdisasm", "distributed"} <= rows.keys()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {re.split("[<>=;]", package)[0] for package in project["dependencies"]} <= rows.keys()
    assert rows["display"]["found"] == ""
    assert all(row["found"] or row["hint"] for row in rows.values())


def test_a_whole_model_is_run_launch_by_launch() -> None:
    found = document("verify", "example", "--whole")
    assert found["summary"]["fail"] == 0
    assert {group["name"] for group in found["groups"]} == {"output_norm_1", "tanh"}
