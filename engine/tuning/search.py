"""The search over all groups of a plan: asynchronous, with every finished trial kept at once.

Several programs are under way in the executor; each result is used as soon as it comes, by the next proposal.  Rounds
overlap: none waits for the one before it to end.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from engine.execution.nodes import PREDICTED, Failure, Timing
from engine.kernels.space import Program
from engine.recipe import Recipe
from engine.records.nodes import FAILED, FINISHED, INTERRUPTED, NEW, REUSED, SEARCHED, STOPPED, Attempt, Round, Trial
from engine.records.runs import RunLog
from engine.support.errors import EngineError, MissingCapability
from engine.tuning.control import LOOK, SearchControl
from engine.tuning.final_validation import Together, settle
from engine.tuning.problem import BEFORE_SEARCH
from engine.tuning.progress import Progress, costs_trial, program_of
from engine.tuning.rounds import OpenRound, Rounds
from engine.tuning.runner import NOT_RECORDED, Outcome, Prepared, this_process
from engine.tuning.searched_groups import SearchedGroups
from engine.tuning.settings import SearchSettings, SearchTools
from engine.tuning.worker_loss import RESUME, Outage

MOST_RESUBMISSIONS = 3
"""Times that a program is resubmitted because its workers are gone."""
SPENT, LATE, STOPPED_BY_HAND = "all trials are spent", "its time is up", "a person stopped it"
"""Why a run ends."""


@dataclass(slots=True, eq=False)
class _Item:
    """A program that is being prepared or run."""

    progress: Progress
    recipe: Recipe
    """Of its group alone."""
    program: Program | None
    """None for the recipe before the search."""
    promised: float
    round: OpenRound | None
    prepared: Prepared | None = None
    """None until it is prepared."""
    is_suspect: bool = False
    """Whether a worker died while it had this program, perhaps for another's sake."""
    executor: Executor | None = None
    """The last one that it was submitted to."""
    resubmissions: int = 0
    """Times that it was resubmitted because workers died."""


class Search:
    """A search; iterate over `run`, stop at any moment, then take `recipe`."""

    def __init__(
        self,
        recipe: Recipe,
        groups: SearchedGroups,
        log: RunLog,
        settings: SearchSettings,
        tools: SearchTools,
    ) -> None:
        """groups: with the space of at least the first.  Made by `engine.tuning.setup.begin`."""
        self.log, self.progress, self.skipped = log, groups.progress, groups.skipped
        self.limits, self.runner = settings.limits, settings.runner
        self.why_ended = ""
        """Why nothing more is tried; "" while it goes on."""
        self.repeated = 0
        """Trials that were run though another process had kept them meanwhile."""
        self._recipe, self._workers, self._judge = recipe, tools.workers, tools.judge
        self._rounds = Rounds(groups.progress, self.limits, random.Random(f"rounds {settings.seed}"))
        self._under_way: dict[Future[Any], _Item] = {}
        self._suspects: deque[_Item] = deque()
        """Programs that were under way when a worker died; each runs again alone, to find the culprit."""
        self._earlier = attempts, rounds = log.attempts(), log.rounds()
        """What earlier processes of the run kept: replayed for each group once its space is built."""
        self._attempts, self._decisions = len(attempts), len(rounds)
        self.spent = sum(map(costs_trial, attempts))
        """Trials that count, of this run and all its processes."""
        self._shared: dict[str, Any] = {}
        ends = [*(one.seconds for one in attempts[-1:]), *(one.seconds for one in rounds[-1:])]
        self._control = SearchControl(log, self.limits.minutes, max(ends, default=0.0), tools.clock)
        self.notice: Callable[[str], None] = lambda text: None
        """Called with messages for the terminal while no program finishes."""
        self.first_notice = ""
        """What a person should know before any program runs; "" for nothing."""
        self._outage = Outage(self._workers, log, self._control, lambda text: self.notice(text))
        self._first: deque[_Item] = deque()
        """The recipes before the search whose times are not known yet."""
        self._groups = groups
        for one in groups.progress.values():
            self._begin_group(one)
        tried = {attempt.group for attempt in attempts}
        while not tried.isdisjoint(groups.pending):
            self._add_group()
        self._tell_groups()

    def run(self) -> Iterator[Attempt]:
        """Attempts as they finish, until a limit is met, nothing is left to try or a person stops it.

        Raises MissingCapability where the machine lacks what the runner needs, and what `RecordStore` does; what was
        kept stays kept, whatever is raised.
        """
        state, message = INTERRUPTED, "it was broken off"
        try:
            with self._control:
                while not (self._is_stopped() or self.why_ended):
                    yield from self._step()
                if not self._is_stopped():
                    self._settle()
                if not self.was_interrupted:
                    state, message = (STOPPED if self._is_stopped() else FINISHED), self.why_ended
        except EngineError as error:
            message = str(error)
            raise
        finally:
            self._workers.close()
            # Where the records file itself failed, writing the end fails as well; the first error is the one to raise.
            with contextlib.suppress(EngineError):
                self._close_rounds()
                self.log.set_state(state, message)
                # An interrupt may have come between the attempt that the file keeps and its count here.
                self.spent = sum(map(costs_trial, self.log.attempts()))

    def interrupt(self) -> None:
        """End the search as interrupted once the programs under way are done; safe to call in a signal handler."""
        self._control.was_interrupted = True

    @property
    def was_interrupted(self) -> bool:
        """Whether `interrupt` was called."""
        return self._control.was_interrupted

    @property
    def budget(self) -> int:
        """Trials of the whole run; less once a group turns out to have nothing to search."""
        return self.limits.trials * self._groups.count

    @property
    def pending(self) -> tuple[str, ...]:
        """Groups that no round came to yet."""
        return self._groups.pending

    def recipe(self) -> Recipe:
        """The recipe with the best program of each group that became faster than what it had."""
        result = self._recipe
        for name, one in self.progress.items():
            winner = one.winner
            if one.gain > 0 and winner is not None:
                result = result.with_group(name, one.problem.recipe_of(program_of(winner)).groups[name])
        return result

    def _is_stopped(self) -> bool:
        """Whether a person ends it; a pause is waited for here."""
        if self._control.is_stopped():
            self.why_ended = "" if self.was_interrupted else STOPPED_BY_HAND
            return True
        return False

    def _step(self) -> Iterator[Attempt]:
        """Fill the workers, and take what is done."""
        if self._control.is_late():
            self.why_ended = LATE
            return
        while len(self._under_way) < self._workers.slots and (item := self._next()) is not None:
            self._submit(item)
        if not self._under_way:
            self.why_ended = SPENT if self.spent >= self.budget else self._rounds.why_none
            return
        # With a timeout, so that stop requests, pauses and the time limit are seen while programs run.
        done, _ = wait(self._under_way, timeout=LOOK, return_when=FIRST_COMPLETED)
        if not done and self._outage.is_over():
            self._resubmit_all()
        for future in done:
            item = self._under_way.pop(future, None)  # None: it went to other workers just now
            attempt = None if item is None else self._advance(item, future)
            if attempt is not None:
                yield attempt

    def _next(self) -> _Item | None:
        """The next program to run; None where none may start now."""
        if self._suspects:
            return None if self._under_way else self._suspects.popleft()
        if any(item.is_suspect for item in self._under_way.values()):
            return None
        found, is_new = None, True
        while found is None and is_new:
            left = self.budget - self.spent - sum(item.program is not None for item in self._under_way.values())
            is_new = left > 0 and bool(self.pending) and self._rounds.wants_group
            if is_new:
                self._add_group()
            if self._first:
                return self._first.popleft()
            found = self._rounds.next(left)
        if found is None:
            return None
        opened, task, program = found
        problem = opened.progress.problem
        recipe = self._own(opened.progress, problem.recipe_of(program))
        return _Item(opened.progress, recipe, program, task.task.rank(program), opened)

    def _own(self, progress: Progress, recipe: Recipe) -> Recipe:
        """The recipe with one group's entries only: all that its programs depend on."""
        name = progress.problem.group.name
        return replace(recipe, groups={name: recipe.groups.get(name, ())})

    def _submit(self, item: _Item) -> None:
        call = partial(self.runner.prepare if item.prepared is None else self.runner.finish, recipe=item.recipe)
        shared = self._group(item.progress)
        try:
            future = self._workers.executor.submit(call, shared)
        except self._workers.lost:
            # A process pool that a dead worker broke refuses new calls, even before any of its futures says so.
            self._renew(self._workers.executor)
            future = self._workers.executor.submit(call, shared)
        item.executor = self._workers.executor
        self._under_way[future] = item

    def _group(self, progress: Progress) -> Any:
        """The group in the form that calls pass to workers; broadcast to them once."""
        group = progress.problem.group
        if group.name not in self._shared:
            needed = group if self.runner.needs_graph else replace(group, graph=None)
            self._shared[group.name] = self._workers.share(needed)
        return self._shared[group.name]

    def _advance(self, item: _Item, future: Future[Any]) -> Attempt | None:
        """Handle a finished call of a program: the attempt, where that was the last one."""
        try:
            result = future.result()
        except self._workers.lost as error:
            return self._handle_lost_worker(item, error)
        except CancelledError:
            self._resubmit_cancelled(item)
            return None
        if item.prepared is None:
            item.prepared = result
            subject, outcome = result.subject, result.outcome
            known = None if subject is None else self.log.store.find(subject, self.runner.origin)
            if known is not None:
                return self._keep(item, known.outcome, known, is_known=True)
            if outcome is None:
                self._submit(item)
                return None
        else:
            subject, outcome = item.prepared.subject, result
        if subject is None or (isinstance(outcome, Failure) and outcome.kind == NOT_RECORDED):
            return self._keep(item, outcome, None)
        because = BEFORE_SEARCH if item.program is None else str(item.program)
        name = item.progress.problem.group.name
        trial = Trial(subject, self.runner.origin, outcome, name, item.prepared.recipe, because)
        return self._keep(item, outcome, trial)

    def _resubmit_cancelled(self, item: _Item) -> None:
        """Resubmit a program that was cancelled because the workers with its group died, and all others under way."""
        item.resubmissions += 1
        if item.resubmissions > MOST_RESUBMISSIONS:
            raise MissingCapability("tune", "the workers", f"lost a program {MOST_RESUBMISSIONS} times", RESUME)
        if self._outage.has_workers():
            self._resubmit_all()
            self._submit(item)

    def _resubmit_all(self) -> None:
        """Resubmit all unfinished programs to new workers, which get the groups again."""
        self._shared.clear()
        for future, item in tuple(self._under_way.items()):
            if not future.done() or future.cancelled():
                del self._under_way[future]
                future.cancel()
                self._submit(item)

    def _handle_lost_worker(self, item: _Item, error: BaseException) -> Attempt | None:
        """Handle a dead worker: a program that ran alone, or that the cluster gave up, counts as a crash."""
        self._renew(item.executor)
        if self._workers.renew is None or item.is_suspect:
            message = f"the process that ran it died: {type(error).__name__}"
            return self._keep(item, Failure("crash", message), None)
        item.is_suspect, item.prepared = True, None
        self._suspects.append(item)
        return None

    def _renew(self, broken: Executor | None) -> None:
        """Replace an executor that a dead worker broke, unless that was done already."""
        if self._workers.renew is not None and broken is self._workers.executor:
            self._workers.executor = self._workers.renew()

    def _keep(self, item: _Item, outcome: Outcome, trial: Trial | None, is_known: bool = False) -> Attempt:
        """Keep an attempt, and learn from it."""
        failure = outcome if isinstance(outcome, Failure) else None
        low, high = (None, None) if isinstance(outcome, Failure) else (outcome.low or None, outcome.high or None)
        worker = item.prepared.worker if item.prepared else ""
        self._attempts += 1
        attempt = Attempt(
            self._attempts, None, item.progress.problem.group.name,
            "" if item.program is None else item.program.mapping, () if item.program is None else item.program.values,
            item.promised, FAILED if failure else REUSED if is_known else NEW,
            None if isinstance(outcome, Failure) else outcome.microseconds, failure.kind if failure else "",
            outcome.message if isinstance(outcome, Failure) else outcome.noise, self._control.seconds,
            "" if worker == this_process() else worker, low, high,
        )  # fmt: skip
        kept = self.log.keep(attempt, trial)
        self.repeated += trial is not None and not is_known and not self.log.was_new
        self._take(kept, item)
        return kept

    def _take(self, attempt: Attempt, item: _Item) -> None:
        item.progress.take(attempt)
        self.spent += costs_trial(attempt)
        if not attempt.mapping:
            self._tell_groups()
        if item.round is None:
            return
        item.round.under_way -= 1
        item.round.tried[attempt.mapping] += 1
        if item.round.is_over:
            self._close(item.round)

    def _close(self, one: OpenRound) -> None:
        """Keep the decision of a round that ended or was interrupted."""
        one.progress.open_rounds -= 1
        one.progress.close_round(one.progress.time)
        name = one.progress.problem.group.name
        figures, best = one.figures(), one.progress.time
        self._decide(Round(0, SEARCHED, name, one.mapping, one.because, figures, best, one.tried.total()))

    def _close_rounds(self) -> None:
        """Close interrupted rounds with what they tried."""
        open_ones = {id(item.round): item.round for item in self._under_way.values() if item.round is not None}
        if (current := self._rounds.current) is not None and not current.is_over:
            open_ones[id(current)] = current
        for one in open_ones.values():
            if one.tried:
                self._close(one)

    def _decide(self, decision: Round) -> None:
        """Keep a decision, numbered and timed here."""
        self._decisions += 1
        self.log.add_round(replace(decision, number=self._decisions, seconds=self._control.seconds))

    def _settle(self) -> None:
        """Decide the best program of each group."""
        for name, one in self.progress.items():
            for verdict in settle(one, self._judge.check, self._together(one)):
                if verdict.is_wrong:
                    self.log.mark_wrong(verdict.attempt.number, "wrong result", verdict.reason)
                mapping, figures = verdict.attempt.mapping, verdict.figures
                self._decide(Round(0, verdict.kind, name, mapping, verdict.reason, figures, one.time))
                if self._is_stopped():
                    return

    def _together(self, progress: Progress) -> Together | None:
        """A function that times finalists in interleaved rounds in a worker: this machine may have no GPU."""
        time_together = self._judge.time_together
        if time_together is None:
            return None

        def time_recipes(recipes: Sequence[Recipe]) -> Sequence[Timing] | Failure:
            own = [self._own(progress, recipe) for recipe in recipes]
            for _ in range(MOST_RESUBMISSIONS):
                future = self._workers.executor.submit(time_together, self._group(progress), own)
                while not wait((future,), timeout=LOOK).done and not self._outage.is_over():
                    if self._is_stopped():
                        return Failure("stopped", self.why_ended)
                if future.done() and not future.cancelled():
                    return future.result()
                if not self._outage.has_workers():
                    break
                self._shared.clear()
            return Failure("crash", "its workers died")

        return time_recipes

    def _add_group(self) -> None:
        """Build the space of the next group that can be searched."""
        one = self._groups.add_next()
        if one is not None:
            self._begin_group(one)
        self._tell_groups()

    def _begin_group(self, one: Progress) -> None:
        """Replay what earlier processes of the run tried of a group, and time its own recipe where that is unknown."""
        attempts, rounds = self._earlier
        one.replay(attempts, rounds)
        if math.isinf(one.before) and self.runner.origin != PREDICTED:
            self._first.append(_Item(one, self._own(one, self._recipe), None, one.problem.before, None))

    def _tell_groups(self) -> None:
        self.log.set_groups(self._groups.tasks(), self.skipped, self._groups.refusals())
