"""An exception in a slot or an event of the window becomes one line and a report file, and nothing else stops."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.shell.faults import TITLE, report_faults
from app.shell.window import Window
from engine.support import fault
from tests.app.driving import advice, select, settle
from tests.app.test_undo import edit, groups


class Unpaintable(QWidget):
    """Raises at every frame while its painter is open."""

    frames = 0

    def paintEvent(self, event: QPaintEvent) -> None:
        """Begins to paint."""
        painter = QPainter(self)
        self.frames += 1
        painter.drawPoint(0, 0)
        raise ZeroDivisionError("no picture")


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the report files go."""
    monkeypatch.setattr(fault, "data_folder", lambda: tmp_path)
    return tmp_path / "faults"


def put_away(window: Window) -> None:
    window.notice.withdraw(TITLE)


def test_a_slot_that_raises_is_told_of_and_edits_are_kept(
    quiet: Window, qtbot: object, reports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, _ = groups(quiet)
    select(quiet, qtbot, a)
    text = edit(quiet, qtbot, a, "S0 @ i: mark block 16")

    def slot() -> None:
        raise KeyError("a slot of a test")

    with report_faults(quiet.notice):
        QTimer.singleShot(0, slot)
        settle(quiet, qtbot)
        qtbot.waitUntil(lambda: quiet.notice.title.text() == TITLE)  # type: ignore[attr-defined]
    (report,) = reports.iterdir()
    assert quiet.notice.title.text() == TITLE and str(report) in quiet.notice.detail.text()
    assert "KeyError: 'a slot of a test'" in report.read_text()
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and str(report) in told and "Traceback" not in told
    assert advice(quiet, a) == text and quiet.action("undo").isEnabled()
    put_away(quiet)


def test_a_widget_that_cannot_be_painted_is_told_of_once(
    quiet: Window, qtbot: object, reports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with report_faults(quiet.notice):
        widget = Unpaintable()
        widget.show()
        for frame in range(1, 4):
            widget.update()
            qtbot.waitUntil(lambda least=frame: widget.frames >= least)  # type: ignore[attr-defined]
        qtbot.waitUntil(lambda: quiet.notice.title.text() == TITLE)  # type: ignore[attr-defined]
        widget.close()
    assert len(list(reports.iterdir())) == 1 and capsys.readouterr().err.count("\n") == 1
    put_away(quiet)


def test_an_interrupt_goes_on_to_who_asked_for_it(quiet: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, *_: heard.append(kind))
    before = sys.excepthook
    with report_faults(quiet.notice):
        sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert heard == [KeyboardInterrupt] and sys.excepthook is before
