"""A listing of 100,000 lines and a history of 10,000 steps: what the window takes for them, in processor time."""

from __future__ import annotations

from statistics import median

from PySide6.QtWidgets import QApplication

from app.session.history import NO_STEP, History, HistoryStep
from app.shell.watchdog import own_time
from app.shell.window import Window
from engine.documents.pipeline import ListingDoc
from views.code.view import PTX

LINES, STEPS, EDITS = 100_000, 10_000, 20


def listing_milliseconds(window: Window) -> tuple[float, float]:
    """Milliseconds until a listing is painted, and until the lines of another CUDA line are marked in it.

    A group with a kernel has to be selected.
    """
    code, group = window.panels.code, window.wiring.group
    text = "\n".join(f"\tadd.s32 %r{n}, %r{n - 1}, {n};" for n in range(LINES))
    lines = tuple((n, n % 200 + 1) for n in range(1, LINES + 1))
    code.select_tab(PTX)
    begin = own_time()
    code.show_listing(ListingDoc(group, "", PTX, "sm_90a", text, lines))
    code.listing.viewport().repaint()
    shown = own_time()
    times = []
    for line in range(1, EDITS + 1):
        before = own_time()
        code.mark((line,))
        code.listing.viewport().repaint()
        times.append(own_time() - before)
    return (shown - begin) * 1e3, median(times) * 1e3


def history_milliseconds(window: Window) -> float:
    """Milliseconds that going back and forth takes in a group's history of very many steps, the median."""
    workspace, group = window.workspace, window.wiring.group
    first = workspace.histories[group].steps[0]
    others = (HistoryStep(f"{first.text}# {n}\n", f"Step {n}", n - 1, first.predicted) for n in range(1, STEPS))
    history = workspace.histories[group] = History([HistoryStep(first.text, first.title, NO_STEP), *others])
    kernel = workspace.known_kernel(group, first.text)
    assert kernel is not None
    for number in range(STEPS - EDITS - 1, STEPS):
        workspace._answers.add(group, history.steps[number].text, kernel)
    workspace.go(group, STEPS - 1)
    QApplication.processEvents()
    times = []
    for _ in range(EDITS):
        begin = own_time()
        workspace.undo(group)
        QApplication.processEvents()
        times.append(own_time() - begin)
    return median(times) * 1e3
