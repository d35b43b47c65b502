"""Plays a recording: samples come again in their order, as fast as asked."""

from __future__ import annotations

from PySide6.QtCore import QElapsedTimer, QObject, QTimer, Signal

from app.controllers.recording import Recording, Take
from app.controllers.sampling import SampleRun
from views.timing.deck import SPEEDS
from views.timing.live import Deck

TICK_MS = 25
LATE_MS = 250
"""After a pause of the machine no more samples come at once than in this time."""


class Player(QObject):
    """One recording, one row of it at a time."""

    advanced = Signal()
    """Samples came, or what plays changed."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording
        self.number = 0
        self.speed = SPEEDS[1]
        self.run = self._fresh()
        self._owed = 0.0
        """Samples that are due, in part."""
        self._clock = QElapsedTimer()
        self._timer = QTimer(self, interval=TICK_MS)
        self._timer.timeout.connect(self._tick)

    @property
    def take(self) -> Take:
        """What plays."""
        return self.recording.takes[self.number]

    @property
    def is_playing(self) -> bool:
        """Whether samples keep coming."""
        return self._timer.isActive()

    def deck(self) -> Deck:
        """The controls as they stand."""
        titles = tuple(take.title for take in self.recording.takes)
        position, total = len(self.run.samples), len(self.take.time.samples)
        return Deck(self.recording.file, titles, self.number, self.speed, self.is_playing, position, total)

    def play(self, number: int) -> None:
        """Plays a row from its beginning."""
        self.number = number
        self.run = self._fresh()
        self._owed = 0.0
        self._start()

    def pause(self) -> None:
        """Pauses, goes on, or begins again where the row was over."""
        if self.is_playing:
            self._timer.stop()
            self.advanced.emit()
        elif self.run.is_whole:
            self.play(self.number)
        else:
            self._start()

    def finish(self) -> None:
        """Shows what is left of the row at once."""
        self._timer.stop()
        self.run = SampleRun.of(self.take.title, self.take.row, self.take.time, self.take.looks)
        self.advanced.emit()

    def stop(self) -> None:
        """Ends it for good."""
        self._timer.stop()

    def set_speed(self, speed: int) -> None:
        """Samples a second from now on."""
        self.speed = speed
        self.advanced.emit()

    def change_speed(self, step: int) -> None:
        """The next speed up (1) or down (-1)."""
        place = min(max(SPEEDS.index(self.speed) + step, 0), len(SPEEDS) - 1)
        self.set_speed(SPEEDS[place])

    def _start(self) -> None:
        self._clock.start()
        self._timer.start()
        self.advanced.emit()

    def _fresh(self) -> SampleRun:
        take = self.take
        time = take.time
        return SampleRun(take.title, take.row, time.origin, time.device, time.date, time.rounds, len(time.samples))

    def _tick(self) -> None:
        self._owed += self.speed * min(self._clock.restart(), LATE_MS) / 1000
        due, self._owed = int(self._owed), self._owed % 1
        run, take = self.run, self.take
        done = len(run.samples)
        run.samples.extend(take.time.samples[done : done + due])
        known = len(run.looks)
        run.looks.extend(look for look in take.looks[known:] if look.at <= len(run.samples))
        if run.is_whole:
            self._timer.stop()
        if due:
            self.advanced.emit()
