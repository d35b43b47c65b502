"""A cluster whose workers all die while its scheduler lives: a run says so, waits, goes on or ends, loses nothing."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from engine.records.nodes import FINISHED, INTERRUPTED, NEW, RUNNING, STOP, STOPPED, Attempt
from engine.records.reader import RunReader
from engine.records.runs import RunLog, ask
from engine.records.store import RecordStore
from engine.support.errors import MissingCapability
from engine.tuning.cluster import cluster
from engine.tuning.control import RunControl
from engine.tuning.executors import Inline, Workers
from engine.tuning.worker_loss import Outage
from tests.records.test_runs import REQUEST
from tests.support.commands import ROOT
from tests.tuning.runs import Synthetic, run, search

needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="Dask is not installed: pip install 'loomscope[cluster]'"
)
TRIALS = 8
HANG = 60.0


def outage(path: Path, is_staffed: Callable[[], bool], patience: float, minutes: float = 10.0) -> Outage:
    """One that may ask at once; what it tells is the run's message."""
    log = RunLog.start(RecordStore(path), REQUEST)
    control = RunControl(log, minutes)
    made = Outage(Workers(Inline(), is_staffed=is_staffed, patience=patience), log, control, lambda text: None)
    made._asked = -HANG
    return made


def message(path: Path) -> tuple[str, str]:
    with RunReader(path) as reader:
        return reader.run().state, reader.run().message


def test_workers_that_are_there_cost_nothing_but_a_question(tmp_path: Path) -> None:
    asked: list[int] = []
    one = outage(tmp_path / "r.db", lambda: not asked.append(1), 0.0)
    assert not one.is_over() and not one.is_over()
    assert len(asked) == 1, "once in a while"
    assert message(tmp_path / "r.db") == (RUNNING, "")


def test_a_wait_is_told_until_workers_are_back(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []

    def look() -> bool:
        told.append(message(tmp_path / "r.db"))
        return len(told) == 2

    assert outage(tmp_path / "r.db", look, HANG).is_over()
    assert told == [(RUNNING, ""), (RUNNING, "no worker is left: waiting 60 s for one")]
    assert message(tmp_path / "r.db") == (RUNNING, "")


def test_nobody_waits_longer_than_patience_nor_beyond_the_time_of_the_run(tmp_path: Path) -> None:
    with pytest.raises(MissingCapability, match=r"none came back within 0\.1 s") as caught:
        outage(tmp_path / "a.db", lambda: False, 0.1).is_over()
    assert "--resume" in caught.value.hint
    with pytest.raises(MissingCapability):
        outage(tmp_path / "b.db", lambda: False, 0.1, minutes=0.0).is_over()
    began = time.monotonic()
    assert not outage(tmp_path / "c.db", lambda: False, HANG, minutes=0.2 / 60).is_over()
    assert time.monotonic() - began < HANG / 2


class Scheduler:
    """A scheduler of this process, and workers that nobody starts again."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        command = [sys.executable, "-m", "dask", "worker", self.address, "--nthreads", "1", "--no-nanny",
                   "--no-dashboard"]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        quiet = subprocess.DEVNULL
        self.workers.append(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=quiet, stderr=quiet))

    def kill(self) -> None:
        for worker in self.workers:
            worker.send_signal(signal.SIGKILL)
            worker.wait(HANG)
        self.workers.clear()


@pytest.fixture
def two() -> Iterator[Scheduler]:
    from distributed import Client, LocalCluster

    with ExitStack() as stack:
        local: Any = stack.enter_context(LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50))
        made = Scheduler(local.scheduler_address)
        stack.callback(made.kill)
        for _ in range(2):
            made.start()
        with Client(made.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=HANG)
        yield made


def values(attempts: list[Attempt]) -> dict[object, float | None]:
    return {(one.mapping, one.values): one.microseconds for one in attempts}


@needs_dask
@pytest.mark.slow
def test_a_run_whose_workers_all_died_goes_on_with_new_ones(two: Scheduler, tmp_path: Path) -> None:
    alone = values(list(run(tmp_path / "one.db", TRIALS, runner=Synthetic())[1]))
    said: list[str] = []

    def notice(text: str) -> None:
        said.append(text)
        if "no worker is left" in text:
            two.start()

    with RecordStore(tmp_path / "two.db") as store:
        one = search(store, TRIALS, runner=Synthetic(), workers=cluster(two.address, "h200", one_at_a_time=True))
        one.notice = notice
        attempts = []
        for attempt in one.run():
            attempts.append(attempt)
            if len(attempts) == 2:
                two.kill()
    assert [text[:18] for text in said] == ["no worker is left:", "workers are back: "]
    assert values(attempts) == alone and all(one.state == NEW for one in attempts)
    assert message(tmp_path / "two.db")[0] == FINISHED


@needs_dask
@pytest.mark.slow
def test_a_run_whose_workers_stay_away_ends_and_is_resumed(two: Scheduler, tmp_path: Path) -> None:
    path, attempts = tmp_path / "two.db", []
    with RecordStore(path) as store:
        workers = cluster(two.address, "h200", one_at_a_time=True)
        workers.patience = 0.5
        one = search(store, TRIALS, runner=Synthetic(), workers=workers)
        with pytest.raises(MissingCapability, match="none came back"):
            for attempt in one.run():
                attempts.append(attempt)
                if len(attempts) == 2:
                    two.kill()
    state, why = message(path)
    assert state == INTERRUPTED and "--resume" in why
    with RunReader(path) as reader:
        assert list(reader.attempts(1)) == attempts, "all that finished is kept"
    with RecordStore(path) as store:
        attempts += search(store, TRIALS, runner=Synthetic(), resume=True).run()
    assert len(values(attempts)) == len(attempts) == TRIALS + 1, "each program once, and the recipe before the search"
    assert all(one.state == NEW for one in attempts), "nothing was repeated"


@needs_dask
@pytest.mark.slow
def test_a_run_that_waits_for_workers_is_stopped(two: Scheduler, tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with RecordStore(path) as store:
        one = search(store, TRIALS, runner=Synthetic(), workers=cluster(two.address, "h200", one_at_a_time=True))
        one.notice = lambda text: ask(path, 1, STOP)
        for number, _ in enumerate(one.run()):
            if number == 1:
                two.kill()
    assert message(path)[0] == STOPPED
