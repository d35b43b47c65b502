"""The menu of entries that may be added: what is possible here with its predicted gain, the rest under "why not"."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtWidgets import QMenu

from engine.documents.exploration import CellDoc, DecisionRow, DecisionsDoc, MoveDoc, MovesDoc
from views.format import duration
from views.moves.rows import gain_text

KINDS = {
    "Order": ("order",),
    "Fuse": ("join",),
    "Distribute": ("cut",),
    "Parallel": ("parallel",),
    "Vectors": ("vector",),
    "Blocks, Threads, Warps": ("block", "thread", "lane", "warp"),
    "Tiles and Splits": ("tile", "split"),
    "Stages": ("stages",),
    "Recompute": ("recompute",),
}
"""Sub-menu -> kinds of moves; other kinds stand under "Other"."""
MOST_REASON = 72
"""Characters of a reason in the menu; the tool tip has the whole."""
WORDS = {"parallel": "parallel", "legal": "sequential"}


def fill(
    menu: QMenu,
    moves: MovesDoc | None,
    decisions: DecisionsDoc | None,
    apply: Callable[[str], None],
    add: Callable[[str], None],
) -> None:
    """Fills a menu.  apply: takes the whole advice after a move; add: takes the line of one entry."""
    menu.setToolTipsVisible(True)
    if moves is None and decisions is None:
        menu.addAction("Trying what is possible here …").setEnabled(False)
        return
    listed = {kind for kinds in KINDS.values() for kind in kinds}
    possible = moves.possible if moves else ()
    for title, kinds in KINDS.items():
        _fill_moves(menu, title, [move for move in possible if move.kind in kinds], apply)
    _fill_moves(menu, "Other", [move for move in possible if move.kind not in listed], apply)
    if decisions is not None:
        _fill_dimensions(menu, decisions, add)
    _fill_why_not(menu, moves.impossible if moves else (), decisions)


def _fill_moves(menu: QMenu, title: str, moves: Sequence[MoveDoc], apply: Callable[[str], None]) -> None:
    if not moves:
        return
    inside = menu.addMenu(title)
    inside.setToolTipsVisible(True)
    for move in moves:
        action = inside.addAction(f"{move.title}\t{gain_text(move.gain)}")
        time = f"\n○ {duration(move.time.microseconds)} {move.time.origin}" if move.time else ""
        action.setToolTip("\n".join(move.entries) + time)
        action.triggered.connect(lambda _=False, recipe=move.recipe: apply(recipe))


def _fill_dimensions(menu: QMenu, decisions: DecisionsDoc, add: Callable[[str], None]) -> None:
    """Which iterator a statement may have as which dimension."""
    inside = menu.addMenu("Dimensions")
    for row, number, cell in _cells(decisions):
        if cell.entry:
            text = f"{row.statement} {row.iterator} as dimension {number + 1}\t{WORDS.get(cell.state, cell.state)}"
            action = inside.addAction(text)
            action.setToolTip(cell.entry)
            action.triggered.connect(lambda _=False, line=cell.entry: add(line))
    if inside.isEmpty():
        inside.menuAction().setVisible(False)


def _fill_why_not(menu: QMenu, impossible: Sequence[MoveDoc], decisions: DecisionsDoc | None) -> None:
    reasons = [(move.title, move.why_not, move.witness) for move in impossible]
    for row, number, cell in _cells(decisions) if decisions else ():
        if cell.state == "impossible":
            reasons.append((f"{row.statement} {row.iterator} as dimension {number + 1}", cell.because, cell.witness))
    if not reasons:
        return
    menu.addSeparator()
    inside = menu.addMenu(f"Why Not, {len(reasons)}")
    inside.setToolTipsVisible(True)
    for title, because, witness in reasons:
        short = because if len(because) <= MOST_REASON else because[: MOST_REASON - 1] + "…"
        action = inside.addAction(f"{title}: {short}")
        action.setToolTip("\n".join(part for part in (because, witness) if part))
        action.setEnabled(False)


def _cells(decisions: DecisionsDoc) -> list[tuple[DecisionRow, int, CellDoc]]:
    return [(row, number, cell) for row in decisions.rows for number, cell in enumerate(row.cells)]
