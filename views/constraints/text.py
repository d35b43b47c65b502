"""The advice as editable text, with what the parser said about it in the line below."""

from __future__ import annotations

import re
from collections.abc import Callable

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import (
    QFont,
    QKeyEvent,
    QKeySequence,
    QSyntaxHighlighter,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
)
from PySide6.QtWidgets import QPlainTextEdit, QPushButton, QTextEdit, QVBoxLayout, QWidget

from engine.documents.model import ProblemDoc
from views.message import detail_of
from views.panel import bar, label
from views.theme import Theme, code_face
from views.themed import Themed

LINE = re.compile(r"\bline (\d+)")
"""Where a problem's subject tells the line of the text that it is about."""


class AdviceText(QWidget, Themed):
    """Text form of the advice; nothing is compiled until Apply."""

    apply_requested = Signal(str)
    draft_changed = Signal(bool)

    def __init__(self) -> None:
        super().__init__()
        self._group, self._applied = "", ""
        self.edit = _Editor(lambda: self.is_draft)
        self.edit.setFont(code_face())
        self.edit.setAccessibleName("Advice as text")
        self.edit.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.edit.setViewportMargins(8, 6, 0, 0)
        self.edit.textChanged.connect(self._on_text)
        self._colours = _AdviceHighlighter(self.edit.document())
        strip, layout = bar("header", 48)
        self.message = label("", "small-hint", wrap=True)
        self.message.setMinimumWidth(10)
        self.revert = QPushButton("Revert")
        self.revert.setProperty("role", "small")
        self.revert.clicked.connect(self._show_applied)
        self.apply = QPushButton("Apply")
        self.apply.setProperty("role", "small")
        self.apply.setToolTip("Solve, check legality and generate code (Ctrl+Return)")
        self.apply.clicked.connect(self.request_apply)
        layout.addWidget(self.message, 1)
        layout.addWidget(self.revert)
        layout.addWidget(self.apply)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.edit, 1)
        column.addWidget(strip)
        self._on_text()

    @property
    def is_draft(self) -> bool:
        """Whether the text differs from the applied one."""
        return self.edit.toPlainText() != self._applied

    def show_text(self, group: str, text: str) -> None:
        """Shows the applied advice of a group; a draft stays while the advice that it edits stays."""
        if (group, text) == (self._group, self._applied):
            return
        self._group, self._applied = group, text
        self._show_applied()

    def show_problem(self, problem: ProblemDoc | None) -> None:
        """Says inline why the text was refused."""
        if problem:
            self._say(f"{problem.subject}: {detail_of(problem)}", "wrong-text")
        else:
            self._say_state()
        found = LINE.search(problem.subject) if problem else None
        self.edit.mark_line(int(found[1]) if found else 0)

    def show_entry(self, entry: str, number: int = 0) -> None:
        """Puts the keyboard on the line of an entry, whatever its reason: the first that reads so, or a later one."""
        blocks = [self.edit.document().findBlockByNumber(k) for k in range(self.edit.blockCount())]
        found = [block for block in blocks if block.text().partition("#")[0].strip() == entry]
        if found:
            cursor = QTextCursor(found[min(number, len(found) - 1)])
            cursor.movePosition(QTextCursor.MoveOperation.EndOfBlock)
            cursor.movePosition(QTextCursor.MoveOperation.StartOfBlock, QTextCursor.MoveMode.KeepAnchor)
            self.edit.setTextCursor(cursor)
        self.edit.setFocus()

    def request_apply(self) -> None:
        """Asks to apply the draft."""
        if self.is_draft:
            self.apply_requested.emit(self.edit.toPlainText())

    def show_theme(self, theme: Theme) -> None:
        """Takes over the tokens of `theme`."""
        self._colours.set_theme(theme)

    def _show_applied(self) -> None:
        if self.is_draft:
            self.edit.setPlainText(self._applied)
        self._on_text()

    def _on_text(self) -> None:
        draft = self.is_draft
        self.apply.setEnabled(draft)
        self.revert.setEnabled(draft)
        self.apply.setProperty("role", "primary-small" if draft else "small")
        self.apply.style().polish(self.apply)
        self._say_state()
        self.draft_changed.emit(draft)

    def _say_state(self) -> None:
        self._say("edited, not applied" if self.is_draft else "STATEMENTS @ DIMENSION: FIELD VALUE", "small-hint")

    def _say(self, text: str, role: str) -> None:
        self.message.setText(text)
        self.message.setToolTip(text)
        self.message.setProperty("role", role)
        self.message.style().polish(self.message)


class _Editor(QPlainTextEdit, Themed):
    """Takes undo and redo for its own typing only while there is a draft; else they are the window's."""

    def __init__(self, has_draft: Callable[[], bool]) -> None:
        super().__init__()
        self._has_draft = has_draft
        self.marked = 0
        """The line (1-based) that a problem is about; 0 for none."""

    def show_theme(self, theme: Theme) -> None:
        """Takes over the tokens of `theme`."""
        self.mark_line(self.marked)

    def mark_line(self, number: int) -> None:
        """Tints a line and brings it into sight; 0 tints none."""
        self.marked = number
        selections = []
        block = self.document().findBlockByNumber(number - 1)
        if number and block.isValid() and self.theme:
            made = QTextEdit.ExtraSelection()
            made.cursor = QTextCursor(block)
            made.format.setBackground(self.theme.colour("wrong-bg"))
            made.format.setProperty(QTextFormat.Property.FullWidthSelection, True)
            selections.append(made)
            self.setTextCursor(QTextCursor(block))
        self.setExtraSelections(selections)

    def event(self, event: QEvent) -> bool:
        """An editor claims both keys ahead of every shortcut, also where it has nothing to take back."""
        if not isinstance(event, QKeyEvent) or event.type() != QEvent.Type.ShortcutOverride:
            return super().event(event)
        if not (_is_redo(event) or event.matches(QKeySequence.StandardKey.Undo)):
            return super().event(event)
        event.setAccepted(self._has_draft())
        return True

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Makes typing again by every key that redoes in the window, not only by the platform's own."""
        if _is_redo(event):
            self.redo()
        else:
            super().keyPressEvent(event)


def _is_redo(event: QKeyEvent) -> bool:
    control = event.modifiers() == Qt.KeyboardModifier.ControlModifier
    return event.matches(QKeySequence.StandardKey.Redo) or (control and event.key() == Qt.Key.Key_Y)


class _AdviceHighlighter(QSyntaxHighlighter):
    """Authors' headings and reasons stand out, the rest is plain."""

    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)
        self._heading = QTextCharFormat()
        self._reason = QTextCharFormat()

    def set_theme(self, theme: Theme) -> None:
        self._heading.setForeground(theme.colour("keyword"))
        self._heading.setFontWeight(QFont.Weight.Normal)
        self._reason.setForeground(theme.colour("text-3"))
        self.rehighlight()

    def highlightBlock(self, text: str) -> None:
        word = text.strip().partition(" ")[0]
        if word in ("advice", "either", "or"):
            self.setFormat(0, len(text), self._heading)
        start = text.find("#")
        if start >= 0:
            self.setFormat(start, len(text) - start, self._reason)
