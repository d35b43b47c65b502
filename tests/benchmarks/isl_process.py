"""The process in which isl works, from outside: started when needed, killed when it takes too long."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Any

from tests.benchmarks.isl import Request
from tests.benchmarks.parallel import Levels

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Answer:
    """What isl made of one program."""

    milliseconds: Mapping[str, float]
    """Stage ("dependences", "schedule", "loops") -> time."""
    flow: frozenset[tuple[str, str]]
    """(writer, reader) of every array that is handed over; a reduction is its own reader."""
    levels: Mapping[str, Levels]
    """Statement, S0 being the first -> what stands around it in isl's schedule."""


class IslProcess:
    """One worker for many programs, so that none of them pays for its start."""

    def __init__(self, seconds: float) -> None:
        """seconds: what isl may take for one program; reading its texts may take as long again."""
        self.seconds = seconds
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> IslProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._end(self._process)

    def run(self, request: Request) -> Answer | None:
        """isl's answer; None when the worker was killed at the limit.  RuntimeError when isl fails by itself."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        print(json.dumps(request), file=process.stdin, flush=True)
        parsed = self._line(process)
        answer = self._line(process) if parsed is not None else None
        if answer is None:
            self._process = None
            return None
        return Answer(answer["milliseconds"], frozenset(map(tuple, answer["flow"])), answer["levels"])

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.benchmarks.isl_worker"]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def _line(self, process: subprocess.Popen[str]) -> dict[str, Any] | None:
        """The worker's next answer; None when it was killed."""
        assert process.stdout is not None
        timer = Timer(self.seconds, process.kill)
        timer.start()
        line = process.stdout.readline()
        timer.cancel()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        self._end(process)
        if process.returncode > 0:
            raise RuntimeError(f"isl's process ended with code {process.returncode}; it says above why")
        return None

    def _end(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.communicate()
