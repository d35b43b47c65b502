"""Which programs there are: a table of rules, each with condition, action and reason.

The order is the published one (GTA's rules for GPUs, on Ansor's).  A rule looks at what a mapping of a group has to
offer and either opens choices or is left out; both say why.  A rule that our compiler decides without a choice opens
none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from engine.kernels.space import Applied, Program, Value

CACHE_READ, COMPUTE_LOCATION, INLINE = "add cache read", "special compute location", "always inline"
CONSTANT_TENSOR, CROSS_THREAD = "simplify with constant tensor", "cross-thread reduction"
CACHE_WRITE, TILING_WITH_FUSION = "add cache write", "multi-level tiling with fusion"
TILING, PARTIAL_TILING = "multi-level tiling", "partial multi-level tiling"
PLACE_MAIN, PLACE_OUTPUT, SKIP = "place main", "place output", "skip stage"

THREAD_CHOICES = (32, 64, 128, 256, 512, 1024)
"""Threads of a block that searches try: those of any number of elements."""

Choices = Mapping[str, tuple[Value, ...]]
"""Dimension -> what it may take."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What the rules look at: one mapping of a group, and what it could have open."""

    mapping: str
    fixed: Mapping[str, Value]
    """Every dimension in order, with the value that it has where no rule opens it."""
    offers: Mapping[str, Choices]
    """Rule -> the choices that it may open here; none where the rule applies and leaves no choice."""
    refuses: Mapping[str, str] = field(default_factory=dict)
    """Rule -> why it does not apply here, where that is not what the rule itself says."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """The choices that are open."""

    mapping: str
    dimensions: Mapping[str, tuple[Value, ...]]
    combinations: Mapping[tuple[str, ...], tuple[tuple[Value, ...], ...]] = field(default_factory=dict)
    """Dimensions that take some of their choices together, and which; all others take any."""

    def __len__(self) -> int:
        return math.prod(len(choices) for _, choices in self._axes())

    def __contains__(self, program: Program) -> bool:
        if program.mapping != self.mapping or [name for name, _ in program.values] != list(self.dimensions):
            return False
        chosen = dict(program.values)
        return all(tuple(chosen[name] for name in names) in choices for names, choices in self._axes())

    def points(self) -> Iterator[Program]:
        """Every combination once."""
        axes = self._axes()
        for values in itertools.product(*(choices for _, choices in axes)):
            yield self._program(dict(zip((names for names, _ in axes), values, strict=True)))

    def point(self, number: int) -> Program:
        """The combination that `points` has at a place, without those before it."""
        found: dict[tuple[str, ...], tuple[Value, ...]] = {}
        for names, choices in reversed(self._axes()):
            number, at = divmod(number, len(choices))
            found[names] = choices[at]
        return self._program(found)

    def neighbours(self, program: Program) -> Iterator[Program]:
        """The programs that differ from one in a single dimension, or in those that are chosen together."""
        chosen, axes = dict(program.values), self._axes()
        now = {names: tuple(chosen[name] for name in names) for names, _ in axes}
        for names, choices in axes:
            for other in choices:
                if other != now[names]:
                    yield self._program({**now, names: other})

    def _axes(self) -> list[tuple[tuple[str, ...], tuple[tuple[Value, ...], ...]]]:
        """Dimensions that are chosen together, a single one mostly, and what they may take."""
        of_many = {name for names in self.combinations for name in names}
        single = [((n,), tuple((v,) for v in found)) for n, found in self.dimensions.items() if n not in of_many]
        return [*self.combinations.items(), *single]

    def _program(self, chosen: Mapping[tuple[str, ...], tuple[Value, ...]]) -> Program:
        values = {name: value for names, of in chosen.items() for name, value in zip(names, of, strict=True)}
        return Program(self.mapping, tuple((name, values[name]) for name in self.dimensions))


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table."""

    name: str
    because: str
    """What it opens, and what for."""
    otherwise: str
    """Why it does not apply to a mapping that has nothing to offer; "" for a rule that always applies."""


RULES = (
    Rule(
        CACHE_READ,
        "operands wait on the chip for their use: where, how much of them, and how far ahead they are copied is open",
        "every element is used where it is read",
    ),
    Rule(
        COMPUTE_LOCATION,
        "an intermediate is handed over in a register or in shared memory, or computed again where it is used",
        "no statement asks for a place of its own",
    ),
    Rule(
        INLINE,
        "element-wise neighbours are computed in registers where their operand is: fusion has decided so",
        "the group is one statement",
    ),
    Rule(CONSTANT_TENSOR, "", "no transform with a constant matrix is written"),
    Rule(CROSS_THREAD, "threads share the terms of one result: how many is open", "nothing is summed"),
    Rule(CACHE_WRITE, "", "results stay in registers until they are stored"),
    Rule(
        TILING_WITH_FUSION,
        "several parts share a block: its threads and the points that it takes are open",
        "what follows is computed where the results are: fusion has decided so",
    ),
    Rule(TILING, "what a block and what a thread takes is open", "the intrinsic reserves the innermost tiles"),
    Rule(
        PARTIAL_TILING,
        "block and warp tiles are open, in whole fragments that the intrinsic reserves",
        "no instruction multiplies these operands",
    ),
    Rule(
        PLACE_MAIN,
        "how far ahead the innermost loop reads, and how much of it is written out, is open",
        "no loop is left inside a thread",
    ),
    Rule(PLACE_OUTPUT, "results leave at the tile of a warp, above the intrinsic's own", "each thread stores its own"),
    Rule(SKIP, "what is left has no choice", ""),
)
"""In the published order."""


def sketch(situation: Situation) -> tuple[Sketch, tuple[Applied, ...]]:
    """All programs that the rules allow, and what each rule did."""
    made = Sketch(situation.mapping, {name: (value,) for name, value in situation.fixed.items()})
    told: list[Applied] = []
    for rule in RULES:
        is_applied = rule.name in situation.offers or not rule.otherwise
        made = replace(made, dimensions={**made.dimensions, **situation.offers.get(rule.name, {})})
        because = rule.because if is_applied else situation.refuses.get(rule.name, rule.otherwise)
        told.append(Applied(rule.name, because, len(made)))
    return made, tuple(told)
