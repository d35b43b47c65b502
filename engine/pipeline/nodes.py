"""What detection decides about buffers that somebody wants filled ahead of their use."""

from __future__ import annotations

from dataclasses import dataclass

from engine.tile.nodes import For, PipelineRequest

Path = tuple[int, ...]
"""An operation's place: its number in the outermost body, then in the body of that operation, and so on."""

SHARED, REGISTER = "stages", "register_stages"
"""The marks of the two levels."""


@dataclass(frozen=True, slots=True)
class StageRefusal:
    """Why buffers get fewer stages than were asked for."""

    rule: int
    """1 to 3: the published rule that fails; 0: a limit of the machine or of the loop."""
    because: str
    lift: str = ""
    """The change that would let them be pipelined, where there is one."""

    def __str__(self) -> str:
        return f"{self.because}; {self.lift}" if self.lift else self.because


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one request."""

    request: PipelineRequest
    stages: int
    """That the buffers get; 1 is not pipelined."""
    path: Path = ()
    """Of the pipelined loop."""
    loop: For | None = None
    refusal: StageRefusal | None = None
    """Where the stages are not those asked for."""
    held: tuple[str, ...] = ()
    """Arrays that no asynchronous copy brings: a thread loads them into registers a tile ahead, and stores them."""

    @property
    def is_pipelined(self) -> bool:
        return self.stages > 1

    def __str__(self) -> str:
        given = f"{' and '.join(self.request.buffers)}: {self.stages} of {self.request.stages} {self.request.mark}"
        over = f" over {self.loop.name}" if self.loop else ""
        return f"{given}{over}" + (f": {self.refusal}" if self.refusal else "")
