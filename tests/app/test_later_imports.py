"""What is imported beside the event loop makes no types of PySide6: two threads that make some end the program."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from app.shell.later_imports import LaterImports, make_types
from views.plots.chart_import import are_charts_coming

COUNT = """
import sys
from PySide6 import QtCore, QtGui, QtWidgets
from shiboken6 import Shiboken
from app.shell.later_imports import make_types

def types():
    found, waiting = set(), [Shiboken.Object]
    while waiting:
        for each in waiting.pop().__subclasses__():
            if each not in found:
                found.add(each)
                waiting.append(each)
    modules = ("PySide6.QtCore", "PySide6.QtGui", "PySide6.QtWidgets")
    return {each for each in found if each.__module__ in modules}

if sys.argv[1] == "made":
    for _ in make_types():
        pass
before = types()
import pyqtgraph
print(len(types() - before))
"""


@pytest.mark.parametrize("when", ["made", "not made"])
def test_pyqtgraph_finds_all_types_made(when: str) -> None:
    out = subprocess.run([sys.executable, "-c", COUNT, when], capture_output=True, text=True, check=True).stdout
    assert (int(out) == 0) is (when == "made")


def test_the_thread_waits_for_all_types(qtbot: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def types() -> Iterator[str]:
        for name in make_types():
            made.append(name)
            yield name

    monkeypatch.setattr("app.shell.later_imports._import_all", lambda: made.append("imported"))
    imports = LaterImports()
    imports._types = types()
    imports.start()
    assert not made and not imports.is_over
    qtbot.waitUntil(lambda: imports.is_over)
    assert made[-1] == "imported" and {"QObject", "QPainter", "QWidget"} <= set(made[:-1])
    imports.end()


def test_what_has_ended_starts_nothing(qtbot: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[str] = []
    monkeypatch.setattr("app.shell.later_imports._import_all", lambda: imported.append("imported"))
    imports = LaterImports()
    imports.start()
    assert are_charts_coming()
    imports.end()
    qtbot.wait(300)
    assert not imported and not imports.is_over and not are_charts_coming()
