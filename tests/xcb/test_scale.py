"""At scale 2 every panel is drawn with all the pixels of the screen, not enlarged."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from app.shell.panels import PERSPECTIVES
from app.shell.window import Window
from tests.app.driving import select, settle

SHARP = 0.6
"""Part of the contrast that two neighbouring pixels of one logical pixel differ by: a half at most where a picture was
enlarged and smoothed, nothing where it was repeated."""


def pixels(widget: QWidget) -> np.ndarray:
    """Brightness of each pixel of the screen that a widget has."""
    image = widget.grab().toImage().convertToFormat(QImage.Format.Format_Grayscale8)
    rows = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), image.bytesPerLine())
    return rows[:, : image.width()].astype(int)


def sharpness(widget: QWidget) -> float:
    """The largest step inside a logical pixel, as a part of the contrast."""
    drawn = pixels(widget)
    drawn = drawn[:, : drawn.shape[1] // 2 * 2]
    return float(np.abs(drawn[:, 1::2] - drawn[:, ::2]).max() / max(drawn.max() - drawn.min(), 1))


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_panel_is_crisp(window: Window, qtbot: object, theme: str) -> None:
    window.set_theme(theme)
    select(window, qtbot)
    for perspective in PERSPECTIVES:
        window.set_perspective(perspective)
        settle(window, qtbot)
        QTest.qWait(50)
        seen = {name: panel for name, panel in window.panels.by_name().items() if not panel.visibleRegion().isEmpty()}
        shown = {**seen, "tool bar": window.perspectives, "status bar": window.status, "menu": window.menu}
        assert {name: part.devicePixelRatio() for name, part in shown.items() if part.devicePixelRatio() != 2} == {}
        found = {name: sharpness(part) for name, part in shown.items()}
        assert {name: value for name, value in found.items() if value < SHARP} == {}, perspective


def test_icons_have_a_drawing_of_their_own_for_the_scale(window: Window) -> None:
    for name, button in window.tool_buttons.items():
        picture = button.icon().pixmap(button.iconSize(), 2.0)
        assert picture.size() == button.iconSize() * 2 and picture.devicePixelRatio() == 2, name


def test_a_small_screen_in_logical_pixels_holds_the_window(window: Window) -> None:
    assert window.screen().devicePixelRatio() == 2
    assert window.screen().size().width() == 1280
