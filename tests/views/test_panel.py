"""Lines that have too little room, and answers that are on their way."""

from __future__ import annotations

from views.answer import WAITING
from views.moves.view import MovesView
from views.panel import Elided
from views.schedule.decisions import DecisionsPage


def test_a_line_without_room_says_that_it_is_cut_and_keeps_the_whole(qtbot: object) -> None:
    line = Elided(tip="What is drawn")
    line.show()
    line.setText("6 × 3 × 4 of 768 × 128 × 3,072")
    for width, is_cut in ((400, False), (110, True), (400, False)):
        line.resize(width, 20)
        shown = super(Elided, line).text()
        assert shown.endswith("…") == is_cut and line.fontMetrics().horizontalAdvance(shown) <= width
        assert line.text() == line.accessibleName() == "6 × 3 × 4 of 768 × 128 × 3,072"
        assert line.toolTip() == (f"{line.text()}\nWhat is drawn" if is_cut else "What is drawn")
    line.setText("all")
    assert super(Elided, line).text() == "all"


def test_a_first_answer_that_is_on_its_way_is_not_asked_for_again(qtbot: object) -> None:
    """Moves said "Select a group" while those of the selected one were tried."""
    for part, sentence in ((moves := MovesView(), moves.empty.sentence), (page := DecisionsPage(), page.message)):
        qtbot.addWidget(part)  # type: ignore[attr-defined]
        asks = sentence.text()
        assert asks.startswith("Select a group")
        part.show_loading(True)
        assert sentence.text() == WAITING
        part.show_loading(False)
        assert sentence.text() == asks
        part.show_nothing("no such thing")
        part.show_loading(True)
        assert sentence.text() == "no such thing", "what the worker said of the question before"
