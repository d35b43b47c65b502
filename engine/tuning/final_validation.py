"""Final validation: the fastest programs are timed again in interleaved rounds, and the best one is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from engine.compilation import compile_for
from engine.cpu.nodes import AnyKernel, CpuKernel
from engine.execution.emulate.build import digest_of_sources
from engine.execution.native.build import digest_of_headers, flags_of
from engine.execution.nodes import Check, Failure, Timing
from engine.fusion.nodes import FusionGroup
from engine.recipe import Recipe
from engine.records.nodes import CHECKED, TIMED_AGAIN, Attempt
from engine.support.cache import digest, read_entry, write_entry
from engine.support.errors import EngineError, MissingCapability
from engine.tuning.progress import Progress, program_of
from engine.tuning.winners import REPEATED

CHECK = "check 1"
"""Version of the cached verdicts: a change of the check must change it."""
PASS = "pass"
AGREES = "agrees with the reference"
"""Note of a program that was found right."""
WRONG = "wrong result"
"""Kind of failure of a program whose results differ from the reference."""


Together = Callable[[Sequence[Recipe]], Sequence[Timing] | Failure]
"""Times the kernels of one group under several recipes in interleaved rounds."""


@dataclass(frozen=True, slots=True)
class Judge:
    """How the best program is decided."""

    check: Callable[[AnyKernel], Check] | None = None
    """Compares a kernel with the reference; None where trials did so already, or without checks."""
    time_together: Callable[[FusionGroup, Sequence[Recipe]], Sequence[Timing] | Failure] | None = None
    """Times kernels of a group in interleaved rounds, in a worker; None for predicted times, which have no noise."""


@dataclass(frozen=True, slots=True)
class FinalVerdict:
    """One step of the decision about a group."""

    kind: str
    """As that of a round."""
    attempt: Attempt
    """That it is about."""
    reason: str
    figures: dict[str, float]
    is_wrong: bool = False
    """Whether the attempt counts as a failure from now on."""


def settle(
    progress: Progress, check: Callable[[AnyKernel], Check] | None, time_together: Together | None
) -> Iterator[FinalVerdict]:
    """Decide which program of a group is the best, one verdict a step; the caller may stop after any of them.

    No verdict where the recipe of before stays the best.
    """
    if time_together is not None and len(progress.ranking) > 1:
        yield _time_again(progress, time_together)
    while check is not None and progress.gain > 0 and (winner := progress.winner) is not None:
        why = _why_wrong(compile_for(progress.problem.group, _recipe(progress, winner)), check)
        if isinstance(why, MissingCapability):
            progress.note = f"not checked: {why.reason}"
            return
        progress.note = AGREES if not why else ""
        yield FinalVerdict(CHECKED, winner, why or progress.note, {}, is_wrong=bool(why))
        if not why:
            return
        progress.mark_wrong(winner, WRONG)


def _time_again(progress: Progress, time_together: Together) -> FinalVerdict:
    """Time the finalists again in interleaved rounds, which drift affects alike, unlike their trials."""
    finalists = progress.ranking
    found = time_together([_recipe(progress, one) for one in finalists])
    if isinstance(found, Failure):
        return FinalVerdict(TIMED_AGAIN, finalists[0], f"could not be repeated: {found.kind}, {found.message}", {})
    progress.again = {one.number: timing.microseconds for one, timing in zip(finalists, found, strict=True)}
    winner = progress.winner
    assert winner is not None, "finalists have times"
    figures = {f"{REPEATED}{number}": microseconds for number, microseconds in progress.again.items()}
    return FinalVerdict(TIMED_AGAIN, winner, f"the {len(finalists)} best timed again, interleaved", figures)


def _recipe(progress: Progress, attempt: Attempt) -> Recipe:
    return progress.problem.recipe_of(program_of(attempt))


def _why_wrong(kernel: AnyKernel, check: Callable[[AnyKernel], Check]) -> str | MissingCapability:
    """How a kernel's results differ from the reference, "" where they agree; MissingCapability where it cannot run.

    Verdicts are cached on disk by the texts of the kernel, of what it includes and of the emulator.
    """
    source = kernel.source
    inputs = ", ".join(map(str, kernel.program.arrays.values()))
    if isinstance(kernel, CpuKernel):
        launch = " ".join((*flags_of(kernel.target), digest_of_headers()))
    else:
        launch = ", ".join(f"{one.grid} {one.block} {one.shared_bytes}" for one in kernel.source.launches)
    name = digest(CHECK, digest_of_sources(), source.text, launch, inputs)
    kept = read_entry("checked", name)
    if kept is not None:
        return "" if kept.decode() == PASS else kept.decode()
    try:
        found = check(kernel)
    except MissingCapability as error:
        return error
    except EngineError as error:
        return error.reason
    why = "" if found.status == PASS else found.message or found.status
    write_entry("checked", name, (why or PASS).encode())
    return why
