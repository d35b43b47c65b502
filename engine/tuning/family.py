"""What all families of programs have that start from a kernel which the advisers made."""

from __future__ import annotations

from dataclasses import dataclass

from engine.compilation import Kernel
from engine.fusion.nodes import FusionGroup
from engine.target import Target


@dataclass(frozen=True, slots=True)
class OfKernel:
    """The group, and the kernel that its recipe makes."""

    group: FusionGroup
    kernel: Kernel

    @property
    def machine(self) -> Target:
        """The GPU."""
        return self.kernel.target
