"""The explanation says everything once and stays short."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtWidgets import QLabel

from engine.documents.model import PublishedTime
from tests.app.fake_documents import model
from views.explain.view import REASONS_SHOWN, ExplainView


def text_of(view: ExplainView) -> str:
    return "\n".join(child.text() for child in view.findChildren(QLabel))


def test_a_group_is_explained(qtbot: object) -> None:
    view = ExplainView()
    qtbot.addWidget(view)  # type: ignore[attr-defined]
    softmax = next(group for group in model().groups if group.name == "softmax_0")
    view.show_group(softmax)
    figures = ("96 × 512 × 512", "101 MB", "25.6 µs", "predicted, uncalibrated")
    for part in (*figures, softmax.because, softmax.boundaries[0]):
        assert part in text_of(view)


def test_what_others_measured_stands_beside_it_where_a_table_has_it(qtbot: object) -> None:
    view = ExplainView()
    qtbot.addWidget(view)  # type: ignore[attr-defined]
    group = next(group for group in model().groups if group.name == "softmax_0")
    view.show_group(group)
    assert "Others' kernels" not in text_of(view)
    view.show_group(replace(group, published=(PublishedTime("cuBLAS", "H100", 21.3, "a table"),)))
    assert "Others' kernels for the same" in text_of(view)
    assert "21.3 µs by cuBLAS on H100, published in a table" in text_of(view)


def test_many_neighbours_are_summed_up(qtbot: object) -> None:
    view = ExplainView()
    qtbot.addWidget(view)  # type: ignore[attr-defined]
    reasons = tuple(f"neighbour {number}: too wide" for number in range(REASONS_SHOWN + 5))
    view.show_group(replace(model().groups[0], boundaries=reasons + reasons))
    assert text_of(view).count("too wide") == REASONS_SHOWN
    assert "and 5 more" in text_of(view)
