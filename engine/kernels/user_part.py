"""The part of a space that a person's entries leave, found without a look at each of its programs.

    mark block 64, that is row_warps x row_tiles x 16    ->    (1, 4), (2, 2), (4, 1) of the two, any of all the others
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.kernels.sketch_rules import Sketch
from engine.kernels.space import Program, Value
from engine.kernels.tuned_entries import kind_of
from engine.recipe import Entry

BASES = 16
"""Random programs at which dimensions are changed, to see what they have a say in."""
MOST_COMBINATIONS = 2048
"""Of dimensions that have a say in the same entries; where there are more, each is narrowed by itself."""

EntriesOf = Callable[[Program], Sequence[Entry]]
IsContrary = Callable[[Entry, Entry], bool]
"""Whether a program's entry says something else than a person's."""
Names = tuple[str, ...]
"""Dimensions, in the order of the space."""


def user_part(made: Sketch, wishes: Sequence[Entry], entries_of: EntriesOf, is_contrary: IsContrary) -> Sketch:
    """The sketch without choices whose entries are contrary to a person's, whatever the other dimensions are.

    Dimensions that have a say in entries of the same kind are chosen together.  Which do is seen at some random
    programs, and other dimensions may decide whether there is such an entry at all: what is left has to be asked.
    """
    if not wishes or not len(made):
        return made
    draw = random.Random(made.mapping)
    bases = [made.point(draw.randrange(len(made))) for _ in range(BASES)]
    left = _Narrowing(dict(made.dimensions), wishes, bases, entries_of, is_contrary)
    dimensions = {kind: left.dimensions_of(kind) for kind in sorted({kind_of(wish) for wish in wishes})}
    for kind, names in sorted(dimensions.items(), key=lambda pair: left.size(pair[1])):
        left.narrow(names, {kind})
    combinations: dict[Names, tuple[tuple[Value, ...], ...]] = {}
    for names, kinds in _together(made, dimensions):
        if left.size(names) <= MOST_COMBINATIONS:
            combinations[names] = left.combinations(names, kinds)
        else:
            combinations |= {(name,): tuple((value,) for value in left.choices[name]) for name in names}
    return replace(made, combinations=combinations)


def _together(made: Sketch, dimensions: Mapping[str, Names]) -> Iterator[tuple[Names, set[str]]]:
    """Dimensions that are linked by entries in which they have a say together, and the kinds of these entries."""
    found: list[tuple[set[str], set[str]]] = []
    for kind, names in dimensions.items():
        linked = [one for one in found if not one[0].isdisjoint(names)]
        found = [one for one in found if one not in linked]
        found.append(({*names}.union(*(n for n, _ in linked)), {kind}.union(*(k for _, k in linked))))
    for linked_names, kinds in found:
        yield tuple(name for name in made.dimensions if name in linked_names), kinds


@dataclass(slots=True)
class _Narrowing:
    """What may still agree."""

    choices: dict[str, tuple[Value, ...]]
    """Of each dimension."""
    wishes: Sequence[Entry]
    bases: Sequence[Program]
    entries_of: EntriesOf
    is_contrary: IsContrary

    def dimensions_of(self, kind: str) -> Names:
        """The dimensions of which a change changes what some program's entries of a kind ask for."""

        def content(program: Program) -> tuple[object, ...]:
            own = (entry for entry in self.entries_of(program) if kind_of(entry) == kind)
            return tuple((entry.statements, entry.dimension, entry.value) for entry in own)

        def has_a_say(name: str) -> bool:
            changed = ([base.with_values({name: value}) for value in self.choices[name]] for base in self.bases)
            return any(len(set(map(content, programs))) > 1 for programs in changed)

        return tuple(filter(has_a_say, self.choices))

    def size(self, names: Names) -> int:
        """Combinations of some dimensions."""
        return math.prod(len(self.choices[name]) for name in names)

    def narrow(self, names: Names, kinds: Collection[str]) -> None:
        """Leave each of some dimensions the choices that agree in some combination of them."""
        if names and self.size(names) <= MOST_COMBINATIONS:
            found = self.combinations(names, kinds)
            for at, name in enumerate(names):
                left = {values[at] for values in found}
                self.choices[name] = tuple(value for value in self.choices[name] if value in left)

    def combinations(self, names: Names, kinds: Collection[str]) -> tuple[tuple[Value, ...], ...]:
        """The combinations of some dimensions with which a program's entries may agree with wishes of some kinds."""
        wishes = [wish for wish in self.wishes if kind_of(wish) in kinds]

        def may_agree(values: tuple[Value, ...]) -> bool:
            chosen = dict(zip(names, values, strict=True))
            of_bases = (self.entries_of(base.with_values(chosen)) for base in self.bases)
            return any(not any(self.is_contrary(w, e) for e in found for w in wishes) for found in of_bases)

        return tuple(filter(may_agree, itertools.product(*(self.choices[name] for name in names))))
