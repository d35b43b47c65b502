"""What leaves the window as a file: a widget as PNG or SVG, a table as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence

from PySide6.QtCore import QBuffer, QIODevice, QPoint, QRect, QSaveFile
from PySide6.QtGui import QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from views.plots.chart_import import have_charts

DOTS_PER_INCH = 96
"""Of the window at 100 %: a pixel of the widget is a pixel of its SVG."""
Cells = Iterable[Sequence[object]]


def png_of(widget: QWidget) -> bytes:
    """A widget's picture at the pixels that it has on its screen."""
    have_charts()
    picture = QBuffer()
    picture.open(QIODevice.OpenModeFlag.WriteOnly)
    widget.grab().save(picture, "PNG")
    return bytes(picture.data().data())


def svg_of(widget: QWidget) -> bytes:
    """A widget as lines, curves and text."""
    have_charts()
    picture = QBuffer()
    picture.open(QIODevice.OpenModeFlag.WriteOnly)
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
        file = QSaveFile(place)  # whole or not at all
        opened = file.open(QIODevice.OpenModeFlag.WriteOnly)
        if not (opened and file.write(make()) >= 0 and file.commit()):
            box = QMessageBox(QMessageBox.Icon.Warning, "Not saved", f"{place}: {file.errorString()}", parent=parent)
            box.open()

    dialog.fileSelected.connect(write)
    dialog.open()  # not exec: nothing may stop the event loop
    return dialog
