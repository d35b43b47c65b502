"""The process that has the GPU, seen from outside: it serves rows until one of its systems hangs or takes it down."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event, Timer
from typing import Any

WORKER = (sys.executable, "-m", "tests.benchmarks.gpu_worker")
ROOT = Path(__file__).resolve().parents[2]
QUIET = 120.0
"""Seconds without a word (a compiler that does not end) after which the system at work is left out of the row."""
STARTING = "the process"
"""Who is at work before any system is."""

Entries = dict[str, Any]
"""System -> its entry, as `engine.measurements.nodes` describes it."""


class GpuProcess:
    """Starts when first needed, and again after it was lost."""

    def __init__(self, quiet: float = QUIET, kernels: Path | None = None, worker: Sequence[str] = WORKER) -> None:
        """quiet: as QUIET.  kernels: folder of `tests.benchmarks.prepared`, without which rows are compiled here."""
        self._quiet, self._kernels, self._command = quiet, kernels, worker
        self._process: subprocess.Popen[str] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="loomscope-gpu-")
        self._log = Path(self._folder.name) / "log"
        """What it writes on standard error."""

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                with contextlib.suppress(BrokenPipeError):  # a request that nobody read
                    pipe.close()
            self._process = None

    def measure_row(self, reference: str, systems: Sequence[str]) -> Entries:
        """Every system's entry for a row; one that hangs or ends the process is left out and the rest repeated."""
        out: Entries = {}
        left = list(systems)
        while left:
            found, culprit, failure = self._attempt(reference, left)
            out |= found
            if not culprit:
                break
            if culprit not in left:  # it never came to a system: there is nobody to leave out
                out |= dict.fromkeys(left, failure)
                break
            out[culprit] = failure
            left.remove(culprit)
        return {name: out.get(name, {"failure": "crash", "message": "said nothing"}) for name in systems}

    def _attempt(self, reference: str, systems: Sequence[str]) -> tuple[Entries, str, dict[str, str]]:
        """One request: the entries, the system that ended the process ("" for none), and its failure."""
        process = self._started()
        seed = random.SystemRandom().randrange(1 << 31)
        kernels = str(self._kernels.resolve()) if self._kernels is not None else ""
        request = {"reference": reference, "systems": list(systems), "seed": seed, "kernels": kernels}
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # a process that ends before it reads is told by its status
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        found: Entries = {}
        at_work, overdue = STARTING, Event()
        for message in self._messages(process, overdue):
            match message["event"]:
                case "begin":
                    at_work = message["system"]
                case "entry":
                    found[message["system"]] = {**message["entry"], "seed": seed}
                case "done":
                    return found, "", {}
        status = process.wait()
        self.close()
        if overdue.is_set():
            return {}, at_work, {"failure": "hang", "message": f"no word for {self._quiet:g} s"}
        message = f"the process ended with status {status}: {self._last_words()}"
        return {}, at_work, {"failure": "crash", "message": message}

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            with self._log.open("wb") as errors:
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT
                )
        return self._process

    def _last_words(self) -> str:
        """The end of what it wrote on standard error."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "no message"

    def _messages(self, process: subprocess.Popen[str], overdue: Event) -> Iterator[dict[str, Any]]:
        """What the process says; it is ended, and `overdue` set, once it says nothing for `quiet` seconds."""
        assert process.stdout is not None

        def give_up() -> None:
            overdue.set()
            process.kill()

        alarm = Timer(self._quiet, give_up)
        alarm.start()
        try:
            for line in process.stdout:
                alarm.cancel()
                if line.startswith('{"event"'):  # libraries print what they like
                    yield json.loads(line)
                alarm = Timer(self._quiet, give_up)
                alarm.start()
        finally:
            alarm.cancel()
