"""The guide inside the window: tour, concepts, glossary and keys."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence, QTextBlockFormat, QTextCursor
from PySide6.QtWidgets import QTextBrowser, QVBoxLayout, QWidget

from app.shell.actions import ACTIONS, LISTED
from app.shell.palette import plain
from app.shell.window_frame import Segments
from views.panel import bar
from views.theme import RESOURCES

TOUR, CONCEPTS, GLOSSARY, KEYS = PAGES = ("Tour", "Concepts", "Glossary", "Keys")
"""All but the last are files of resources/docs; the keys are read from the actions, as they may be bound anew."""

LINE, BELOW = 130, 6
"""Height of lines in percent, and pixels below a paragraph."""


class Guide(QWidget):
    """A window beside the one that it explains; Escape closes it."""

    def __init__(self, parent: QWidget, actions: Mapping[str, QAction]) -> None:
        super().__init__(parent, Qt.WindowType.Tool)
        self.setWindowTitle("Guide — Loomscope")
        self.resize(720, 680)
        self._actions = actions
        self.pages = Segments(PAGES, "Page of the guide")
        self.pages.chosen.connect(self.show_page)
        strip, row = bar("header", 44)
        row.addWidget(self.pages)
        row.addStretch(1)
        self.text = QTextBrowser()
        self.text.setAccessibleName("Guide")
        self.text.document().setDocumentMargin(20)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(strip)
        layout.addWidget(self.text)

    def ask(self, page: str = TOUR) -> None:
        """Opens at a page."""
        self.show_page(page)
        self.show()
        self.raise_()
        self.text.setFocus()

    def show_page(self, page: str) -> None:
        """Turns to a page."""
        self.pages.choose(page)
        self.text.setMarkdown(self._keys() if page == KEYS else page_text(page))
        airy = QTextBlockFormat()
        airy.setLineHeight(LINE, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        airy.setBottomMargin(BELOW)
        every = QTextCursor(self.text.document())
        every.select(QTextCursor.SelectionType.Document)
        every.mergeBlockFormat(airy)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape closes the guide."""
        if event.key() == Qt.Key.Key_Escape:
            self.close()

    def _keys(self) -> str:
        """Every action that has keys, menu by menu."""
        tips = {info.name: info.tip for info in ACTIONS}
        lines = ["# Keys"]
        for menu, names in LISTED:
            lines += ["", f"## {plain(menu)}", "", "| keys | what they do |", "| --- | --- |"]
            for name in names:
                keys = self._actions[name].shortcuts() if name in tips else []
                shown = ", ".join(key.toString(QKeySequence.SequenceFormat.NativeText) for key in keys)
                lines += [f"| **{shown.replace('|', '&#124;')}** | {tips[name]} |"] if shown else []
        return "\n".join(lines)


def page_text(page: str) -> str:
    """The Markdown of a page that is a file."""
    return (RESOURCES / "docs" / f"{page.lower()}.md").read_text(encoding="utf-8")
