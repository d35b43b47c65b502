"""What a person prefers: theme, colour map, target, limits of the worker, shortcuts; kept, and in force at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import QSettings, Qt, Signal, SignalInstance
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QFormLayout,
    QHBoxLayout,
    QHeaderView,
    QKeySequenceEdit,
    QLineEdit,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from app.shell.actions import INFOS, default_keys, set_keys
from app.shell.palette import plain
from engine.target import DEFAULT_TARGET
from engine.target.machines import machine_titles
from views.panel import label
from views.theme import COLOUR_MAPS, DEFAULT_MAP, SYSTEM, THEMES

GIGABYTE = 1 << 30
MEMORY = (0, 4, 8, 16, 32, 64)
"""Gigabytes that the worker may take; 0 for no limit."""
FILTERED = "Find an action"


def keep_settings_in(folder: Path) -> None:
    """Settings that are made from now on are kept in a folder, and this user's are neither read nor changed."""
    QSettings.setDefaultFormat(QSettings.Format.IniFormat)
    for scope in (QSettings.Scope.UserScope, QSettings.Scope.SystemScope):
        QSettings.setPath(QSettings.Format.IniFormat, scope, str(folder))


def preferred_target(settings: QSettings) -> str:
    """The machine that files are opened for."""
    found = str(settings.value("target", DEFAULT_TARGET))
    return found if found in machine_titles() else DEFAULT_TARGET


def preferred_map(settings: QSettings) -> str:
    """The colour map of costs."""
    found = str(settings.value("colour-map", DEFAULT_MAP))
    return found if found in COLOUR_MAPS else DEFAULT_MAP


def memory_limit(settings: QSettings) -> int:
    """Bytes that the worker may take; 0 for no limit."""
    found = str(settings.value("worker-memory", 0))
    return int(found) * GIGABYTE if found.isdecimal() else 0


def bind_keys(actions: Mapping[str, QAction], settings: QSettings) -> None:
    """Gives actions the keys that somebody chose for them."""
    for name, action in actions.items():
        stored = settings.value(f"shortcuts/{name}")
        if isinstance(stored, str):
            set_keys(action, INFOS[name], [QKeySequence(stored)] if stored else [])


class Preferences(QDialog):
    """One page; every change is in force at once."""

    theme_chosen = Signal(str)
    map_chosen = Signal(str)
    target_chosen = Signal(str)
    memory_chosen = Signal(int)

    def __init__(self, parent: QWidget, actions: Mapping[str, QAction], settings: QSettings) -> None:
        super().__init__(parent)
        self.setWindowTitle("Preferences — Loomscope")
        self.resize(560, 640)
        self._actions, self._settings = actions, settings
        self.theme = _choice("Theme", [(name.capitalize(), name) for name in (SYSTEM, *THEMES)])
        self.colour_map = _choice("Colour map", [(name.capitalize(), name) for name in COLOUR_MAPS])
        self.target = _choice("Target", [(title, name) for name, title in machine_titles().items()])
        self.memory = _choice("Memory of the worker", [(f"{n} GB" if n else "no limit", n) for n in MEMORY])
        for choice, key, chosen in (
            (self.theme, "theme", self.theme_chosen),
            (self.colour_map, "colour-map", self.map_chosen),
            (self.target, "target", self.target_chosen),
            (self.memory, "worker-memory", self.memory_chosen),
        ):
            choice.activated.connect(lambda _, c=choice, k=key, s=chosen: self._keep(k, c.currentData(), s))
        form = QFormLayout()
        for choice in (self.theme, self.colour_map, self.target, self.memory):
            form.addRow(choice.accessibleName(), choice)
        form.addRow("", label("The target is that of files opened from now on.", "small-hint"))
        layout = QVBoxLayout(self)
        layout.addLayout(form)
        layout.addWidget(label("Shortcuts", "title"))
        self._make_shortcuts(layout)

    def ask(self) -> None:
        """Opens with what is in force."""
        stored = self._settings
        for choice, value in (
            (self.theme, str(stored.value("theme", "dark"))),
            (self.colour_map, preferred_map(stored)),
            (self.target, preferred_target(stored)),
            (self.memory, memory_limit(stored) // GIGABYTE),
        ):
            choice.setCurrentIndex(max(choice.findData(value), 0))
        self._show_keys()
        self.show()
        self.raise_()

    def _make_shortcuts(self, layout: QVBoxLayout) -> None:
        self.filter = QLineEdit(placeholderText=FILTERED)
        self.filter.setAccessibleName(FILTERED)
        self.filter.textChanged.connect(self._show_keys)
        self.table = QTableWidget(0, 2)
        self.table.setAccessibleName("Shortcuts")
        self.table.horizontalHeader().hide()
        self.table.verticalHeader().hide()
        self.table.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.table.horizontalHeader().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self.table.setSelectionBehavior(QTableWidget.SelectionBehavior.SelectRows)
        self.table.setSelectionMode(QTableWidget.SelectionMode.SingleSelection)
        self.table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        self.table.currentCellChanged.connect(lambda *_: self._show_chosen())
        self.keys = QKeySequenceEdit()
        self.keys.setMaximumSequenceLength(1)
        self.keys.setAccessibleName("New keys")
        self.message = label("", "wrong-text", wrap=True)
        row = QHBoxLayout()
        row.addWidget(self.keys, 1)
        self.buttons: dict[str, QPushButton] = {}
        for text, react in (("Assign", self._assign), ("Remove", self._remove), ("Reset", self._reset)):
            button = self.buttons[text] = QPushButton(text)
            button.setAutoDefault(False)
            button.clicked.connect(react)
            row.addWidget(button)
        for part in (self.filter, self.table):
            layout.addWidget(part)
        layout.addLayout(row)
        layout.addWidget(self.message)

    @property
    def _name(self) -> str:
        """The chosen action."""
        return self._name_at(self.table.currentRow())

    def _name_at(self, row: int) -> str:
        item = self.table.item(row, 0)
        return str(item.data(Qt.ItemDataRole.UserRole)) if item else ""

    def choose(self, name: str) -> None:
        """Selects an action's row."""
        for row in range(self.table.rowCount()):
            if self._name_at(row) == name:
                self.table.setCurrentCell(row, 0)

    def _keep(self, key: str, value: object, chosen: SignalInstance) -> None:
        self._settings.setValue(key, value)
        chosen.emit(value)

    def _show_keys(self) -> None:
        chosen, words = self._name, self.filter.text().lower().split()
        named = [(name, plain(info.text)) for name, info in INFOS.items()]
        shown = [(name, title) for name, title in named if all(word in title.lower() for word in words)]
        self.table.setRowCount(len(shown))
        for row, (name, title) in enumerate(shown):
            keys = "   ".join(key.toString(_NATIVE) for key in self._actions[name].shortcuts())
            for column, text in enumerate((title, keys)):
                item = QTableWidgetItem(text)
                item.setData(Qt.ItemDataRole.UserRole, name)
                self.table.setItem(row, column, item)
        self.choose(chosen)

    def _show_chosen(self) -> None:
        self.message.setText("")
        if self._name:
            self.keys.setKeySequence(self._actions[self._name].shortcut())

    def _assign(self) -> None:
        """Binds the keys, unless they are another action's."""
        name, keys = self._name, self.keys.keySequence()
        if not name or keys.isEmpty():
            return
        if owner := self._owner(keys):
            title = plain(INFOS[owner].text)
            self.message.setText(f"{keys.toString(_NATIVE)} belongs to “{title}”: remove it there first")
            return
        self._bind(name, [keys], keys.toString())

    def _owner(self, keys: QKeySequence) -> str:
        """The action other than the chosen one that has these keys, or ""."""
        others = ((name, action) for name, action in self._actions.items() if name != self._name)
        return next((name for name, action in others if keys in action.shortcuts()), "")

    def _remove(self) -> None:
        if self._name:
            self._bind(self._name, [], "")

    def _reset(self) -> None:
        if self._name:
            self._settings.remove(f"shortcuts/{self._name}")
            free = [keys for keys in default_keys(INFOS[self._name]) if not self._owner(keys)]
            self._bind(self._name, free, None)

    def _bind(self, name: str, keys: list[QKeySequence], stored: str | None) -> None:
        if stored is not None:
            self._settings.setValue(f"shortcuts/{name}", stored)
        set_keys(self._actions[name], INFOS[name], keys)
        self._show_keys()
        self._show_chosen()


_NATIVE = QKeySequence.SequenceFormat.NativeText


def _choice(name: str, items: list[tuple[str, str]] | list[tuple[str, int]]) -> QComboBox:
    made = QComboBox()
    made.setAccessibleName(name)
    for text, value in items:
        made.addItem(text, value)
    return made
