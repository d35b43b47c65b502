"""Docks keep their parts of the window while it is resized, in each perspective; what a person arranged stays so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import Qt

from app.shell.window import Window
from views.notice import News

USUAL, LARGE, SMALL = (1440, 900), (1920, 1060), (1100, 700)


def widths(window: Window, *names: str) -> list[float]:
    """Parts of the window's width that docks have."""
    return [window.docks[name].width() / window.width() for name in names]


def resize(window: Window, qtbot: Any, size: tuple[int, int]) -> None:
    window.resize(*size)
    qtbot.wait(60)


@pytest.mark.parametrize("size", [LARGE, SMALL])
def test_columns_grow_with_the_window_and_the_history_does_not(
    make: Callable[..., Window], qtbot: object, size: tuple[int, int]
) -> None:
    window = make(*USUAL)
    for perspective in ("Explore", "Schedule", "Pipeline", "Explore"):
        window.set_perspective(perspective)
        resize(window, qtbot, USUAL)
    explore = widths(window, "outline", "graph", "schedule")
    window.set_perspective("Schedule")
    qtbot.wait(60)  # type: ignore[attr-defined]
    schedule, tall = widths(window, "code", "schedule", "constraints"), window.docks["history"].height()
    resize(window, qtbot, size)
    assert widths(window, "code", "schedule", "constraints") == pytest.approx(schedule, abs=0.04)
    assert window.docks["history"].height() == pytest.approx(tall, abs=40)
    window.set_perspective("Explore")
    qtbot.wait(60)  # type: ignore[attr-defined]
    now = widths(window, "outline", "graph", "schedule")
    assert now == pytest.approx(explore, abs=0.04), "seen last at another size"


def test_the_history_keeps_its_height_however_often_it_is_seen_and_whatever_comes_beside_it(
    make: Callable[..., Window], qtbot: object
) -> None:
    window = make(*USUAL)
    history = window.docks["history"]

    def height() -> int:
        qtbot.wait(60)  # type: ignore[attr-defined]
        return history.height()

    for size in (USUAL, LARGE, USUAL):
        window.set_perspective("Explore")
        resize(window, qtbot, size)
        window.set_perspective("Schedule")
        assert height() == 132, "as declared"
    window.notice.show_news(News("Something", "that is said above the panels"))
    assert height() == 132
    window.notice.withdraw("Something")
    assert height() == 132, "what the news had goes to the columns again"
    window.action("panel-problems").trigger()
    assert height() == 132
    window.action("panel-problems").trigger()
    assert height() == 132


def test_what_a_person_drags_keeps_its_part(make: Callable[..., Window], qtbot: Any) -> None:
    window = make(*USUAL)
    resize(window, qtbot, USUAL)
    docks = [window.docks[name] for name in ("outline", "graph", "schedule")]
    window.resizeDocks(docks, [300, 700, 440], Qt.Orientation.Horizontal)  # as a separator does
    qtbot.wait(60)
    dragged = widths(window, "outline", "graph", "schedule")
    resize(window, qtbot, LARGE)
    assert widths(window, "outline", "graph", "schedule") == pytest.approx(dragged, abs=0.02)
    resize(window, qtbot, USUAL)
    assert widths(window, "outline", "graph", "schedule") == pytest.approx(dragged, abs=0.02)
