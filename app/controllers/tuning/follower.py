"""Follows one run of a file of records, whoever writes it: what came since the last look, in bounded batches.

Nothing here knows Qt: it runs on a thread, and what it returns is shown on the window's.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.documents.model import Time, time_doc
from engine.execution.nodes import MEASURED, Timing
from engine.recipe import Recipe
from engine.records.nodes import CHECKED, Attempt, Round, Run, Trial
from engine.records.reader import RunReader
from engine.scheduling.text import to_text
from engine.tuning.winners import FINALISTS, winners
from views.tuning.trials import NONE, STATES, Batch, Codes, Vocabulary, Words

LIST_SECONDS = 2.0
"""Between two looks at all runs of a file: their records of what there is to choose are long."""
ATTEMPTS_A_LOOK = 1500
"""Attempts of one look: decoding them takes milliseconds, and the window's thread has to come in between."""


@dataclass(frozen=True, slots=True)
class RunUpdate:
    """What came since the last look."""

    run: Run
    batch: Batch
    rounds: tuple[Round, ...]
    examples: dict[tuple[str, str], str]
    """(group, kind of failure) -> what the first failure of that kind said."""
    is_complete: bool
    """Whether nothing more waited."""
    runs: tuple[Run, ...] = ()
    """All runs of the file, the oldest first, as they were a moment ago."""
    condemned: tuple[tuple[int, int], ...] = ()
    """(row, number of the failure's word) of all trials that proved wrong after they had been read."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What the records hold of one trial."""

    text: str
    """The advice of its group, in the text form; "" where no recipe was kept."""
    measured: Time | None
    """Where it was timed on a GPU."""


@dataclass(frozen=True, slots=True)
class Best:
    """The best trial of one group that became faster."""

    row: int
    """Among all trials of the run."""
    kept: Kept


class Follower:
    """One run, from its first attempt on; used by one thread at a time.

    Raises what `RunReader` does; any call may.
    """

    def __init__(self, path: Path, number: int | None = None) -> None:
        """number: of the run, by default the last of the file."""
        self._reader = RunReader(path)
        try:
            self.number = self._reader.run(number).number
        except BaseException:
            self._reader.close()
            raise
        self.words = Vocabulary()
        self._version = NONE
        self._attempts = self._rounds = 0
        self._counts: Counter[str] = Counter()
        self._examples: dict[tuple[str, str], str] = {}
        self._condemned: tuple[tuple[int, int], ...] = ()
        self._behind = True
        self._start: Recipe | None = None
        self._runs: tuple[Run, ...] = ()
        self._listed = -math.inf
        """When all runs were read, seconds of the monotonic clock."""

    def look(self) -> RunUpdate | None:
        """What came since; None where nothing was written."""
        version = self._reader.version()
        if version == self._version and not self._behind:
            return None
        self._version = version
        found = self._reader.attempts(self.number, self._attempts, ATTEMPTS_A_LOOK)
        rounds = self._reader.rounds(self.number, self._rounds)
        run = self._read_run()
        self._behind = len(found) == ATTEMPTS_A_LOOK
        if self._start is None and run.request.recipe:
            self._start = Recipe.loads(run.request.recipe, f"run {self.number}")
        self._attempts = found[-1].number if found else self._attempts
        self._rounds = rounds[-1].number if rounds else self._rounds
        batch = self._decode_batch(found)
        if any(one.kind == CHECKED for one in rounds):
            self._condemned = self._proved_wrong()
        return RunUpdate(run, batch, rounds, dict(self._examples), not self._behind, self._runs, self._condemned)

    def kept_trial(self, trial: int, group: str) -> Kept:
        """A kept trial of a group."""
        found: Trial = self._reader.trial(trial)
        advice = Recipe.loads(found.recipe, f"trial {trial}").groups.get(group, ()) if found.recipe else ()
        outcome = found.outcome
        measured = time_doc(outcome) if isinstance(outcome, Timing) and found.origin == MEASURED else None
        return Kept(to_text(advice) if advice else "", measured)

    def bests(self) -> dict[str, Best]:
        """Of each group that became faster its best trial, by the rules of the search, among those that were read."""
        run, fastest = self._reader.run(self.number), self._reader.fastest(self.number, FINALISTS, self._attempts)
        found = winners(run, fastest, self._reader.rounds(self.number))
        known = {group: one.attempt for group, one in found.items() if one.attempt.trial is not None}
        return {group: Best(one.number - 1, self.kept_trial(one.trial or 0, group)) for group, one in known.items()}

    def start(self, group: str) -> str | None:
        """The advice that the run began with for a group, in the text form; None for what the advisers say."""
        return to_text(self._start.groups[group]) if self._start and group in self._start.groups else None

    def close(self) -> None:
        """Lets the file go."""
        self._reader.close()

    def _read_run(self) -> Run:
        """The run as it is now; all runs of the file are read again where there is a new one, and now and then."""
        last = self._reader.run()
        is_known = bool(self._runs) and last.number == self._runs[-1].number
        if not is_known or time.monotonic() - self._listed > LIST_SECONDS:
            self._runs, self._listed = self._reader.runs(), time.monotonic()
        return last if last.number == self.number else self._reader.run(self.number)

    def _proved_wrong(self) -> tuple[tuple[int, int], ...]:
        """Trials whose kernel the comparison with the reference refused; what it said is told as an example."""
        found = self._reader.attempts_found_wrong(self.number, self._attempts)
        for one in found:
            self._examples.setdefault((one.group, one.failure), one.message)
        return tuple((one.number - 1, self.words.kinds.code(one.failure)) for one in found)

    def _decode_batch(self, found: Sequence[Attempt]) -> Batch:
        """Attempts as columns; a trial is known by its place among those of its group."""
        words = self.words
        numbers = np.empty(len(found), np.int64)
        values: dict[str, Codes] = {}
        for row, attempt in enumerate(found):
            self._counts[attempt.group] += 1
            numbers[row] = self._counts[attempt.group]
            if attempt.failure:
                self._examples.setdefault((attempt.group, attempt.failure), attempt.message)
            for name, value in attempt.values:
                if name not in values:
                    values[name] = np.full(len(found), NONE, np.int32)
                values[name][row] = words.dimensions.setdefault(name, Words()).code(str(value))
        microseconds, promised, low, high = (
            np.array([_nan_for_unknown(getattr(attempt, name)) for attempt in found], float)
            for name in ("microseconds", "promised", "low", "high")
        )
        return Batch(
            numbers, np.array([attempt.trial or 0 for attempt in found], np.int64),
            _codes(words.groups, [attempt.group for attempt in found]),
            _codes(words.mappings, [attempt.mapping for attempt in found]),
            np.array([STATES.index(attempt.state) for attempt in found], np.int32),
            _codes(words.kinds, [attempt.failure for attempt in found]), microseconds, promised, low, high, values,
        )  # fmt: skip


def _codes(words: Words, texts: Sequence[str]) -> Codes:
    return np.array([words.code(text) if text else NONE for text in texts], np.int32)


def _nan_for_unknown(microseconds: float | None) -> float:
    """NaN for what is not known."""
    return math.nan if microseconds is None or math.isinf(microseconds) else microseconds
