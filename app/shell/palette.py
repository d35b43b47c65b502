"""The command palette and the sheet of shortcuts: every action of the registry, found by typing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.shell.actions import INFOS, LISTED, ActionInfo
from views.field import Field
from views.rows import RowState, RowView, TreeRow
from views.theme import face, semibold
from views.themed import Themed
from views.themed_painter import RIGHT, ThemedPainter

SIZE = (560, 420)
TOP = 72
"""Pixels between the window's upper edge and the palette."""
KEYS = 150
"""Pixels for the keys of an action."""


class Palette(QWidget, Themed):
    """A field and the actions that match it; Return runs the first, or the one under the arrow keys."""

    def __init__(self, parent: QWidget, actions: Mapping[str, QAction]) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setAccessibleName("Command palette")
        self._over = parent
        self._actions = actions
        self.setProperty("role", "palette")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFixedSize(*SIZE)
        self.field = Field("search", "Type a command", "Command")
        self.field.textChanged.connect(self._show_matches)
        self.field.installEventFilter(self)
        self.list = RowView("Commands", _paint)
        self.list.chevrons = False
        self.list.row_activated.connect(self._run)
        self.list.row_selected.connect(lambda row: self.list.mark([row.key]))
        self.list.clicked.connect(lambda index: self._run(self.list.rows.row_at(index)))
        layout = QVBoxLayout(self)
        layout.setSpacing(8)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.addWidget(self.field)
        layout.addWidget(self.list, 1)

    def ask(self) -> None:
        """Opens over the window, with every action."""
        self.field.clear()
        self._show_matches("")
        parent = self._over
        middle = parent.mapToGlobal(parent.rect().topLeft())
        self.move(middle.x() + (parent.width() - self.width()) // 2, middle.y() + TOP)
        self.show()
        self.field.setFocus()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Arrows in the field move along the list; Return runs what stands there."""
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
                self.list.keyPressEvent(event)
                return True
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                index = self.list.currentIndex()
                if index.isValid():
                    self._run(self.list.rows.row_at(index))
                return True
        return super().eventFilter(watched, event)

    def _show_matches(self, text: str) -> None:
        self.list.show_rows(TreeRow(info.name, title, (self._actions[info.name], info), (), 28, info.tip)
                            for title, info in matches(text))  # fmt: skip
        first = next(iter(self.list.rows), None)
        self.list.mark([] if first is None else [first])

    def _run(self, row: TreeRow) -> None:
        action, _ = row.value
        if action.isEnabled():
            self.hide()
            action.trigger()


class Shortcuts(QWidget, Themed):
    """All shortcuts, menu by menu, in a window of its own; Escape closes it."""

    def __init__(self, parent: QWidget, actions: Mapping[str, QAction]) -> None:
        super().__init__(parent, Qt.WindowType.Tool)
        self.setWindowTitle("Shortcuts — Loomscope")
        self.resize(460, 620)
        self.list = RowView("Shortcuts", _paint)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.list)
        self._actions = actions

    def ask(self) -> None:
        """Opens beside the window."""
        self.list.show_rows(
            TreeRow(menu, plain(menu), None, tuple(
                TreeRow(name, plain(INFOS[name].text), (self._actions[name], INFOS[name]), (), 24, INFOS[name].tip)
                for name in names if name in INFOS and not self._actions[name].shortcut().isEmpty()
            ))
            for menu, names in LISTED
        )  # fmt: skip
        self.list.expandAll()
        self.show()
        self.raise_()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape closes the sheet."""
        if event.key() == Qt.Key.Key_Escape:
            self.close()


def matches(text: str) -> Sequence[tuple[str, ActionInfo]]:
    """("Menu: Action", its registry entry) of the actions that have all words of `text` in title or tip.

    Titles that begin with the text come first, then those with the words in the title.
    """
    words = text.lower().split()
    listed = ((plain(menu), INFOS[name]) for menu, names in LISTED for name in names if name in INFOS)
    found = [(f"{menu}: {plain(info.text)}", info) for menu, info in listed]

    def rank(title: str, info: ActionInfo) -> int:
        name = plain(info.text).lower()
        if name.startswith(text.lower().strip()):
            return 0
        return 1 if all(word in title.lower() for word in words) else 2

    kept = [each for each in found if all(word in f"{each[0]} {each[1].tip}".lower() for word in words)]
    return sorted(kept, key=lambda each: rank(*each)) if words else kept


def plain(text: str) -> str:
    """A menu's text without its mnemonic."""
    return text.replace("&", "")


def _paint(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    box = state.box.adjusted(state.left + 4 - state.box.x(), 0, -12, 0)
    if row.value is None:
        painter.text(state.box.adjusted(28, 0, 0, 0), row.title, font=semibold())
        return
    action, info = row.value
    keys = "   ".join(keys.toString(QKeySequence.SequenceFormat.NativeText) for keys in action.shortcuts())
    painter.text(box.adjusted(box.width() - KEYS, 0, 0, 0), keys, "text-3", face(11), RIGHT)
    title, box = row.title + (" ✓" if action.isChecked() else ""), box.adjusted(0, 0, -KEYS - 10, 0)
    if action.isEnabled():
        painter.text(box, title)
    else:
        painter.text(box.adjusted(painter.text(box, title, "text-3") + 12, 0, 0, 0), info.needs, "text-3")
