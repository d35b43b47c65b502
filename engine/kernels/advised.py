"""Kernels that advisers compiled to say what they advise: whoever compiles under that advice next takes them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

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

    def keep(self, advice: tuple[Advice, ...], group: FusionGroup, stamp: Hashable, kernel: Kernel) -> None:
        """stamp: what the kernel depends on beside its group and advice."""
        while len(self._kept) >= MOST_KERNELS:
            self._kept.pop(next(iter(self._kept)), None)  # a dict is ordered by insertion: the oldest goes
        self._kept[id(advice)] = _Advised(advice, group, stamp, kernel)

    def find(self, advice: tuple[Advice, ...], group: FusionGroup, stamp: Hashable) -> Kernel | None:
        """The kernel of this very advice for this very group, under an equal stamp."""
        kept = self._kept.get(id(advice))
        return kept.kernel if kept and kept.group is group and kept.stamp == stamp else None
