"""What the marks of a schedule ask a CPU's kernel for, and what becomes of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.kernels.marks import precedence
from engine.recipe import FAMILY
from engine.scheduling.nodes import Band, Mark, Member, ScheduleTree, walk
from engine.tensor.rewrite import plain_iterator
from engine.tile.nodes import Note


class CpuMarks:
    """One kernel's reading of the marks of a schedule."""

    def __init__(self, tree: ScheduleTree) -> None:
        members = [member for node in walk(tree.root) if isinstance(node, Band) for member in node.members]
        marks = [(member, mark) for member in members for mark in member.marks if mark.name != FAMILY]
        self._marks: list[tuple[Member, Mark]] = sorted(marks, key=lambda pair: precedence(pair[1]))
        self._notes: dict[tuple[int, ...], Note] = {}
        self._read: set[tuple[int, ...]] = set()

    def number(
        self, name: str, default: int, needs: str, fit: Callable[[int], int] = lambda n: n,
        dimension: tuple[str, str] | None = None,
    ) -> int:  # fmt: skip
        """The number of a mark, or the default, as `fit` makes it.

        dimension: only where this iterator of this statement runs through the mark's dimension.
        """
        found = [
            mark for m, mark in self._marks
            if mark.name == name and (dimension is None or _walks(m, *dimension))
        ]  # fmt: skip
        numbers = [mark.value for mark in found if isinstance(mark.value, int)]
        given = fit(numbers[0]) if numbers else default
        for mark in found:
            self._read.add(mark.path)
            if mark.value != given:
                self._notes[mark.path] = Note(f"this kernel takes {needs}", name, str(given))
        return given

    def word(self, name: str, default: str, known: Sequence[str]) -> str:
        """The known word of a mark, or the default."""
        found = [mark for _, mark in self._marks if mark.name == name]
        given = next((str(mark.value) for mark in found if mark.value in known), default)
        for mark in found:
            self._read.add(mark.path)
            if mark.value != given:
                self._notes[mark.path] = Note(f"this kernel takes {', '.join(known)}", name, given)
        return given

    def notes(self) -> dict[tuple[int, ...], Note]:
        """Path of an entry -> why it is not taken as given."""
        ignored = {
            mark.path: Note(f"a CPU's kernel has no use for {mark.name} on {member.name}")
            for member, mark in self._marks if mark.path not in self._read
        }  # fmt: skip
        return ignored | self._notes


def dimension_of(tree: ScheduleTree, statement: str, iterator: str) -> str:
    """The name of the dimension that an iterator of a statement runs through."""
    members = [member for node in walk(tree.root) if isinstance(node, Band) for member in node.members]
    return next(member.name for member in members if _walks(member, statement, iterator))


def _walks(member: Member, statement: str, iterator: str) -> bool:
    row = member.rows.get(statement)
    return row is not None and plain_iterator(row) == iterator
