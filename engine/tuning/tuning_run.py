"""A search as a script sees it: iterate for progress, then take the best recipe and the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from engine.recipe import Recipe
from engine.records.export import export
from engine.records.nodes import Attempt
from engine.records.store import RecordStore
from engine.support.errors import EngineError
from engine.tuning.progress import Progress
from engine.tuning.report import TuningReport, report_of
from engine.tuning.search import Search


class TuningRun(Iterator[Attempt]):
    """A search of a plan's groups, made by `engine.tune`.  Nothing runs until its result or its next attempt is asked
    for; every finished attempt is in the records, whatever happens.

    for attempt in run:                       # an `engine.Attempt` for each program, as they finish
        print(attempt.group, attempt.microseconds or attempt.failure, run.spent, "of", run.budget)
    engine.write_recipe(run.best, "best.json")  # the Recipe; runs what is left first
    print(run.report())

    In a `with` block it ends with the block: a search that was left is kept as interrupted, for `resume=True`.
    """

    def __init__(self, search: Search, store: RecordStore) -> None:
        """search: in `store`, which is closed with this run."""
        self._search, self._store, self._attempts = search, store, search.run()

    def __iter__(self) -> TuningRun:
        return self

    def __next__(self) -> Attempt:
        """The next attempt that finishes: a program with its time in microseconds, or why it failed.

        Raises what `Search.run` does; after an error the run has ended.
        """
        return next(self._attempts)

    @property
    def best(self) -> Recipe:
        """The recipe with the fastest program of each group that became faster; runs what is left of the search.

        Groups that did not become faster have the entries that the search began with.
        """
        for _ in self:
            pass
        return self.best_so_far

    @property
    def best_so_far(self) -> Recipe:
        """The recipe as of the attempts that have finished."""
        return self._search.recipe()

    def report(self) -> TuningReport:
        """What was found so far, how the search ended and what it skipped; prints as a table."""
        return report_of(self._search)

    @property
    def progress(self) -> Mapping[str, Progress]:
        """The state of each group that the search has come to, by name."""
        return self._search.progress

    @property
    def spent(self) -> int:
        """Trials that count, of this run and of those before that it resumes."""
        return self._search.spent

    @property
    def budget(self) -> int:
        """Trials of all groups together; less once a group turns out to have nothing to search."""
        return self._search.budget

    @property
    def attempts(self) -> int:
        """Attempts in the records, with those that cost no trial."""
        return len(self._search.log.attempts())

    def on_notice(self, notice: Callable[[str], None]) -> None:
        """Call `notice` with what a person should know: workers or a start that are gone."""
        self._search.notice = notice
        if self._search.first_notice:
            notice(self._search.first_notice)

    def interrupt(self) -> None:
        """End as interrupted once the programs under way are done; safe to call in a signal handler."""
        self._search.interrupt()

    @property
    def was_interrupted(self) -> bool:
        """Whether it was ended before its limits were met."""
        return self._search.was_interrupted

    def export(self, path: str | Path) -> int:
        """Write all trials of this origin that the records hold to a .csv or .json file; the number of rows.

        Raises BadInput as `engine.records.export.export` does.
        """
        return export(self._store, self._search.runner.origin, path)

    def close(self) -> None:
        """End the search where it goes on, and let the records go; what was found stays readable here."""
        if not self._search.why_ended:
            self.interrupt()
            # The first error is the one to tell: closing must not hide it behind another.
            with suppress(EngineError):
                for _ in self:
                    pass
        self._store.close()

    def __enter__(self) -> TuningRun:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __str__(self) -> str:
        return str(self.report())

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()
