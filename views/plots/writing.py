"""What leaves the window as a file: a widget as PNG or SVG, a table as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from PySide6.QtCore import QBuffer, QIODevice, QPoint
from PySide6.QtGui import QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from engine.support.files import replace_whole

Cells = Iterable[Sequence[object]]


def png_of(widget: QWidget) -> bytes:
    """A widget's picture at the pixels that it has on its screen."""
    picture = QBuffer()
    picture.open(QIODevice.OpenModeFlag.WriteOnly)
    widget.grab().save(picture, "PNG")
    return bytes(picture.data().data())


def svg_of(widget: QWidget) -> bytes:
    """A widget as lines, curves and text."""
    picture = QBuffer()
    picture.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()
    generator.setOutputDevice(picture)
    generator.setSize(widget.size())
    generator.setViewBox(widget.rect())
    generator.setTitle(widget.accessibleName())
    painter = QPainter(generator)
    try:
        widget.render(painter, QPoint())
    finally:
        painter.end()  # a device that goes while it is painted on takes the process with it
    return bytes(picture.data().data())


def csv_of(heads: Sequence[str], rows: Cells) -> bytes:
    """Heads and rows as comma-separated values; a number is written in full, None as nothing."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return text.getvalue().encode()


def save_as(parent: QWidget, title: str, suffix: str, make: Callable[[], bytes]) -> QFileDialog:
    """Asks for a place and writes there what `make` gives; a place that cannot be written is told.  suffix: "png"."""
    dialog = QFileDialog(parent, f"Save as {suffix.upper()}", f"{title}.{suffix}", f"{suffix.upper()} (*.{suffix})")
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDefaultSuffix(suffix)
    dialog.setObjectName("save")

    def write(place: str) -> None:
        try:
            replace_whole(Path(place), make())
        except OSError as error:
            said = f"{place}: {error.strerror or error}"
            box = QMessageBox(QMessageBox.Icon.Warning, "Not saved", said, parent=parent)
            box.open()

    dialog.fileSelected.connect(write)
    dialog.open()  # not exec: nothing may stop the event loop
    return dialog
