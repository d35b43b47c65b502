"""The jobs panel: what runs, how far it is, and a way to stop it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QWidget

from views.panel import Panel, label


@dataclass(frozen=True, slots=True)
class JobState:
    """One job of the worker, or an export; `total` is 0 where its length is not known."""

    number: int
    title: str
    text: str
    done: int
    total: int


class JobsView(Panel):
    """Running jobs, each with a way to stop it; the worker serves one after the other, so stopping one stops it."""

    stop_requested = Signal(int)
    """The number of a job."""

    def __init__(self) -> None:
        super().__init__("Jobs")
        self._rows: dict[int, _JobRow] = {}
        self.body_layout.addStretch(1)
        self.show_empty("Nothing is running")

    def show_jobs(self, jobs: Sequence[JobState]) -> None:
        """Replaces the list, keeping the rows of jobs that still run."""
        running = {job.number for job in jobs}
        for number in [number for number in self._rows if number not in running]:
            self._rows.pop(number).deleteLater()
        for job in jobs:
            if job.number not in self._rows:
                row = self._rows[job.number] = _JobRow()
                row.cancel.clicked.connect(lambda _=False, number=job.number: self.stop_requested.emit(number))
                self.body_layout.insertWidget(self.body_layout.count() - 1, row)
            self._rows[job.number].show_job(job)
        self.subtitle.setText(str(len(jobs)) if jobs else "")
        if jobs:
            self.show_body()
        else:
            self.show_empty("Nothing is running")


class _JobRow(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(32)
        self._title = label("", "title")
        self._text = label("", "hint")
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setFixedWidth(220)
        self._bar.setAccessibleName("Progress")
        self.cancel = QPushButton("Cancel")
        self.cancel.setProperty("role", "small")
        layout = QHBoxLayout(self)
        layout.setContentsMargins(12, 0, 12, 0)
        layout.setSpacing(10)
        layout.addWidget(self._title)
        layout.addWidget(self._text, 1)
        layout.addWidget(self._bar)
        layout.addWidget(self.cancel)

    def show_job(self, job: JobState) -> None:
        self._title.setText(job.title)
        self._text.setText(job.text)
        self._bar.setRange(0, job.total)
        self._bar.setValue(job.done)
