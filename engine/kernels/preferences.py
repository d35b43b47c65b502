"""What the accesses of a group want of its loops: which one innermost, and how many elements at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from engine.kernels.access_patterns import Pattern, patterns
from engine.kernels.score import score
from engine.tensor.nodes import TensorProgram
from engine.tensor.rewrite import plain_iterator

T = TypeVar("T")
Key = tuple[str, str]
"""(statement, iterator)."""


SHOWN = 3
"""Arrays, and loops, that a sentence names."""


@dataclass(frozen=True, slots=True)
class AccessPreferences:
    """The accesses of a group to global memory, with one name for each loop that several statements share."""

    patterns: tuple[Pattern, ...]

    @property
    def loops(self) -> tuple[str, ...]:
        """The loops that accesses want innermost and others, which move along them, do not."""
        against = [{p.ideal, loop} for p in self.patterns for loop in p.order if loop in self._ideals]
        disputed = {loop for both in against if len(both) > 1 for loop in both}
        return tuple(loop for loop in self._ideals if loop in disputed)

    @property
    def _ideals(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(p.ideal for p in self.patterns if p.ideal is not None))

    @property
    def disagreement(self) -> str:
        """ "innermost x wants k, y and z want j"; "at once along k x wants 8, y wants 4"; "" where all agree."""
        if self.loops:
            arrays = {loop: [p.access.array for p in self.patterns if p.ideal == loop] for loop in self.loops}
            return "innermost " + _wishes(arrays)
        for loop in self._ideals:
            along = [p for p in self.patterns if p.ideal == loop]
            widths = {p.vector: [q.access.array for q in along if q.vector == p.vector] for p in along}
            if len(widths) > 1:
                return f"at once along {loop} " + _wishes(widths)
        return ""

    @property
    def scores(self) -> str:
        """The score of each of these loops with its terms, the highest first."""
        loops = self.loops or self._ideals
        found = sorted((score(loop, self.patterns, innermost=True) for loop in loops), key=lambda s: -s.value)
        return "; ".join(map(str, found[:SHOWN]))


def preferences(program: TensorProgram) -> AccessPreferences:
    """Those of a program."""
    names = _loop_names(program)
    return AccessPreferences(tuple(
        replace(p, order=tuple(names[p.statement, name] for name in p.order)) for p in patterns(program)
    ))  # fmt: skip


def _loop_names(program: TensorProgram) -> Mapping[Key, str]:
    """One name for iterators of several statements that index an array at the same place, and walk as far."""
    keys = [(s.name, i.name) for s in program.statements for i in s.iterators]
    loops: dict[Key, list[Key]] = {key: [key] for key in keys}
    first: dict[tuple[str, int, int], Key] = {}
    for statement in program.statements:
        for access in (statement.write, *statement.reads()):
            for place, index in enumerate(access.indices):
                iterator = plain_iterator(index)
                if iterator is None:
                    continue
                key = (statement.name, iterator)
                where = (access.array, place, statement.extents[iterator])
                mine, theirs = loops[key], loops[first.setdefault(where, key)]
                # No statement walks one loop twice, as x[i, k] * x[j, k] would.
                if mine is not theirs and not {s for s, _ in mine} & {s for s, _ in theirs}:
                    theirs += mine
                    loops |= dict.fromkeys(mine, theirs)
    names: dict[Key, str] = {}
    for members in {id(members): members for members in loops.values()}.values():
        owner, plain = members[0]
        name = f"{plain} of {owner}" if plain in names.values() else plain
        names |= dict.fromkeys(members, name)
    return names


def _wishes(arrays: Mapping[T, Sequence[str]]) -> str:
    """ "x wants k, y and z want j"."""
    told = [f"{_list_names(names)} want{'s' * (len(set(names)) == 1)} {what}" for what, names in arrays.items()]
    return ", ".join(told[:SHOWN])


def _list_names(names: Sequence[str]) -> str:
    """ "x", "x and y", "x, y and 4 more"."""
    unique = list(dict.fromkeys(names))
    if len(unique) > SHOWN:
        unique[SHOWN - 1 :] = [f"{len(unique) - SHOWN + 1} more"]
    return " and ".join([", ".join(unique[:-1]), unique[-1]] if len(unique) > 1 else unique)
