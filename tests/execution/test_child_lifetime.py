"""Child processes have limits, and end with the process that started them, however that one ends."""

from __future__ import annotations

import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.exit_codes import ENDS_WITH_PARENT
from engine.support.child_processes import start_child
from tests.support.commands import MODELS, ROOT, SOFTMAX, heed_interrupts, loomscope
from tests.support.needs import needs_compiler, needs_nvrtc

MOMENTS = 20
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
VERBS: dict[str, Callable[[Path], list[str]]] = {
    "verify": lambda folder: ["verify", "example"],
    "generate": lambda folder: ["generate", "example", "-o", str(folder / "out")],
    "tune": lambda folder: ["tune", "example", "--records", str(folder / "night.db"), "--trials", "100000",
                            "--jobs", "2", "--runner", "predicted"],
}  # fmt: skip
ALLOWED = 2.0
STARTING = 20.0
"""Seconds for a process that has to import the program first, on a busy machine."""


def marked(mark: str) -> dict[int, str]:
    """Running processes whose environment holds the mark, and their command lines."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark.encode() in (folder / "environ").read_bytes():
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z":
                    found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
    return found


def wait_until_gone(mark: str, but: int = 0, allowed: float = ALLOWED) -> dict[int, str]:
    """What still runs `allowed` seconds from now, or nothing.  but: a process that may run."""
    end = time.monotonic() + allowed
    while (left := {n: line for n, line in marked(mark).items() if n != but}) and time.monotonic() < end:
        time.sleep(0.02)
    return left


def ending(verb: str, number: signal.Signals, after: float, folder: Path) -> bool:
    """Start a verb, send it a signal after a while: nothing of it runs on, and the next start leaves nothing behind.

    Returns whether it ran when the signal came.
    """
    mark = f"LOOMSCOPE_TEST_MARK={folder.name}-{verb}-{number}-{after}"
    name, _, value = mark.partition("=")
    places = {"LOOMSCOPE_CACHE": str(folder / "cache"), "TMPDIR": str(folder / "tmp"), name: value}
    (folder / "tmp").mkdir(exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "app", *VERBS[verb](folder)], cwd=ROOT, env={**os.environ, **places},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts,
    )  # fmt: skip
    time.sleep(after)
    was_running = process.poll() is None
    process.send_signal(number)
    try:
        _, told = process.communicate(timeout=ALLOWED)
    finally:
        left = wait_until_gone(mark)
        for each in left:
            os.kill(each, signal.SIGKILL)
    assert not left, f"{verb}, {number.name} after {after:.3f} s: {left}"
    assert "Traceback" not in told, told
    started = [sys.executable, "-m", "app", "recipe", SOFTMAX, "-o", str(folder / "recipe.json")]
    subprocess.run(started, cwd=ROOT, env={**os.environ, **places}, check=True, capture_output=True)
    mine = f"loomscope-{process.pid}-"
    behind = [*(folder / "cache").glob("new/*"), *left_in(folder / "tmp"), *Path("/dev/shm").glob(f"{mine}*")]
    assert not behind, f"{verb}, {number.name} after {after:.3f} s"
    return was_running


def left_in(folder: Path) -> list[Path]:
    """But `.ses`, the session file of onnxruntime's telemetry."""
    return [path for path in folder.iterdir() if path.name != ".ses"]


def moments(verb: str) -> list[float]:
    draw = random.Random(verb)
    return [draw.uniform(0.05, 4.0) for _ in range(MOMENTS)]


@pytest.mark.slow(sentinel=True)
@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("moment", range(1))
def test_a_signal_leaves_nothing(verb: str, number: signal.Signals, moment: int, tmp_path: Path) -> None:
    assert ending(verb, number, 1.5 + moments(verb)[moment] / 4, tmp_path)


@needs_compiler
@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_signals_at_random_moments_leave_nothing(verb: str, tmp_path: Path) -> None:
    """TERM, HUP and KILL in turn: 20 moments of each verb, 60 in all; the cache is cold before each other one."""
    caught = 0
    for turn, moment in enumerate(moments(verb)):
        folder = tmp_path / str(turn // 2)
        folder.mkdir(exist_ok=True)
        caught += ending(verb, SIGNALS[turn % 3], moment, folder)
    assert caught >= MOMENTS / 2, "most came while it ran"


@pytest.mark.slow(sentinel=True)
def test_a_search_that_the_window_started_ends_with_it(tmp_path: Path) -> None:
    mark = f"LOOMSCOPE_TEST_MARK={tmp_path.name}"
    line = " ".join(map(shlex.quote, [sys.executable, "-m", "app", *VERBS["tune"](tmp_path)]))
    wait = f"until [ -e {tmp_path}/night.db ]; do sleep 0.1; done"
    script = f"{mark} {ENDS_WITH_PARENT}=1 {line} >/dev/null 2>&1 & {wait}; kill -9 $$"
    subprocess.run(["/bin/sh", "-c", script], cwd=ROOT, check=False, timeout=60)
    assert not wait_until_gone(mark)


SLEEPER = [sys.executable, "-S", "-c", "import subprocess; subprocess.run(['sleep', '60'])"]


def start_and_die(how: str) -> int:
    """A process that starts a child with a child of its own, and ends in a way; the process group of the child."""
    code = (
        "import os, signal, subprocess, sys, threading\n"
        "from engine.support.child_processes import start_child\n"
        f"child = start_child({SLEEPER!r}, stdout=subprocess.DEVNULL)\n"
        "print(os.getpgid(child.pid), flush=True)\n"
        "if os.getpid() != int(sys.stdin.readline() or 0): pass\n"
        f"{how}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return int(done.stdout)


@pytest.mark.few(1)
@pytest.mark.parametrize("how", ["os.kill(os.getpid(), 9)", "os._exit(0)", "sys.exit()", "os.abort()"])
def test_a_childs_child_ends_as_well(how: str) -> None:
    group = start_and_die(how)
    end = time.monotonic() + ALLOWED
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    raise AssertionError("it runs on")


POOL = """
import os, signal
from importlib import import_module
from engine.support.process_pool import ProcessPool
pool = ProcessPool(1)
pool.submit(import_module, "engine.compilation")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_of_a_pool_ends_that_was_starting_when_its_parent_died() -> None:
    mark = f"LOOMSCOPE_TEST_MARK=pool-{os.getpid()}"
    name, _, value = mark.partition("=")
    subprocess.run([sys.executable, "-c", POOL], cwd=ROOT, env={**os.environ, name: value}, check=False)
    assert wait_until_gone(mark, allowed=STARTING) == {}


@pytest.mark.slow(sentinel=True)
def test_a_fork_keeps_nothing_alive() -> None:
    """Pool processes that are forked hold copies of the pipe to the reaper, unless they close it."""
    group = start_and_die("os.fork() or subprocess.run(['sleep', '3']); os._exit(0)")
    time.sleep(0.5)
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


def test_a_dead_reaper_is_replaced() -> None:
    first = start_child(["sleep", "60"])
    os.killpg(os.getpgid(first.pid), signal.SIGKILL)
    first.wait()
    second = start_child(["sleep", "60"])
    assert os.getpgid(second.pid) != os.getpgid(0)
    second.kill()
    second.wait()


def test_a_child_begins_with_its_limits() -> None:
    command = ["/bin/sh", "-c", "ulimit -t; ulimit -v"]
    child = start_child(command, seconds=7, memory=1 << 30, stdout=subprocess.PIPE, text=True)
    assert child.communicate()[0].split() == ["8", str(1 << 20)]


def test_a_program_that_is_not_there_is_told_with_and_without_limits() -> None:
    for seconds in (0, 7):
        with pytest.raises(FileNotFoundError, match="no-such-program"):
            start_child(["/no-such-program"], seconds=seconds)


@needs_compiler
def test_no_memory_for_the_emulator_is_no_fault_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.execution.emulate.emulate._memory_limit", lambda source: 24 << 20)
    done = loomscope("verify", str(MODELS / "matmul_bias_gelu_128x256x512.onnx"), "--level", "source")
    assert done.returncode == 3 and "fail" not in done.stdout, done.stdout + done.stderr
