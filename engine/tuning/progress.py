"""State of a search for each group, and the distribution of a round's trials over its mappings."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.kernels.space import Program, Task
from engine.records.nodes import REUSED, SEARCHED, Attempt, Round, TaskRecord
from engine.tuning.budget_scheduler import Subgraph, sample
from engine.tuning.known_starts import STARTS, KnownStart
from engine.tuning.problem import SearchProblem
from engine.tuning.runner import NOT_RECORDED, PRUNED
from engine.tuning.strategy import Strategy
from engine.tuning.winners import ranking, speed


@dataclass(slots=True)
class TaskProgress:
    """State of one mapping."""

    task: Task
    strategy: Strategy
    promised: float
    """Modelled time of its best program, in microseconds."""
    best: float = math.inf
    attempts: int = 0
    optimism: float = 1.0
    """The smallest result so far as a part of what was promised for it, 1 where none was smaller."""
    _by_promise: list[Program] | None = None
    """What may still be tried, the most promising last."""
    _tried: set[Program] = field(default_factory=set)
    is_exhausted: bool = False
    """Whether its strategy had no program left when it was asked last, and no result came since that may bring more."""

    @property
    def hope(self) -> float:
        """Microseconds that the most promising program that was not tried may take: what is promised, times the most
        that a promise was undercut so far; infinite where all were tried."""
        if self._by_promise is None:
            self._by_promise = sorted(self.task.programs, key=self.task.rank, reverse=True)
        while self._by_promise and self._by_promise[-1] in self._tried:
            self._by_promise.pop()
        return self.optimism * self.task.rank(self._by_promise[-1]) if self._by_promise else math.inf

    def learn(self, program: Program, promised: float, microseconds: float | None) -> None:
        """Count the result of a program; None for a failure."""
        self.attempts += 1
        self._tried.add(program)
        if microseconds is not None:
            self.best = min(self.best, microseconds)
            self.optimism = min(self.optimism, microseconds / promised) if promised > 0 else 0.0
        self.strategy.learn([(program, microseconds)])
        # Neighbours of what was tried may join, where not all of a space was looked at.
        self.is_exhausted = self.is_exhausted and self.task.unseen is None


@dataclass(slots=True)
class Progress:
    """State of one group."""

    problem: SearchProblem
    tasks: dict[str, TaskProgress]
    before: float
    """Microseconds under the recipe that the search started from, of the run's origin; infinite while unknown."""
    starts: list[KnownStart] = field(default_factory=list)
    """What is still to be tried first, in order."""
    best: list[float] = field(default_factory=list)
    """After each round; infinite while nothing ran."""
    timed: dict[int, Attempt] = field(default_factory=dict)
    """Attempts with a time by number; those that a check found wrong are taken out."""
    leader: Attempt | None = None
    """The fastest of these."""
    again: dict[int, float] = field(default_factory=dict)
    """Attempts that were timed again in interleaved rounds: number -> microseconds."""
    note: str = ""
    """Result of the winner's comparison with the reference; "" before it."""
    stagnant: int = 0
    open_rounds: int = 0
    trials: int = 0
    reused: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    def subgraph(self) -> Subgraph:
        """The group as the budget scheduler sees it."""
        group = self.problem.group
        exhausted = all(one.is_exhausted for one in self.tasks.values())
        hope = min(one.hope for one in self.tasks.values())
        return Subgraph(
            group.name, tuple(self.best), self.problem.flops, len(group.instances), group.kind, exhausted,
            self.stagnant, hope,
        )  # fmt: skip

    @property
    def ranking(self) -> list[Attempt]:
        """The best attempts, fastest first, by their last comparable times."""
        return ranking(self.timed.values(), self.again)

    @property
    def winner(self) -> Attempt | None:
        """The fastest; None while nothing ran."""
        return next(iter(self.ranking), None) if self.again else self.leader

    @property
    def time(self) -> float:
        """Of the winner, in microseconds; infinite while nothing ran."""
        winner = self.winner
        if winner is None or winner.microseconds is None:
            return math.inf
        return self.again.get(winner.number, winner.microseconds)

    @property
    def gain(self) -> float:
        """Microseconds that the winner saves; 0 where none is faster, infinite where the old recipe failed."""
        return 0.0 if self.winner is None else max(0.0, self.before - self.time)

    def take_start(self) -> Program | None:
        """The next program that is known to be good; None where none is left.  Its strategy will not propose it."""
        if not self.starts:
            return None
        program = self.starts.pop(0).program
        self.tasks[program.mapping].strategy.leave_out(program)
        return program

    def take(self, attempt: Attempt) -> None:
        """Count an attempt, run now or by an earlier process."""
        self.trials += 1
        self.reused += attempt.state == REUSED
        if attempt.failure:
            self.failures[attempt.failure] += 1
        if not attempt.mapping:
            self.before = attempt.microseconds or math.inf
            return
        if attempt.microseconds is not None and not attempt.failure:
            self.timed[attempt.number] = attempt
            self.leader = min(self.leader or attempt, attempt, key=speed)
        program = program_of(attempt)
        self.starts = [one for one in self.starts if one.program != program]
        task = self.tasks.get(attempt.mapping)
        if task is not None:
            task.learn(program, attempt.promised, attempt.microseconds)

    def replay(self, attempts: Sequence[Attempt], rounds: Sequence[Round]) -> None:
        """Take what earlier processes tried and decided; what is of other groups is left out."""
        name = self.problem.group.name
        for attempt in attempts:
            if attempt.group == name:
                self.take(attempt)
        for one in rounds:
            if one.group == name and one.kind == SEARCHED:
                self.close_round(one.best)

    def mark_wrong(self, attempt: Attempt, kind: str) -> None:
        """Remove a program with wrong results from the ranking, and count it as a failure."""
        del self.timed[attempt.number]
        self.leader = min(self.timed.values(), key=speed, default=None)
        self.failures[kind] += 1

    def close_round(self, best: float) -> None:
        """Count a round that ended with this best time."""
        before = self.best[-1] if self.best else math.inf
        self.best.append(best)
        self.stagnant = 0 if best < before else self.stagnant + 1

    def record(self) -> tuple[TaskRecord, ...]:
        """Its tasks as they are kept with the run."""
        group = self.problem.group
        return tuple(
            TaskRecord(
                group.name, task.name, task.dimensions, task.funnel.total,
                tuple(d for d in task.funnel.dropped if d.count),
                len(task.programs), self.before, len(group.instances),
            )
            for task in self.problem.tasks
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Allotment:
    """The trials of one round of one group."""

    tasks: tuple[str, ...]
    """The task of each trial, in order."""
    because: str
    shares: dict[str, float]
    """By mapping, as the sampling rule sees them; empty where it was not asked."""
    known: int = 0
    """How many of the first trials are of known starts."""


def allot(progress: Progress, size: int, rng: random.Random) -> Allotment:
    """Distribute the trials of a round: those of known starts, one to each new mapping by modelled time, the rest by
    the sampling rule."""
    known = progress.starts[: max(size // STARTS, 1)]
    if known:
        rest = _allot(progress, size - len(known), rng)
        sources = " and ".join(dict.fromkeys(one.source for one in known))
        tasks = (*(one.program.mapping for one in known), *rest.tasks)
        return Allotment(tasks, f"{len(known)} known to be good for {sources}; {rest.because}", rest.shares, len(known))
    return _allot(progress, size, rng)


def _allot(progress: Progress, size: int, rng: random.Random) -> Allotment:
    open_ones = {name: one for name, one in progress.tasks.items() if not one.is_exhausted}
    fresh = sorted((name for name, one in open_ones.items() if not one.attempts), key=lambda n: open_ones[n].promised)
    if len(open_ones) == 1:
        return Allotment(tuple(open_ones) * size, "one mapping", {})
    times = {name: one.best if one.attempts else one.promised for name, one in open_ones.items()}
    chosen = sample(times, rng)
    first = tuple(fresh[:size])
    because = f"first trials of {len(first)} of {len(progress.tasks)} mappings as they promise" if first else ""
    if len(first) < size:
        because = f"{because}, then {chosen.because}" if first else chosen.because
    shares = {name: chosen.shares[name] for name in chosen.kept}
    return Allotment((*first, *_deal(shares, size - len(first))), because, dict(chosen.shares))


def _deal(shares: Mapping[str, float], count: int) -> tuple[str, ...]:
    """`count` trials in proportion to the shares; every prefix of the sequence keeps the proportion."""
    total = sum(shares.values())
    parts = {name: share / total if total else 1 / len(shares) for name, share in shares.items()}
    got = dict.fromkeys(parts, 0)
    dealt: list[str] = []
    while len(dealt) < count:
        name = max(parts, key=lambda name: parts[name] * (len(dealt) + 1) - got[name])
        got[name] += 1
        dealt.append(name)
    return tuple(dealt)


def program_of(attempt: Attempt) -> Program:
    """The program that an attempt tried."""
    return Program(attempt.mapping, attempt.values)


def costs_trial(attempt: Attempt) -> bool:
    """Whether an attempt counts against the budget: not if it was pruned or not recorded, nor the starting recipe."""
    return bool(attempt.mapping) and attempt.failure not in (PRUNED, NOT_RECORDED)
