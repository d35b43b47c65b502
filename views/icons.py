"""Line icons of `resources/icons`, tinted with a theme's colour."""

from __future__ import annotations

from functools import cache

from PySide6.QtCore import QByteArray, QSize, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from views.theme import RESOURCES

SIZES = (16, 32, 48)
"""16 pixels at device scales 1, 2 and 3."""


@cache
def icon(name: str, colour: str, dimmed: str = "") -> QIcon:
    """The icon `name` in `colour` ("#RRGGBB"); `dimmed` is its colour when disabled."""
    made = QIcon()
    for tint, mode in ((colour, QIcon.Mode.Normal), (dimmed, QIcon.Mode.Disabled)):
        if tint:
            drawing = QSvgRenderer(QByteArray(_source(name).replace("currentColor", tint).encode()))
            for size in SIZES:
                made.addPixmap(_draw_icon(drawing, size), mode)
    return made


def pixmap(name: str, colour: str, size: int = 16) -> QPixmap:
    """The icon as a picture of `size` logical pixels."""
    return icon(name, colour).pixmap(QSize(size, size))


@cache
def _source(name: str) -> str:
    return (RESOURCES / "icons" / f"{name}.svg").read_text(encoding="utf-8")


def _draw_icon(drawing: QSvgRenderer, size: int) -> QPixmap:
    picture = QPixmap(size, size)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    drawing.render(painter)
    painter.end()
    return picture
