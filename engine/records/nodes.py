"""A trial as it is kept: what exactly was run, and a time with its origin or a failure with its kind."""

from __future__ import annotations

from dataclasses import dataclass

from engine.run.cache import digest
from engine.run.nodes import MEASURED, PREDICTED, SYNTHETIC, Failure, Timing

ORIGINS = (MEASURED, PREDICTED, SYNTHETIC)


@dataclass(frozen=True, slots=True)
class Subject:
    """All that a result depends on, and nothing else: who wished for the kernel and why does not count.

    Clocks and temperatures belong to the environment of a time: the same kernel under other clocks is the same trial.
    """

    kernel: str
    """Digest of the kernel's text."""
    launch: str
    """Grid, block and shared bytes, as text."""
    inputs: str
    """Shapes and element types of the arrays, and the seed of their values."""
    target: str
    """Name of the GPU description."""
    compiler: str
    """Name and version of what compiled the text, or of the model that predicted it."""
    flags: tuple[str, ...] = ()

    @staticmethod
    def of(text: str, launch: str, inputs: str, target: str, compiler: str, flags: tuple[str, ...] = ()) -> Subject:
        """The subject of a kernel given by its text."""
        return Subject(digest(text), launch, inputs, target, compiler, flags)

    @property
    def key(self) -> str:
        """One name for all of it."""
        parts = (self.kernel, self.launch, self.inputs, self.target, self.compiler, *self.flags)
        return digest(*parts)


@dataclass(frozen=True, slots=True)
class Trial:
    """One result.  Two trials are the same where subject and origin are."""

    subject: Subject
    origin: str
    """"measured", "predicted" or "synthetic": of a time, or of what would have given it."""
    outcome: Timing | Failure
    group: str = ""
    """Name of the group it was run for: for people."""
    recipe: str = ""
    """JSON of the recipe that gave the kernel; "" where it is not known."""
    because: str = ""
    """Why it was tried."""

    def __post_init__(self) -> None:
        if self.origin not in ORIGINS:
            raise ValueError(f"{self.origin!r} is no origin of a time")
        if isinstance(self.outcome, Timing) and self.outcome.origin != self.origin:
            raise ValueError(f"a {self.outcome.origin} time among {self.origin} trials")

    @property
    def microseconds(self) -> float | None:
        """The time; None for a failure."""
        return self.outcome.microseconds if isinstance(self.outcome, Timing) else None
