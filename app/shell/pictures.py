"""Pictures of the window and its panels: PNG as the screen has them, SVG with their lines and text."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QBuffer, QPoint, QRect
from PySide6.QtGui import QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QApplication, QWidget

from engine.support.errors import BadInput
from engine.support.files import check_place, replace_whole, unwritable

STAGE = "window"
FORMATS = (".png", ".svg")
DOTS_PER_INCH = 96
"""Of the window at 100 %: a pixel of the panel is a pixel of its SVG."""


def check_picture(path: Path | str) -> None:
    """BadInput where no picture can be written, or one of a format that there is not."""
    if Path(path).suffix and Path(path).suffix.lower() not in FORMATS:
        raise BadInput(STAGE, str(path), "is no picture that can be written", f"end it with {' or '.join(FORMATS)}")
    check_place(path, STAGE)


def save_picture(widget: QWidget, path: Path | str) -> None:
    """Writes what a widget shows, as SVG where the name ends so, else as PNG; whole or not at all."""
    QApplication.processEvents()  # layouts that the last answer changed take place in a later event
    drawn = _svg(widget) if Path(path).suffix.lower() == ".svg" else _png(widget)
    try:
        replace_whole(Path(path), drawn)
    except OSError as error:
        raise unwritable(path, STAGE, error) from error


def _png(widget: QWidget) -> bytes:
    picture = QBuffer()
    picture.open(QBuffer.OpenModeFlag.WriteOnly)
    widget.grab().save(picture, "PNG")
    return bytes(picture.data().data())


def _svg(widget: QWidget) -> bytes:
    picture = QBuffer()
    picture.open(QBuffer.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()
    generator.setOutputDevice(picture)
    generator.setSize(widget.size())
    generator.setViewBox(QRect(QPoint(), widget.size()))
    generator.setResolution(DOTS_PER_INCH)
    generator.setTitle(widget.windowTitle() or widget.accessibleName() or widget.objectName())
    painter = QPainter(generator)
    try:
        widget.render(painter, QPoint())
    finally:
        painter.end()  # Qt aborts where the device goes before its painter
    return bytes(picture.data().data())
