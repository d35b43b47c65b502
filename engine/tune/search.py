"""The search over all groups of a plan: rounds go where they are expected to pay, every trial is kept at once."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from engine.errors import BadInput, Unsupported
from engine.fuse.nodes import FusionPlan
from engine.recipe import Recipe
from engine.records.store import RecordStore
from engine.tune.allocate import Subgraph, Turn, budget, next_turn, round_size, without_outsiders
from engine.tune.nodes import Limits
from engine.tune.problem import Problem, problem
from engine.tune.runner import Ran, run_predicted
from engine.tune.strategies import STRATEGIES
from engine.tune.strategy import Strategy


@dataclass(slots=True)
class Progress:
    """What a search found out about one group so far."""

    problem: Problem
    strategy: Strategy
    best: list[float] = field(default_factory=list)
    """After each round; infinite while nothing ran."""
    winner: Ran | None = None
    stagnant: int = 0
    is_exhausted: bool = False
    trials: int = 0
    reused: int = 0
    repeated: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    def subgraph(self) -> Subgraph:
        """As the allocation sees it."""
        group = self.problem.group
        return Subgraph(
            group.name, tuple(self.best), self.problem.flops, len(group.instances), group.kind, self.is_exhausted,
            self.stagnant,
        )  # fmt: skip

    @property
    def gain(self) -> float:
        """Microseconds that the best program saves of the recipe's own; negative where none is as fast."""
        now = self.winner.microseconds if self.winner else None
        return -math.inf if now is None else self.problem.before - now

    def take(self, results: Sequence[Ran], asked: int) -> None:
        """Count a round."""
        before = self.best[-1] if self.best else math.inf
        for ran in results:
            self.trials += 1
            self.reused += ran.is_reused
            self.repeated += ran.is_repeated
            if ran.failure is not None:
                self.failures[ran.failure.kind] += 1
            now = self.winner.microseconds if self.winner else None
            if ran.microseconds is not None and (now is None or ran.microseconds < now):
                self.winner = ran
        self.best.append(self.problem.before - self.gain)
        self.stagnant = 0 if self.best[-1] < before else self.stagnant + 1
        self.is_exhausted = len(results) < asked
        self.strategy.learn([(ran.program, ran.microseconds) for ran in results])


@dataclass(frozen=True, slots=True)
class Round:
    """One round of one group."""

    turn: Turn
    group: str
    results: tuple[Ran, ...]
    best: float
    """Microseconds, after the round."""


class Search:
    """A search over the groups of a plan; iterate over `rounds`, stop at any moment, take `recipe`."""

    def __init__(self, plan: FusionPlan, recipe: Recipe, store: RecordStore, strategy: str, seed: int = 0) -> None:
        """Raises BadInput for an unknown strategy, Unsupported where nothing of any group can be searched."""
        if strategy not in STRATEGIES:
            raise BadInput("tune", f"strategy {strategy}", "is not known", f"one of {', '.join(STRATEGIES)}")
        self._recipe, self._store, self._rng = recipe, store, random.Random(seed)
        self.skipped: dict[str, str] = {}
        """Groups that are not searched, and why."""
        self.progress: dict[str, Progress] = {}
        for group in plan.groups:
            found = problem(group, recipe)
            if isinstance(found, str):
                self.skipped[group.name] = found
                continue
            order = STRATEGIES[strategy](found.tasks[0], self._rng)
            self.progress[group.name] = Progress(found, order)
        if not self.progress:
            reasons = "; ".join(f"{name} {why}" for name, why in list(self.skipped.items())[:3])
            raise Unsupported("tune", plan.graph, "has nothing to search", reasons)

    def rounds(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> Iterator[Round]:
        """Rounds until a limit is met or nothing is left to try; a round ends early when time is up."""
        size, left = round_size(limits.trials, len(self.progress)), budget(limits.trials, len(self.progress))
        end = clock() + 60 * limits.minutes
        while left > 0 and clock() < end:
            subgraphs = without_outsiders([one.subgraph() for one in self.progress.values()])
            turn = next_turn(subgraphs, self._rng, limit=limits.patience)
            if turn is None:
                return
            one = self.progress[turn.subgraph]
            asked = one.strategy.propose(min(size, left))
            results = []
            for program in asked:
                results.append(run_predicted(one.problem, program, self._store))
                if clock() >= end:
                    break
            one.take(results, min(size, left) if len(results) == len(asked) else len(results))
            left -= len(results)
            yield Round(turn, turn.subgraph, tuple(results), one.best[-1])

    def recipe(self) -> Recipe:
        """The recipe with the best program of each group that became faster than what it had."""
        result = self._recipe
        for name, one in self.progress.items():
            if one.gain > 0 and one.winner is not None:
                result = result.with_group(name, one.problem.tuned(one.winner.program).groups[name])
        return result
