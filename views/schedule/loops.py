"""What can be asked of one loop of a schedule: interchange, skew, tile, reverse, distribute, fuse with shifts.

Each is a required entry of the user's advice, so that one that cannot hold is told with the instances that forbid it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from PySide6.QtWidgets import QMenu

from engine.documents.model import ScheduleDoc

FACTORS = (2, 4, 8, 16, 32, 64, 128)
"""Values of a tile that the menu offers; any other can be written as an entry."""
MOST_CUTS = 12
"""Statements before which a loop can be cut by the menu; a longer list would not fit a screen."""

TIPS = {
    "Interchange with": "Exchange the places of two loops",
    "Skew by": "Run each value of the other loop later by one step: iterations on a diagonal come together",
    "Tile by": "Two loops, over tiles and over the points of a tile, each a loop of its own",
    "Distribute": "Loops of their own for the statements before and after the cut",
}


@dataclass(frozen=True, slots=True)
class LoopCommand:
    """A line of a menu: the entry that it adds, or the two loops that it interchanges."""

    menu: str
    """The sub-menu, or "" for one that stands alone."""
    title: str
    entry: str = ""
    loops: tuple[str, str] = ("", "")


def loop_commands(
    node: ScheduleDoc, around: Sequence[ScheduleDoc], iterators: Mapping[str, Collection[str]]
) -> Iterator[LoopCommand]:
    """What can be asked of a row of the tree.

    around: the rows that it lies in, outermost first.  iterators: statement -> its iterators, for all of the group.
    """
    who = _who(node.statements, iterators)
    outer = [each.dimension for each in around if each.dimension]
    if node.kind == "sequence":
        where = f"after {outer[-1]}" if outer else "outermost"
        yield LoopCommand("", "Fuse Loops with Shifts", f"required {who} @ {where}: terms shift")
    if not node.dimension:
        return
    own, others = node.dimension, [*outer, *loops_of(*node.children)]
    for other in others:
        yield LoopCommand("Interchange with", other, loops=(own, other))
    for other in others:
        named = [name for name in node.statements if {own, other} <= set(iterators.get(name, ()))]
        for factor in (1, -1) if named else ():
            entry = f"required {_who(named, iterators)} @ {own}: terms (({other}, {factor}), ({own}, 1))"
            yield LoopCommand("Skew by", other if factor > 0 else f"−{other}", entry)
    for factor in FACTORS:
        if not node.extent or factor < node.extent:
            yield LoopCommand("Tile by", str(factor), f"required {who} @ {own}: split {factor}")
    if all(own in iterators.get(name, ()) for name in node.statements):
        yield LoopCommand("", f"Reverse {own}", f"required {who} @ {own}: terms ({own}, -1)")
    # A name stands for the loop that was tiled, so the loop over a tile's points is addressed from outside.
    where = f"after {outer[-1]}" if outer and outer[-1] == f"{own}_tile" else own
    yield from _cuts(node.statements, f"required {who} @ {where}: cut")


def fill_loop_menu(
    menu: QMenu, commands: Sequence[LoopCommand], add: Callable[[str], None], interchange: Callable[[str, str], None]
) -> None:
    """Fills a menu.  add: takes an entry; interchange: takes two loops."""
    menu.setToolTipsVisible(True)
    inside: dict[str, QMenu] = {}
    for command in commands:
        if command.menu and command.menu not in inside:
            inside[command.menu] = menu.addMenu(command.menu)
            inside[command.menu].menuAction().setToolTip(TIPS[command.menu])
            inside[command.menu].setToolTipsVisible(True)
        action = inside.get(command.menu, menu).addAction(command.title)
        action.setToolTip(command.entry or "Tried first; an order that breaks a dependence is drawn, not applied")
        react = partial(add, command.entry) if command.entry else partial(interchange, *command.loops)
        action.triggered.connect(lambda _=False, react=react: react())


def _cuts(names: Sequence[str], cut: str) -> Iterator[LoopCommand]:
    """A cut of a loop before each of its statements, and one between all of them."""
    for number in range(1, min(len(names), MOST_CUTS)):
        parts = f"{' '.join(names[:number])} | {' '.join(names[number:])}"
        yield LoopCommand("Distribute", f"Before {names[number]}", f"{cut} {parts}")
    if len(names) > 2:
        yield LoopCommand("Distribute", "Between All Statements", f"{cut} {' | '.join(names)}")


def loops_of(*nodes: ScheduleDoc) -> list[str]:
    """The loops of some rows of the tree, each once, outer ones first."""
    found: list[str] = []
    waiting = list(nodes)
    while waiting:
        child = waiting.pop(0)
        waiting += child.children
        found += [child.dimension] if child.dimension and child.dimension not in found else []
    return found


def _who(names: Sequence[str], every: Collection[str]) -> str:
    return "all" if len(names) == len(every) else ", ".join(names)
