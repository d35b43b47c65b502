"""The file of trials: what makes two the same, killed writers, and files that are not what they should be."""

from __future__ import annotations

import contextlib
import csv
import json
import multiprocessing
import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.execution.nodes import MEASURED, PREDICTED, SYNTHETIC, Failure, GpuState, Timing
from engine.records.export import COLUMNS, export
from engine.records.nodes import Subject, Trial
from engine.records.schema import FORMAT
from engine.records.store import RecordStore, now, sqlite_errors
from engine.support.errors import BadInput, MissingCapability

SUBJECT = Subject.of("__global__ void f() {}", "grid 8, block 128, 0 bytes", "float16[8, 8], seed 0", "h200", "13.0")


def trial(number: int, origin: str = SYNTHETIC, **changes: object) -> Trial:
    subject = Subject.of(f"kernel {number}", "grid 1", "none", "h200", "model 1")
    made = Trial(subject, origin, Timing(origin, 1.0 + number), "matmul_0", "{}", "a test")
    return replace(made, **changes)  # type: ignore[arg-type]


def add_all(store: RecordStore, trials: Iterable[Trial]) -> int:
    """Keep many trials at once, all of them or none, as runs do; how many were new."""
    with sqlite_errors(store.path), store.transaction():
        return sum(store.number_of(one, now())[1] for one in trials)


def test_what_went_in_comes_out(tmp_path: Path) -> None:
    state = GpuState(0.5, 1980, 3201, 40, 300.0)
    timing = Timing(MEASURED, 3.5, (3.0, 3.5, 4.0), 3.1, 3.9, {"device": "NVIDIA H200"}, 2, "", (state,))
    kept = [Trial(SUBJECT, MEASURED, timing, "g", "{}", "é"), trial(1, MEASURED, outcome=Failure("hang", "10 s"))]
    with RecordStore(tmp_path / "r.db") as store:
        assert [store.add(one) for one in kept] == [True, True]
    with RecordStore(tmp_path / "r.db") as store:
        assert list(store.trials(MEASURED)) == kept
        assert [store.find(one.subject, MEASURED) for one in kept] == kept
        assert store.find(SUBJECT, PREDICTED) is None
        assert store.counts() == {MEASURED: (1, {"hang": 1})}


@pytest.mark.parametrize(
    "other",
    [
        replace(SUBJECT, kernel="0"), replace(SUBJECT, launch="grid 9"), replace(SUBJECT, inputs="seed 1"),
        replace(SUBJECT, target="a100"), replace(SUBJECT, compiler="13.1"), replace(SUBJECT, flags=("-G",)),
    ],
    ids=["text", "launch", "inputs", "target", "compiler", "flags"],
)  # fmt: skip
def test_another_subject_is_another_trial(other: Subject, tmp_path: Path) -> None:
    with RecordStore(tmp_path / "r.db") as store:
        assert store.add(Trial(SUBJECT, SYNTHETIC, Timing(SYNTHETIC, 1.0)))
        assert store.add(Trial(other, SYNTHETIC, Timing(SYNTHETIC, 2.0)))


def test_reasons_recipes_and_clocks_make_no_other_trial_but_origins_do(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "r.db") as store:
        assert store.add(Trial(SUBJECT, MEASURED, Timing(MEASURED, 1.0, environment={"clock": "1980"}), "g", "{}", "a"))
        again = Timing(MEASURED, 2.0, environment={"clock": "1200"})
        assert not store.add(Trial(SUBJECT, MEASURED, again, "other", '{"author": "user"}', "b"))
        found = store.find(SUBJECT, MEASURED)
        assert found is not None and found.microseconds == 1.0, "the first one stays"
        assert store.add(Trial(SUBJECT, PREDICTED, Timing(PREDICTED, 3.0)))
        assert [one.microseconds for one in store.trials(MEASURED)] == [1.0]


def test_flags_have_boundaries() -> None:
    assert replace(SUBJECT, flags=("-a", "b")).key != replace(SUBJECT, flags=("-ab",)).key


def test_a_time_of_another_origin_is_refused() -> None:
    with pytest.raises(ValueError, match="predicted time among measured"):
        Trial(SUBJECT, MEASURED, Timing(PREDICTED, 1.0))
    with pytest.raises(ValueError, match="no origin"):
        Trial(SUBJECT, "guessed", Failure("hang", ""))


def work(path: str, log: str) -> None:
    """Run trials 0, 1, ... that are not kept yet, and say before and after each what was run and what was kept."""
    said = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with RecordStore(path) as store:
        for number in range(100_000):
            if store.find(trial(number).subject, SYNTHETIC) is None:
                os.write(said, f"run {number}\n".encode())
                store.add(trial(number))
                os.write(said, f"kept {number}\n".encode())


@pytest.mark.slow(sentinel=True)
def test_a_killed_writer_loses_no_finished_trial_and_the_next_repeats_none(tmp_path: Path) -> None:
    path, log = tmp_path / "r.db", tmp_path / "log"
    rng = random.Random(11)
    fork = multiprocessing.get_context("fork")
    for _ in range(20):
        process = fork.Process(target=work, args=(str(path), str(log)))
        process.start()
        time.sleep(rng.uniform(0.0, 0.15))
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
    kept: set[str] = set()
    for line in log.read_text().splitlines():
        what, number = line.split()
        assert what == "kept" or number not in kept, f"{number} was kept and run again"
        kept |= {number} if what == "kept" else set()
    assert kept, "no process came as far as one trial"
    with RecordStore(path) as store:
        found = {one.microseconds for one in store.trials(SYNTHETIC)}
    assert {1.0 + int(number) for number in kept} <= found
    assert len(found) - len(kept) <= 20, "at most one trial of each process was kept and not told"


@pytest.mark.slow(sentinel=True)
def test_many_trials_are_quick_and_all_or_none(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "r.db") as store:
        started = time.process_time()
        assert add_all(store, map(trial, range(100_000))) == 100_000
        written = time.process_time()
        assert sum(1 for _ in store.trials(SYNTHETIC)) == 100_000
        read = time.process_time()
        # A few seconds on an idle core; one commit or one query for each trial would take minutes.
        assert written - started < 20 and read - written < 20

        def broken() -> object:
            yield trial(100_000)
            raise OSError("the caller fails")

        with pytest.raises(OSError, match="the caller fails"):
            add_all(store, broken())  # type: ignore[arg-type]
        assert store.find(trial(100_000).subject, SYNTHETIC) is None


def refusal(path: Path) -> BadInput:
    with pytest.raises(BadInput) as caught:
        RecordStore(path, patience=0.05)
    assert caught.value.subject == str(path) and caught.value.hint
    return caught.value


def test_a_file_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database, but long enough to be looked at " * 40)
    assert "no file of records" in refusal(tmp_path / "notes.txt").reason
    assert "cannot be opened" in refusal(tmp_path / "absent" / "r.db").reason
    assert "cannot be opened" in refusal(tmp_path).reason


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE songs (title TEXT)")
    other.close()
    before = path.read_bytes()
    assert "another program" in refusal(path).reason
    assert path.read_bytes() == before


def test_an_empty_file_becomes_one_of_records(tmp_path: Path) -> None:
    (tmp_path / "r.db").touch()
    with RecordStore(tmp_path / "r.db") as store:
        assert store.add(trial(0))


def test_a_file_of_a_newer_version(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    RecordStore(path).close()
    with sqlite3.connect(path) as newer:
        newer.execute(f"PRAGMA user_version = {FORMAT + 1}")
    newer.close()
    assert f"format {FORMAT + 1}" in refusal(path).reason


@pytest.mark.parametrize("part", [0.3, 0.7, 0.97])
def test_a_truncated_file(part: float, tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with RecordStore(path) as store:
        add_all(store, map(trial, range(300)))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * part)])
    assert "damaged" in refusal(path).reason


def test_a_locked_file(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with RecordStore(path, patience=0.05) as store:
        writer = sqlite3.connect(path, isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(BadInput, match="locked by another program"):
            store.add(trial(0))
        writer.execute("ROLLBACK")
        writer.close()
        assert store.add(trial(0)), "and then it goes on"


def test_a_full_disk_keeps_what_there_is(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "r.db") as store:
        assert store.add(trial(0))
        (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
        store.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(MissingCapability, match="disk is full"):
            add_all(store, map(trial, range(1, 1000)))
        assert [one.microseconds for one in store.trials(SYNTHETIC)] == [1.0]


def test_tables_for_other_programs(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "r.db") as store:
        add_all(store, [trial(1), trial(2, outcome=Failure("hang", 'after "10 s", killed')), trial(3, PREDICTED)])
        assert export(store, SYNTHETIC, tmp_path / "t.csv") == 2
        assert export(store, SYNTHETIC, tmp_path / "t.json", group="matmul_0") == 2
        with pytest.raises(BadInput, match="neither"):
            export(store, SYNTHETIC, tmp_path / "t.xls")
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [row["microseconds"] for row in rows] == ["2.0", ""]
    assert rows[1]["message"] == 'after "10 s", killed'
    read = json.loads((tmp_path / "t.json").read_text())
    assert [row["failure"] for row in read["trials"]] == ["", "hang"]


def test_a_store_waits_for_who_makes_the_same_file(tmp_path: Path) -> None:
    """Beginning the log asks for the file alone, and SQLite does not wait for that by itself."""
    path = tmp_path / "r.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, lambda: (other.execute("COMMIT"), other.close()))
    release.start()
    begin = time.perf_counter()
    RecordStore(path, patience=5).close()
    assert 0.2 < time.perf_counter() - begin < 4
    release.join()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as held:
        held.execute("PRAGMA journal_mode = DELETE")
        held.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BadInput, match="locked"):
            RecordStore(path, patience=0.1)
