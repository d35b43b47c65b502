"""`-` in place of a file, colours where they are not wanted, and what a shell completes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from itertools import accumulate
from pathlib import Path

import pytest

from app.cli import output
from app.exit_codes import TELLS_PROGRESS
from engine.target import DEVICES
from tests.support.commands import ROOT, SOFTMAX


def piped(data: bytes, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "app", *arguments], input=data, capture_output=True, check=False, cwd=ROOT,
        env={**os.environ, **environment}, timeout=120,
    )  # fmt: skip


@pytest.mark.slow(sentinel=True)
def test_a_model_is_read_from_standard_input_and_a_recipe_written_to_standard_output() -> None:
    done = piped(Path(SOFTMAX).read_bytes(), "recipe", "-", "-o", "-")
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)["groups"]) == ["softmax_0"]
    assert b"standard output: 1 group" in done.stderr


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("verb", "begins"),
    [
        (("baseline", SOFTMAX, "-o", "-"), b"{"),
        (("report", SOFTMAX, "-o", "-", "--no-check"), b"<!DOCTYPE html>"),
        (("render", SOFTMAX, "-o", "-", "--panel", "outline", "--size", "1024x640"), b"\x89PNG"),
        (("predict", SOFTMAX, "--csv", "-"), b"group,"),
        (("tune", SOFTMAX, "--trials", "2", "--records", "{}", "--no-check", "-o", "-"), b"{"),
        (("tune", SOFTMAX, "--trials", "2", "--records", "{}", "--no-check", "--export", "-"), b"group,"),
    ],
)
def test_what_is_written_goes_to_standard_output_alone(verb: tuple[str, ...], begins: bytes, tmp_path: Path) -> None:
    done = piped(b"", *(part.format(tmp_path / "trials.db") for part in verb))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(begins), done.stdout[:80]
    assert done.stdout.count(begins) == 1 or begins == b"{"
    if begins == b"{":
        json.loads(done.stdout)


@pytest.mark.slow(sentinel=True)
def test_a_recipe_a_baseline_and_one_of_two_to_compare_are_read_from_standard_input(tmp_path: Path) -> None:
    recipe, baseline = (piped(b"", verb, SOFTMAX, "-o", "-").stdout for verb in ("recipe", "baseline"))
    (tmp_path / "r.json").write_bytes(recipe)
    asked = [
        (recipe, "schedule", SOFTMAX, "--recipe", "-"),
        (recipe, "compare", str(tmp_path / "r.json"), "-"),
        (baseline, "check", SOFTMAX, "-"),
    ]
    for data, *arguments in asked:
        done = piped(data, *arguments)
        assert done.returncode == 0, (arguments, done.stderr)
    refused = piped(b'{"groups": 5}', "schedule", SOFTMAX, "--recipe", "-")
    assert refused.returncode == 2 and refused.stderr.startswith(b"standard input"), refused.stderr


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "arguments",
    [
        ("schedule", "-", "--recipe", "-"),
        ("diff", "-", "-"),
        ("tune", SOFTMAX, "-o", "-", "--json"),
        ("tune", SOFTMAX, "-o", "-", "--export", "-"),
    ],
)
def test_one_stream_is_not_two_files(arguments: tuple[str, ...]) -> None:
    done = piped(Path(SOFTMAX).read_bytes(), *arguments)
    assert done.returncode == 2 and b"two things at once" in done.stderr and not done.stdout, done.stderr


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize(("data", "says"), [(b"", b"is empty"), (b"junk", b"ONNX"), (b"{}", b"AKG")])
def test_what_is_no_model_is_told(data: bytes, says: bytes) -> None:
    done = piped(data, "inspect", "-")
    assert done.returncode == 2 and says in done.stderr, done.stderr
    assert done.stderr.startswith(b"standard input")


@pytest.mark.few(1)
@pytest.mark.parametrize("no_color", ["", "1"])
def test_colours_are_left_out_on_demand(no_color: str) -> None:
    forced = {"FORCE_COLOR": "1", **({"NO_COLOR": no_color} if no_color else {})}
    done = piped(b"", "inspect", "nothing.onnx", **forced)
    assert done.returncode == 2 and (b"\x1b[31m" in done.stderr) == (not no_color)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("ver", {"verify"}),
        ("verify --le", {"--level"}),
        ("verify --level ", {"source", "ptx", "both", "auto"}),
        ("predict --target h1", {"h100", "h100-pcie"}),
        ("predict --target ", set(DEVICES)),
        ("tune --strategy e", {"evolution", "exhaustive"}),
        ("render --theme ", {"dark", "light"}),
    ],
)
def test_a_shell_completes_verbs_options_and_values(words: str, completed: set[str]) -> None:
    word = str(len(words.split(" ")))
    asked = {"_LOOMSCOPE_COMPLETE": "complete_bash", "COMP_WORDS": f"loomscope {words}", "COMP_CWORD": word}
    done = subprocess.run(
        [sys.executable, "-c", "from app.cli.main import app; app(prog_name='loomscope')"], capture_output=True,
        text=True, check=False, cwd=ROOT, timeout=60, env={**os.environ, **asked},
    )  # fmt: skip
    assert set(done.stdout.split()) == completed, done.stderr


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("redirection", "code", "says"),
    [
        ("recipe {} -o - > /dev/full", 3, "standard output: No space left on device"),
        ("recipe {} -o - >&-", 3, "standard output: it is closed"),
        ("recipe - -o - <&-", 2, "standard input: is closed"),
        ("generate {} -o -", 2, "a place on disk"),
        ("tune {} --records - --trials 1", 2, "a place on disk"),
    ],
)
def test_a_stream_that_cannot_be_used_is_told(redirection: str, code: int, says: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m app {redirection.format(shlex.quote(str(SOFTMAX)))}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, cwd=ROOT, timeout=120)
    assert done.returncode == code, done.stderr
    assert says in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert not (ROOT / "-").exists()


@pytest.mark.parametrize("pauses, told", [((1, 1, 1), []), ((10, 6, 1, 20), ["second", "fourth"])])
def test_long_work_tells_now_and_then_where_there_is_no_terminal(
    pauses: tuple[int, ...], told: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line at most every quarter of a minute, and none of what is done sooner."""
    clock = iter(accumulate((0, *pauses)))
    monkeypatch.delenv(TELLS_PROGRESS, raising=False)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    with output.steps("work") as step:
        for name in ("first", "second", "third", "fourth")[: len(pauses)]:
            step(name, 1_000, 2_000)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines] == told
    assert all("(1,000 of 2,000, " in line for line in lines)
