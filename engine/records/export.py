"""Export trials as CSV or JSON, one row each."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from engine.execution.nodes import Failure
from engine.records.nodes import Trial
from engine.records.store import KeptTrials
from engine.support.errors import BadInput

COLUMNS = (
    "group", "target", "origin", "microseconds", "low", "high", "failure", "message", "because", "compiler", "flags",
    "launch", "inputs", "kernel",
)  # fmt: skip


def export(kept: KeptTrials, origin: str, path: str | Path, group: str | None = None) -> int:
    """Write the trials of one origin to PATH, as its name ends: .csv or .json; the number of rows.

    Origins have files of their own: nothing mixes them.  Raises BadInput for another ending or a file that cannot be
    written.
    """
    path = Path(path)
    if path.suffix not in (".csv", ".json"):
        raise BadInput("records", str(path), "ends neither in .csv nor in .json", "name the format by the ending")
    rows = [_row(trial) for trial in kept.trials(origin, group)]
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            if path.suffix == ".json":
                json.dump({"schema": 1, "origin": origin, "trials": rows}, file, indent=1, ensure_ascii=False)
            else:
                table = csv.DictWriter(file, COLUMNS)
                table.writeheader()
                table.writerows(rows)
    except OSError as error:
        raise BadInput("records", str(path), error.strerror or "cannot be written") from error
    return len(rows)


def _row(trial: Trial) -> dict[str, object]:
    subject, outcome = trial.subject, trial.outcome
    return {
        "group": trial.group,
        "target": subject.target,
        "origin": trial.origin,
        "microseconds": trial.microseconds,
        "low": None if isinstance(outcome, Failure) else outcome.low,
        "high": None if isinstance(outcome, Failure) else outcome.high,
        "failure": outcome.kind if isinstance(outcome, Failure) else "",
        "message": outcome.message if isinstance(outcome, Failure) else outcome.noise,
        "because": trial.because,
        "compiler": subject.compiler,
        "flags": " ".join(subject.flags),
        "launch": subject.launch,
        "inputs": subject.inputs,
        "kernel": subject.kernel,
    }
