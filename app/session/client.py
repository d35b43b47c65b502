"""The window's end of the worker process: requests out, documents in, cancelling by ending the process.

Decoding a large document takes longer than the window may stand still, so it happens on a thread.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, Signal

from engine.documents.model import ProblemDoc
from engine.documents.parts import read_part
from engine.support.errors import BadInput
from engine.support.serialization import from_json

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "engine.service")
LOG_LINES = 400
KILL_MS = 2000

Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """One request that has not been answered yet."""

    number: int
    verb: str
    title: str
    text: str = ""
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Pending:
    """Whom to tell about a request's answer."""

    kind: type | None
    """Document type of the result; None keeps plain data."""
    on_result: Callable[[Any], None]
    on_error: Callable[[ProblemDoc], None]
    on_sample: Callable[[float], None] | None = None
    on_state: Callable[[float, float], None] | None = None
    """Clock in MHz and temperature in degrees of the GPU, between samples."""
    prepare: Callable[[Any], Any] | None = None
    """Makes of the document what `on_result` and `on_preview` get, on the decoding thread."""
    on_preview: Callable[[Any], None] | None = None
    """Gets what is known before the result, where anything is."""


class Client(QObject):
    """Sends requests, decodes replies; replies of an ended process are dropped."""

    jobs_changed = Signal()
    respawned = Signal()
    """The worker was ended and a fresh one knows nothing yet."""
    failed = Signal(object)
    """A Problem that belongs to no request."""
    _decoded = Signal(int, int, str, object)

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        super().__init__()
        self._command = tuple(command)
        self._generation = 0
        self._last = 0
        self._jobs: dict[int, WorkerJob] = {}
        self._pending: dict[int, Pending] = {}
        self._partial: list[bytes] = []
        """What has come of a line that is not complete yet."""
        self._parts: dict[int, dict[str, tuple[Any, ...]]] = {}
        """Request -> items of its result that came ahead; of the decoding thread."""
        self._process: QProcess | None = None
        self._memory = 0
        self.log: list[str] = []
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="decode")
        self._decoded.connect(self._deliver)

    @property
    def jobs(self) -> tuple[WorkerJob, ...]:
        """Unanswered requests in the order in which they will be served."""
        return tuple(self._jobs.values())

    @property
    def is_idle(self) -> bool:
        """Whether every request has been answered."""
        return not self._jobs

    @property
    def process_id(self) -> int:
        """The worker's process id; 0 where none runs."""
        return self._process.processId() if self._process else 0

    def request(self, verb: str, arguments: Arguments, title: str, pending: Pending) -> int:
        """Sends a request; exactly one of `on_result` and `on_error` will be called, unless it is cancelled."""
        self._start()
        assert self._process is not None
        self._last += 1
        self._jobs[self._last] = WorkerJob(self._last, verb, title)
        self._pending[self._last] = pending
        line = json.dumps({"id": self._last, "verb": verb, "arguments": dict(arguments)}) + "\n"
        self._process.write(line.encode())
        self.jobs_changed.emit()
        return self._last

    def cancel(self) -> None:
        """Ends the worker, forgets all requests and starts a fresh worker."""
        self._stop()
        self._start()
        self.jobs_changed.emit()
        self.respawned.emit()

    def limit_memory(self, limit: int) -> None:
        """The worker, and those started later, may take so many bytes of addresses; 0 for no limit."""
        self._memory = limit
        if self.process_id:
            _, hard = resource.prlimit(self.process_id, resource.RLIMIT_AS)
            allowed = min(limit, hard) if limit and hard != resource.RLIM_INFINITY else limit or hard
            resource.prlimit(self.process_id, resource.RLIMIT_AS, (allowed, hard))

    def close(self) -> None:
        """Ends the worker for good."""
        self._stop()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _start(self) -> None:
        if self._process is not None:
            return
        self._generation += 1
        process = QProcess(self)
        environment = QProcessEnvironment.systemEnvironment()
        environment.insert("PYTHONUNBUFFERED", "1")  # into a pipe Python would write progress in blocks
        process.setProcessEnvironment(environment)
        process.setWorkingDirectory(str(ROOT))  # so that `-m engine.service` finds this program
        process.readyReadStandardOutput.connect(self._read)
        process.readyReadStandardError.connect(self._read_log)
        generation = self._generation
        process.finished.connect(lambda code, status: self._on_finished(generation, code))
        process.errorOccurred.connect(lambda error: self._on_broken(generation, error))
        self._process, self._partial, self._parts = process, [], {}
        process.start(self._command[0], list(self._command[1:]))
        if self._memory:
            process.waitForStarted()
            self.limit_memory(self._memory)

    def _stop(self) -> None:
        """Ends the worker and forgets all requests."""
        self._jobs.clear()
        self._pending.clear()
        process, self._process = self._process, None
        self._generation += 1  # replies that are still being decoded are dropped by their number
        if process is not None:
            process.blockSignals(True)  # its end is no news
            process.kill()
            # A killed process is gone within milliseconds; Qt complains about one that is deleted while it runs.
            process.waitForFinished(KILL_MS)
            _discard(process)

    def _read(self) -> None:
        if self._process is None:
            return
        first, *others = bytes(self._process.readAllStandardOutput().data()).split(b"\n")
        self._partial.append(first)
        for other in others:
            line, self._partial = b"".join(self._partial), [other]
            # A copy, because requests are added on this thread while the other one decodes.
            self._threads.submit(self._decode, self._generation, line, dict(self._pending))

    def _decode(self, generation: int, line: bytes, waiting: Mapping[int, Pending]) -> None:
        """Runs on the decoding thread; the signal carries the value to the window's thread."""
        number = 0
        try:
            reply = json.loads(line)
            number, event, value = int(reply["id"]), str(reply["event"]), reply["value"]
            pending = waiting.get(number) if event in ("result", "part", "preview") else None
            kind = ProblemDoc if event == "error" else pending.kind if pending else None
            if event == "part":
                if kind is not None:
                    self._keep(number, *read_part(kind, value))
                return
            kept = value["kept"] if event == "preview" else ()
            document = value["document"] if event == "preview" else value
            decoded = document if kind is None else from_json(kind, document)
            ahead = self._parts.pop(number, {}) if event in ("result", "error", "preview") else {}
            if kept:
                self._parts[number] = {key: items for key, items in ahead.items() if key in kept}
            if ahead and event != "error":
                decoded = replace(decoded, **{key: (*items, *getattr(decoded, key)) for key, items in ahead.items()})
            if pending and pending.prepare:
                decoded = pending.prepare(decoded)
        except (ValueError, KeyError, TypeError, BadInput) as error:
            event = "error"
            decoded = ProblemDoc("service", "worker", f"its reply cannot be read: {error}", "see the log")
        self._decoded.emit(generation, number, event, decoded)

    def _keep(self, number: int, key: str, items: tuple[Any, ...]) -> None:
        """Notes items of a list that came ahead of its result."""
        lists = self._parts.setdefault(number, {})
        lists[key] = (*lists.get(key, ()), *items)

    def _deliver(self, generation: int, number: int, event: str, value: Any) -> None:
        if generation != self._generation:
            return
        pending = self._pending.get(number)
        if pending is None:
            if event == "error":
                self.failed.emit(value)
            return
        if event == "progress":
            text, done, total = str(value["text"]), int(value["done"]), int(value["total"])
            self._jobs[number] = replace(self._jobs[number], text=text, done=done, total=total)
            self.jobs_changed.emit()
        elif event == "sample" and pending.on_sample:
            pending.on_sample(float(value["microseconds"]))
        elif event == "preview" and pending.on_preview:
            pending.on_preview(value)
        elif event == "state" and pending.on_state:
            pending.on_state(float(value["clock"]), float(value["temperature"]))
        elif event in ("result", "error"):
            del self._pending[number], self._jobs[number]
            (pending.on_result if event == "result" else pending.on_error)(value)
            self.jobs_changed.emit()

    def _read_log(self) -> None:
        if self._process is not None:
            text = bytes(self._process.readAllStandardError().data()).decode(errors="replace")
            self.log = [*self.log, *text.splitlines()][-LOG_LINES:]

    def _on_broken(self, generation: int, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            self._on_finished(generation, -1)

    def _on_finished(self, generation: int, code: int) -> None:
        """A worker that ended by itself: its requests fail, the next request starts another."""
        if generation != self._generation or self._process is None:
            return
        self._read_log()
        _discard(self._process)
        self._process = None
        self._generation += 1
        lost, self._pending = self._pending, {}
        self._jobs.clear()
        last = next((line for line in reversed(self.log) if line.strip()), "")
        problem = ProblemDoc("service", "worker", f"it ended unexpectedly (exit {code})", last)
        for pending in lost.values():
            pending.on_error(problem)
        if not lost:
            self.failed.emit(problem)
        self.jobs_changed.emit()
        self.respawned.emit()


class MachineProbe(QObject):
    """Asks once, when the window starts."""

    changed = Signal()

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self.gpu: str | None = None
        """Its name, "" without one, None until the worker has answered."""
        self.lacking = ""
        """What keeps this machine from measuring, and what to install."""

    def look(self) -> None:
        """Asks the worker."""
        pending = Pending(None, self._on_machine, lambda _: self._on_machine({}))
        self._client.request("machine", {}, "Looking at this machine", pending)

    def _on_machine(self, answer: dict[str, str]) -> None:
        self.gpu, self.lacking = answer.get("gpu", ""), answer.get("lacking", "")
        self.changed.emit()


def _discard(process: QProcess) -> None:
    """Deletes an ended process.

    Its connections go first: they hold the client, and a client that died with its last connection would delete the
    process, which is its child, a second time.
    """
    for signal in (
        process.readyReadStandardOutput,
        process.readyReadStandardError,
        process.finished,
        process.errorOccurred,
    ):
        signal.disconnect()
    process.deleteLater()
