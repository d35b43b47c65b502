"""How long a stop takes in the real window: from the key until nothing of the run works any more.

The real process searches a small product with predicted times; each stop is followed by a resume.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from app.session.client import COMMAND, ROOT
from app.shell.main import make_window
from app.shell.window import Window

MODEL = ROOT / "resources" / "models" / "matmul_bias_gelu_128x256x512.onnx"
TRIALS = 4000
"""Allowed: more than come before the last stop."""
NEW = 3
"""Trials after a start or a resume before the next stop."""

Until = Callable[[Callable[[], bool]], None]
"""Lets the window work until something holds."""


def stops(count: int, folder: Path, until: Until) -> tuple[float, ...]:
    """Milliseconds of so many stops, in order.  folder: for journals."""
    window = make_window(theme="dark", command=COMMAND, journals=folder)
    try:
        _open(window, until)
        window.panels.run.strategy.setCurrentText("model")
        window.panels.run.trials.setText(str(TRIALS))
        window.action("tune-start").trigger()
        return tuple(_stop(window, until, is_last=number == count - 1) for number in range(count))
    finally:
        window.close()
        window.deleteLater()


def _open(window: Window, until: Until) -> None:
    """Shows the product with its only group selected."""
    window.show()
    window.workspace.start()
    window.open_file(str(MODEL))
    until(lambda: window.workspace.model is not None and window.workspace.client.is_idle)
    assert window.workspace.model is not None
    window.workspace.bus.select_group(window.workspace.model.groups[0].name)
    until(lambda: window.workspace.client.is_idle)


def _stop(window: Window, until: Until, is_last: bool) -> float:
    """Waits for a few trials, stops, and goes on unless it is the last time."""
    tuning = window.wiring.tuning

    def trials() -> int:
        return len(tuning.shown.trials) if tuning.shown else 0

    before = trials()
    until(lambda: trials() >= before + NEW)
    began = perf_counter()
    window.action("tune-stop").trigger()
    until(lambda: not tuning.control.is_live)
    took = (perf_counter() - began) * 1e3
    until(lambda: tuning.control.attachment.is_idle)
    if not is_last:
        resume = window.action("tune-pause")
        until(resume.isEnabled)
        resume.trigger()
    return took
