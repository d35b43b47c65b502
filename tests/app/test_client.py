"""The client and workers that do not keep to the protocol."""

from __future__ import annotations

import gc
import json
import sys
import weakref

import pytest
from PySide6.QtCore import QCoreApplication, QObject

from app.session.client import Client, Pending
from app.shell.gc_control import Collector
from engine.documents.model import ProblemDoc, Time

ANSWER = "import sys\nfor line in sys.stdin:\n    print({reply!r}, flush=True)\n"


def ask(qtbot: object, *command: str) -> tuple[list[Time], list[ProblemDoc], list[ProblemDoc]]:
    """Results, errors and problems of no request, for one request to a worker."""
    client = Client(command)
    results: list[Time] = []
    errors: list[ProblemDoc] = []
    failures: list[ProblemDoc] = []
    client.failed.connect(lambda problem: failures.append(problem))
    client.request("measure", {}, "Timing", Pending(Time, results.append, errors.append))
    qtbot.waitUntil(lambda: bool(results or errors or failures), timeout=10_000)  # type: ignore[attr-defined]
    client.close()
    QCoreApplication.processEvents()
    return results, errors, failures


def test_a_result_becomes_its_document(qtbot: object) -> None:
    reply = '{"id": 1, "event": "result", "value": {"microseconds": 2.5, "origin": "synthetic"}}'
    results, errors, _ = ask(qtbot, sys.executable, "-c", ANSWER.format(reply=reply))
    assert results == [Time(2.5, "synthetic")] and not errors


@pytest.mark.parametrize("value", ['{"origin": "synthetic"}', '{"microseconds": "soon", "origin": "x"}', "7"])
def test_a_wrong_document_is_an_error_of_its_request(qtbot: object, value: str) -> None:
    reply = f'{{"id": 1, "event": "result", "value": {value}}}'
    results, errors, _ = ask(qtbot, sys.executable, "-c", ANSWER.format(reply=reply))
    assert not results and "cannot be read" in errors[0].reason


PART = '{"id": 1, "event": "part", "value": {"key": "samples", "items": [1.5]}}'
PROGRESS = '{"id": 1, "event": "progress", "value": {"text": "timing", "done": 1, "total": 2}}'


def test_parts_wait_for_their_result(qtbot: object) -> None:
    end = '{"id": 1, "event": "result", "value": {"microseconds": 2.5, "origin": "synthetic", "samples": [3.5]}}'
    reply = "\n".join((PART, PROGRESS, PART, end))
    results, errors, _ = ask(qtbot, sys.executable, "-c", ANSWER.format(reply=reply))
    assert results == [Time(2.5, "synthetic", samples=(1.5, 1.5, 3.5))] and not errors


def test_an_error_behind_parts_is_that_error(qtbot: object) -> None:
    problem = {"stage": "measure", "subject": "x", "reason": "no", "hint": ""}
    reply = "\n".join((PART, json.dumps({"id": 1, "event": "error", "value": problem})))
    results, errors, _ = ask(qtbot, sys.executable, "-c", ANSWER.format(reply=reply))
    assert not results and errors == [ProblemDoc("measure", "x", "no", "")]


def test_a_line_that_is_no_reply_is_a_problem(qtbot: object) -> None:
    _, errors, failures = ask(qtbot, sys.executable, "-c", ANSWER.format(reply="hello"))
    assert not errors and "cannot be read" in failures[0].reason


def test_a_worker_that_cannot_start_fails_the_request(qtbot: object) -> None:
    _, errors, _ = ask(qtbot, "/nowhere/python")
    assert "ended unexpectedly" in errors[0].reason


def test_a_worker_that_dies_says_its_last_words(qtbot: object) -> None:
    _, errors, _ = ask(qtbot, sys.executable, "-c", "import sys; sys.stdin.readline(); sys.exit('out of paper')")
    assert errors[0].hint == "out of paper"


def test_cycles_are_collected_on_the_windows_thread(qapp: QObject, qtbot: object) -> None:
    """A dead object in a cycle goes within a moment, although automatic collection is off."""

    class Knot:
        pass

    Collector(qapp)  # the session's application may have been made by a test that needs no collector
    knot = Knot()
    knot.self = knot  # type: ignore[attr-defined]
    dead = weakref.ref(knot)
    del knot
    young = [[number] for number in range(2 * gc.get_threshold()[0])]
    qtbot.waitUntil(lambda: dead() is None, timeout=5_000)  # type: ignore[attr-defined]
    assert len(young) > gc.get_threshold()[0]
