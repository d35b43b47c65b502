"""Records whose rows are not what they should be, or whose bytes were flipped, are told in a sentence."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

import engine
from engine.records.reader import RunReader
from engine.records.store import RecordStore
from engine.support.errors import BadInput
from tests.support.commands import loomscope
from tests.tuning.runs import plan

DEEP = "[" * 100_000


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "r.db"
    with engine.tune(plan(), trials=12, strategy="random", records=path, check=False) as run:
        assert run.best
    return path


def changed(statement: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute(statement)
        connection.close()

    return change


def read_all(path: Path) -> None:
    """Everything that the command line and the window read."""
    with RunReader(path) as reader:
        for run in reader.runs():
            reader.attempts(run.number)
            reader.fastest(run.number, 3, 10**6)
            reader.rounds(run.number)
    with RecordStore(path) as store:
        list(store.trials("predicted"))


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "statement",
    [
        "update attempts set program = '[[\"x\"'", f"update attempts set program = '{DEEP}'",
        "update attempts set microseconds = 'fast'", "update attempts set seconds = 'soon'",
        f"update runs set tasks = '{DEEP}'", f"update runs set request = '{DEEP}'", "update runs set request = 'null'",
        "update runs set heartbeat = 'x'", "update trials set outcome = x'ff00fe'",
        f"update trials set outcome = '{DEEP}'", "update rounds set figures = '[1]'",
    ],
)  # fmt: skip
def test_rows_that_are_not_what_they_should_be_are_told(statement: str, sound: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    shutil.copyfile(sound, path)
    read_all(path)
    changed(statement)(path)
    with pytest.raises(BadInput, match=r"r\.db: holds an? (attempt|run|trial|round) that cannot be read"):
        read_all(path)


@pytest.mark.parametrize("count", [3, 30, 300])
def test_flipped_bits_are_told_or_harmless(count: int, sound: Path, tmp_path: Path) -> None:
    told = 0
    for seed in range(30):
        path = tmp_path / f"{seed}.db"
        data = bytearray(sound.read_bytes())
        drawn = random.Random(f"{count} {seed}")
        for _ in range(count):
            data[drawn.randrange(100, len(data))] ^= 1 << drawn.randrange(8)
        path.write_bytes(data)
        try:
            read_all(path)
        except BadInput as error:
            told += 1
            assert str(path) in str(error)
    assert told, "some damage is seen"


def test_the_verb_ends_with_2(sound: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    shutil.copyfile(sound, path)
    changed("update attempts set program = '[[\"x\"'")(path)
    done = loomscope("trials", str(path))
    assert done.returncode == 2 and "holds an attempt that cannot be read" in done.stderr
