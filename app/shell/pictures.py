"""Pictures of the window and its panels: PNG as the screen has them, SVG with their lines and text."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QApplication, QWidget

from engine.support.errors import BadInput
from engine.support.files import check_place, replace_whole, unwritable
from views.plots.writing import png_of, svg_of

STAGE = "window"
FORMATS = (".png", ".svg")


def check_picture(path: Path | str) -> None:
    """BadInput where no picture can be written, or one of a format that there is not."""
    check_place(path, STAGE)
    if Path(path).suffix and Path(path).suffix.lower() not in FORMATS:
        raise BadInput(STAGE, str(path), "is no picture that can be written", f"end it with {' or '.join(FORMATS)}")


def save_picture(widget: QWidget, path: Path | str) -> None:
    """Writes what a widget shows, as SVG where the name ends so, else as PNG; whole or not at all."""
    QApplication.processEvents()  # layouts that the last answer changed take place in a later event
    drawn = svg_of(widget) if Path(path).suffix.lower() == ".svg" else png_of(widget)
    try:
        replace_whole(Path(path), drawn)
    except OSError as error:
        raise unwritable(path, STAGE, error) from error
