"""Lines that have too little room."""

from __future__ import annotations

from views.panel import Elided


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
