"""Rules that drop programs, and how many each drops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from engine.kernels.space import Dropped, Funnel, Program


class Named(Protocol):
    """A rule as a funnel counts it."""

    @property
    def name(self) -> str: ...

    @property
    def because(self) -> str: ...


Broken = Callable[[Program], tuple[Named, str] | None]
"""The first rule that a program breaks, and how; None where it keeps all."""


class Sieve:
    """Asks rules about programs, and counts what each drops."""

    def __init__(self, rules: Sequence[Named], broken: Broken) -> None:
        self._rules, self._broken = rules, broken
        self._counts = {rule.name: 0 for rule in rules}
        self._examples: dict[str, str] = {}

    def leave_out(self, rule: Named, count: int, example: str) -> None:
        """Count programs that are known to break a rule, so that none of them is asked."""
        self._counts[rule.name] += count
        if count:
            self._examples.setdefault(rule.name, example)

    def passes(self, program: Program) -> bool:
        """Whether a program keeps all rules; one that does not counts for the rule that `broken` names."""
        found = self._broken(program)
        if found is None:
            return True
        rule, how = found
        self._counts[rule.name] += 1
        self._examples.setdefault(rule.name, f"{program}: {how}")
        return False

    def funnel(self, left: Iterable[Program]) -> Funnel:
        """What was dropped so far, and these programs, which passed."""
        kept = tuple(left)
        dropped = tuple(
            Dropped(r.name, r.because, self._counts[r.name], self._examples.get(r.name, "")) for r in self._rules
        )
        return Funnel(len(kept) + sum(self._counts.values()), dropped, kept)
