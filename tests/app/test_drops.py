"""A file dropped anywhere on the window is opened, whatever lies under the pointer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtWidgets import QWidget

from app.shell.panels import PERSPECTIVES
from app.shell.window import Window
from tests.app.driving import select, settle
from tests.app.dropping import dragged, file_data

PATH = "/somewhere/model.onnx"
COPY, REFUSED = Qt.DropAction.CopyAction, Qt.DropAction.IgnoreAction


@pytest.fixture
def opened(quiet: Window, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the window is asked to open."""
    asked: list[str] = []
    monkeypatch.setattr(quiet.drops, "_dropped", asked.append)
    return asked


def parts(window: Window) -> Iterator[tuple[str, QWidget]]:
    """Whatever is under the pointer somewhere in a panel in sight."""
    for name, panel in window.panels.by_name().items():
        for part in (panel.header, panel, *panel.findChildren(QWidget)):
            if part.isVisible() and part.visibleRegion().contains(part.rect().center()):
                yield name, part


@pytest.mark.parametrize("perspective", PERSPECTIVES)
def test_a_file_is_taken_by_every_part_of_every_panel(
    quiet: Window, qtbot: object, opened: list[str], perspective: str
) -> None:
    select(quiet, qtbot)
    quiet.set_perspective(perspective)
    settle(quiet, qtbot)
    found = list(parts(quiet))
    assert len({name for name, _ in found}) >= 2
    for name, part in found:
        opened.clear()
        taken = dragged(part, file_data(PATH))
        assert (taken, opened) == (COPY, [PATH]), f"{name}: {type(part).__name__} {part.accessibleName()}"


def test_a_panel_that_floats_takes_a_file_too(quiet: Window, opened: list[str]) -> None:
    dock = quiet.docks["outline"]
    dock.setFloating(True)
    assert dragged(quiet.panels.outline.tree, file_data(PATH)) == COPY and opened == [PATH]
    dock.setFloating(False)


def test_text_is_still_dropped_into_a_text_and_a_link_nowhere(quiet: Window, opened: list[str]) -> None:
    text, link = QMimeData(), QMimeData()
    text.setText("soft")
    link.setUrls([QUrl("https://example.org/model.onnx")])
    outline = quiet.panels.outline
    dragged(outline.filter, text)
    assert outline.filter.text() == "soft"
    outline.filter.clear()
    assert dragged(outline.tree, text) == REFUSED and dragged(outline.tree, link) == REFUSED
    assert opened == []
