"""Operators of a model that no kernel computes, as documents."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UncompiledDoc:
    """An operator that no kernel computes."""

    id: str
    """"operator NAME": what edges call it."""
    operator: str
    kind: str
    shape: str
    """Of its first output."""
    because: str
    """What the host does for it, or why nothing can."""
    on_host: bool
    """Whether a host program runs it between launches; nothing does, where not."""
    after: int
    """Launches that make what it reads."""
    scope: str = ""
    is_unplanned: bool = False
    """Whether it is only that nobody has planned kernels yet."""

    @property
    def state(self) -> str:
        """In few words: "by the host"."""
        return "no kernel planned yet" if self.is_unplanned else "by the host" if self.on_host else "not compiled"

