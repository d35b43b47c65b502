"""Kernels that advisers compiled to say what they advise: whoever compiles under that advice next takes them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from engine.fusion.nodes import FusionGroup
from engine.kernels.nodes import Kernel
from engine.recipe import Advice

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
        while len(self._kept) >= MOST_KERNELS:
            oldest = self._kept.pop(next(iter(self._kept)))  # a dict is ordered by insertion
            if self._last.get(_outline(oldest.group)) == id(oldest.advice):
                del self._last[_outline(oldest.group)]
        self._kept[id(advice)] = _Advised(advice, group, stamp, kernel)
        self._last[_outline(group)] = id(advice)

    def find(self, advice: tuple[Advice, ...], group: FusionGroup, stamp: Hashable) -> Kernel | None:
        """The kernel of this very advice for this very group, under an equal stamp."""
        kept = self._kept.get(id(advice))
        return kept.kernel if kept and kept.group is group and kept.stamp == stamp else None

    def alike(self, group: FusionGroup, stamp: Hashable) -> tuple[tuple[Advice, ...], Kernel] | None:
        """(advice, kernel) of a group, from one that has the same program under an equal stamp, whatever its name.

        They are kept as the group's own.
        """
        kept = self._kept.get(self._last.get(_outline(group), 0))
        if kept is None or kept.stamp != stamp or kept.group.kind != group.kind:
            return None
        if replace(kept.group.program, name=group.program.name) != group.program:
            return None
        advice = (*kept.advice,)
        kernel = kept.kernel.of(group)
        self.keep(advice, group, stamp, kernel)
        return advice, kernel


def _outline(group: FusionGroup) -> Hashable:
    """Equal for groups of the same program."""
    program = group.program
    return group.kind, tuple(program.arrays), tuple([array.shape for array in program.arrays.values()])
