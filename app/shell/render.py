"""The window as a picture, without a display: the same panels, the same worker."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QWidget

from app.session.advice import with_pasted
from app.session.client import COMMAND
from app.shell.main import application, make_window
from app.shell.panels import PANELS, PERSPECTIVES
from app.shell.pictures import check_picture, save_picture
from app.shell.preferences import keep_settings_in
from app.shell.sigint import note_interrupts
from app.shell.window import SMALLEST, Window
from engine.documents.model import ModelDoc, ProblemDoc
from engine.support.errors import BadInput, OverBudget
from engine.support.files import read_text
from engine.support.leftovers import process_folder
from views.code.view import LANGUAGES
from views.schedule.view import ADDRESSES, PIPELINE, TABS
from views.theme import THEMES
from views.timing.view import TABS as TIMES
from views.tuning.view import ABLATION, PROMISE
from views.tuning.view import TABS as TUNING

UNREADABLE = "recipe"
"""The stage that problems of a text come from which is no advice, or speaks of what the group has not."""
QUIET_MS = 120
LARGEST = 8192
"""Pixels of a side of the window, at most."""
LIMIT_MS = 300_000
_PERSPECTIVES = {name.lower(): name for name in PERSPECTIVES}
_TABS = {name.lower(): name for name in (*TABS, *TIMES, *TUNING, *LANGUAGES)} | {"promise": PROMISE}


@dataclass(frozen=True, slots=True)
class PictureOptions:
    """What is in the picture; by default the window at its usual size with the dearest group selected."""

    size: tuple[int, int] = (1440, 900)
    """Width and height in pixels."""
    theme: str = "dark"
    panel: str | None = None
    """Only this one: "graph", "code", ..."""
    perspective: str = "explore"
    tab: str = "tree"
    """Of the schedule, the code, the timing or the tuning panel."""
    group: str | None = None
    advice: Path | None = None
    """A file with entries to add to the group's advice, as text."""
    replay: Path | None = None
    """A file of times, whose samples of the group are shown and whose times stand on the graph."""
    records: Path | None = None
    """Of a tuning run, for the Tune perspective."""
    against: Path | None = None
    """The records of the run that it is compared with."""
    what_if: Mapping[str, int] = field(default_factory=dict)
    """Where the sliders of the pipeline stand, by name ("stages")."""
    tile: int | None = None
    """The one that is selected in the pipeline's chart."""
    target: str | None = None
    dimensions: Mapping[str, int] | None = None


def render(
    path: str, output: Path | str, options: PictureOptions | None = None, command: Sequence[str] = COMMAND
) -> None:
    """Draws the window with `path` open and writes a PNG, or an SVG where `output` ends so.  command: of the worker.

    BadInput for a file, group, panel, tab, theme, perspective or slider that there is not, and for a place where no
    picture can be written.
    """
    options = options or PictureOptions()
    advice = options.advice
    _check_names(options)
    check_picture(output)
    text = None if advice is None else read_text(advice, "window", "give entries as `loomscope schedule` shows them")
    os.environ["QT_QPA_PLATFORM"] = "offscreen"  # also where a display is set that does not work
    application()
    keep_settings_in(process_folder())  # a picture leaves layout, theme and recent files of this user's window alone
    window = make_window(options.target, options.dimensions, options.theme, command)
    try:
        window.resize(*options.size)
        window.show()
        _open_model(window, path, options)
        if text is not None:
            _advise(window, text, str(advice))
        is_pipeline, tab = options.perspective == PIPELINE.lower(), _TABS[options.tab]
        if is_pipeline:
            _open_tab(window, PIPELINE)
        if not is_pipeline or tab in LANGUAGES:
            _open_tab(window, tab)
        _wait_idle(window)
        for name, value in options.what_if.items():
            window.wiring.pipeline.preview(name, value)
        if options.tile is not None:
            _select_tile(window, options.tile)
        _wait_idle(window)
        save_picture(_widget(window, options.panel), output)
    finally:
        window.close()
        window.deleteLater()


def _open_model(window: Window, path: str, options: PictureOptions) -> None:
    """Opens the file with its recordings and selects the group; the worker's error where the file is refused."""
    window.set_perspective(_perspective_of(options.panel, _PERSPECTIVES[options.perspective]))
    window.workspace.start()
    window.open_file(path)
    _wait_idle(window)
    model = window.workspace.model
    if model is None:
        problems = [problem for _, problem in window.workspace.problems]
        raise _error_of(problems[0]) if problems else BadInput("window", path, "it could not be opened")
    if options.replay is not None:
        _replay(window, options.replay)
    if options.records is not None:
        _attach(window, options.records)
    if options.against is not None:
        _compare(window, options.against)
    window.workspace.bus.select_group(_group_of(model, options.group or "", window.wiring.tuning.group))
    _wait_idle(window)
    if window.wiring.timing.player is not None:
        window.wiring.timing.player.finish()
        window.wiring.timing.show()


def _check_names(options: PictureOptions) -> None:
    """BadInput for one that there is not, and for a run beside no other, before anything is opened."""
    for what, known in (("theme", THEMES), ("perspective", _PERSPECTIVES), ("tab", _TABS)):
        given = getattr(options, what)
        if given not in known:
            raise BadInput("window", f"{what} {given}", "there is none of that name", f"one of {', '.join(known)}")
    if options.against is not None and options.records is None:
        raise BadInput("window", f"against {options.against}", "there is no run beside it", "name its file: --records")


def _perspective_of(panel: str | None, wanted: str) -> str:
    """The one that was asked for, or the first that has the panel: what is out of sight asks the worker nothing."""
    places = next((info.places for info in PANELS if info.name == panel), {})
    return wanted if wanted in places or not places else next(iter(places))


def size_of(text: str) -> tuple[int, int]:
    """(width, height) of "1440x900"; BadInput where it is not that or no window of ours fits."""
    match = re.fullmatch(r"(\d{1,5})x(\d{1,5})", text)
    width, height = (int(match[1]), int(match[2])) if match else (0, 0)
    if not (SMALLEST[0] <= width <= LARGEST and SMALLEST[1] <= height <= LARGEST):
        smallest = "x".join(map(str, SMALLEST))
        raise BadInput("window", f"size {text}", "is no size of the window", f"from {smallest} up, as in 1440x900")
    return width, height


def _group_of(model: ModelDoc, asked: str, tuned: str) -> str:
    """The group that was asked for, else that of the run that is shown, else the one that takes most of the time."""
    shares = {group.name: group.share for group in model.groups}
    if asked and asked not in shares:
        raise BadInput("window", f"group {asked}", "the model has no such group", "`loomscope fuse FILE` lists them")
    return asked or (tuned if tuned in shares else max(shares, key=lambda name: shares[name], default=""))


def _widget(window: Window, panel: str | None) -> QWidget:
    if panel is None:
        return window
    if panel not in window.docks:
        raise BadInput("window", f"panel {panel}", "there is no such panel", f"one of {', '.join(window.docks)}")
    window.docks[panel].show()
    return window.docks[panel]


def _replay(window: Window, path: Path) -> None:
    """Opens a recording; BadInput where it is refused."""
    timing = window.wiring.timing
    timing.replay(str(path))
    _wait_idle(window)
    if timing.refusal is not None:
        raise _error_of(timing.refusal)
    window.show_colour("measured")


def _attach(window: Window, path: Path) -> None:
    """Shows a tuning run; BadInput where it is refused."""
    tuning = window.wiring.tuning
    control = tuning.control
    control.attach(str(path))
    if not wait(lambda: control.refusal is not None or (control.shown is not None and tuning.is_settled)):
        reason = f"was not read within {LIMIT_MS // 1000} s"
        raise OverBudget("window", str(path), reason, "wait until its run has ended")
    if control.refusal is not None:
        raise _error_of(control.refusal[1])
    tuning.show()


def _compare(window: Window, path: Path) -> None:
    """Compares the shown run with another; BadInput where that is refused."""
    comparison = window.wiring.tuning.comparison
    comparison.open(str(path))
    _wait_idle(window)
    if comparison.refusal is not None:
        raise _error_of(comparison.refusal[1])


def _advise(window: Window, text: str, source: str) -> None:
    """Adds entries to the group's advice; BadInput where they cannot be read.  What cannot hold is shown."""
    group = window.wiring.group
    whole = with_pasted(window.workspace.recipe(group) or "", text)
    window.workspace.edit(group, whole)
    _wait_idle(window)
    for owner, problem in window.workspace.problems:
        if owner == group and problem.stage == UNREADABLE:
            number = re.search(r"line (\d+)$", problem.subject)  # of the whole advice, which nobody wrote as it is
            entry = whole.splitlines()[int(number[1]) - 1].strip() if number else problem.subject
            raise BadInput("window", f"advice {source}, “{entry}”", problem.reason, problem.hint)


def _select_tile(window: Window, tile: int) -> None:
    """Selects a tile of the pipeline's chart; BadInput where none is drawn with that number."""
    canvas = window.panels.schedule.pipeline.canvas
    if not canvas.select_tile(tile):
        hint = f"one of {', '.join(map(str, canvas.tiles))}" if canvas.tiles else "--perspective pipeline draws it"
        raise BadInput("window", f"tile {tile}", "is not in the chart of the pipeline", hint)


def _open_tab(window: Window, tab: str) -> None:
    """Brings a tab to the front; addresses are counted only on request."""
    if tab in TIMES:
        window.panels.timing.select_tab(tab)
        return
    if tab in TUNING:
        window.panels.tuning.select_tab(tab)
        if tab == ABLATION:
            window.wiring.tuning.ablate()
        return
    if tab in LANGUAGES:
        window.panels.code.select_tab(tab)
        return
    window.panels.schedule.select_tab(tab)
    if tab == ADDRESSES:
        window.panels.schedule.addresses.button.click()


def _error_of(problem: ProblemDoc) -> BadInput:
    return BadInput(problem.stage, problem.subject, problem.reason, problem.hint)


def _wait_idle(window: Window) -> None:
    """Runs the event loop until the worker has answered everything and the graph stands."""
    if not wait(lambda: _is_idle(window)):
        raise OverBudget("window", "the worker", f"it did not finish within {LIMIT_MS // 1000} s")


def _is_idle(window: Window) -> bool:
    wiring = window.wiring
    settled = window.workspace.client.is_idle and wiring.queries.is_settled
    settled = settled and window.wiring.timing.is_idle and window.wiring.tuning.is_settled
    return settled and window.document.is_idle and not window.panels.graph.scene.is_building


def wait(done: Callable[[], bool], limit: int = LIMIT_MS) -> bool:
    """Runs the event loop until `done` has held for a moment, or `limit` milliseconds have passed."""
    loop = QEventLoop()
    quiet = QTimer()
    # Again and again, as panels ask their questions some milliseconds after what they follow has changed.
    quiet.setInterval(QUIET_MS)
    with note_interrupts() as interrupts:
        quiet.timeout.connect(lambda: loop.exit(0) if interrupts.any or done() else None)
        quiet.start()
        QTimer.singleShot(limit, lambda: loop.exit(1))
        return loop.exec() == 0
