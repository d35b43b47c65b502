"""Try a change of a group's advice: the kernel that it gives, or why it gives none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from engine.compilation import compile_group
from engine.cost.estimate import estimate
from engine.documents.model import Time
from engine.fusion.nodes import FusionGroup
from engine.kernels.nodes import Kernel
from engine.recipe import Advice, Entry, Path, Recipe, entry_at, replace_entry, with_entries
from engine.scheduling.nodes import HONOURED, INFEASIBLE, Conflict, Options, Verdict
from engine.scheduling.untaken_entries import NotTaken
from engine.support.errors import EngineError

_WITHOUT_REPAIRS = Options(repairing=0.0)


@dataclass(frozen=True, slots=True)
class AdviceChange:
    """Entries that the user adds, and entries that give way to them."""

    entries: tuple[Entry, ...]
    gone: tuple[Path, ...] = ()
    off: tuple[Path, ...] = ()
    """Entries that are switched off, whoever wrote them."""


@dataclass(frozen=True, slots=True)
class RecipeTrial:
    """Outcome of a change."""

    advice: tuple[Advice, ...]
    """The whole advice of the group after it."""
    kernel: Kernel | None
    """None where the change cannot be."""
    why_not: str = ""
    witness: str = ""
    is_illegal: bool = False
    """Whether a dependence or another entry forbids it, and not a limit of the kernels."""


def attempt(group: FusionGroup, recipe: Recipe, change: AdviceChange) -> RecipeTrial:
    """Compile a group under a changed recipe; the change counts only if all that it adds is honoured."""
    advice, added = apply_change(recipe.groups.get(group.name, ()), change)
    try:
        kernel = compile_group(group, recipe.with_group(group.name, advice), options=_WITHOUT_REPAIRS)
    except NotTaken as refused:
        return RecipeTrial(advice, None, f"{refused.subject}: {refused.reason}")
    except Conflict as conflict:
        return RecipeTrial(advice, None, f"{conflict.subject}: {conflict.reason}", _witness(conflict.verdicts), True)
    except EngineError as error:
        return RecipeTrial(advice, None, f"{error.subject}: {error.reason}")
    # An entry that is not required may be ignored without an error: then the trial is not what was asked for.
    for verdict in kernel.verdicts:
        if verdict.placed.path in added and verdict.outcome != HONOURED:
            return RecipeTrial(advice, None, verdict.because, _witness((verdict,)), verdict.outcome == INFEASIBLE)
    return RecipeTrial(advice, kernel)


def predicted_time(kernel: Kernel) -> Time | None:
    """The modelled time of a kernel; None where it does not fit the target."""
    try:
        return estimate(kernel.facts, kernel.target).time()
    except EngineError:
        return None


def _witness(verdicts: Sequence[Verdict]) -> str:
    """The two instances that show why an entry cannot hold; "" where no verdict has any."""
    return next((v.witness.text for v in verdicts if v.outcome == INFEASIBLE and v.witness), "")


def apply_change(advice: Sequence[Advice], change: AdviceChange) -> tuple[tuple[Advice, ...], frozenset[Path]]:
    """The advice after a change, and the paths of what it added.

    An entry that gives way is taken out where the user wrote it, and switched off where it is somebody else's or stands
    in an alternative, so that the text still shows it.
    """
    result = switch_off(advice, change.off)
    for path in sorted(change.gone, reverse=True):  # from the last one, so that the paths of the others stay valid
        is_own = result[path[0]].author == "user" and len(path) == 2
        result = replace_entry(result, path) if is_own else switch_off(result, (path,))
    if not change.entries:
        return result, frozenset()
    after = with_entries(result, "user", change.entries)
    number = next(k for k, one in enumerate(after) if one.author == "user")
    count = len(after[number].scenario.entries)
    return after, frozenset((number, k) for k in range(count - len(change.entries), count))


def switch_off(advice: Sequence[Advice], paths: Iterable[Path]) -> tuple[Advice, ...]:
    """The advice with some entries switched off, whoever wrote them."""
    result = tuple(advice)
    for path in paths:
        result = replace_entry(result, path, replace(entry_at(result, path), enabled=False))
    return result
