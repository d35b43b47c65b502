"""Read the runs of a file over a connection, whoever opened it."""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.records.faults import figure, readable
from engine.records.nodes import PAUSED, RUNNING, Attempt, RefusedRecord, Request, Round, Run, TaskRecord
from engine.records.store import KeptTrials
from engine.support.errors import BadInput
from engine.support.serialization import from_json

_RUNS = "number, started, state, wish, host, pid, heartbeat, request, tasks, skipped, message, refused"
ATTEMPT_COLUMNS = (
    "number, trial, grp, mapping, program, promised, state, microseconds, failure, message, seconds, worker, low, high"
)
MAKE_HINT = "`loomscope tune` makes one"
ROUND_COLUMNS = "number, kind, grp, mapping, reason, figures, best, attempts, seconds"


class RunTables(KeptTrials):
    """Reads the runs of one file over a connection.  Raises what `RecordStore` does; any call may."""

    def _attempts(self, rows: Sequence[tuple[Any, ...]]) -> tuple[Attempt, ...]:
        return tuple(_attempt(row, self.path) for row in rows)

    def version(self) -> int:
        """SQLite's change counter: it differs after another connection wrote, so that rows are read again only then."""
        return int(self._rows("PRAGMA data_version")[0][0])

    def runs(self) -> tuple[Run, ...]:
        """All runs, oldest first."""
        return tuple(_run(row, self.path) for row in self._rows(f"SELECT {_RUNS} FROM runs ORDER BY number"))

    def run(self, number: int | None = None) -> Run:
        """One run, by default the last.  Raises BadInput where there is none."""
        query = f"SELECT {_RUNS} FROM runs WHERE number = ifnull(?, number) ORDER BY number DESC LIMIT 1"
        rows = self._rows(query, number)
        if not rows:
            what = "holds no run" if number is None else f"holds no run {number}"
            raise BadInput("records", str(self.path), what, MAKE_HINT)
        return _run(rows[0], self.path)

    def attempts(self, run: int, after: int = 0, most: int | None = None) -> tuple[Attempt, ...]:
        """Attempts of a run in the order in which they finished, from number `after` + 1 on, at most so many."""
        query = f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE run = ? AND number > ? ORDER BY number LIMIT ?"
        return self._attempts(self._rows(query, run, after, -1 if most is None else most))

    def fastest(self, run: int, count: int, until: float) -> tuple[Attempt, ...]:
        """The fastest attempts of each group of a run, so many, among those up to number `until`."""
        place = "row_number() OVER (PARTITION BY grp ORDER BY microseconds, number) AS place"
        which = "run = ? AND number <= ? AND failure = '' AND microseconds IS NOT NULL AND mapping != ''"
        ranked = f"SELECT *, {place} FROM attempts WHERE {which}"
        query = f"SELECT {ATTEMPT_COLUMNS} FROM ({ranked}) WHERE place <= ? ORDER BY grp, place"
        return self._attempts(self._rows(query, run, until, count))

    def attempts_found_wrong(self, run: int, until: int) -> tuple[Attempt, ...]:
        """Attempts of a run up to number `until` whose results a later check found wrong."""
        which = "run = ? AND number <= ? AND failure != '' AND microseconds IS NOT NULL"
        query = f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE {which} ORDER BY number"
        return self._attempts(self._rows(query, run, until))

    def rounds(self, run: int, after: int = 0) -> tuple[Round, ...]:
        """Decisions of a run, from number `after` + 1 on."""
        query = f"SELECT {ROUND_COLUMNS} FROM rounds WHERE run = ? AND number > ? ORDER BY number"
        return tuple(_round(row, self.path) for row in self._rows(query, run, after))


# The columns stand in the order of the fields.


def _run(row: tuple[Any, ...], path: Path) -> Run:
    number, started, state, wish, host, pid, heartbeat, request, tasks, skipped, message, refused = row
    with readable(path, "a run"):
        return Run(
            number, started, state, wish, host, pid, _figure(heartbeat), from_json(Request, json.loads(request)),
            from_json(tuple[TaskRecord, ...], json.loads(tasks)), from_json(dict[str, str], json.loads(skipped)),
            message, from_json(tuple[RefusedRecord, ...], json.loads(refused)),
        )  # fmt: skip


def _attempt(row: tuple[Any, ...], path: Path) -> Attempt:
    number, trial, group, mapping, program, promised, state, microseconds, failure, message, *rest = row
    seconds, worker, *band = rest
    with readable(path, "an attempt"):
        values = tuple((name, value) for name, value in json.loads(program))
        taken = None if failure else figure(microseconds)  # one that a check found wrong keeps its time in the file
        low, high = map(figure, band)
        return Attempt(
            number, trial, group, mapping, values, _figure(promised), state, taken, failure, message,
            _figure(seconds), worker, low, high,
        )  # fmt: skip


def _round(row: tuple[Any, ...], path: Path) -> Round:
    number, kind, group, mapping, reason, figures, best, attempts, seconds = row
    with readable(path, "a round"):
        plain = from_json(dict[str, float], json.loads(figures))
        return Round(number, kind, group, mapping, reason, plain, _figure(best), attempts, _figure(seconds))


def _figure(value: object) -> float:
    """A figure, infinite where there is none."""
    found = figure(value)
    return math.inf if found is None else found


def is_alive(run: Run) -> bool:
    """Whether a run has a recent heartbeat, and its process is not known to have ended since."""
    return run.state_at(time.time()) in (RUNNING, PAUSED) and not _is_gone(run)


def _is_gone(run: Run) -> bool:
    """Whether a run's process ran on this machine and has ended: one that was killed left its state "running"."""
    if os.name != "posix" or run.host != socket.gethostname():
        return False
    try:
        os.kill(run.pid, 0)  # signal 0 is not delivered: the call only tells whether the process exists
    except ProcessLookupError:
        return True
    except PermissionError:  # it exists, and is another user's
        pass
    return False
