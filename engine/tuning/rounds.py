"""Rounds of trials: choose a group, distribute the round over its mappings, propose programs on demand."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.kernels.space import Program
from engine.tuning.budget_scheduler import RoundChoice, next_round, not_worth_it, without_outsiders
from engine.tuning.progress import Allotment, Progress, TaskProgress, allot
from engine.tuning.settings import SearchLimits


@dataclass(slots=True, eq=False)
class OpenRound:
    """A round of one group, of which some programs may be under way."""

    progress: Progress
    turn: RoundChoice
    allotment: Allotment
    queue: deque[str]
    """The task of each trial that is still to be proposed."""
    known: int = 0
    """How many of these are of known starts, the first ones."""
    under_way: int = 0
    tried: Counter[str] = field(default_factory=Counter)
    """Attempts that finished, by mapping."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more can come of it."""
        return not self.queue and not self.under_way

    @property
    def mapping(self) -> str:
        """The only mapping that it is about; "" where there are several."""
        names = set(self.allotment.tasks)
        return names.pop() if len(names) == 1 else ""

    @property
    def because(self) -> str:
        """Why this group and these mappings."""
        return f"{self.turn.because}; {self.allotment.because}"

    def propose(self) -> tuple[TaskProgress, Program | None]:
        """The mapping of the next trial and its program: a known start, or what its strategy proposes, if anything."""
        task = self.progress.tasks[self.queue.popleft()]
        is_known, self.known = self.known > 0, self.known - 1
        start = self.progress.take_start() if is_known else None
        if start is not None:
            return self.progress.tasks[start.mapping], start
        return task, next(iter(task.strategy.propose(1)), None)

    def figures(self) -> dict[str, float]:
        """Figures that the decision is based on, and the trials of each mapping."""
        gradients = {f"gradient of {one.subgraph}": one.gradient for one in self.turn.prospects}
        shares = {f"share of {name}": share for name, share in self.allotment.shares.items()}
        done = {f"{name} may save at most": saved for name, saved in self.turn.done.items()}
        return {**gradients, **done, **shares, **{f"trials of {name}": float(n) for name, n in self.tried.items()}}


class Rounds:
    """Opens rounds one by one; programs of earlier rounds may still be under way."""

    def __init__(self, progress: Mapping[str, Progress], limits: SearchLimits, rng: random.Random) -> None:
        """progress: of the groups that can have a round; more may join.  limits: with at least one trial."""
        self._progress, self._limits, self._rng = progress, limits, rng
        self._size = min(limits.round, limits.trials)
        self.current: OpenRound | None = None
        """The last that was opened."""

    @property
    def wants_group(self) -> bool:
        """Whether the next program opens a round, and no group is left that had none yet."""
        if self.current is not None and self.current.queue:
            return False
        return all(one.best or one.open_rounds or one.subgraph().is_exhausted for one in self._progress.values())

    def next(self, left: int) -> tuple[OpenRound, TaskProgress, Program] | None:
        """The next program to be tried, with at most `left` trials to spend; None where there is none for now."""
        while left > 0:
            if self.current is None or not self.current.queue:
                self.current = self._open_round(left)
                if self.current is None:
                    return None
            one = self.current
            task, program = one.propose()
            if program is not None:
                one.under_way += 1
                return one, task, program
            # The strategy has no program left for now: its other trials of this round are dropped, not redistributed.
            task.is_exhausted = True
            one.queue = deque(name for name in one.queue if not one.progress.tasks[name].is_exhausted)
            if one.is_over and not one.tried:
                one.progress.open_rounds -= 1
        return None

    @property
    def why_none(self) -> str:
        """Why nothing more is proposed though there are trials to spend."""
        if all(one.subgraph().is_exhausted for one in self._progress.values()):
            is_whole = all(task.task.unseen is None for one in self._progress.values() for task in one.tasks.values())
            return "every program was tried" if is_whole else "every program that was looked at was tried"
        subgraphs = [one.subgraph() for one in self._progress.values()]
        done = not_worth_it(subgraphs, self._limits.least_gain)
        if all(one.is_exhausted or one.name in done for one in subgraphs):
            part = f"{100 * self._limits.least_gain:g} %"
            saved = f"{sum(done.values()):.3g} µs at most by what is promised"
            return f"further rounds would save less than {part} of the model's time ({saved})"
        return f"no group gained anything in its last {self._limits.patience} rounds"

    def _open_round(self, left: int) -> OpenRound | None:
        """A round of the group with the largest expected gain.

        A group whose first round is still under way is left out: there is no time yet to expect anything from.
        """
        ready = [one.subgraph() for one in self._progress.values() if one.best or not one.open_rounds]
        turn = next_round(without_outsiders(ready), self._rng, self._limits.patience, self._limits.least_gain)
        if turn is None:
            return None
        progress = self._progress[turn.subgraph]
        allotment = allot(progress, min(self._size, left), self._rng)
        progress.open_rounds += 1
        return OpenRound(progress, turn, allotment, deque(allotment.tasks), allotment.known)
