"""Runs of the command line that are killed at any moment go on where they were: nothing is lost, nothing repeated."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.execution.nodes import PREDICTED
from engine.records.nodes import FINISHED, NEW, Attempt
from engine.records.reader import RunReader
from engine.records.store import RecordStore
from engine.support.errors import BadInput

ROOT = Path(__file__).resolve().parents[2]
ROW = "suite:gta/gemm-256x1024x256"
HANG = 120.0
"""Seconds in which a run has certainly started, or a short one ended."""
STARTING = 0.3
"""Share of the kills that come while a process is starting."""


def tune(records: Path, trials: int, *more: str) -> subprocess.Popen[bytes]:
    """The command as a user starts it; a run that there is goes on."""
    resume = ("--resume",) if records.exists() and attempts(records) is not None else ()
    command = (
        sys.executable, "-m", "app", "tune", ROW, "--records", str(records), "--trials", str(trials),
        "--strategy", "random", "--patience", "1000", "--no-check", *resume, *more,
    )  # fmt: skip
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def attempts(records: Path) -> tuple[Attempt, ...] | None:
    """What the last run tried, as somebody sees it who looks; None where there is no run yet."""
    try:
        with RunReader(records) as reader:
            return reader.attempts(reader.run().number)
    except BadInput:
        return None


def told(process: subprocess.Popen[bytes]) -> str:
    """What a process that has ended said on standard error."""
    return process.communicate()[1].decode()


def wait_for(records: Path, process: subprocess.Popen[bytes], more_than: int) -> tuple[Attempt, ...]:
    """The attempts, once there are more than so many, or the process has ended."""
    end = time.monotonic() + HANG
    while time.monotonic() < end:
        found = attempts(records) or ()
        if len(found) > more_than or process.poll() is not None:
            return found
        time.sleep(0.01)
    raise AssertionError(f"no attempt within {HANG:g} s")


def finish(records: Path, trials: int, *more: str) -> tuple[Attempt, ...]:
    """Let the run end by itself; all that it tried."""
    process = tune(records, trials, *more)
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 0, errors.decode()
    with RunReader(records) as reader:
        assert reader.run().state == FINISHED
    found = attempts(records)
    assert found is not None
    return found


def check(found: tuple[Attempt, ...], records: Path, trials: int) -> None:
    """Every program once, numbered without a gap; every trial that was run anew is kept, once."""
    assert len(found) == trials
    assert [one.number for one in found] == list(range(1, trials + 1))
    assert len({(one.mapping, one.values) for one in found}) == trials, "a program was tried twice"
    new = [one.trial for one in found if one.state == NEW]
    assert None not in new and len(set(new)) == len(new), "a trial was run twice"
    with RecordStore(records) as store:
        assert len(list(store.trials(PREDICTED))) == len({one.trial for one in found if one.trial is not None})


def kill_and_resume(records: Path, kills: int, trials: int, seed: int) -> None:
    """Kill a run so many times, each at a moment drawn by chance, look what is left, then let it end."""
    rng = random.Random(seed)
    known: tuple[Attempt, ...] = ()
    for _ in range(kills):
        process = tune(records, trials)
        is_starting = rng.random() < STARTING
        delay = rng.uniform(0.0, 1.0 if is_starting else 0.3)
        if not is_starting:
            wait_for(records, process, len(known))
        time.sleep(delay)
        seen = attempts(records) or ()
        assert process.poll() is None, f"the run ended before it was killed: {told(process)}"
        process.send_signal(signal.SIGKILL)
        process.communicate()
        left = attempts(records) or ()
        assert left[: len(seen)] == seen and seen[: len(known)] == known, "what was finished is kept as it was"
        known = left
    assert len(known) < trials
    found = finish(records, trials)
    assert found[: len(known)] == known
    check(found, records, trials)


@pytest.mark.slow(sentinel=True)
def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    kill_and_resume(tmp_path / "killed.db", kills=2, trials=160, seed=0)


@pytest.mark.slow
def test_a_run_killed_at_twenty_moments_goes_on(tmp_path: Path) -> None:
    kill_and_resume(tmp_path / "killed.db", kills=20, trials=1500, seed=1)


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A Dask scheduler and two workers as processes; its address, and the workers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    dask = (sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port))
    worker = (
        sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny",
        "--no-dashboard", "--host", "127.0.0.1",
    )  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with contextlib.ExitStack() as stack:

        def start(*command: str) -> subprocess.Popen[bytes]:
            process = stack.enter_context(
                subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
            )
            stack.callback(process.kill)
            return process

        start(*dask, "--no-dashboard")
        yield address, [start(*worker) for _ in range(2)]


@pytest.mark.slow(sentinel=True)  # test_cluster kills one of two workers, too, in half a second
def test_a_lost_worker_of_a_cluster_loses_nothing(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="Dask's distributed is not installed: there is no cluster to lose from")
    from distributed import Client

    records, trials = tmp_path / "r.db", 100
    with cluster(tmp_path) as (address, workers):
        with Client(address, timeout=HANG, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=HANG)
        process = tune(records, trials, "--cluster", address)
        seen = wait_for(records, process, 20)
        assert process.poll() is None, f"the run ended before a worker was killed: {told(process)}"
        workers[0].kill()
        _, errors = process.communicate(timeout=HANG)
        assert process.returncode == 0, errors.decode()
    found = attempts(records)
    assert found is not None and found[: len(seen)] == seen
    check(found, records, trials)
    pids = {one.worker.rpartition(":")[2] for one in found}
    assert pids == {str(worker.pid) for worker in workers}, "both workers had a part in it"
