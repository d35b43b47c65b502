"""The process of a run that the window starts: the command line's own `tune`, with its own records.

Nothing comes back but the records: the window follows those.  What the process writes to standard error is kept for
the case that it ends before it began.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QStandardPaths, Signal

from app.exit_codes import ENDS_WITH_PARENT, INTERRUPTED, STEP, TELLS_PROGRESS
from app.session.client import ROOT
from engine.documents.model import ProblemDoc
from engine.recipe import Recipe
from engine.records.nodes import Request
from engine.scheduling.text import from_text
from engine.support.errors import BadInput
from engine.support.files import write_whole

LOG_CHARACTERS = 4000
KILL_MS = 2000


@dataclass(frozen=True, slots=True)
class Order:
    """Everything that a run is started with."""

    source: str
    """The open file, or what stands for one."""
    target: str
    dimensions: Mapping[str, int]
    strategy: str
    runner: str
    trials: int
    minutes: int
    """0 for no limit."""
    group: str
    """The only group to search; "" for all."""
    records: Path
    recipe: Path | None
    """The advice as it is in the window."""
    start: str = ""
    """Path of the file whose programs are tried first; "" for none, or for that of the run that goes on."""
    resume: bool = False

    def arguments(self) -> tuple[str, ...]:
        """As the command line takes them."""
        found = ["tune", self.source, "--records", str(self.records), "--target", self.target]
        found += ["--trials", str(self.trials), "--strategy", self.strategy, "--runner", self.runner]
        found += ["--minutes", str(self.minutes)] if self.minutes else []
        found += ["--group", self.group] if self.group else []
        found += ["--recipe", str(self.recipe)] if self.recipe is not None else []
        found += ["--from", self.start] if self.start else []
        for name, size in self.dimensions.items():
            found += ["--dim", f"{name}={size}"]
        return (*found, "--resume") if self.resume else tuple(found)


def order_again(request: Request, records: Path) -> Order:
    """The order that goes on with a run that ended, from the recipe that it began with.

    Of the file that it started from, `--resume` knows itself, and goes on where that is gone.
    """
    recipe = recipe_beside(records)
    only = request.groups[0] if len(request.groups) == 1 else ""
    return Order(
        request.source, request.target, request.dimensions, request.strategy, request.runner, request.trials,
        round(request.minutes or 0), only, records, recipe if recipe.is_file() else None, resume=True,
    )  # fmt: skip


class VerbOrder(Protocol):
    """A call of the command line."""

    def arguments(self) -> tuple[str, ...]:
        """As the command line takes them."""


class RunProcess(QObject):
    """One process of the command line at a time; it ends with the window."""

    ended = Signal(object)
    """It ended by itself: the Problem that it reported, None for a success."""
    moved = Signal(str, int, int)
    """What it does now, how much is done, and of how much."""

    def __init__(self, stage: str = "tune", tells_progress: bool = False) -> None:
        """stage: of the problems that the process reports.  tells_progress: `moved` is wanted."""
        super().__init__()
        self._stage, self._tells_progress = stage, tells_progress
        self._process: QProcess | None = None
        self._log = self._line = ""
        """Whole lines, and the beginning of the next."""
        self._dying: set[QProcess] = set()
        """Ended, but not gone yet."""

    @property
    def process_id(self) -> int:
        """0 where none runs."""
        return self._process.processId() if self._process else 0

    def start(self, order: VerbOrder, command: Sequence[str] = (sys.executable, "-m", "app")) -> None:
        """Starts a verb; of a run the records tell the rest."""
        self.kill()
        process = QProcess(self)
        process.setWorkingDirectory(str(ROOT))
        process.setStandardOutputFile(QProcess.nullDevice())
        environment = QProcessEnvironment.systemEnvironment()
        environment.insert("COLUMNS", str(LOG_CHARACTERS))  # an error stays on its line
        environment.insert(ENDS_WITH_PARENT, "1")  # also where the window is killed
        if self._tells_progress:
            environment.insert(TELLS_PROGRESS, "1")
        process.setProcessEnvironment(environment)
        process.readyReadStandardError.connect(self._read)
        process.finished.connect(lambda code, status: self._on_finished(code))
        process.errorOccurred.connect(self._on_broken)
        self._process, self._log, self._line = process, "", ""
        process.start(command[0], [*command[1:], *order.arguments()])

    def kill(self) -> None:
        """Ends the process at once: finished trials are in the records, and its end is no news."""
        process, self._process = self._process, None
        if process is not None:
            process.finished.disconnect()
            process.errorOccurred.disconnect()
            process.finished.connect(lambda code, status: self._forget(process))
            self._dying.add(process)
            process.kill()

    def close(self) -> None:
        """Ends the process and waits until it is gone."""
        self.kill()
        for process in tuple(self._dying):
            process.waitForFinished(KILL_MS)
            self._forget(process)

    def _forget(self, process: QProcess) -> None:
        if process in self._dying:
            self._dying.remove(process)
            process.readyReadStandardError.disconnect()
            process.finished.disconnect()
            process.deleteLater()

    def _read(self) -> None:
        if self._process is not None:
            text = bytes(self._process.readAllStandardError().data()).decode(errors="replace")
            *lines, self._line = (self._line + text).split("\n")
            for line in lines:
                if line.startswith(STEP):
                    self.moved.emit(*json.loads(line.removeprefix(STEP)))
                else:
                    self._log = f"{self._log}{line}\n"[-LOG_CHARACTERS:]

    def _on_broken(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            self._on_finished(-1)

    def _on_finished(self, code: int) -> None:
        if self._process is None:
            return
        self._read()
        self._process.deleteLater()
        self._process = None
        self.ended.emit(None if code in (0, INTERRUPTED) else last_words(self._log + self._line, code, self._stage))


def last_words(log: str, code: int, stage: str = "tune") -> ProblemDoc:
    """The error that a process ended with: "SUBJECT: REASON" on its last line but for the hint, which is indented."""
    lines = [line for line in log.splitlines() if line.strip()]
    hints: list[str] = []
    while lines and lines[-1].startswith(" "):
        hints.insert(0, lines.pop().strip().removeprefix("hint: "))
    subject, _, reason = (lines[-1] if lines else "").partition(": ")
    if not reason:
        return ProblemDoc(stage, "the run", f"ended with code {code}: {subject}".removesuffix(": "), " ".join(hints))
    return ProblemDoc(stage, subject, reason, " ".join(hints))


def records_folder() -> Path:
    """Where this user's records are."""
    return Path(QStandardPaths.writableLocation(QStandardPaths.StandardLocation.AppDataLocation)) / "records"


def records_of(source: str, target: str) -> Path:
    """The records of a model: every run of it goes into one file, so that none repeats another's trials."""
    name = Path(source.replace(":", "-")).stem
    known = hashlib.sha256(f"{source}\n{target}".encode()).hexdigest()[:8]
    return records_folder() / f"{name}-{known}.db"


def recipe_beside(records: Path) -> Path:
    """Where the recipe is kept that a run of these records began with."""
    return records.with_suffix(".recipe.json")


def write_present(
    path: Path, target: str, dimensions: Mapping[str, int], numerics: Mapping[str, str], fixed: str,
    advice: Mapping[str, str],
) -> None:  # fmt: skip
    """Writes the recipe as it is in the window: what is fixed about groups, and the advice of those that are known.

    numerics: as in `Recipe`.  fixed: a step of the history of groups.  advice: group -> its advice in the text form.
    Raises BadInput for advice that cannot be read, and where the file cannot be written.
    """
    groups = {name: from_text(text) for name, text in advice.items()}
    recipe = Recipe(target, dict(dimensions), dict(numerics), json.loads(fixed), groups)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput("recipe", str(path.parent), f"cannot be made: {error.strerror}") from error
    write_whole(path, recipe.dumps(), "recipe")
