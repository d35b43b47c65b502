"""Large graphs in the real window with the real worker: `python -m tests.benchmarks.window [--json F] [--operators N]`.

Opens the graph of 8,063 nodes (where ../shared/models is there) and both generated ones, offscreen.  "Usable" counts
from the end of parsing, as the worker tells it, until the outline is filled, the collapsed graph is painted and a click
selects a group; "shown" from the worker's last word.  Stalls are the watchdog's, from the request to the end of it all.
Starting is measured in processes of their own, in processor time; `--start` measures nothing else.
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

from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QGraphicsItem, QGraphicsView
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from app.session.client import ROOT
from app.shell.main import application, make_window
from app.shell.watchdog import Watchdog, own_time
from app.shell.window import Window
from tests.benchmarks import report
from tests.benchmarks.window_extremes import history_milliseconds, listing_milliseconds
from tests.support import large_models

REAL = Path(__file__).parents[3] / "shared" / "models" / "gpt2_48l_ts13_b1_s64.onnx"
REAL_NODES = 8063
LIMIT = 300.0
"""Seconds after which a graph counts as not opened."""
STARTS = 5
FRAMES = 20
"""Frames and selections that are timed."""
START = """
import gc, sys, time
from app.cli.main import main
gc.disable()  # as the verb `open` does before it imports the window
from app.shell import window

class Window(window.Window):
    def show(self):
        super().show()
        self.startTimer(0)

    def timerEvent(self, event):
        if self.windowHandle().isExposed():
            print(time.process_time(), flush=True)
            self.killTimer(event.timerId())
            self.close()

window.Window = Window
sys.argv[1:] = ["open"]
main()
"""
"""The whole program as `loomscope open` starts it, until its window is mapped and painted on."""
QUERIES = {
    "name": "softmax",
    "type": "type:Mat*",
    "attribute": "attr:axis=-1",
    "regular expression": r"/t?\w*1\d+$/",
    "chain": "MatMul > * > Add > Softmax",
    "long chain": "MatMul > ** > Softmax",
    "time": "time>5%",
    "nothing": "name:nothing_like_it",
}
EXTREMES = ("listing_milliseconds", "link_milliseconds", "history_milliseconds")
BUDGETS = {
    "start_processor_seconds": 1.0,
    "usable_seconds_8063": 2.0,
    "usable_seconds_50000": 8.0,
    "search_milliseconds_worst": 100.0,
    "stall_milliseconds_worst": 100.0,
    "listing_milliseconds_worst": 800.0,
    "link_milliseconds_worst": 30.0,
    "history_milliseconds_worst": 100.0,
}


@dataclass(frozen=True, slots=True)
class Figures:
    """One graph; seconds, milliseconds and MB."""

    graph: str
    operators: int
    kernels: int
    parsing_seconds: float
    usable_seconds: float
    """From the parsed file until the graph is shown and an operator or a kernel of it was clicked on and explained."""
    planned_seconds: float
    """Until kernels are shown and one was selected: large graphs are shown before theirs are planned."""
    shown_seconds: float
    """From the worker's last word until then."""
    expand_milliseconds: float
    pan_milliseconds: float
    """A frame of the graph where its text can be read, the median of some places."""
    fit_milliseconds: float
    """A frame of the whole graph."""
    select_milliseconds: float
    """From a selection to all panels that can be seen, what the worker has to answer left out; the 95th percentile."""
    stall_milliseconds: float
    search_milliseconds: dict[str, float]
    window_processor_seconds: float
    """Time on a core that each process took for `planned_seconds`: what a busy machine does not change."""
    worker_processor_seconds: float
    window_megabytes: float
    worker_megabytes: float
    listing_milliseconds: float
    """100,000 lines of PTX, until they are painted."""
    link_milliseconds: float
    """Until the lines of a line of the CUDA text are marked in them."""
    history_milliseconds: float
    """One step back in a history of 10,000."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the document."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.window", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rows and summary there")
    parser.add_argument("--operators", type=int, default=large_models.OPERATORS, help="of the generated graphs")
    parser.add_argument("--start", action="store_true", help="only how long the program takes to start")
    options = parser.parse_args(arguments)
    if options.start:
        print(f"start_processor_seconds {start_seconds():.2f} (budget {BUDGETS['start_processor_seconds']:g})")
        return
    with tempfile.TemporaryDirectory() as folder:
        files = [REAL] * REAL.is_file() + list(large_models.write(Path(folder), options.operators))
        found = [measured(file, Path(folder) / "journals") for file in files]  # not among this user's unsaved edits
    figures = {"start_processor_seconds": start_seconds(), **summary(found)}
    show(found, figures)
    if options.json:
        rows = [asdict(each) for each in found]
        report.write(options.json, "window", report.environment("PySide6-Essentials", "onnx"), rows, figures)


def start_seconds() -> float:
    """Time on a core from the program's first line until its window is on the screen: the least of some starts, which
    a machine that does other things disturbs least.

    The first start writes the bytecode that an installed program has.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_DATA_HOME": folder, "XDG_CONFIG_HOME": folder}
        environment = {**environment, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, "-c", START]
        _, *told = [
            subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
            for _ in range(1 + STARTS)
        ]
    return min(map(float, told))


def measured(file: Path, journals: Path) -> Figures:
    """Opens a file in a window of its own, selects, expands and searches.  journals: a folder for its edits."""
    application()
    window = make_window(theme="dark", journals=journals)
    dog = Watchdog()
    try:
        window.resize(1440, 900)
        window.show()
        window.workspace.start()
        _until(lambda: window.workspace.client.is_idle)
        parsed, answered, spent = _times_of_stages(window)
        dog.start()
        begin = perf_counter()
        window.open_file(str(file))
        _until(lambda: window.workspace.shown is not None and not window.panels.graph.scene.is_building)
        (_select_by_click if window.workspace.model else _look_at_operator)(window)
        usable = perf_counter()
        _until(lambda: window.workspace.model is not None and not window.panels.graph.scene.is_building)
        _select_by_click(window)
        planned = perf_counter()
        spent.append(_processor_seconds(window))
        expanded = _expand(window)
        pan, fit = _frames(window)
        selected = _selections(window)
        searched = {kind: _search(window, text) for kind, text in QUERIES.items()}
        _until(lambda: window.workspace.client.is_idle)
        dog.stop()
        memory = _megabytes(os.getpid()), _megabytes(window.workspace.client.process_id)
        model, listing, history = window.workspace.model, listing_milliseconds(window), history_milliseconds(window)
        assert model is not None
        return Figures(
            file.stem, len(model.operators), len(model.nodes), parsed[0] - begin, usable - parsed[0],
            planned - parsed[0], planned - answered[0], expanded, pan, fit, selected, dog.longest_ms, searched,
            *(after - before for before, after in zip(*spent, strict=True)),
            *memory, *listing, history,
        )  # fmt: skip
    finally:
        window.close()
        window.deleteLater()


def _times_of_stages(window: Window) -> tuple[list[float], list[float], list[tuple[float, float]]]:
    """When the worker said that it had parsed the file, and when it was last heard of; filled while it works.

    Third the processor times of window and worker at the first of the two.
    """
    parsed, heard = [0.0], [0.0]
    spent: list[tuple[float, float]] = []

    def look() -> None:
        texts = [job.text for job in window.workspace.client.jobs if job.verb == "open"]
        if texts and texts[0]:
            heard[0] = perf_counter()
        if texts and texts[0] not in ("", "reading the file") and not parsed[0]:
            parsed[0] = perf_counter()
            spent.append(_processor_seconds(window))

    window.workspace.client.jobs_changed.connect(look)
    return parsed, heard, spent


def _select_by_click(window: Window) -> None:
    """Clicks on a launch's box, or on a row of the outline where all boxes are closed."""
    canvas, scene = window.panels.graph.canvas, window.panels.graph.scene
    closed = [placed for placed in scene.drawing.placed if not placed.box.children]
    if closed:
        _click(canvas, scene.item_of(closed[0].box.key))
    else:
        tree = window.panels.outline.tree
        for key, _ in list(tree.rows.parents())[:3]:
            tree.expand(tree.rows.index_of(key))
        row = next(key for key in tree.rows if tree.rows.row_at(tree.rows.index_of(key)).value.group)  # type: ignore[attr-defined]
        index = tree.rows.index_of(row)
        tree.scrollTo(index)
        place = tree.visualRect(index).center()
        QTest.mouseClick(tree.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(80, place.y()))
    QApplication.processEvents()
    assert window.wiring.group, "nothing was selected by the click"


def _click(canvas: QGraphicsView, item: QGraphicsItem | None) -> None:
    assert item is not None
    canvas.centerOn(item)
    point = canvas.mapFromScene(item.sceneBoundingRect().center())
    QTest.mouseClick(canvas.viewport(), Qt.MouseButton.LeftButton, pos=point)


def _look_at_operator(window: Window) -> None:
    """Opens boxes of the graph until one holds operators, and clicks on one, while kernels are being planned."""
    canvas, scene = window.panels.graph.canvas, window.panels.graph.scene
    while not any(placed.box.is_uncompiled for placed in scene.drawing.placed):
        canvas.toggle(next(each.box.key for each in scene.drawing.placed if each.box.children and not each.opened))
        _until(lambda: not scene.is_building)
    _click(canvas, scene.item_of(next(each.box.key for each in scene.drawing.placed if each.box.is_uncompiled)))
    QApplication.processEvents()
    assert scene.look.uncompiled and window.panels.explain.subtitle.text(), "the click told nothing"


def _expand(window: Window) -> float:
    """Milliseconds to open a closed level, until it is painted; 0 where there is none."""
    scene = window.panels.graph.scene
    closed = [placed.box for placed in scene.drawing.placed if placed.box.children and not placed.opened]
    if not closed:
        closed = [placed.box for placed in scene.drawing.placed if placed.opened]
        window.panels.graph.canvas.toggle(closed[0].key)
        _until(lambda: not scene.is_building)
    begin = perf_counter()
    window.panels.graph.canvas.toggle(closed[0].key)
    _until(lambda: not scene.is_building)
    window.panels.graph.canvas.viewport().repaint()
    return (perf_counter() - begin) * 1e3


def _frames(window: Window) -> tuple[float, float]:
    """Milliseconds of a frame while one pans at reading size, and of the whole graph."""
    canvas, scene = window.panels.graph.canvas, window.panels.graph.scene
    area, times = scene.sceneRect(), []
    canvas.resetTransform()
    for k in range(FRAMES):
        canvas.centerOn(area.center().x(), area.top() + area.height() * (k + 1) / (FRAMES + 1))
        times.append(_frame_milliseconds(canvas))
    canvas.fitInView(area, Qt.AspectRatioMode.KeepAspectRatio)
    fit = median(_frame_milliseconds(canvas) for _ in range(FRAMES))
    return median(times), fit


def _frame_milliseconds(canvas: QGraphicsView) -> float:
    QApplication.processEvents()  # a stall is what keeps these waiting
    begin = own_time()
    canvas.viewport().repaint()
    return (own_time() - begin) * 1e3


def _selections(window: Window) -> float:
    """Milliseconds until groups that are selected one after the other are shown, the 95th percentile."""
    assert window.workspace.model is not None
    times = []
    for group in window.workspace.model.groups[:FRAMES]:
        begin = own_time()
        window.workspace.bus.select_group(group.name)
        QApplication.processEvents()
        times.append((own_time() - begin) * 1e3)
        _until(lambda: window.workspace.client.is_idle)
    return sorted(times)[max(round(0.95 * len(times)) - 1, 0)]


def _search(window: Window, text: str) -> float:
    """Milliseconds from the last key to the painted answer, on the watchdog's clock."""
    window.search.setFocus()
    window.search.clear()
    QApplication.processEvents()
    begin = own_time()
    window.search.setText(text)
    window.search.textEdited.emit(text)
    QApplication.processEvents()
    return (own_time() - begin) * 1e3


def _until(done: Callable[[], bool]) -> None:
    end = perf_counter() + LIMIT
    while not done():
        QTest.qWait(1)
        if perf_counter() > end:
            raise TimeoutError(f"not done in {LIMIT:.0f} s")
    QApplication.processEvents()


def _processor_seconds(window: Window) -> tuple[float, float]:
    """Seconds on a core so far of the window's process and of the worker's; 0 where the system does not tell."""
    times = []
    for process in (os.getpid(), window.workspace.client.process_id):
        status = Path(f"/proc/{process}/stat")
        columns = status.read_text().rpartition(")")[2].split() if status.is_file() else ["0"] * 13
        times.append((int(columns[11]) + int(columns[12])) / os.sysconf("SC_CLK_TCK"))
    return times[0], times[1]


def _megabytes(process: int) -> float:
    """Memory of a process that is its own or shared; 0 where the system does not tell."""
    status = Path(f"/proc/{process}/status")
    found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text()) if status.is_file() else None
    return int(found[1]) / 1024 if found else 0.0


def summary(found: Sequence[Figures]) -> dict[str, float]:
    """The figures that the goals name, the worst graph of each kind."""
    real = [each.planned_seconds for each in found if each.graph == REAL.stem]
    made = [each for each in found if each.graph != REAL.stem]
    return {
        **({f"usable_seconds_{REAL_NODES}": max(real)} if real else {}),
        "usable_seconds_50000": max(each.usable_seconds for each in made),
        "planned_seconds_50000": max(each.planned_seconds for each in made),
        "search_milliseconds_worst": max(max(each.search_milliseconds.values()) for each in found),
        "stall_milliseconds_worst": max(each.stall_milliseconds for each in found),
        **{f"{name}_worst": max(getattr(each, name) for each in found) for name in EXTREMES},
    }


def show(found: Sequence[Figures], figures: dict[str, float]) -> None:
    """The table and the summary with its budgets."""
    console = Console(width=None if Console().is_terminal else 110)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for each in found:
        table.add_column(each.graph, justify="right")
    rows = (
        ("operators", lambda e: f"{e.operators:,}"),
        ("kernels", lambda e: f"{e.kernels:,}"),
        ("parsing, s", lambda e: f"{e.parsing_seconds:.2f}"),
        ("usable after parsing, s", lambda e: f"{e.usable_seconds:.2f}"),
        ("kernels shown after parsing, s", lambda e: f"{e.planned_seconds:.2f}"),
        ("kernels shown after the worker's last word, s", lambda e: f"{e.shown_seconds:.2f}"),
        ("on a core for it, the window, s", lambda e: f"{e.window_processor_seconds:.2f}"),
        ("on a core for it, the worker, s", lambda e: f"{e.worker_processor_seconds:.2f}"),
        ("a level opened, ms", lambda e: f"{e.expand_milliseconds:.0f}"),
        ("a frame while panning, ms", lambda e: f"{e.pan_milliseconds:.1f}"),
        ("a frame of the whole graph, ms", lambda e: f"{e.fit_milliseconds:.1f}"),
        ("a group selected, ms", lambda e: f"{e.select_milliseconds:.1f}"),
        ("longest stall, ms", lambda e: f"{e.stall_milliseconds:.0f}"),
        ("memory of the window, MB", lambda e: f"{e.window_megabytes:.0f}"),
        ("memory of the worker, MB", lambda e: f"{e.worker_megabytes:.0f}"),
        ("100,000 lines of PTX shown, ms", lambda e: f"{e.listing_milliseconds:.0f}"),
        ("lines marked in them, ms", lambda e: f"{e.link_milliseconds:.1f}"),
        ("a step back in 10,000, ms", lambda e: f"{e.history_milliseconds:.1f}"),
    )
    for name, text in rows:
        table.add_row(name, *(text(each) for each in found))
    for kind, query in QUERIES.items():
        table.add_row(f"search by {kind}: {query}, ms", *(f"{each.search_milliseconds[kind]:.1f}" for each in found))
    console.print(table)
    for name, value in figures.items():
        console.print(f"{name} {value:.2f}" + (f" (budget {BUDGETS[name]:g})" if name in BUDGETS else ""))


if __name__ == "__main__":
    main()
