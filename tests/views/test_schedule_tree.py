"""Rows of the schedule tree in narrow panels: a loop with its range, then as many chips as find room."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QImage, QPainter

from engine.documents.model import ScheduleDoc
from views.schedule.tree import ScheduleTreeView, fitting
from views.theme import load_theme
from views.themed_painter import ThemedPainter

CHIPS = ("intrinsic mma_m16n8k16_f16", "tile 32", "4 stages", "register_stages 2")


@pytest.mark.parametrize(("room", "shown"), [
    (600, list(CHIPS)), (330, [*CHIPS[:3], "+1"]), (230, [CHIPS[0], "+3"]), (100, ["+4"]), (10, []), (-90, []),
])  # fmt: skip
def test_chips_without_room_are_counted(qapp: object, room: float, shown: list[str]) -> None:
    image = QImage(8, 8, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    assert fitting(ThemedPainter(painter, load_theme("dark")), CHIPS, room) == shown
    painter.end()


def test_a_loop_keeps_its_range_beside_its_only_statement_and_its_chips(qtbot: object) -> None:
    """Four chips covered the name of a loop, and those of a loop with one statement never told its range."""
    tree = ScheduleTreeView("Schedule tree")
    qtbot.addWidget(tree)  # type: ignore[attr-defined]
    only = ScheduleDoc("statement", "S0: c[i, j] = sum(l) a[i, l] * b[l, j]", ("S0",), "", False, (), ())
    tree.show_schedule(ScheduleDoc("band", "l = 0 … 767", ("S0",), "l", False, CHIPS, (only,), 768))
    row = tree.rows.row_at(tree.rows.index_of("0"))
    assert row.title.startswith("l = 0 … 767  S0: c[i, j]")
    assert row.tip.splitlines() == [row.title, ", ".join(CHIPS)]
