"""Words are found in a read-only text: counts, steps round the text, case, other texts, and what is painted."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from engine.documents.pipeline import ListingDoc
from tests.app.fake_documents import kernel
from views.code.editor import CodeText
from views.code.find import FindStrip, TextMatches
from views.code.view import CUDA, PTX, CodeView
from views.panel import bar
from views.style import style_sheet
from views.theme import THEMES, load_theme

K, M = Qt.Key, Qt.KeyboardModifier
TEXT = "Tile a\nload tile, tile\nx\nstore Tile"


class Searched(QWidget):
    """A strip of chips, the one that finds in its place, and a text below."""

    def __init__(self, text: str, theme: str = "dark") -> None:
        super().__init__()
        self.chips, _ = bar("subheader", 32)
        self.text = CodeText("Text")
        self.finder = FindStrip(self.chips, self.text)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for part in (self.chips, self.finder, self.text):
            layout.addWidget(part)
        self.setStyleSheet(style_sheet(load_theme(theme)))
        self.text.set_theme(load_theme(theme))
        self.text.show_text(text, {}, lambda line, text: ())
        self.resize(400, 300)
        self.show()
        self.activateWindow()

    @property
    def told(self) -> str:
        """How many were found, as the strip and a screen reader say it."""
        assert self.finder.field.accessibleDescription() == self.finder.count.text()
        return self.finder.count.text()

    def find(self, words: str) -> str:
        """Opens the strip, types words and returns what it says."""
        self.finder.ask()
        QTest.keyClicks(self.finder.field, words)
        return self.told

    def press(self, key: Qt.Key, modifier: Qt.KeyboardModifier = M.NoModifier) -> str:
        """A key for the field."""
        QTest.keyClick(self.finder.field, key, modifier)
        return self.told


@pytest.fixture
def search(qtbot: QtBot) -> Callable[..., Searched]:
    def searched(text: str = TEXT, theme: str = "dark") -> Searched:
        made = Searched(text, theme)
        qtbot.addWidget(made)
        return made

    return searched


@pytest.mark.parametrize(
    ("words", "places"),
    [
        ("tile", [(1, 0), (2, 5), (2, 11), (4, 6)]),
        ("Tile", [(1, 0), (4, 6)]),
        ("e, t", [(2, 8)]),
        ("", []),
        (".", []),
    ],
)
def test_places_and_smart_case(words: str, places: list[tuple[int, int]]) -> None:
    found = TextMatches(TEXT)
    found.find(words)
    assert [found.line_and_column(number) for number in range(len(found.places))] == places


def test_letters_that_become_two_when_small_shift_nothing() -> None:
    found = TextMatches("İİ\n tile")
    found.find("tile")
    assert found.line_and_column(0) == (2, 1)


def test_steps_go_round_and_back(search: Callable[..., Searched]) -> None:
    shown = search()
    assert shown.find("tile") == "1 of 4"
    assert [shown.press(K.Key_Return) for _ in range(4)] == ["2 of 4", "3 of 4", "4 of 4", "1 of 4"]
    assert shown.press(K.Key_Return, M.ShiftModifier) == "4 of 4"
    shown.finder.next.click()
    shown.finder.previous.click()
    assert shown.told == "4 of 4"


def test_what_is_typed_is_looked_for_from_where_typing_began(search: Callable[..., Searched]) -> None:
    shown = search("ab\nb\nabc\nab")
    shown.text.line_selected.emit(1)
    QTest.keyClick(shown.text, K.Key_Down)
    assert shown.find("b") == "2 of 4", "the chosen line's"
    assert shown.press(K.Key_C) == "1 of 1", "the third line's"
    assert shown.press(K.Key_Backspace) == "2 of 4", "not where the longer words led"
    assert shown.press(K.Key_X) == "no match" and shown.finder.field.property("wrong") == "true"
    assert not shown.finder.next.isEnabled() and shown.press(K.Key_Return) == "no match"
    shown.finder.field.clear()
    assert shown.told == "" and shown.finder.field.property("wrong") == "false"


def test_a_click_sets_where_the_next_step_begins(search: Callable[..., Searched]) -> None:
    shown = search("\n".join("tile" for _ in range(10)))
    shown.find("tile")
    below = QPoint(200, round(6.5 * shown.text.fontMetrics().lineSpacing()))
    QTest.mouseClick(shown.text.viewport(), Qt.MouseButton.LeftButton, pos=below)
    clicked, _ = shown.text.present_place
    assert clicked > 4 and shown.told == "10 matches"
    shown.finder.step(1)
    assert shown.told == f"{clicked} of 10"
    QTest.keyClick(shown.text, K.Key_Home)
    shown.finder.step(-1)
    assert shown.told == "10 of 10", "before the first one is the last"


def test_selected_text_becomes_the_words(search: Callable[..., Searched]) -> None:
    shown = search()
    shown.text.select(2, 11, 4)
    shown.finder.ask()
    assert shown.finder.field.text() == "tile" and shown.told == "3 of 4", "the selected one"
    assert shown.finder.field.selectedText() == "tile", "typing replaces it"
    shown.text.selectAll()
    shown.finder.ask()
    assert shown.finder.field.text() == "tile", "lines are no words"


def test_escape_closes_moves_no_line_and_selects_the_match(search: Callable[..., Searched]) -> None:
    shown = search("\n".join(f"line {n}" for n in range(200)))
    before = shown.text.geometry()
    shown.find("line 19")
    for _ in range(3):
        shown.finder.step(-1)
    place = shown.text.verticalScrollBar().value()
    assert shown.chips.isHidden() and shown.text.geometry() == before
    assert shown.told == "9 of 11", "19 itself and 190 to 199; typing stood at the first"
    shown.press(K.Key_Escape)
    assert shown.finder.isHidden() and shown.chips.isVisible() and shown.text.geometry() == before
    assert shown.text.verticalScrollBar().value() == place > 150
    assert shown.focusWidget() is shown.text and shown.text.textCursor().selectedText() == "line 19"
    shown.finder.ask()
    assert shown.told == "9 of 11"
    shown.text.setFocus()
    shown.text.verticalScrollBar().setValue(3)
    QTest.keyClick(shown.text, K.Key_Escape)
    assert shown.finder.isHidden(), "Escape in the text closes, too"
    assert shown.text.verticalScrollBar().value() == 3, "where the wheel went"


def test_case_survives_closing(search: Callable[..., Searched]) -> None:
    shown = search()
    shown.find("tile")
    shown.press(K.Key_Escape)
    assert shown.text.textCursor().selectedText() == "Tile"
    shown.finder.ask()
    assert shown.finder.field.text() == "tile" and shown.told == "1 of 4"


@pytest.mark.parametrize("theme", THEMES)
def test_all_matches_are_painted_the_present_one_strongly(search: Callable[..., Searched], theme: str) -> None:
    shown = search("xxxx\n\nxxxx", theme)

    def painted() -> list[str]:
        picture = shown.text.viewport().grab().toImage()
        pitch = shown.text.cursorRect().height()
        colours = load_theme(theme).colours
        names = {colours[token]: token for token in ("panel", "found-bg", "accent-fill")}
        return [names[picture.pixelColor(6, 5 + round(line * pitch)).name().upper()] for line in range(3)]

    assert painted() == ["panel"] * 3
    shown.find("xxxx")
    assert painted() == ["accent-fill", "panel", "found-bg"]
    shown.finder.step(1)
    assert painted() == ["found-bg", "panel", "accent-fill"]
    shown.text.select(3, 0, 4)
    shown.finder.ask()
    assert painted() == ["found-bg", "panel", "accent-fill"], "not as what is selected"
    shown.finder.put_away()
    shown.text.moveCursor(shown.text.textCursor().MoveOperation.Start)
    assert painted() == ["panel"] * 3


def test_a_match_far_to_the_right_comes_into_sight(search: Callable[..., Searched]) -> None:
    shown = search(f"first{' ' * 300}last")
    shown.find("last")
    bar = shown.text.horizontalScrollBar()
    far = bar.value()
    assert far > 1000
    shown.finder.field.setText("first")
    assert bar.value() == 0
    shown.finder.field.setText("last")
    assert bar.value() == far


def test_five_thousand_lines_are_searched_within_a_key(search: Callable[..., Searched]) -> None:
    shown = search("\n".join(f"    add.s32 %r{n}, %r{n + 1}, 1;  // some more text" for n in range(5_000)))
    shown.finder.ask()
    taken = []
    for letter in "r49":
        started = time.process_time()
        QTest.keyClicks(shown.finder.field, letter)
        shown.text.viewport().repaint()
        taken.append(time.process_time() - started)
    assert shown.told.endswith(" of 222") and max(taken) < 0.02


def test_words_stay_for_another_kernel_and_another_language(qtbot: QtBot) -> None:
    view = CodeView()
    qtbot.addWidget(view)
    view.set_theme(load_theme("dark"))
    view.show_kernel(kernel("softmax_0"))
    view.show()
    view.finder.ask()
    view.finder.field.setText("float")
    first = view.text.toPlainText().lower().count("float")
    assert view.finder.count.text() == f"1 of {first}"
    shown = kernel("softmax_0")
    view.show_kernel(replace(shown, cuda=f"{shown.cuda}\nfloat more;"))
    other = first + 1
    assert view.finder.count.text() == f"{other} matches"
    view.select_tab(PTX)
    assert view.finder.count.text() == "no match", "it is on its way"
    view.show_listing(ListingDoc("matmul_0", "", PTX, "sm_80", "mov\nfloat\nret", ()))
    assert view.finder.count.text() == "1 match"
    view.finder.step(1)
    assert view.finder.count.text() == "1 of 1" and view.finder.isVisible()
    view.select_tab(CUDA)
    assert view.finder.count.text() == f"{other} matches"
    view.resize(150, 300)
    assert view.finder.count.isHidden() and view.finder.width() <= 150, "the field keeps the room"
