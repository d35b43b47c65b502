"""What becomes of unsaved edits when another file is opened or the window is closed, and of a file that changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QMessageBox

from app.session.client import COMMAND
from app.session.file_watch import QUIET_MS
from app.session.named_models import EXAMPLE
from app.session.recovery import find_orphans
from app.session.selection import Selection
from app.shell.window import Window
from tests.app.driving import PATIENCE, advice, select, settle
from tests.support.make_models import FLOAT, Model

Buttons = QMessageBox.StandardButton


class ByPerson(QCloseEvent):
    """The close button of the window's frame, as the desktop sends it."""

    def spontaneous(self) -> bool:
        return True


@pytest.fixture
def edited(window: Window, qtbot: object) -> Window:
    """A window with an edit that no file holds."""
    before = select(window, qtbot).recipe
    window.workspace.edit("softmax_0", before.replace("block 8", "block 4"))
    settle(window, qtbot)
    assert window.document.is_modified
    return window


def softmax(columns: int, folder: Path) -> bytes:
    """An ONNX file of one softmax over rows."""
    made = Model("softmax")
    made.node("Softmax", [made.input("x", FLOAT, 96, columns)], "y", axis=-1)
    made.output("y", FLOAT, 96, columns)
    folder.mkdir()
    made.save(folder)
    return (folder / "softmax.onnx").read_bytes()


def question(window: Window, qtbot: object) -> QMessageBox:
    """The question that is open."""
    qtbot.waitUntil(lambda: any(box.isVisible() for box in window.findChildren(QMessageBox)))  # type: ignore[attr-defined]
    return next(box for box in window.findChildren(QMessageBox) if box.isVisible())


def orphans(window: Window) -> int:
    """How many journals were left behind."""
    return len(find_orphans(window.document._folder))


def test_opening_another_file_asks_and_cancel_keeps_everything(edited: Window, qtbot: object) -> None:
    opened, text = edited.workspace.opened, advice(edited)
    edited.action("example").trigger()
    box = question(edited, qtbot)
    assert "Save 1 edit of" in box.text()
    box.button(Buttons.Cancel).click()
    settle(edited, qtbot)
    assert edited.workspace.opened == opened and advice(edited) == text and edited.document.is_modified


def test_discard_opens_the_other_file_and_offers_nothing_afterwards(edited: Window, qtbot: object) -> None:
    edited.action("example").trigger()
    question(edited, qtbot).button(Buttons.Discard).click()
    settle(edited, qtbot)
    assert edited.workspace.opened.path == EXAMPLE and not edited.document.is_modified
    assert orphans(edited) == 0


@pytest.mark.slow(sentinel=True)
def test_save_saves_first(edited: Window, qtbot: object, tmp_path: Path) -> None:
    edited.document.save(str(tmp_path / "kept.loom"))
    qtbot.waitUntil(lambda: not edited.document.is_modified, timeout=PATIENCE)  # type: ignore[attr-defined]
    edited.workspace.edit("softmax_0", advice(edited).replace("block 4", "block 2"))
    settle(edited, qtbot)
    edited.files.open(EXAMPLE)
    question(edited, qtbot).button(Buttons.Save).click()
    qtbot.waitUntil(lambda: edited.workspace.opened.path == EXAMPLE, timeout=PATIENCE)  # type: ignore[attr-defined]
    assert "block 2" in (tmp_path / "kept.loom").read_text()


def test_a_person_who_closes_the_window_is_asked_and_a_signal_is_not(edited: Window, qtbot: object) -> None:
    event = ByPerson()
    edited.closeEvent(event)
    assert not event.isAccepted() and edited.isVisible()
    question(edited, qtbot).button(Buttons.Cancel).click()
    assert edited.isVisible()
    edited.action("quit").trigger()
    question(edited, qtbot).button(Buttons.Discard).click()
    qtbot.waitUntil(lambda: not edited.isVisible(), timeout=PATIENCE)  # type: ignore[attr-defined]
    assert orphans(edited) == 0


def test_without_edits_nobody_is_asked(window: Window, qtbot: object) -> None:
    window.action("example").trigger()
    settle(window, qtbot)
    assert window.workspace.opened.path == EXAMPLE and not window.findChildren(QMessageBox)


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize("atomic", [False, True], ids=["in place", "by renaming"])
def test_a_changed_file_is_noticed_and_read_again_with_selection_and_edits(
    make: Callable[..., Window], qtbot: object, tmp_path: Path, atomic: bool
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(softmax(512, tmp_path / "first"))
    window = make(command=COMMAND)
    window.workspace.start()
    window.open_file(str(path))
    settle(window, qtbot)
    assert window.workspace.bus.selection == Selection("softmax_0"), "the only group is selected"
    settle(window, qtbot)
    text = advice(window) + "advice user\n  S0 @ i: parallel true\n"
    window.workspace.edit("softmax_0", text)
    settle(window, qtbot)
    qtbot.waitUntil(lambda: window.document.is_idle, timeout=PATIENCE)  # type: ignore[attr-defined]
    path.touch()
    qtbot.wait(2 * QUIET_MS + 200)  # type: ignore[attr-defined]  # the look that comes once the file is quiet
    assert not window.notice.has_news, "the same bytes are no change"

    longer = softmax(1024, tmp_path / "longer")
    if atomic:
        (tmp_path / "new").write_bytes(longer)
        (tmp_path / "new").replace(path)
    else:
        path.write_bytes(longer)
    qtbot.waitUntil(lambda: window.notice.has_news, timeout=PATIENCE)  # type: ignore[attr-defined]
    assert window.notice.title.text() == "model.onnx changed on disk"
    window.notice.buttons["Reload"].click()
    qtbot.waitUntil(  # type: ignore[attr-defined]
        lambda: window.workspace.model is not None and "1024" in window.workspace.model.groups[0].shape,
        timeout=PATIENCE,
    )
    settle(window, qtbot)
    assert window.workspace.bus.selection.group == "softmax_0"
    assert advice(window) == text and window.document.is_modified
    assert window.panels.constraints.tree.rows and window.workspace.legal_kernel("softmax_0") is not None
