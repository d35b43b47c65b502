"""The iteration space of a group: which dimensions to draw, the picture, the verdict, and the schedule in use."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from engine.documents.exploration import SpaceDoc
from engine.documents.model import KernelDoc
from views.answer import AnswerPage
from views.format import plural
from views.panel import Elided, bar, label, rule
from views.schedule.tree import ScheduleTreeView
from views.space.canvas import SpaceCanvas
from views.space.geometry import named_arrow

NONE = "—"
OFFERED = 2
"""Repairs that get a button; the others stand in the constraint tree."""
BUTTON_TEXT = 30
"""Characters of a repair's button; its tool tip has the whole."""
SHORT = {"cut": "Split in Order", "relax": "Make Optional", "switch off": "Disable It"}
"""Kind of repair -> its button; others say their text."""
EMPTY = "Select a group to see its iteration space"


class SpacePage(AnswerPage):
    """What `canvas` is asked leaves through its own signals; `axes_requested` carries what is to be drawn."""

    axes_requested = Signal(tuple)
    repair_requested = Signal(str)
    preview_accepted = Signal()
    preview_dropped = Signal()
    statements_selected = Signal(tuple)

    def __init__(self) -> None:
        super().__init__(EMPTY)
        self._doc: SpaceDoc | None = None
        self._preview = False
        self.canvas = SpaceCanvas()
        self.canvas.statement_selected.connect(lambda name: self.statements_selected.emit((name,) if name else ()))
        self.canvas.laid_out.connect(self._show_size)
        self.verdict = VerdictBar()
        self.verdict.repair_requested.connect(self.repair_requested)
        self.verdict.accepted.connect(self.preview_accepted)
        self.verdict.dropped.connect(self.preview_dropped)
        self.in_use = ScheduleTreeView("Schedule in use")
        self.in_use.statements_selected.connect(self.statements_selected)
        self.pages.addWidget(self.canvas)
        self.column.addWidget(self._make_choices())
        self.column.addWidget(self.pages, 5)
        for part in (self.verdict, rule(), self._make_head()):
            self.column.addWidget(part)
        self.column.addWidget(self.in_use, 3)

    def show_space(self, doc: SpaceDoc, preview: bool = False) -> None:
        """Replaces the picture; `preview`: its order is drawn only, the advice does not ask for it."""
        if (doc, preview) == (self._doc, self._preview):
            return
        self._doc, self._preview = doc, preview
        names = [axis.name for axis in doc.axes]
        for number, choice in enumerate(self.choices):
            _fill(choice, [*doc.dimensions, NONE] if number else list(doc.dimensions), names, number)
        self.chip.setText(self._chip())
        self.canvas.show_space(doc)
        self.verdict.show_space(doc, preview)
        self.show_body()

    def show_loading(self, loading: bool) -> None:
        """The old picture stays and says so, while a newer one is on its way."""
        super().show_loading(loading)
        if loading and self._doc is not None:
            self.chip.setText("recipe changed")
        elif self._doc is not None:
            self.chip.setText(self._chip())

    def show_nothing(self, sentence: str = "") -> None:
        """No picture."""
        self._doc = None
        self.verdict.hide()
        super().show_nothing(sentence)

    def show_kernel(self, kernel: KernelDoc, stale: bool) -> None:
        """Shows the schedule in use under the picture."""
        self.in_use.show_schedule(*kernel.schedule.children, statements=kernel.statements)
        self._stale.setText("last legal one" if stale else "")
        self._legality.setText(f"✓  legal, {plural(kernel.dependences, 'dependence')}")

    def show_selection(self, statements: Iterable[str]) -> None:
        """Marks statements in the picture and in the schedule in use."""
        wanted = tuple(statements)
        self.canvas.show_selection(wanted)
        self.in_use.show_selection(wanted)

    def _chip(self) -> str:
        requested = self._doc is not None and self._doc.requested
        return "tried, not applied" if self._preview else "order as requested" if requested else "order in use"

    def _make_choices(self) -> QWidget:
        strip, layout = bar("subheader", 36)
        layout.setContentsMargins(12, 0, 12, 0)
        layout.setSpacing(6)
        self.choices: list[QComboBox] = []
        for name in ("Across", "Down", "Into"):
            choice = QComboBox()
            choice.setProperty("role", "small")
            choice.setAccessibleName(f"{name}: dimension")
            choice.setToolTip(f"Which dimension of the schedule runs {name.lower()}")
            choice.setMinimumContentsLength(2)
            choice.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
            choice.activated.connect(self._choose)
            layout.addWidget(label(name, "second"))
            layout.addWidget(choice)
            self.choices.append(choice)
        self.extent = Elided("small-hint", "Values drawn along the axes, at a small size with the same dependences")
        self.chip = label("", "chip")
        layout.addSpacing(4)
        layout.addWidget(self.extent, 1)
        layout.addWidget(self.chip)
        return strip

    def _make_head(self) -> QWidget:
        strip, layout = bar("body", 30)
        layout.setContentsMargins(12, 0, 12, 0)
        self._stale = label("", "hint")
        self._legality = label("", "second")
        layout.addWidget(label("Schedule in use", "title"))
        layout.addWidget(self._stale)
        layout.addStretch(1)
        layout.addWidget(self._legality)
        return strip

    def _show_size(self, values: tuple[int, ...]) -> None:
        """How much of the space is drawn."""
        if self._doc is not None:
            shown = " × ".join(map(str, values))
            whole = " × ".join(f"{axis.extent:,}" for axis in self._doc.axes)
            self.extent.setText(f"{shown} of {whole}" if shown != whole else shown)

    def _choose(self) -> None:
        """Choosing a dimension that is already shown swaps the two axes."""
        if self._doc is None:
            return
        before = [axis.name for axis in self._doc.axes]
        wanted = [choice.currentText() for choice in self.choices]
        changed = next((k for k, name in enumerate(wanted) if name != (before[k] if k < len(before) else NONE)), None)
        if changed is None:
            return
        for number in range(len(wanted)):
            if number != changed and wanted[number] == wanted[changed] != NONE:
                wanted[number] = before[changed] if changed < len(before) else NONE
        self.axes_requested.emit(tuple(name for name in wanted if name != NONE))


class VerdictBar(QFrame):
    """Legal in a quiet line, or what is violated, in one box with the first repairs."""

    repair_requested = Signal(str)
    accepted = Signal()
    dropped = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.title = label("", "title")
        self.sentence = label("", "second", wrap=True)
        self._mark = QLabel()
        self._mark.setFixedWidth(18)
        text = QVBoxLayout()
        text.setSpacing(1)
        text.addWidget(self.title)
        text.addWidget(self.sentence)
        self.drawn = label("", "small-hint", wrap=True)
        text.addWidget(self.drawn)
        self._buttons = QHBoxLayout()
        self._buttons.setSpacing(6)
        self._box = QFrame()
        outside = QVBoxLayout(self)
        outside.setContentsMargins(12, 0, 12, 8)
        outside.addWidget(self._box)
        layout = QHBoxLayout(self._box)
        layout.setContentsMargins(10, 6, 8, 6)
        layout.addWidget(self._mark)
        layout.addLayout(text, 1)
        layout.addLayout(self._buttons)
        self.buttons: list[QPushButton] = []
        self.hide()

    def show_space(self, doc: SpaceDoc, preview: bool = False) -> None:
        """Shows what a space's order does to the dependences, and what can be done about it."""
        counts = f"{doc.violated} of {plural(doc.dependences, 'dependence')}"
        self._show(f"{counts} violated", doc.verdict.removeprefix(f"breaks {counts}: "), doc.violated > 0)
        self.drawn.setText(_violation_note(doc))
        self.drawn.setVisible(bool(self.drawn.text()))
        for repair in doc.repairs[:OFFERED]:
            name = SHORT.get(repair.kind, repair.text[:1].upper() + repair.text[1:])
            name = name if len(name) <= BUTTON_TEXT else name[: BUTTON_TEXT - 1] + "…"
            button = self._add_button(name, repair.text)
            button.clicked.connect(lambda _=False, each=repair: self.repair_requested.emit(each.recipe))
        if preview:
            self._add_button("Apply Anyway", "Ask for this order in the advice").clicked.connect(self.accepted)
            self._add_button("Back", "Show the order in use again").clicked.connect(self.dropped)

    def show_refusal(self, reason: str) -> None:
        """Why what was dropped could not be asked for."""
        self._show("Not possible", reason, True)
        self.drawn.hide()

    def _show(self, title: str, sentence: str, wrong: bool) -> None:
        self._box.setProperty("role", "witness" if wrong else "")
        self._box.style().polish(self._box)
        self._mark.setText("✕" if wrong else "✓")
        self._mark.setProperty("role", "wrong" if wrong else "second")
        self._mark.style().polish(self._mark)
        self.title.setVisible(wrong)
        self.title.setText(title)
        self.sentence.setText(sentence)
        for button in self.buttons:
            button.deleteLater()
        self.buttons = []
        self.show()

    def _add_button(self, text: str, tip: str) -> QPushButton:
        button = QPushButton(text)
        button.setProperty("role", "small")
        button.setToolTip(tip)
        self._buttons.addWidget(button)
        self.buttons.append(button)
        return button


def _violation_note(doc: SpaceDoc) -> str:
    """Which violated pair the picture names, and how many it has; "" where nothing is violated."""
    named = named_arrow(doc)
    if named is None:
        return ""
    pairs = sum(arrow.violated for arrow in doc.arrows)
    others = f", one of {pairs} pairs here; point at others" if pairs > 1 else ""
    return f"Drawn: {doc.points[doc.arrows[named].source].text}{others}"


def _fill(choice: QComboBox, items: list[str], chosen: list[str], number: int) -> None:
    choice.clear()
    choice.addItems(items)
    choice.setCurrentText(chosen[number] if number < len(chosen) else NONE)
    choice.setEnabled(len(items) > 1)
