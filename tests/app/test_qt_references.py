"""PySide6 takes as many references as it releases: 6.12.0 does not, which is why Python 3.11 gets an older one."""

from __future__ import annotations

from tests.support.qt_references import lost_references


def test_no_reference_is_lost(qtbot: object) -> None:
    assert lost_references() == {}
