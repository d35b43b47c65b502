"""What other knobs would give: sliders, figures beside the present ones, a predicted time, refusals with a way out."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from engine.documents.model import ProblemDoc
from engine.documents.pipeline import ChartDoc, ChoiceDoc, QuantityDoc, VariantDoc, WhatIfDoc
from views.format import duration, origin_of, percent, plural
from views.panel import bar, label, link, rule
from views.pipeline.slider import ChoiceSlider
from views.pipeline.stages import StagePlot
from views.theme import face, semibold
from views.themed import Themed, restyle
from views.themed_painter import LEFT, RIGHT, ThemedPainter

NAME_WIDTH, VALUE_WIDTH = 104, 72
HEADS, PITCH = 18, 17
"""Heights of the head and of the rows of the figures."""
COLUMNS = (0.44, 0.64, 0.83, 1.0)
"""Where their columns end, as parts of the width."""
SAME = 5e-4
"""Part of a time below which a change is none."""
UNTOUCHED = "Move a slider: the model answers at once, NVRTC when you let go"


class WhatIf(QWidget, Themed):
    """Sliders over the knobs of a contraction; `turned` carries a knob's name and value."""

    turned = Signal(str, int)
    released = Signal()
    applied = Signal()
    reset = Signal()
    nearest_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("What if")
        self._sliders: dict[str, ChoiceSlider] = {}
        self._values: dict[str, QLabel] = {}
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._make_head())
        self._rows = QGridLayout()
        self._rows.setContentsMargins(12, 4, 12, 4)
        self._rows.setHorizontalSpacing(8)
        self._rows.setVerticalSpacing(0)
        column.addLayout(self._rows)
        self.refusal = _RefusalBox()
        self.refusal.button.clicked.connect(self.nearest_requested)
        column.addWidget(self.refusal)
        column.addWidget(rule())
        column.addWidget(self._make_answer())  # before its reasons: a low window has no room for all of them
        self._above_figures = rule()
        column.addWidget(self._above_figures)
        self.figures = _FigureTable()
        column.addWidget(self.figures)
        self.message = label(UNTOUCHED, "second", wrap=True)
        self.message.setContentsMargins(12, 2, 12, 4)
        column.addWidget(self.message)
        column.addStretch(1)

    @property
    def sliders(self) -> dict[str, ChoiceSlider]:
        """Knob -> its slider."""
        return self._sliders

    def show_choices(self, chart: ChartDoc) -> None:
        """The knobs of another kernel, all where it stands."""
        names = tuple(choice.name for choice in chart.choices)
        if names != tuple(self._sliders):
            self._make_rows(chart.choices)
        self.state.setText("")
        self.setEnabled(bool(names))
        for part in (self.figures, self._above_figures):
            part.setVisible(bool(names))
        if not names:
            self.show_nothing("Only tiled contractions have these knobs")

    def show_nothing(self, sentence: str) -> None:
        """No kernel, or one without knobs."""
        self.message.setText(sentence)
        self.figures.show_quantities(())
        self.headline.setText("")
        self.gain.setText("")
        self.origin.setText("")
        self.alcop.setText("")
        self.plot.show_sweep((), 0, 0)
        self.refusal.hide()

    def show_answer(self, doc: WhatIfDoc, chart: ChartDoc) -> None:
        """What the model says of the sliders' values beside the present ones."""
        now = {choice.name: choice.value for choice in chart.choices}
        for choice in doc.choices:
            self._sliders[choice.name].show_choices(choice.choices, now[choice.name], choice.value)
            changed = choice.value != now[choice.name]
            text = f"{now[choice.name]} → {choice.value}" if changed else f"{choice.value}"
            self._values[choice.name].setText(text)
            _colour(self._values[choice.name], self._emphasis(changed))
        is_changed = doc.knobs != chart.knobs
        self.state.setText("preview, not applied" if is_changed else "the kernel in use")
        self.figures.show_quantities(doc.quantities, is_changed)
        self._show_time(doc, is_changed)
        self.refusal.show_refusal(doc)
        stages = {choice.name: choice.value for choice in doc.choices}.get("stages", 0)
        self.plot.show_sweep(doc.sweep, stages, now.get("stages", 0))
        self.apply_button.setEnabled(is_changed and doc.refusal is None)
        self.reset_button.setEnabled(is_changed)
        self._polish(is_changed and doc.refusal is None)
        self.message.setText("" if is_changed else UNTOUCHED)

    def show_compiled(self, doc: VariantDoc) -> None:
        """What NVRTC says of the values that the sliders stand at."""
        spills = f"{doc.spill_bytes} B spilled" if doc.spill_bytes else "no spills"
        blocks = f"an SM holds {plural(doc.blocks_per_sm, 'block')}, {duration(doc.time.microseconds)} predicted"
        self.message.setText(f"NVRTC {doc.architecture}: {plural(doc.registers, 'register')}, {spills}; {blocks}")
        self.figures.show_registers(f"{doc.registers}")

    def show_compiling(self) -> None:
        """NVRTC is at work."""
        self.message.setText("NVRTC is compiling…")

    def show_problem(self, problem: ProblemDoc) -> None:
        """Why NVRTC has no figures."""
        hint = f" ({problem.hint})" if problem.hint else ""
        self.message.setText(f"{problem.subject}: {problem.reason}{hint}" if problem.subject else problem.reason)

    def _emphasis(self, changed: bool) -> str:
        if not changed or self.theme is None:
            return ""
        return f"color: {self.theme.colours['accent']}; font-weight: 600;"

    def _make_head(self) -> QWidget:
        strip, layout = bar("subheader", 28)
        layout.addWidget(label("What if", "title"))
        self.state = label("", "hint")
        layout.addWidget(self.state)
        layout.addStretch(1)
        self.reset_button = link("Reset")
        self.reset_button.clicked.connect(self.reset)
        self.apply_button = QPushButton("Apply")
        self.apply_button.setProperty("role", "small")
        self.apply_button.setToolTip("Make these values entries of the user, as one step")
        self.apply_button.clicked.connect(self.applied)
        layout.addWidget(self.reset_button)
        layout.addWidget(self.apply_button)
        return strip

    def _make_answer(self) -> QWidget:
        answer = QWidget()
        row = QHBoxLayout(answer)
        row.setContentsMargins(12, 4, 12, 4)
        left = QVBoxLayout()
        left.setSpacing(1)
        self.origin = label("", "small-hint")
        self.headline = label("", "headline")
        self.gain = label("", "second")
        self.alcop = label("", "small-hint")
        for widget in (self.origin, self.headline, self.gain, self.alcop):
            left.addWidget(widget)
        row.addLayout(left)
        self.plot = StagePlot()
        row.addWidget(self.plot, 1)
        return answer

    def _make_rows(self, choices: tuple[ChoiceDoc, ...]) -> None:
        while (item := self._rows.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.deleteLater()
        self._sliders.clear()
        for number, choice in enumerate(choices):
            slider, value = ChoiceSlider(choice.title), label("")
            name = label(choice.title)
            name.setFixedWidth(NAME_WIDTH)
            value.setFixedWidth(VALUE_WIDTH)
            value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            slider.turned.connect(lambda to, knob=choice.name: self.turned.emit(knob, to))
            slider.released.connect(self.released)
            if self.theme is not None:
                slider.set_theme(self.theme)
            for place, widget in enumerate((name, slider, value)):
                self._rows.addWidget(widget, number, place)
            self._sliders[choice.name], self._values[choice.name] = slider, value

    def _show_time(self, doc: WhatIfDoc, is_changed: bool) -> None:
        shown = doc.then if is_changed else doc.now
        self.origin.setText(origin_of(shown or doc.now))
        self.headline.setText(duration(shown.microseconds) if shown else "–")
        models = (duration(time) for time in doc.alcop[: 1 + is_changed] if time is not None)
        self.alcop.setText(f"ALCOP model: {' → '.join(models)}")
        self.gain.setText("")
        if is_changed and doc.then is not None:
            change = doc.then.microseconds / doc.now.microseconds - 1
            kind = 0 if abs(change) < SAME else 1 if change > 0 else -1
            sign, token = {-1: ("▼ ", "better"), 0: ("", "text-3"), 1: ("▲ ", "worse")}[kind]
            part = percent(abs(change)) if kind else "no change"
            self.gain.setText(f"{sign}{part} against {duration(doc.now.microseconds)}")
            if self.theme is not None:
                _colour(self.gain, f"color: {self.theme.colours[token]}; font-weight: 600;")

    def _polish(self, primary: bool) -> None:
        restyle(self.apply_button, "role", "primary-small" if primary else "small")


class _RefusalBox(QFrame):
    """Why the values cannot be, and the nearest that can."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "witness")
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 6, 12, 6)
        self.text = label("", "wrong-text", wrap=True)
        self.button = link("")
        row.addWidget(self.text, 1)
        row.addWidget(self.button)
        self.hide()

    def show_refusal(self, doc: WhatIfDoc) -> None:
        """Hidden where the values can be."""
        self.setVisible(doc.refusal is not None)
        if doc.refusal is not None:
            self.text.setText(f"Cannot be: {doc.refusal.text}")
            self.button.setText(f"Use {doc.refusal.offer}" if doc.refusal.offer else "")
            self.button.setVisible(doc.refusal.nearest is not None)


class _FigureTable(QWidget, Themed):
    """Rows of figures: now, then, limit."""

    def __init__(self) -> None:
        super().__init__()
        self._quantities: tuple[QuantityDoc, ...] = ()
        self._compares = False
        self._registers = ""
        self.setAccessibleName("Figures")
        self.setToolTip("The limit in amber keeps an SM from holding more blocks; a small launch may fill fewer")

    def show_quantities(self, quantities: tuple[QuantityDoc, ...], compares: bool = False) -> None:
        """compares: whether there are values to set beside the present ones."""
        self._quantities, self._compares, self._registers = quantities, compares, ""
        self.setFixedHeight(HEADS + PITCH * len(quantities) + 4 if quantities else 0)
        rows = (f"{q.name} {q.now}{f', then {q.then}' if compares else ''}" for q in quantities)
        self.setAccessibleDescription("; ".join(rows))
        self.update()

    def show_registers(self, text: str) -> None:
        """The compiler's word in place of the estimate."""
        self._registers = text
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Figures at the right of their columns."""
        if self.theme is None or not self._quantities:
            return
        painter, row = ThemedPainter(self, self.theme), QRectF(12, 1, self.width() - 24, HEADS - 1)
        _paint_cells(painter, row, [(text, "text-3") for text in ("", "now", "then" * self._compares, "limit")])
        for number, quantity in enumerate(self._quantities):
            then = self._registers if self._registers and quantity.name.startswith("Registers") else quantity.then
            is_changed = self._compares and then != quantity.now
            row = QRectF(12, HEADS + number * PITCH, self.width() - 24, PITCH)
            _paint_cells(painter, row, [
                (quantity.name, "text"), (quantity.now, "text"),
                (then * self._compares, "accent" if is_changed else "text"),
                (quantity.limit, "worse" if quantity.binding else "text-3"),
            ])  # fmt: skip


def _paint_cells(painter: ThemedPainter, row: QRectF, cells: Sequence[tuple[str, str]]) -> None:
    """A name and its figures, which end at their columns; (text, token of its colour)."""
    for number, ((text, token), end) in enumerate(zip(cells, COLUMNS, strict=True)):
        box = QRectF(row.x(), row.y(), row.width() * end, row.height())
        font = semibold(11) if token == "accent" else face(11)
        painter.text(box, text, token, font, RIGHT if number else LEFT)


def _colour(text: QLabel, sheet: str) -> None:
    """Sets a label's own style where it changes: it is costly, and sliders move."""
    if text.styleSheet() != sheet:
        text.setStyleSheet(sheet)
