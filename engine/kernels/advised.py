"""Kernels that advisers compiled to say what they advise: whoever compiles under that advice next takes them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from engine.fusion.nodes import FusionGroup
from engine.kernels.nodes import Kernel
from engine.recipe import Advice
from engine.tensor.nodes import TensorProgram

Key = TypeVar("Key")
Kept = TypeVar("Kept")
MOST_KERNELS = 128
"""That are kept, the last ones: all of a model of usual size."""


@dataclass(frozen=True, slots=True)
class _Advised:
    """What advisers said of a group under a setting, and what they made of it."""

    advice: tuple[Advice, ...]
    group: FusionGroup
    stamp: Hashable
    kernel: Kernel


@dataclass(frozen=True, slots=True)
class AdvisedKernels:
    """The kernels of a process.  Advice that was edited is another object, and is compiled."""

    _kept: dict[int, _Advised] = field(default_factory=dict)
    """By the identity of the advice, which lives as long as it is here."""
    _last: dict[Hashable, int] = field(default_factory=dict)
    """What a group's program is about -> the identity of the advice that was kept last."""

    def keep(self, advice: tuple[Advice, ...], group: FusionGroup, stamp: Hashable, kernel: Kernel) -> None:
        """stamp: what the kernel depends on beside its group and advice."""
        for oldest in keep_last(self._kept, id(advice), _Advised(advice, group, stamp, kernel), MOST_KERNELS):
            if self._last.get(_outline(oldest.group)) == id(oldest.advice):
                del self._last[_outline(oldest.group)]
        self._last[_outline(group)] = id(advice)

    def find(self, advice: tuple[Advice, ...], group: FusionGroup, stamp: Hashable) -> Kernel | None:
        """The kernel of this very advice for this very group, under an equal stamp."""
        kept = self._kept.get(id(advice))
        return kept.kernel if kept and kept.group is group and kept.stamp == stamp else None

    def alike(
        self, group: FusionGroup, stamp: Hashable, advise: Callable[[], tuple[tuple[Advice, ...], Kernel | None]]
    ) -> tuple[tuple[Advice, ...], Kernel | None]:
        """(advice, kernel) of a group: those of one that has the same program under an equal stamp, whatever its name,
        or else what is advised now.  They are kept as the group's own.
        """
        kept = self._kept.get(self._last.get(_outline(group), 0))
        if kept is not None and kept.stamp == stamp and _is_same(kept.group.program, group.program):
            advice, kernel = (*kept.advice,), kept.kernel.of(group)
        else:
            advice, made = advise()
            if made is None:
                return advice, None
            kernel = made
        self.keep(advice, group, stamp, kernel)
        return advice, kernel


def keep_last(known: dict[Key, Kept], key: Key, one: Kept, most: int) -> list[Kept]:
    """Add to so many at most that are kept; the oldest, which go."""
    gone = []
    while len(known) >= most:
        gone.append(known.pop(next(iter(known))))  # a dict is ordered by insertion
    known[key] = one
    return gone


def _is_same(one: TensorProgram, other: TensorProgram) -> bool:
    """Whether programs are equal, whatever they are called."""
    return replace(one, name=other.name) == other


def _outline(group: FusionGroup) -> Hashable:
    """Equal for groups of the same kind and program."""
    program = group.program
    return group.kind, tuple(program.arrays), tuple([array.shape for array in program.arrays.values()])
