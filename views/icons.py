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
    for size in SIZES:
        made.addPixmap(_draw_icon(name, colour, size), QIcon.Mode.Normal)
        if dimmed:
            made.addPixmap(_draw_icon(name, dimmed, size), QIcon.Mode.Disabled)
    return made


def pixmap(name: str, colour: str, size: int = 16) -> QPixmap:
    """The icon as a picture of `size` logical pixels."""
    return icon(name, colour).pixmap(QSize(size, size))


def _draw_icon(name: str, colour: str, size: int) -> QPixmap:
    source = (RESOURCES / "icons" / f"{name}.svg").read_text(encoding="utf-8").replace("currentColor", colour)
    picture = QPixmap(size, size)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    QSvgRenderer(QByteArray(source.encode())).render(painter)
    painter.end()
    return picture
