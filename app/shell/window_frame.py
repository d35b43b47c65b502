"""The window's frame: device chip, perspective switch, status bar."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, SignalInstance
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QMenuBar,
    QStatusBar,
    QStyle,
    QStyleOption,
    QToolButton,
    QWidget,
)

from views.format import plural
from views.icons import icon
from views.panel import Elided, label
from views.theme import Theme
from views.themed import Themed, restyle

MESSAGE_MS, REPORT_MS = 4000, 20_000
HEIGHT = 28
"""Pixels of the menu bar."""


class MenuBar(QMenuBar):
    """Menus left, the document's name in the middle, the target and this machine's device right."""

    device_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(HEIGHT)
        self.document = label("Loomscope", "second")
        self.document.setParent(self)
        self.device = QToolButton()
        self.device.setAccessibleName("Target and device")
        self.device.setProperty("role", "device")
        self.device.setMaximumHeight(HEIGHT)
        self.device.clicked.connect(self.device_requested)
        self.show_device(None)

    def show_document(self, name: str) -> None:
        """The name of what is open."""
        self.document.setText(f"{name} — Loomscope" if name else "Loomscope")
        self._centre()

    def show_device(self, device: str | None, target: str = "") -> None:
        """The target, then a filled dot and what it is measured on, or a hollow one; None while it is not known yet."""
        named = "…" if device is None else f"●  {device}" if device else "○  no GPU"
        self.device.setText(f"{target.upper()}   {named}".strip())
        measured = f"measured on {device}" if device else "compiled, checked and predicted, not measured"
        self.device.setToolTip(f"Kernels are made for {target.upper()}, and {measured}; click to choose another target")
        self.device.adjustSize()
        self.setCornerWidget(self.device, Qt.Corner.TopRightCorner)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keeps the document's name in the middle."""
        super().resizeEvent(event)
        self._centre()

    def _centre(self) -> None:
        self.document.adjustSize()
        self.document.move((self.width() - self.document.width()) // 2, (self.height() - self.document.height()) // 2)


class Segments(QFrame):
    """A row of exclusive choices."""

    chosen = Signal(str)

    def __init__(self, names: Sequence[str], name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setProperty("role", "segments")
        self.setFixedHeight(28)
        layout = QHBoxLayout(self)
        layout.setSpacing(0)
        layout.setContentsMargins(1, 0, 1, 0)
        self._group = QButtonGroup(self)
        self.buttons: dict[str, QToolButton] = {}
        for each in names:
            button = self.buttons[each] = QToolButton()
            button.setText(each)
            button.setCheckable(True)
            button.setProperty("role", "segment")
            button.clicked.connect(lambda _=False, choice=each: self.chosen.emit(choice))
            self._group.addButton(button)
            layout.addWidget(button)

    def choose(self, name: str) -> None:
        """Shows a choice without announcing it."""
        self.buttons[name].setChecked(True)


class StatusBar(QStatusBar, Themed):
    """Counts of problems and jobs, what is selected, how long things took.

    Messages and hints stand in the place of what is selected: Qt would write them over the counts.
    """

    problems_requested = Signal()
    jobs_requested = Signal()

    def __init__(self) -> None:
        super().__init__(sizeGripEnabled=False)
        self.setFixedHeight(28)
        self.problems = self._button("Problems 0", "Show or hide problems", self.problems_requested)
        self.jobs = self._button("Jobs 0", "Show or hide jobs", self.jobs_requested)
        self.selection = Elided("second")
        self.opened = label("", "small-hint")
        self._selected = ""
        self.messageChanged.connect(self._show_message)
        for part, stretch in ((self.problems, 0), (self.jobs, 0), (_gap(), 0), (self.selection, 1), (self.opened, 0)):
            self.addPermanentWidget(part, stretch)  # others are hidden while there is a message
        self.addPermanentWidget(_gap())

    def show_problems(self, count: int, wrong: bool) -> None:
        """How many problems there are; red if any of them is an error."""
        self.problems.setText(f"Problems {count}")
        restyle(self.problems, "wrong", "true" if wrong else "false")

    def show_jobs(self, count: int) -> None:
        """How many requests the worker has not answered."""
        self.jobs.setText(f"Jobs {count}")

    def show_selection(self, title: str, statements: Sequence[str], instances: int) -> None:
        """What is selected, in words."""
        what = f"Selected {title}"
        if statements:
            what += f", {', '.join(statements[:4])}{' …' if len(statements) > 4 else ''}"
        self._selected = f"{what} — {plural(instances, 'instance')}" if title else "Nothing selected"
        self._show_message(self.currentMessage())

    def paintEvent(self, event: QPaintEvent) -> None:
        """The background alone: the message is a label's."""
        option = QStyleOption()
        option.initFrom(self)
        self.style().drawPrimitive(QStyle.PrimitiveElement.PE_PanelStatusBar, option, QPainter(self), self)

    def show_theme(self, theme: Theme) -> None:
        """Tints the icons."""
        for button, name in ((self.problems, "problems"), (self.jobs, "jobs")):
            button.setIcon(icon(name, theme.colours["text-2"]))

    def say(self, text: str) -> None:
        """A line that goes away by itself."""
        self.showMessage(text, MESSAGE_MS)

    def report(self, text: str) -> None:
        """The same, of what took so long that somebody may look elsewhere."""
        self.showMessage(text, REPORT_MS)

    def _show_message(self, message: str) -> None:
        self.selection.setText(message or self._selected)

    def _button(self, text: str, tip: str, pressed: SignalInstance) -> QToolButton:
        made = QToolButton(toolButtonStyle=Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        made.setText(text)
        made.setToolTip(tip)
        made.setProperty("role", "status")
        made.clicked.connect(pressed)
        return made


def _gap() -> QWidget:
    made = QWidget()
    made.setFixedWidth(12)
    return made
