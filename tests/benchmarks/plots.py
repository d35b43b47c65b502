"""What a frame of a plot costs: `python -m tests.benchmarks.plots [--json F] [--count N] [--rounds N]`.

Each plot gets more data and is painted, and is zoomed and painted, offscreen at 1000 x 500; the clock is this process's
own time of a processor, the figure the median of some rounds.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
from rich.console import Console

from app.shell.main import application
from tests.benchmarks import report
from views.plots.frame import PlotFrame
from views.theme import load_theme
from views.timing.live import Live, Series
from views.timing.plot import SamplePlot
from views.tuning.nodes import GroupProgress
from views.tuning.progress import ProgressPlot
from views.tuning.promise import PromisePlot
from views.tuning.trials import FAILED, NEW, NONE, Batch, Trials, Words

COUNT, ROUNDS = 100_000, 9
BUDGET = 33.0
"""Milliseconds of a frame."""
SIZE = (1000, 500)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write the document."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.plots", description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rows and summary there")
    parser.add_argument("--count", type=int, default=COUNT, help="points of each plot")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    found = frames_of(options.count, options.rounds)
    console = Console(width=None if Console().is_terminal else 110)
    for name, milliseconds in found.items():
        console.print(f"{name}: {milliseconds:.1f} ms a frame of {options.count:,} points (budget {BUDGET:g})")
    if options.json:
        rows = [{"frame": name, "milliseconds": milliseconds} for name, milliseconds in found.items()]
        where = report.environment("PySide6-Essentials", "pyqtgraph", "numpy")
        report.write(options.json, "plots", where, rows, {"frame_milliseconds": max(found.values())})


def frames_of(count: int, rounds: int) -> dict[str, float]:
    """Name of a plot and of what happens to it -> milliseconds of a frame."""
    application()
    found: dict[str, float] = {}
    for name, frame, stream in _plots(count):
        frame.set_theme(load_theme("dark"))
        frame.resize(*SIZE)
        frame.show()
        stream(count)
        frame.grab()  # the first frame loads pyqtgraph and the faces
        parts = [count * (rounds + number) // (2 * rounds) for number in range(rounds)]
        found[f"{name}, streaming"] = median(_frame(frame, partial(stream, part)) for part in parts)
        chart = frame.chart
        assert chart is not None
        found[f"{name}, zooming"] = median(_frame(frame, partial(chart.zoom, 0.9)) for _ in range(rounds))
        frame.close()
        frame.deleteLater()
    return found


def _frame(frame: PlotFrame, change: Callable[[], None]) -> float:
    began = process_time()
    change()
    frame.flush()
    frame.grab()  # paints all of it; a window that no screen shows would leave a repaint out
    return (process_time() - began) * 1e3


def _plots(count: int) -> list[tuple[str, PlotFrame, Callable[[int], None]]]:
    noise = np.random.default_rng(5)
    samples = noise.normal(40, 0.5, count)
    plot = SamplePlot()

    def stream(part: int) -> None:
        plot.show_live(Live(Series("s", "measured", "", "", samples[:part].tolist(), 40.0, 39.6, 40.4, total=count)))

    trials = flood(count)
    progress, promise = ProgressPlot(), PromisePlot()

    def stream_trials(part: int) -> None:
        progress.show_trials(trials, np.arange(part), GroupProgress("g", "measured", 60.0, 20.0, 9, part, 1, 0), count)

    def stream_promises(part: int) -> None:
        promise.show_trials(trials, np.arange(part), "measured", 0.8)

    return [
        ("live timing", plot, stream), ("progress", progress, stream_trials), ("promise", promise, stream_promises),
    ]  # fmt: skip


def flood(count: int) -> Trials:
    """Trials of one group with times, spreads and promises; one in ten failed."""
    noise, trials = np.random.default_rng(5), Trials()
    words = trials.words
    times = 20 + noise.gamma(2.0, 8.0, count)
    times[::10] = np.nan
    group, mapping, kind = words.groups.code("g"), words.mappings.code("m"), words.kinds.code("wrong result")
    failed = np.isnan(times)
    dimensions = {}
    for name in ("stages", "warps", "depth"):
        known = words.dimensions[name] = Words()
        codes = [known.code(str(value)) for value in (1, 2, 4, 8)]
        dimensions[name] = np.asarray(noise.choice(codes, count), np.int32)
    trials.append(
        Batch(
            np.arange(1, count + 1), np.arange(1, count + 1), np.full(count, group, np.int32),
            np.full(count, mapping, np.int32), np.where(failed, FAILED, NEW).astype(np.int32),
            np.where(failed, kind, NONE).astype(np.int32), times, times * noise.normal(1, 0.1, count), times * 0.98,
            times * 1.03, dimensions,
        )
    )  # fmt: skip
    return trials


if __name__ == "__main__":
    main()
