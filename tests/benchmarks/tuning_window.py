"""A flood of trials in the real window: `python -m tests.benchmarks.tuning_window [--json F] [--count N] [--rate N]`.

Another process writes synthetic trials into a file of records, 10,000 a second; the window follows it in the Tune
perspective with the table of all groups open, offscreen. Stalls are the watchdog's, from attaching, once the imports
beside the event loop have ended, until the last trial is shown. Then every column is sorted, and the window is used
for a while: memory must not grow. What the writer needs of a processor says whether it could keep the pace on a
machine with nothing else to do. At last a real search is stopped and resumed a few times.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from rich.console import Console

from app.shell.later_imports import LaterImports
from app.shell.main import application, make_window
from app.shell.watchdog import Watchdog, own_time
from app.shell.window import Window
from tests.benchmarks import report
from tests.benchmarks.tuning_stops import stops
from views.tuning.view import PROGRESS, TABS

COUNT, RATE = 100_000, 10_000
LIMIT = 300.0
"""Seconds after which the trials count as not shown."""
ROUNDS = 12
"""Of tabs, sorting, filtering and scrolling, while memory is watched; the first third fills what is kept for good."""
FILTERS = ("failed", "stages>3", "time<25 stages=2", "")
STOPS = 5
"""Of which the one in the middle counts: other programs of the machine hold up one or the other."""
BUDGETS = {
    "stall_milliseconds": 100.0, "sort_milliseconds": 150.0, "growth_megabytes": 8.0, "writer_microseconds": 100.0,
    "stop_milliseconds": 200.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Figures:
    """One flood; seconds, milliseconds and MB."""

    trials: int
    asked_rate: int
    written_rate: float
    """Trials a second that the writer reached."""
    writer_microseconds: float
    """Of a processor, that the writer needed for each trial."""
    behind_seconds: float
    """From the writer's end until the last trial was shown."""
    stall_milliseconds: float
    sort_milliseconds: dict[str, float]
    """Of each column, from the click on its head until the table is painted, on the watchdog's clock."""
    filter_milliseconds: float
    """The slowest filter."""
    megabytes: float
    """The window's memory when all trials were shown."""
    growth_megabytes: float
    """What it grew by while the window was used afterwards."""
    stop_milliseconds: tuple[float, ...]
    """From the key until nothing of a real run works any more."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write the document."""
    about = __doc__.partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.tuning_window", description=about)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rows and summary there")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--rate", type=int, default=RATE, help="trials a second")
    parser.add_argument("--stops", type=int, default=STOPS, help="times that a real search is stopped")
    options = parser.parse_args(arguments)
    found = measured(options.count, options.rate, options.stops)
    figures = summary(found)
    show(found, figures)
    if options.json:
        where = report.environment("PySide6-Essentials", "numpy")
        report.write(options.json, "tuning_window", where, [asdict(found)], figures)


def measured(count: int, rate: int, stopped: int) -> Figures:
    """Floods a window of its own, and stops a search in another one so often."""
    application()
    window = make_window(theme="dark")
    dog, imports = Watchdog(), LaterImports()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flood.db"
        try:
            window.resize(1440, 900)
            window.show()
            imports.start()  # as the program does when its window is shown
            window.set_perspective("Tune")
            window.panels.trials.every.setChecked(True)
            _until(lambda: window.isVisible() and imports.is_over)
            written, busy, behind = _flood(window, path, count, rate, dog)
            memory = _megabytes()
            columns = window.panels.trials.table.trials.columns
            sorted_in = {name: _sort(window, number) for number, name in enumerate(columns)}
            filtered = max(_filter(window, text) for text in FILTERS)
            sizes = [_use(window) for _ in range(ROUNDS)]
            growth = max(sizes[ROUNDS // 3 :]) - sizes[ROUNDS // 3 - 1]
        finally:
            imports.end()
            window.close()
            window.deleteLater()
        took = stops(stopped, Path(folder), _until) if stopped else ()
    return Figures(
        count, rate, written, busy, behind, dog.longest_ms, sorted_in, filtered, memory, growth, took
    )


def _flood(window: Window, path: Path, count: int, rate: int, dog: Watchdog) -> tuple[float, float, float]:
    """Follows a writer from its first trial to its last.

    The rate it reached, the microseconds of a processor it needed for a trial, and the seconds the window was behind.
    """
    command = [sys.executable, "-m", "tests.benchmarks.trial_stream", str(path)]
    command += ["--count", str(count), "--rate", str(rate)]
    tuning = window.wiring.tuning
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        _until(lambda: _has_run(path))
        dog.start()
        tuning.control.attach(str(path))
        _until(lambda: writer.poll() is not None)
        ended = perf_counter()
        assert writer.stdout is not None
        said = writer.stdout.read()
    _until(lambda: len(window.panels.trials.table.trials.order) == count)
    dog.stop()
    match = re.search(r"in ([\d.]+) s, .* second, ([\d.]+) us", said)
    assert match is not None, f"the writer says {said!r}"
    return count / float(match[1]), float(match[2]), perf_counter() - ended


def _has_run(path: Path) -> bool:
    """Whether the writer has begun."""
    from engine.records.reader import RunReader
    from engine.support.errors import BadInput

    try:
        with RunReader(path) as reader:
            return bool(reader.runs())
    except BadInput:
        return False


def _sort(window: Window, section: int) -> float:
    """Milliseconds from the click on a head until the table is painted."""
    table = window.panels.trials.table
    began = own_time()
    table.horizontalHeader().sectionClicked.emit(section)
    table.viewport().repaint()
    took = (own_time() - began) * 1e3
    QApplication.processEvents()
    return took


def _filter(window: Window, text: str) -> float:
    """Milliseconds from the last letter of a filter until the table is painted."""
    trials = window.panels.trials
    began = own_time()
    trials.filter.setText(text)
    trials.table.viewport().repaint()
    return (own_time() - began) * 1e3


def _use(window: Window) -> float:
    """Looks at all tabs, sorts, filters and scrolls; the memory afterwards."""
    panels = window.panels
    for tab in TABS:
        panels.tuning.select_tab(tab)
        window.wiring.tuning.show()
        QTest.qWait(20)
    panels.tuning.select_tab(PROGRESS)
    for section in range(4):
        _sort(window, section)
    for text in FILTERS:
        _filter(window, text)
    bar = panels.trials.table.verticalScrollBar()
    for part in range(20):
        bar.setValue(bar.maximum() * part // 20)
        panels.trials.table.viewport().repaint()
    QTest.qWait(20)
    return _megabytes()


def _until(done: Callable[[], bool]) -> None:
    end = perf_counter() + LIMIT
    while not done():
        QTest.qWait(5)
        if perf_counter() > end:
            raise TimeoutError(f"not done in {LIMIT:.0f} s")


def _megabytes() -> float:
    """Memory of this process that is its own or shared; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text()) if status.is_file() else None
    return int(found[1]) / 1024 if found else 0.0


def summary(found: Figures) -> dict[str, float]:
    """The figures that the goals name, that of stops where there were any."""
    figures = {
        "stall_milliseconds": found.stall_milliseconds,
        "sort_milliseconds": max(found.sort_milliseconds.values()),
        "growth_megabytes": found.growth_megabytes,
        "writer_microseconds": found.writer_microseconds,
    }
    return {**figures, "stop_milliseconds": median(found.stop_milliseconds)} if found.stop_milliseconds else figures


def show(found: Figures, figures: dict[str, float]) -> None:
    """Everything in lines, and the summary with its budgets."""
    console = Console(width=None if Console().is_terminal else 110)
    console.print(
        f"{found.trials:,} trials at {found.written_rate:,.0f} a second ({found.asked_rate:,} asked for), the last one "
        f"shown {found.behind_seconds:.2f} s after it was written; {found.megabytes:.0f} MB"
    )
    for name, value in found.sort_milliseconds.items():
        console.print(f"sort by {name}: {value:.0f} ms")
    console.print(f"slowest filter: {found.filter_milliseconds:.0f} ms")
    if found.stop_milliseconds:
        console.print(f"stops: {', '.join(f'{took:.0f}' for took in found.stop_milliseconds)} ms")
    for name, value in figures.items():
        console.print(f"{name} {value:.1f} (budget {BUDGETS[name]:g})")


if __name__ == "__main__":
    main()
