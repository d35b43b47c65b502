"""Every trial of a group as a dot, the best so far as a line of steps, failures as ticks below."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from views.theme import Theme
from views.tuning.axes import TrialAxes, progress_axes
from views.tuning.nodes import GroupProgress
from views.tuning.picture import ProgressPicture
from views.tuning.trials import NONE, Rows, Trials

LEFT, RIGHT, TOP, BOTTOM = 60.0, 24.0, 26.0, 66.0
REACH = 12.0
"""Pixels around a dot in which the pointer means it."""


class ProgressPlot(QWidget):
    """`trial_selected` carries the row of the trial that was clicked or reached by keys."""

    trial_selected = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.theme: Theme | None = None
        self.trials = Trials()
        self.rows: Rows = np.empty(0, np.int64)
        self.summary: GroupProgress | None = None
        self.selected = NONE
        self._room = 0
        self.setAccessibleName("Best so far, all trials and failures")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumHeight(150)

    def show_trials(self, trials: Trials, rows: Rows, summary: GroupProgress, total: int) -> None:
        """Replaces what is shown; `total`: trials that the group may get, 0 where nobody knows."""
        self.trials, self.rows, self.summary, self._room = trials, rows, summary, total
        best = f"best {summary.best:.4g} µs {summary.origin}, trial {summary.number}"
        said = best if summary.number else "no time yet"
        self.setAccessibleDescription(f"{len(rows):,} trials, {summary.failed:,} failed, {said}")
        self.update()

    def show_selection(self, row: int) -> None:
        """Rings a trial."""
        self.selected = row
        self.update()

    def set_theme(self, theme: Theme) -> None:
        """Repaints with the tokens of `theme`."""
        self.theme = theme
        self.update()

    def axes(self) -> TrialAxes:
        """Where trials and times stand at the present size."""
        area = QRectF(LEFT, TOP, max(self.width() - LEFT - RIGHT, 1.0), max(self.height() - TOP - BOTTOM, 1.0))
        before = self.summary.before if self.summary else 0.0
        return progress_axes(area, self.trials.microseconds[self.rows], before, self._room)

    @property
    def edge(self) -> float:
        """Microseconds beyond which trials are drawn at the edge; 0 where none is."""
        times = self.trials.microseconds[self.rows]
        high = self.axes().high
        return high if (times > high).any() else 0.0

    def paintEvent(self, event: QPaintEvent) -> None:
        """Grid, dots, steps, failures."""
        if self.theme is None or self.summary is None or not len(self.rows):
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        times = self.trials.microseconds[self.rows]
        picture = ProgressPicture(painter, self.theme, self.axes(), times, self.summary)
        picture.grid()
        picture.spread(*(part[self.rows] for part in self.trials.spread))
        picture.dots()
        picture.steps()
        picture.failures(self._wrong())
        place = np.flatnonzero(self.rows == self.selected)
        if len(place):
            picture.ring(int(place[0]), self.hasFocus())

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Selects the nearest trial."""
        place = self._nearest(event.position())
        if place != NONE:
            self.trial_selected.emit(int(self.rows[place]))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left and right go from trial to trial, up and down from best to best."""
        place = self._next_dot(Qt.Key(event.key()))
        if place is None:
            super().keyPressEvent(event)
        else:
            self.trial_selected.emit(int(self.rows[place]))

    def focusInEvent(self, event: QFocusEvent) -> None:
        """The focus shows at the selected trial."""
        super().focusInEvent(event)
        self.update()

    focusOutEvent = focusInEvent

    def _wrong(self) -> NDArray[np.bool_]:
        """Of each trial whether its kernel gave a wrong result."""
        wrong = np.array([*("wrong" in text for text in self.trials.words.kinds.texts), False])
        return np.asarray(wrong[self.trials.column("kind")[self.rows]])

    def _nearest(self, at: QPointF) -> int:
        if not len(self.rows):
            return NONE
        x, y = self.axes().places(self.trials.microseconds[self.rows])
        far = np.hypot(x - at.x(), np.nan_to_num(y, nan=1e6) - at.y())
        place = int(np.argmin(far))
        return place if far[place] <= REACH else NONE

    def _next_dot(self, key: Qt.Key) -> int | None:
        count = len(self.rows)
        if not count or key not in _STEPS:
            return None
        here = np.flatnonzero(self.rows == self.selected)
        place = int(here[0]) if len(here) else count - 1
        if key in (Qt.Key.Key_Home, Qt.Key.Key_End):
            return 0 if key == Qt.Key.Key_Home else count - 1
        if key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            return min(max(place + _STEPS[key], 0), count - 1)
        bests = improvements(self.trials.microseconds[self.rows])
        further = bests[bests > place] if key == Qt.Key.Key_Down else bests[bests < place][::-1]
        return int(further[0]) if len(further) else place


_STEPS = {
    Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1, Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1, Qt.Key.Key_Home: 0,
    Qt.Key.Key_End: 0,
}  # fmt: skip


def improvements(times: np.ndarray) -> np.ndarray:
    """Places of the trials that were faster than all before them."""
    known = np.where(np.isnan(times), np.inf, times)
    before = np.minimum.accumulate(np.concatenate(([np.inf], known[:-1])))
    return np.flatnonzero(known < before)
