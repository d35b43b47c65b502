"""A run that a person watches: paused, let go on and stopped by wish, and broken off by signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.execution.nodes import PREDICTED
from engine.recipe import Recipe
from engine.records.nodes import GO, INTERRUPTED, PAUSE, PAUSED, RUNNING, STOP, STOPPED, Run
from engine.records.reader import RunReader
from engine.records.runs import RunLog, ask
from engine.records.store import RecordStore
from engine.records.tables import is_alive
from engine.tuning.control import SearchControl
from tests.records.test_runs import REQUEST
from tests.support.commands import ROOT, heed_interrupts
from tests.tuning.runs import ROW, search

HANG = 60.0
"""Seconds after which a test gives up: nothing here takes one."""


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that another thread or process does."""
    end = time.monotonic() + HANG
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def test_wishes_are_heard_and_time_stands_still_in_a_pause(tmp_path: Path) -> None:
    path, ticks = tmp_path / "r.db", [0.0]
    with RecordStore(path) as store:
        log = RunLog.start(store, REQUEST)
        with SearchControl(log, minutes=10 / 60, clock=lambda: ticks[0]) as control:
            assert not control.is_stopped() and not control.is_late()
            ticks[0] = 4.0
            ask(path, log.number, PAUSE)

            def release() -> None:
                with RunReader(path) as reader:
                    until(lambda: reader.run().state == PAUSED)
                ticks[0] = 104.0
                ask(path, 1, GO)

            thread = threading.Thread(target=release)
            until(lambda: control._wish == PAUSE)
            thread.start()
            assert not control.is_stopped(), "it comes back once the pause is over"
            thread.join()
            assert log.run().state == RUNNING
            assert control.seconds == pytest.approx(4.0) and not control.is_late()
            ticks[0] = 110.1
            assert control.is_late()
            ask(path, log.number, STOP)
            until(lambda: control.is_stopped())


def test_a_silent_run_gives_signs_of_life(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "r.db") as store:
        log = RunLog.start(store, REQUEST)
        store.connection.execute("UPDATE runs SET heartbeat = 0")
        assert not is_alive(log.run())
        with SearchControl(log):
            until(lambda: is_alive(log.run()))


def test_a_search_stops_where_a_person_wishes_and_goes_on_later(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with RecordStore(path) as store:
        one, done = search(store, 4000), 0
        for _ in one.run():
            done += 1
            if done == 5:
                ask(path, one.log.number, STOP)
            assert time.monotonic() and done < 4000
        assert one.why_ended == "a person stopped it"
    with RunReader(path) as reader:
        run = reader.run()
        assert (run.state, len(reader.attempts(1))) == (STOPPED, done)
    with RecordStore(path) as store:
        assert next(iter(search(store, done + 1, resume=True).run())).number == done + 1


class Started:
    """`loomscope tune` in a process of its own."""

    def __init__(self, path: Path, *options: str) -> None:
        self.path = path
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app", "tune", ROW, "--records", str(path), "--trials", "4000", "--no-check",
             "--strategy", "random", "--patience", "4000", *options],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=heed_interrupts,
        )  # fmt: skip

    def run(self) -> Run | None:
        if not self.path.is_file() or not self.path.stat().st_size:
            return None
        with RunReader(self.path) as reader:
            return next(iter(reader.runs()), None)

    def attempts(self) -> int:
        with RunReader(self.path) as reader:
            return len(reader.attempts(1)) if reader.runs() else 0

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=HANG)
        return self.process.returncode, out, err


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_with_all_it_found(number: signal.Signals, tmp_path: Path) -> None:
    started = Started(tmp_path / "r.db", "-o", str(tmp_path / "best.json"), "--json")
    until(lambda: started.run() is not None and started.attempts() >= 3)
    os.kill(started.process.pid, number)
    code, out, err = started.end()
    assert code == 130 and "Traceback" not in err
    kept = started.attempts()
    told = json.loads(out)
    assert told["ended"] == "interrupted" and told["trials"] == kept >= 3
    assert f"interrupted: {kept} attempts of run 1" in " ".join(err.split()) and "--resume goes on" in err
    assert Recipe.loads((tmp_path / "best.json").read_text()).target == "h200"
    run = started.run()
    assert run is not None and run.state == INTERRUPTED
    with RecordStore(tmp_path / "r.db") as store:
        assert len(list(store.trials(PREDICTED))) <= kept


@pytest.mark.slow(sentinel=True)
def test_a_window_pauses_and_stops_a_command(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    started = Started(path)
    until(lambda: started.run() is not None and started.attempts() >= 3)
    ask(path, 1, PAUSE)
    until(lambda: (run := started.run()) is not None and run.state == PAUSED)
    held = started.attempts()
    time.sleep(0.5)
    assert started.attempts() == held and (run := started.run()) is not None and is_alive(run)
    ask(path, 1, GO)
    until(lambda: started.attempts() > held)
    ask(path, 1, STOP)
    code, out, err = started.end()
    assert code == 0 and "a person stopped it" in err and "matmul_0" in out
    run = started.run()
    assert run is not None and run.state == STOPPED
