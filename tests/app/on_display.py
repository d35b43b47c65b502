"""What a window does on the display that the environment names, as JSON: run in a process of its own.

Call: python -m tests.app.on_display FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QToolButton, QWidget

from app.shell.actions import ACTIONS
from app.shell.main import application, make_window
from app.shell.panels import PERSPECTIVES
from app.shell.render import wait
from app.shell.window import SMALLEST, Window
from tests.app.conftest import keep_settings_in
from tests.app.driving import COMMAND, MODEL, PATIENCE
from tests.app.dropping import dragged, file_data

PATH = "/somewhere/model.onnx"


def main(folder: Path) -> None:
    """Starts a window as the program does, and prints what was found."""
    keep_settings_in(folder)
    application()
    window = make_window(command=COMMAND, journals=folder)
    window.restore_layout()
    try:
        print(json.dumps(found(window)))
    finally:
        window.close()


def found(window: Window) -> dict[str, Any]:
    """Everything that is looked at."""
    window.show()
    window.activateWindow()
    assert QTest.qWaitForWindowActive(window, PATIENCE)
    area, screen = window.frameGeometry(), window.screen().geometry()
    return {
        "platform": QApplication.platformName(),
        "screen": [screen.width(), screen.height()],
        "inside": screen.contains(area),
        "area": [area.x(), area.y(), area.width(), area.height()],
        "drops": drops(window),
        "cut": cut(window),
        "shortcuts": shortcuts(window),
    }


def drops(window: Window) -> dict[str, bool]:
    """Panel -> whether a file that is dropped on its middle is opened."""
    opened: list[str] = []
    client = window.workspace.client
    window.workspace.start()
    window.open_file(MODEL)
    assert wait(lambda: client.is_idle and window.workspace.model is not None, PATIENCE)
    window.workspace.bus.select_group("softmax_0")
    assert wait(lambda: client.is_idle, PATIENCE)
    window.drops._dropped = opened.append
    found = {}
    for perspective in PERSPECTIVES:
        window.set_perspective(perspective)
        QTest.qWait(1)
        for name, panel in window.panels.by_name().items():
            if shown(panel):
                opened.clear()
                dragged(panel, file_data(PATH))
                found[name] = opened == [PATH]
    return found


def cut(window: Window) -> list[str]:
    """Buttons of the smallest window that are not whole: what stands in the tool bar, and the tabs of panels."""
    window.showNormal()
    window.resize(*SMALLEST)
    assert wait(lambda: (window.width(), window.height()) == SMALLEST, PATIENCE)
    found = []
    for perspective in PERSPECTIVES:
        window.set_perspective(perspective)
        QTest.qWait(1)
        bars = [*window.tool_buttons.values(), *window.perspectives.buttons.values()]
        tabs = [tab for panel in window.panels.by_name().values() if shown(panel) for tab in panel.tabs.values()]
        found += [f"{perspective}: {part.text()}" for part in (*bars, *tabs) if not whole(part)]
    return found


def shown(panel: QWidget) -> bool:
    return not panel.visibleRegion().isEmpty()


def whole(button: QToolButton) -> bool:
    """Whether all of a button is in sight."""
    return button.isVisible() and button.visibleRegion().boundingRect() == button.rect()


def shortcuts(window: Window) -> dict[str, list[str]]:
    """Keys -> the actions that they trigger, each time that they do."""
    fired: list[str] = []
    for info in ACTIONS:
        action = window.action(info.name)
        action.triggered.disconnect()
        action.triggered.connect(lambda _=False, name=info.name: fired.append(name))
    found = {}
    for info in ACTIONS:
        for keys in window.action(info.name).shortcuts():
            fired.clear()
            window.setFocus()
            window.action(info.name).setEnabled(True)
            QTest.keySequence(window, keys)
            found[f"{info.name} {keys.toString(QKeySequence.SequenceFormat.PortableText)}"] = list(fired)
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
