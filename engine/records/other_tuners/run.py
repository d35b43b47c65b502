"""A log of another tuner as a run that has ended, in a database of its own in memory.

A log says nothing of the programs that were not tried: a space is as large as what the log holds.  Its times are other
people's measurements, so their origin is `published`, and no kernel of ours belongs to them.
"""

from __future__ import annotations

import json
import math
import sqlite3
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from engine.execution.nodes import PUBLISHED
from engine.records.nodes import FAILED, FINISHED, IMPORTED, NEW, Attempt, Request, TaskRecord
from engine.records.other_tuners.kernel_tuner import parse_document
from engine.records.other_tuners.nodes import STRANGE, LoggedTrial, TunerLog, names_of, reason_of, sort_values
from engine.records.other_tuners.tvm import parse_lines
from engine.records.runs import RunLog
from engine.records.store import RecordStore
from engine.support.errors import BadInput
from engine.support.files import read_bytes

MOST_BYTES = 1 << 28
"""Of a log, unpacked."""
GZIP = b"\x1f\x8b"
HINT = "give a file of `loomscope tune`, T4 results or a cache of Kernel Tuner, or a log of TVM"


def log_database(path: Path) -> sqlite3.Connection:
    """The run of a log, on a connection that any thread may use.

    Raises BadInput for a file that is no log of a tuner that is known, or too large.
    """
    log = read_log(path)
    groups = tuple(dict.fromkeys(one.group for one in log.trials))
    request = Request(str(path.resolve()), log.target, log.tuner, IMPORTED, PUBLISHED, 0, groups=groups)
    found = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    with RecordStore(":memory:") as store:
        run = RunLog.start(store, request, tuple(_tasks(log)), started="")
        run.keep_all((_attempt(number, one), None) for number, one in enumerate(log.trials, 1))
        run.set_state(FINISHED, f"a log of {log.tuner}")
        store.connection.backup(found)
    return found


def read_log(path: Path) -> TunerLog:
    """What a log holds.  Raises BadInput with the entry or line that is not understood."""
    text = _text(path)
    try:
        log = parse_lines(text) if _is_lines(text) else parse_document(text)
    except STRANGE as error:
        is_json = not isinstance(error, json.JSONDecodeError)
        reason = f"and no log of a tuner that is known: {reason_of(error)}" if is_json else "nor a log in JSON"
        reason = f"is no file of records, {reason}"
        raise BadInput("records", str(path), reason, HINT) from None
    if not log.trials:
        raise BadInput("records", str(path), f"is a log of {log.tuner} without a trial", HINT)
    return log


def _text(path: Path) -> str:
    data = read_bytes(path, "records", HINT, MOST_BYTES)
    try:
        if data.startswith(GZIP):
            data = _unpack(data)
        if len(data) > MOST_BYTES:
            raise BadInput("records", str(path), f"holds more than {MOST_BYTES >> 20} MiB", HINT)
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput("records", str(path), "is no file of records", HINT) from None
    except zlib.error as error:
        raise BadInput("records", str(path), f"cannot be unpacked: {error}", HINT) from None


def _unpack(data: bytes) -> bytes:
    """At most one byte more than a log may have: what a small file unpacks to has no bound."""
    unpacking = zlib.decompressobj(wbits=31)
    found = unpacking.decompress(data, MOST_BYTES + 1)
    if not unpacking.eof and len(found) <= MOST_BYTES:
        raise zlib.error("it is cut short")
    return found


def _is_lines(text: str) -> bool:
    """Whether each line is a JSON document of its own, as TVM writes them."""
    return text.lstrip().startswith(("[", '{"input"', '{"i"'))


def _tasks(log: TunerLog) -> Iterator[TaskRecord]:
    """One for each mapping of each group, with the values of each dimension that the log has."""
    by_mapping: dict[tuple[str, str], list[LoggedTrial]] = defaultdict(list)
    for one in log.trials:
        by_mapping[one.group, one.mapping].append(one)
    for (group, mapping), mine in by_mapping.items():
        of = [dict(one.values) for one in mine]
        choices = {name: sort_values(values[name] for values in of if name in values) for name in names_of(mine)}
        count = len({one.values for one in mine})
        yield TaskRecord(group, mapping, choices, count, (), count, math.inf)


def _attempt(number: int, one: LoggedTrial) -> Attempt:
    state = FAILED if one.failure else NEW
    return Attempt(
        number, None, one.group, one.mapping, one.values, math.inf, state, one.microseconds, one.failure, "", 0.0,
        "", *one.band,
    )  # fmt: skip
