"""A slider over a few values: where a kernel stands, and where it might."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPaintEvent, QWheelEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from views.themed import Themed
from views.themed_painter import ThemedPainter

KNOB, TICK = 5.0, 2.2
HEIGHT = 20
SIDE = 8.0


class ChoiceSlider(QWidget, Themed):
    """Moves among the choices; `turned` while it moves, `released` once it stands."""

    turned = Signal(int)
    released = Signal()

    def __init__(self, title: str) -> None:
        super().__init__()
        self.setAccessibleName(title)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(HEIGHT)
        self.setMinimumWidth(80)
        self._choices: tuple[int, ...] = ()
        self._now = self._value = 0

    @property
    def value(self) -> int:
        """Where it stands."""
        return self._value

    def show_choices(self, choices: tuple[int, ...], now: int, value: int) -> None:
        """now: where the kernel in use stands.  value: where the slider stands."""
        self._choices, self._now, self._value = choices, now, value
        text = f"{value}" if value == now else f"{value}, now {now}"
        self.setAccessibleDescription(f"{text}; one of {', '.join(map(str, choices))}")
        self.update()

    def sizeHint(self) -> QSize:
        """As wide as there is room."""
        return QSize(200, HEIGHT)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Goes to the choice nearest to the pointer."""
        self._go(self._nearest(event.position().x()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Follows the pointer."""
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._go(self._nearest(event.position().x()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Says that it stands."""
        self.released.emit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Leaves the wheel to what scrolls: values are not changed by accident."""
        event.ignore()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left and Right, Home and End."""
        key, last = Qt.Key(event.key()), len(self._choices) - 1
        place = self._choices.index(self._value) if self._value in self._choices else 0
        moves = {
            Qt.Key.Key_Right: place + 1, Qt.Key.Key_Left: place - 1, Qt.Key.Key_Home: 0, Qt.Key.Key_End: last,
        }  # fmt: skip
        if key not in moves or not self._choices:
            super().keyPressEvent(event)
            return
        self._go(self._choices[min(max(moves[key], 0), last)])

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        """A key that is let go says that it stands."""
        if not event.isAutoRepeat() and Qt.Key(event.key()) in (
            Qt.Key.Key_Right, Qt.Key.Key_Left, Qt.Key.Key_Home, Qt.Key.Key_End,
        ):  # fmt: skip
            self.released.emit()
        super().keyReleaseEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """A track with a tick for each choice: a ring where the kernel stands, a disc where the slider does."""
        if self.theme is None or not self._choices:
            return
        painter, middle = ThemedPainter(self, self.theme), self.height() / 2
        now, then = self._x(self._now), self._x(self._value)
        first, last = self._x(self._choices[0]), self._x(self._choices[-1])
        painter.line((first, middle), (last, middle), "edge", 1.4)
        painter.line((first, middle), (then, middle), "accent", 2)
        for choice in self._choices:
            x = self._x(choice)
            painter.disc(QPointF(x, middle), TICK, "accent" if x <= then else "edge")
        if now != then:
            painter.disc(QPointF(now, middle), KNOB - 0.5, "panel", "text", 1.4)
        painter.disc(QPointF(then, middle), KNOB, "accent", "text" if self.hasFocus() else "", 1.4)

    def _x(self, choice: int) -> float:
        """Choices stand at equal distances: they are powers of two, or few."""
        place = self._choices.index(choice) if choice in self._choices else 0
        return SIDE + place / max(len(self._choices) - 1, 1) * (self.width() - 2 * SIDE)

    def _nearest(self, x: float) -> int:
        return min(self._choices, key=lambda choice: abs(self._x(choice) - x), default=self._value)

    def _go(self, value: int) -> None:
        if value != self._value:
            self.turned.emit(value)
