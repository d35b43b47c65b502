"""The marks of a schedule as a kernel takes them: what is required, then the first author's number, made one it has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from engine.kernels.loop_nest import Nest
from engine.recipe import AUTHORS, FAMILY
from engine.scheduling.nodes import Mark, Member
from engine.tile.nodes import KernelConfig, Note, PipelineRequest, TileProgram

DEFAULT_THREADS, FEWEST_THREADS = 256, 64
"""Threads of a block where nothing asks for another number, and the fewest that can fill an SM: it holds 32 blocks."""
WRITTEN_OUT = 8
"""Steps of a thread that are written out where nothing asks for it; more stay a loop."""

Fit = Callable[[int], int]
"""The nearest number to the one asked for that a kernel can take."""


class Marks:
    """One kernel's reading of the marks.  `notes` says which entries were not taken as given, and why."""

    def __init__(self, nest: Nest) -> None:
        # Which family makes the kernel is settled before any of them reads a mark (`families.lower`).
        marks = [(member, mark) for member in nest.members for mark in member.marks if mark.name != FAMILY]
        self._marks = sorted(marks, key=lambda pair: precedence(pair[1]))
        self._read: set[tuple[int, ...]] = set()
        self.notes: dict[tuple[int, ...], Note] = {}
        self._stages: dict[str, dict[tuple[int, ...], int]] = {}
        """Name of a mark that asks for stages -> place in the recipe -> its number."""

    def first(self, *names: str, members: Collection[Member] | None = None) -> str | None:
        """Which of these marks (on one of `members`) the first author gives, or None."""
        return next((mark.name for m, mark in self._marks if mark.name in names and _is_among(m, members)), None)

    def word(self, name: str) -> str | None:
        """The word of a mark as the first author gives it, or None; other authors' different words are noted."""
        mark = self.first_mark(name)
        return None if mark is None else str(mark.value)

    def first_mark(
        self, name: str, statement: str = "", members: Collection[Member] | None = None
    ) -> Mark | None:
        """The mark (on one of `members`) that the first author gives, or None; others' different ones are noted.

        statement: only marks on its loops that are meant for it count; "" for all marks.
        """
        marks = (mark for _, mark in self._marks_named(name, members))
        found = [mark for mark in marks if not statement or not mark.statements or statement in mark.statements]
        if found:
            given = str(found[0].value)
            note = Note(f"another entry asks for {given}", name, given)
            self.notes |= {mark.path: note for mark in found if mark.value != found[0].value}
        return found[0] if found else None

    def member(self, name: str) -> Member | None:
        """The dimension on which the first author puts a mark, or None."""
        return next((member for member, mark in self._marks if mark.name == name), None)

    def drop_advice(self, because: str) -> None:
        """Read only what people and searches ask for, or require; note why the advice of analyses is not followed."""
        advised = [mark for _, mark in self._marks if not mark.required and mark.author not in ("user", "tune")]
        self.notes |= {mark.path: Note(because) for mark in advised}
        self._marks = [(member, mark) for member, mark in self._marks if mark not in advised]

    def refuse_mark(self, mark: Mark, because: str) -> None:
        """Note why this kernel does not take one mark as given."""
        self.notes[mark.path] = Note(because)

    def refuse(self, because: Mapping[str, str], members: Collection[Member] | None = None) -> None:
        """Note why this kernel takes none of the marks with these names (on `members`)."""
        for name, reason in because.items():
            self.notes |= {mark.path: Note(reason) for _, mark in self._marks_named(name, members)}

    def accept(self, name: str, values: Collection[int | str], otherwise: str, members: Collection[Member]) -> None:
        """Take the marks with this name on `members` as given, but note those of none of the values."""
        self.notes |= {m.path: Note(otherwise) for _, m in self._marks_named(name, members) if m.value not in values}

    def is_written_out(self, steps: int, default: bool, members: Collection[Member]) -> bool:
        """Whether a loop of `steps` over `members` is written out: what `unroll` marks on them say, or the default."""
        needs = f"{steps} or 1: the whole loop is written out, or none of it" if steps > 1 else "1: no loop is left"
        given = self.number("unroll", steps if default else 1, lambda n: steps if n >= steps else 1, needs, members)
        return given == steps

    def number(
        self, name: str, default: int, fit: Fit, needs: str, members: Collection[Member] | None = None,
        elements: Callable[[Member], int] | None = None,
    ) -> int:  # fmt: skip
        """The number of a mark (on one of `members`), or the default, as `fit` makes it.

        needs: for the note where that changes the number, "a power of two up to 64".  elements: of one value of a
        dimension, for a mark that may stand on any of them; default, `fit` and the result then count elements.
        """
        counted = [
            (mark, mark.value * elements(member) if elements and isinstance(mark.value, int) else mark.value)
            for member, mark in self._marks_named(name, members)
        ]
        asked = next((value for _, value in counted if isinstance(value, int)), default)
        given = fit(asked)
        unit = " elements" if elements else ""
        for mark, value in counted:
            if value != given:
                is_other = isinstance(value, int) and value != asked
                reason = f"another entry asks for {asked}" if is_other else f"this kernel takes {needs}"
                self.notes[mark.path] = Note(reason, name, f"{given}{unit}")
        return given

    def stages(self, name: str, default: int, members: Collection[Member]) -> int:
        """The stages that a mark on one of `members` asks for, or the default: whether they can be is seen later."""
        marks = [mark for _, mark in self._marks_named(name, members)]
        asked = {mark.path: mark.value for mark in marks if isinstance(mark.value, int)}
        self.notes |= {mark.path: Note(f"{name} is a number") for mark in marks if mark.path not in asked}
        self._stages[name] = asked
        return next(iter(asked.values()), default)

    def describe(self, tile: TileProgram, config: KernelConfig) -> TileProgram:
        """The program of a config, with the config and what became of the marks that it was read from."""
        requests = tuple(replace(wish, asked=self._stages.get(wish.mark, wish.asked)) for wish in tile.requests)
        return replace(tile, config=config, requests=requests, notes=self.unread())

    def power(
        self, name: str, default: int, most: int, members: Collection[Member] | None = None, least: int = 1
    ) -> int:
        """The number of a mark as the nearest power of two from `least` to `most`."""
        needs = f"a power of two {f'from {least} to' if least > 1 else 'up to'} {most}"
        return self.number(name, default, nearest_power(least, most), needs, members)

    def note_change(self, name: str, given: int, because: str, members: Collection[Member] | None = None) -> None:
        """Note that a mark's number had to become `given` after all."""
        for _, mark in self._marks_named(name, members):
            if mark.value != given:
                self.notes[mark.path] = Note(because, name, str(given))

    def unread(self) -> dict[tuple[int, ...], Note]:
        """`notes`, and one for every mark that the kernel never looked at."""
        ignored = [(member, mark) for member, mark in self._marks if mark.path not in self._read]
        because = {mark.path: Note(f"this kernel has no use for {mark.name} on {m.name}") for m, mark in ignored}
        return because | self.notes

    def _marks_named(self, name: str, members: Collection[Member] | None) -> Iterator[tuple[Member, Mark]]:
        for member, mark in self._marks:
            if mark.name == name and _is_among(member, members):
                self._read.add(mark.path)
                yield member, mark


def precedence(mark: Mark) -> tuple[bool, int]:
    """What is required comes first, then the first author."""
    return not mark.required, AUTHORS.index(mark.author)


def _is_among(member: Member, members: Collection[Member] | None) -> bool:
    return members is None or any(member is m for m in members)


def pipeline_requests(
    stages: int, register_stages: int, tiles: Iterable[str], *fragments: tuple[str, ...]
) -> tuple[PipelineRequest, ...]:
    """The pipelines that a configuration asks for.  tiles: buffers in shared memory.  fragments: buffers in registers,
    those of each loop over the depth of a tile."""
    ahead = (PipelineRequest(registers, register_stages, "register_stages") for registers in fragments)
    return (PipelineRequest(tuple(tiles), stages, "stages"), *ahead)


def up_to(limit: int) -> Fit:
    """The number itself up to a limit."""
    return lambda asked: min(asked, limit)


def divisor_of(extent: int) -> Fit:
    """The largest divisor of an extent that is not above the number."""
    return lambda asked: next(n for n in range(min(asked, extent), 0, -1) if extent % n == 0)


def power_up_to(limit: int) -> Fit:
    """The largest power of two that is neither above the number nor above a limit."""
    return lambda asked: 1 << (min(asked, limit).bit_length() - 1)


def nearest_of(sizes: Iterable[int]) -> Fit:
    """The one of some sizes that is nearest to the number; of two as near the smaller."""
    offered = sorted(sizes)
    return lambda asked: min(offered, key=lambda size: abs(size - asked))


def nearest_power(least: int, most: int) -> Fit:
    """The power of two between two others that is nearest to the number; of two as near the smaller."""
    below = power_up_to(most)

    def fit(asked: int) -> int:
        low = max(least, below(asked))
        high = min(2 * low, most)
        return high if high - asked < asked - low else low

    return fit
