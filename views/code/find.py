"""A slim strip that finds words in a read-only text.

It takes the place of a strip above the text that is as tall, so that no line moves when it comes and when it goes.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import partial

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QWidget

from views.code.editor import CodeText
from views.code.spans import Span
from views.icons import icon
from views.panel import PADDING, FixedStrip, icon_button, label
from views.theme import Theme
from views.themed import Themed, restyle

WIDE = 230
"""Pixels from which on the count stands beside the field; a narrower strip leaves the room to the words."""
COUNT = 56
"""Pixels of the count, at least: the field keeps its width while words are typed."""
FOUND, PRESENT = "found-bg", "accent-fill"
"""Colour tokens behind all matches and behind the present one."""
PARAGRAPH = "\u2029"
"""What stands between the lines of a selection in Qt."""


class TextMatches:
    """Where words stand in a text, by line and column; `places` are those of the whole text, in order."""

    def __init__(self, text: str = "") -> None:
        self._text = text
        small = text.lower()
        self._small = small if len(small) == len(text) else text  # a few letters become two: columns would not hold
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self.places: list[int] = []
        self.length = 0
        """Characters of each match."""

    def find(self, words: str) -> None:
        """Looks for words; a capital letter among them makes upper and lower case count."""
        text = self._text if words != words.lower() else self._small
        self.length = len(words)
        self.places = [found.start() for found in re.finditer(re.escape(words), text)] if words else []

    def line_and_column(self, number: int) -> tuple[int, int]:
        """Where the match `number` stands: its line from 1, its column from 0."""
        place = self.places[number]
        line = bisect_right(self._starts, place)
        return line, place - self._starts[line - 1]

    def first_from(self, line: int, column: int = 0) -> int:
        """Number of the first match that begins there or later; how many there are where none does."""
        return bisect_left(self.places, self._starts[min(line, len(self._starts)) - 1] + column)

    def in_line(self, line: int) -> Iterable[tuple[int, int]]:
        """(number, column) of the matches of a line."""
        for number in range(self.first_from(line), len(self.places)):
            found_in, column = self.line_and_column(number)
            if found_in != line:
                return
            yield number, column


class FindStrip(FixedStrip, Themed):
    """A field for words, how many were found, and steps from match to match in the text in front.

    instead: the strip whose place it takes while it is open.  texts: those that it can search, the first one in front.
    """

    def __init__(self, instead: QWidget, *texts: CodeText) -> None:
        super().__init__("subheader", instead.maximumHeight())
        self._instead = instead
        self._front: CodeText | None = texts[0]
        self._matches = TextMatches()
        self._is_open = False
        self._present = -1
        """Number of the present match; -1 where none is chosen yet."""
        self._from: tuple[int, int] | None = None
        """Line and column from which on a match is looked for while words are typed; None: from what is in sight."""
        self.field = QLineEdit()
        self.field.setProperty("role", "small")
        self.field.setPlaceholderText("Find")
        self.field.setAccessibleName("Find in the text")
        self.field.textChanged.connect(lambda _: self._find_typed())
        self.count = label("", "small-hint")
        self.count.setMinimumWidth(COUNT)
        self.previous, self.next = icon_button("Previous match (Shift+Return)"), icon_button("Next match (Return)")
        self.close_button = icon_button("Close (Escape)")
        self.previous.clicked.connect(lambda: self.step(-1))
        self.next.clicked.connect(lambda: self.step(1))
        self.close_button.clicked.connect(self.put_away)
        row = QHBoxLayout(self)
        row.setContentsMargins(PADDING, 0, 8, 0)
        row.setSpacing(2)
        row.setSizeConstraint(QHBoxLayout.SizeConstraint.SetNoConstraint)
        row.addWidget(self.field, 1)
        row.addSpacing(6)
        row.addWidget(self.count)
        row.addSpacing(4)
        for button in (self.previous, self.next, self.close_button):
            row.addWidget(button)
        for text in texts:
            text.textChanged.connect(partial(self._read_changed, text))
            text.line_selected.connect(lambda _: self._forget_place())
            text.escape_pressed.connect(self._leave)
        self.hide()

    def ask(self) -> None:
        """Opens with the text that is selected, if it is of one line, and takes the keyboard."""
        self._open()
        chosen = self._front.textCursor().selectedText() if self._front is not None else ""
        if self._front is not None and chosen and PARAGRAPH not in chosen:
            self._from = self._front.present_place
            if chosen.lower() != self.field.text().lower():
                self.field.setText(chosen)
            self._find_typed()
        self.field.selectAll()
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def put_away(self) -> None:
        """Closes, leaves the present match selected and gives the keyboard to the text."""
        text, self._is_open = self._front, False
        if text is not None:
            if self._present >= 0:
                text.select(*self._matches.line_and_column(self._present), self._matches.length)
            text.show_found(_nothing)
            text.setFocus(Qt.FocusReason.OtherFocusReason)  # before the field goes, which would pass it to any other
        self._show()

    def step(self, by: int) -> None:
        """Goes to the next match (1) or to the one before (-1), from the last to the first and back.

        It opens a strip that is closed, and asks for words where there are none.
        """
        if not self.field.text():
            self.ask()
            return
        self._open()
        total = len(self._matches.places)
        if self._front is None or not total:
            return
        if self._present < 0:
            following = self._matches.first_from(*self._place())
            cursor = self._front.textCursor()
            is_on_one = cursor.hasSelection() and cursor.selectionStart() in self._matches.places[following:][:1]
            self._go(following + by if is_on_one or by < 0 else following)
        else:
            self._go(self._present + by)
        self._from = self._matches.line_and_column(self._present)

    def turn_to(self, text: CodeText | None) -> None:
        """Searches another text; None where what is in front cannot be searched."""
        if text is self._front:
            return
        if self._front is not None:
            self._front.show_found(_nothing)
        self._front = text
        self._show()
        if self._is_open:
            self._read()

    def minimumSizeHint(self) -> QSize:
        """A strip may become narrow: it does not widen its panel."""
        return QSize(0, self.maximumHeight())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leaves the count out, or takes it in again."""
        super().resizeEvent(event)
        self.count.setVisible(self.width() >= WIDE)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Return in the field goes on, with Shift back; Escape closes."""
        if event.key() == Qt.Key.Key_Escape:
            self.put_away()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.focusWidget() is self.field:
            self.step(-1 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 1)
        else:
            super().keyPressEvent(event)

    def show_theme(self, theme: Theme) -> None:
        """Tints the icons."""
        pictures = ((self.previous, "chevron-up"), (self.next, "chevron-down"), (self.close_button, "cancel"))
        for button, name in pictures:
            button.setIcon(icon(name, theme.colours["text-2"], theme.colours["edge"]))

    def _open(self) -> None:
        if not self._is_open:
            self._is_open = True
            self._show()
            self._read()

    def _show(self) -> None:
        is_shown = self._is_open and self._front is not None
        comes, goes = (self, self._instead) if is_shown else (self._instead, self)
        goes.hide()  # first: the text would make room for both
        comes.show()

    def _leave(self) -> None:
        """Escape in the text closes, too."""
        if self._is_open:
            self.put_away()

    def _read_changed(self, text: CodeText) -> None:
        if self._is_open and text is self._front:
            self._read()

    def _read(self) -> None:
        """Finds the words in a text that is new; where it stands is left to who shows it."""
        if self._front is not None:
            self._matches = TextMatches(self._front.toPlainText())
            self._from = None
            self._find()

    def _find_typed(self) -> None:
        """The first match from where typing began."""
        self._find()
        if self._front is not None and self._matches.places:
            self._from = self._place()
            self._go(self._matches.first_from(*self._from))

    def _find(self) -> None:
        self._matches.find(self.field.text())
        self._present = -1
        self._tell()

    def _go(self, number: int) -> None:
        """Makes a match, counted round, the present one and brings it into sight."""
        if self._front is not None:
            self._present = number % len(self._matches.places)
            line, column = self._matches.line_and_column(self._present)
            self._front.reveal(line, column, self._matches.length)
            self._front.select(line, column, 0)  # what was selected would be painted over the match
            self._tell()

    def _place(self) -> tuple[int, int]:
        """Line and column to look from."""
        return self._from or (self._front.present_place if self._front is not None else (1, 0))

    def _forget_place(self) -> None:
        """Another line was chosen: steps begin there."""
        self._from = None
        if self._present >= 0:
            self._present = -1
            self._tell()

    def _tell(self) -> None:
        """Paints the matches and says how many there are."""
        total, present = len(self._matches.places), self._present
        many = "1 match" if total == 1 else f"{total:,} matches"
        told = "no match" if not total else many if present < 0 else f"{present + 1:,} of {total:,}"
        told = told if self.field.text() else ""
        self.count.setText(told)
        self.field.setAccessibleDescription(told)
        is_missing = bool(told) and not total
        for part in (self.field, self.count):
            restyle(part, "wrong", "true" if is_missing else "false")
        for button in (self.previous, self.next):
            button.setEnabled(total > 0)
        if self._front is not None and self._is_open:
            self._front.show_found(self._spans)

    def _spans(self, line: int) -> Iterable[Span]:
        length = self._matches.length
        for number, column in self._matches.in_line(line):
            yield column, length, PRESENT if number == self._present else FOUND


def _nothing(line: int) -> Iterable[Span]:
    return ()
