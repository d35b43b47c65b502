"""Runs in the file of trials: kept with every attempt and decision, read meanwhile, wished for, taken over."""

from __future__ import annotations

import math
import multiprocessing
import os
import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from engine.execution.nodes import SYNTHETIC, Failure, Timing
from engine.records.nodes import (
    FAILED,
    INTERRUPTED,
    NEW,
    PAUSE,
    PAUSED,
    REUSED,
    RUNNING,
    SEARCHED,
    SILENCE,
    STOP,
    STOPPED,
    Attempt,
    Dropped,
    RefusedRecord,
    Request,
    Round,
    Subject,
    TaskRecord,
    Trial,
)
from engine.records.reader import RunReader
from engine.records.runs import RunLog, ask
from engine.records.schema import FORMAT
from engine.records.store import RecordStore
from engine.records.tables import is_alive
from engine.support.errors import BadInput, MissingCapability

REQUEST = Request(
    "suite:gta/gemm", "h200", "model", "predicted", SYNTHETIC, 64, None, 7, ("matmul_0",), {"batch": 8}, '{"a": 1}',
    "/runs/near.db",
)
TASK = TaskRecord(
    "matmul_0", "wmma", {"stages": (1, 2, 3), "order": ("rows", "columns")}, 100,
    (Dropped("shared memory", "a block has so much", 40, "3 stages: 300 KiB"),), 60, math.inf, 12,
)  # fmt: skip
REFUSED = RefusedRecord("matmul_0", "dp4a", "multiplies int8, not float16", 3)
FORMAT_1 = """
CREATE TABLE trials (number INTEGER PRIMARY KEY, key TEXT NOT NULL, origin TEXT NOT NULL, kernel TEXT NOT NULL,
    launch TEXT NOT NULL, inputs TEXT NOT NULL, target TEXT NOT NULL, compiler TEXT NOT NULL, flags TEXT NOT NULL,
    grp TEXT NOT NULL, recipe TEXT NOT NULL, because TEXT NOT NULL, microseconds REAL, failure TEXT NOT NULL,
    outcome TEXT NOT NULL, finished TEXT NOT NULL, UNIQUE (key, origin));
INSERT INTO trials VALUES (1, 'k', 'synthetic', 'text', 'grid 1', 'none', 'h200', 'model 1', '[]', 'matmul_0', '{}',
    'a test', 3.5, '', '{"origin": "synthetic", "microseconds": 3.5}', '2026-01-02T03:04:05+00:00');
PRAGMA application_id = 1282371437;
PRAGMA user_version = 1;
"""
"""As the version before wrote it."""


def trial(number: int) -> Trial:
    subject = Subject.of(f"kernel {number}", "grid 1", "none", "h200", "model 1")
    return Trial(subject, SYNTHETIC, Timing(SYNTHETIC, 1.0 + number), "matmul_0", f'{{"number": {number}}}')


def attempt(number: int, state: str = NEW) -> Attempt:
    values = (("stages", 1 + number % 3), ("order", "rows"))
    return Attempt(number, None, "matmul_0", "wmma", values, 2.0 + number, state, 1.0 + number, "", "", 0.1 * number)


def test_a_run_comes_out_as_it_went_in(tmp_path: Path) -> None:
    failed = replace(attempt(2, FAILED), microseconds=None, failure="compile", message="é", promised=math.inf)
    first = Round(1, SEARCHED, "matmul_0", "wmma", "the first of each", {"gradient": -3.0, "time": math.inf}, 5.0, 2)
    with RecordStore(tmp_path / "r.db") as store:
        log = RunLog.start(store, REQUEST, [TASK], {"softmax_0": "is no product"}, [REFUSED])
        timed, again = replace(attempt(1), low=0.5, high=2.5), attempt(3, REUSED)
        kept = [log.keep(timed, trial(1)), log.keep(failed, None), log.keep(again, trial(1))]
        log.add_round(first)
        log.add_round(replace(first, number=2, best=math.inf))
        log.set_state(STOPPED, "a person ended it")
    assert [one.trial for one in kept] == [1, None, 1]
    with RunReader(tmp_path / "r.db") as reader:
        (run,) = reader.runs()
        assert run == reader.run() == reader.run(1)
        assert (run.request, run.tasks, run.skipped) == (REQUEST, (TASK,), {"softmax_0": "is no product"})
        assert (run.state, run.message, run.pid) == (STOPPED, "a person ended it", os.getpid())
        assert list(reader.attempts(1)) == kept and (kept[0].low, kept[0].high, kept[1].low) == (0.5, 2.5, None)
        assert run.refused == (REFUSED,)
        assert reader.attempts(1, after=1) == tuple(kept[1:]) and reader.attempts(1, 1, most=1) == (kept[1],)
        assert reader.attempts(2) == ()
        assert reader.rounds(1) == (first, replace(first, number=2, best=math.inf))
        assert reader.rounds(1, after=1)[0].number == 2
        assert reader.trial(1).recipe == '{"number": 1}'
        with pytest.raises(BadInput, match="no trial 9"):
            reader.trial(9)
        with pytest.raises(BadInput, match="no run 9"):
            reader.run(9)


def test_a_reader_on_a_thread_of_its_own_follows_a_run(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "r.db") as store:
        log = RunLog.start(store, REQUEST)
        reader, seen = RunReader(tmp_path / "r.db"), []

        def look() -> None:
            before = reader.version()
            seen.extend(one.number for one in reader.attempts(log.number, after=len(seen)))
            assert reader.version() == before, "nothing was written meanwhile"

        for number in range(1, 6):
            before = reader.version()
            log.keep(attempt(number), trial(number))
            assert reader.version() != before
            thread = threading.Thread(target=look)
            thread.start()
            thread.join(20)
        assert seen == [1, 2, 3, 4, 5]
        reader.close()


def test_a_wish_reaches_the_run_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with RecordStore(path) as store:
        first, second = RunLog.start(store, REQUEST), RunLog.start(store, REQUEST)
        assert (first.beat(), second.beat()) == ("run", "run")
        ask(path, second.number, PAUSE)
        assert (first.beat(), second.beat()) == ("run", PAUSE)
        ask(path, second.number, STOP)
        assert second.beat() == STOP
        with pytest.raises(BadInput, match="no run 3"):
            ask(path, 3, STOP)
        with pytest.raises(ValueError, match="nothing to wish"):
            ask(path, 1, "explode")


def test_a_run_without_signs_of_life_was_interrupted(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "r.db") as store:
        log = RunLog.start(store, REQUEST)
        run = log.run()
        assert is_alive(run) and run.state_at(run.heartbeat + SILENCE) == RUNNING
        assert run.state_at(run.heartbeat + SILENCE + 0.1) == INTERRUPTED
        log.set_state(PAUSED)
        assert log.run().state_at(run.heartbeat + SILENCE + 60) == INTERRUPTED
        log.set_state(STOPPED)
        assert log.run().state_at(run.heartbeat + SILENCE + 60) == STOPPED


def test_only_a_run_that_nobody_is_at_can_be_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with RecordStore(path) as store:
        with pytest.raises(BadInput, match="holds no run"):
            RunLog.resume(store)
        log = RunLog.start(store, REQUEST)
        log.keep(attempt(1), trial(1))
        store.connection.execute("UPDATE runs SET pid = ?", (os.getppid(),))
        with pytest.raises(BadInput, match="run 1 is running in process"):
            RunLog.resume(store)
        store.connection.execute("UPDATE runs SET heartbeat = heartbeat - 60, wish = 'stop', message = 'killed'")
        again = RunLog.resume(store)
        assert again.number == 1 and [one.number for one in again.attempts()] == [1]
        run = again.run()
        assert (run.pid, run.state, run.wish, run.message) == (os.getpid(), RUNNING, "run", "")


def test_a_run_whose_process_is_gone_needs_no_waiting(tmp_path: Path) -> None:
    ended = multiprocessing.get_context("spawn").Process(target=math.sqrt, args=(4.0,))
    ended.start()
    ended.join()
    with RecordStore(tmp_path / "r.db") as store:
        log = RunLog.start(store, REQUEST)
        store.connection.execute("UPDATE runs SET pid = ?", (ended.pid,))
        assert not is_alive(log.run()) and log.run().state_at(log.run().heartbeat) == RUNNING
        assert RunLog.resume(store).run().pid == os.getpid()
        store.connection.execute("UPDATE runs SET pid = ?, host = 'elsewhere'", (ended.pid,))
        assert is_alive(log.run()), "of another machine's processes nothing is known"


def search(path: str) -> None:
    """Go on with the run of a file until killed."""
    with RecordStore(path) as store:
        try:
            log = RunLog.resume(store)
        except BadInput:
            log = RunLog.start(store, REQUEST)
        done = len(log.attempts())
        for number in range(done + 1, 100_000):
            log.keep(attempt(number), trial(number))


@pytest.mark.slow(sentinel=True)
def test_a_killed_run_keeps_attempts_and_their_trials_together(tmp_path: Path) -> None:
    path, rng = tmp_path / "r.db", random.Random(3)
    RecordStore(path).close()
    fork = multiprocessing.get_context("fork")
    for _ in range(8):
        with sqlite3.connect(path) as writer:
            writer.execute("UPDATE runs SET heartbeat = 0")
        writer.close()
        process = fork.Process(target=search, args=(str(path),))
        process.start()
        time.sleep(rng.uniform(0.05, 0.2))
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
    with RunReader(path) as reader:
        found = reader.attempts(1)
        assert len(found) > 0, "no process came as far as one attempt"
        assert [one.number for one in found] == list(range(1, len(found) + 1))
        assert [reader.trial(one.trial or 0).microseconds for one in found[-5:]] == [
            one.microseconds for one in found[-5:]
        ]
        assert len(reader.runs()) == 1


@pytest.mark.parametrize("opened_by", [RecordStore, RunReader])
def test_a_file_of_the_version_before_is_brought_up_to_date(opened_by: type, tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    old = sqlite3.connect(path)
    old.executescript(FORMAT_1)
    old.close()
    opened_by(path).close()
    with RunReader(path) as reader:
        assert reader.runs() == ()
        assert reader.trial(1).microseconds == 3.5
    with RecordStore(path) as store:
        assert [one.microseconds for one in store.trials(SYNTHETIC)] == [3.5]
        assert store.connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)
        assert RunLog.start(store, REQUEST).number == 1


def make(path: str) -> None:
    RecordStore(path).close()


@pytest.mark.slow(sentinel=True)
def test_a_reader_that_comes_while_a_file_is_made_sees_no_stranger(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    for number in range(15):
        path = tmp_path / f"{number}.db"
        process = fork.Process(target=make, args=(str(path),))
        process.start()
        while process.is_alive() or not path.is_file():
            if path.is_file():
                with RunReader(path) as reader:
                    assert reader.runs() == ()
        process.join()


def test_readers_refuse_what_stores_refuse(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not there"):
        RunReader(tmp_path / "absent.db")
    (tmp_path / "notes.txt").write_text("not a database, but long enough to be looked at " * 40)
    with pytest.raises(BadInput, match="no file of records"):
        RunReader(tmp_path / "notes.txt")
    RecordStore(tmp_path / "r.db").close()
    with sqlite3.connect(tmp_path / "r.db") as newer:
        newer.execute(f"PRAGMA user_version = {FORMAT + 1}")
    newer.close()
    with pytest.raises(BadInput, match=f"format {FORMAT + 1}"):
        RunReader(tmp_path / "r.db")
    with pytest.raises(BadInput, match=f"format {FORMAT + 1}"):
        ask(tmp_path / "r.db", 1, STOP)


def test_a_full_disk_keeps_attempts_and_trials_together(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "r.db") as store:
        log = RunLog.start(store, REQUEST)
        (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
        store.connection.execute(f"PRAGMA max_page_count = {pages + 6}")
        with pytest.raises(MissingCapability, match="disk is full"):
            for number in range(1, 1000):
                log.keep(attempt(number), trial(number))
        kept = log.attempts()
        assert kept and len(kept) == len(list(store.trials(SYNTHETIC)))
        assert log.store.counts() == {SYNTHETIC: (len(kept), {})}


def test_a_file_of_the_version_before_gains_what_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with RecordStore(path) as store:
        RunLog.start(store, REQUEST, [TASK]).keep(attempt(1), trial(1))
    with sqlite3.connect(path) as file:
        for table, column in (("attempts", "low"), ("attempts", "high"), ("runs", "refused")):
            file.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        file.execute("PRAGMA user_version = 2")
    with RunReader(path) as reader:
        assert reader.run().refused == () and reader.run().tasks == (TASK,)
        assert reader.attempts(1) == (replace(attempt(1), trial=1),)
    with RecordStore(path) as store:
        RunLog(store, 1).set_groups([TASK], {}, [REFUSED])
        assert RunLog(store, 1).run().refused == (REFUSED,)


def test_a_run_that_was_kept_before_starts_were_is_read_without_one(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with RecordStore(path) as store:
        RunLog.start(store, REQUEST)
    with sqlite3.connect(path) as file:
        file.execute("UPDATE runs SET request = json_remove(request, '$.start')")
    with RunReader(path) as reader:
        read = reader.run().request
    assert read == replace(REQUEST, start="") and (read.method, REQUEST.method) == ("model", "model from near.db")


@pytest.mark.slow(sentinel=True)
def test_many_attempts_are_written_and_read_quickly(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "r.db") as store:
        log = RunLog.start(store, REQUEST)
        log.keep_all((attempt(number), trial(number)) for number in range(1, 20_001))
        with RunReader(tmp_path / "r.db") as reader:
            started = time.process_time()
            assert len(reader.attempts(1, after=10_000)) == 10_000
            # A tenth of a second on an idle core; with the trials' recipes it would be several.
            assert time.process_time() - started < 5


def test_a_new_trial_is_written_without_being_looked_up(tmp_path: Path) -> None:
    statements: list[str] = []
    with RecordStore(tmp_path / "r.db") as store:
        log = RunLog.start(store, REQUEST)
        store.connection.set_trace_callback(statements.append)
        log.keep_all((attempt(number), trial(number)) for number in range(1, 101))
        words = Counter(one.split()[0] for one in statements)
        assert words == {"BEGIN": 1, "INSERT": 200, "UPDATE": 1, "COMMIT": 1}
        (again,) = log.keep_all([(attempt(101, REUSED), trial(7))])
        assert again.trial == 7 and not log.was_new
        assert statements[-3].startswith("INSERT INTO attempts")


@pytest.mark.slow(sentinel=True)
def test_the_log_is_moved_into_the_file_now_and_then(tmp_path: Path) -> None:
    """Neither with each of a thousand pages, for it waits for the disk, nor never, also while somebody reads."""
    wal, sizes = tmp_path / "r.db-wal", []
    with RecordStore(tmp_path / "r.db") as store:
        log = RunLog.start(store, REQUEST)
        with RunReader(tmp_path / "r.db") as reader:
            for first in range(1, 24_001, 400):
                log.keep_all((attempt(number), trial(number)) for number in range(first, first + 400))
                assert len(reader.attempts(1, after=first - 1)) == 400
                sizes.append(wal.stat().st_size)
        pages = (tmp_path / "r.db").stat().st_size
    assert 12e6 < max(sizes) < 24e6, "LOG_PAGES of 4 KiB, and the transaction that was under way"
    assert pages > 3e6, "a part was moved"


def test_failures_are_kept_with_their_kind(tmp_path: Path) -> None:
    hung = replace(trial(1), outcome=Failure("hang", "no answer within 10 s"))
    with RecordStore(tmp_path / "r.db") as store:
        log = RunLog.start(store, REQUEST)
        log.keep(replace(attempt(1, FAILED), microseconds=None, failure="hang"), hung)
    with RunReader(tmp_path / "r.db") as reader:
        (kept,) = reader.attempts(1)
        assert (kept.state, kept.failure, kept.microseconds) == (FAILED, "hang", None)
        assert reader.trial(kept.trial or 0).outcome == hung.outcome


def test_an_empty_file_that_nobody_makes_is_none_of_records(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with pytest.raises(BadInput, match="is empty"):
        RunReader(tmp_path / "empty.db")
    assert not (tmp_path / "empty.db").stat().st_size
    RecordStore(tmp_path / "made.db").close()
    with RunReader(tmp_path / "made.db") as reader:
        assert not reader.runs()
    with pytest.raises(BadInput, match="is not there"):
        RunReader(tmp_path / "absent.db")
