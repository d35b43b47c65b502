"""Where the chips of a tree stand: a column for each step from the first, branches in lanes below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FREE = 1 << 60
"""Column of the leftmost chip of a lane that has none."""


@dataclass(frozen=True, slots=True)
class HistoryLayout:
    """Column and lane of every step."""

    columns: tuple[int, ...]
    lanes: tuple[int, ...]

    @property
    def width(self) -> int:
        """Columns in use."""
        return max(self.columns, default=-1) + 1

    @property
    def height(self) -> int:
        """Lanes in use."""
        return max(self.lanes, default=-1) + 1


def lay_out_steps(parents: Sequence[int]) -> HistoryLayout:
    """Columns and lanes for steps whose parents come before them; the first has the parent -1.

    A step's first child stays in its lane; other children begin a branch in the nearest lane below that is free to
    their right.  Of the branches of one chain the ones further right come first, so that no connection crosses them.
    """
    children: list[list[int]] = [[] for _ in parents]
    columns = [0] * len(parents)
    for number, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(number)
            columns[number] = columns[parent] + 1
    lanes = [0] * len(parents)
    leftmost: list[int] = []
    """Lane -> column of its leftmost chip."""
    waiting = [(0, 0)] if parents else []
    while waiting:
        first, above = waiting.pop()
        chain = [first]
        while children[chain[-1]]:
            chain.append(children[chain[-1]][0])
        lane = _free_lane(leftmost, above, columns[chain[-1]])
        leftmost[lane] = columns[first]
        for number in chain:
            lanes[number] = lane
        # A stack gives back what was put on it last: the branch furthest right and, of its siblings, the oldest.
        waiting += [(child, lane + 1) for number in chain for child in reversed(children[number][1:])]
    return HistoryLayout(tuple(columns), tuple(lanes))


def _free_lane(leftmost: list[int], above: int, last: int) -> int:
    """The first lane from `above` on that is empty up to column `last`."""
    lane = above
    while lane < len(leftmost) and leftmost[lane] <= last + 1:
        lane += 1
    leftmost += [FREE] * (lane + 1 - len(leftmost))
    return lane
