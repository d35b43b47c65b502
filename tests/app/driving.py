"""How tests drive the window: the made-up worker, waiting for it, selecting."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from app.controllers.timing import TimingController
from app.session.client import COMMAND as REAL_COMMAND
from app.shell.window import Window
from engine.documents.model import KernelDoc

SERVICE = Path(__file__).with_name("fake_service.py")
COMMAND = (sys.executable, str(SERVICE))
MODEL = "bert_base_b8_s512.onnx"
PATIENCE = 15_000
LONG = 120_000
"""Milliseconds for the real worker on a machine where much else runs."""


numbers = count()


def afresh(window: Window, qtbot: object) -> None:
    """Opens the made-up model under a name of its own: nothing that was known or asked for before is left."""
    window.open_file(f"{next(numbers)}_{MODEL}")
    settle(window, qtbot)
    assert window.workspace.histories == {}


def settle(window: Window, qtbot: object, patience: int = PATIENCE) -> None:
    """Waits until the worker has answered everything, the smallest conflict of an edit included."""
    client, scene, state = window.workspace.client, window.panels.graph.scene, window.panels.constraints.kernel_state
    qtbot.waitUntil(  # type: ignore[attr-defined]
        lambda: client.is_idle and not scene.is_building and not state.is_looking, timeout=patience
    )


def open_with_worker(make: Callable[..., Window], qtbot: object, path: str, patience: int = LONG) -> Window:
    """A window with the real worker and a file open."""
    window = make(command=REAL_COMMAND)
    window.workspace.start()
    window.open_file(path)
    settle(window, qtbot, patience)
    return window


def select(window: Window, qtbot: object, group: str = "softmax_0", patience: int = PATIENCE) -> KernelDoc:
    """Selects a group and waits for its kernel."""
    window.workspace.bus.select_group(group)
    settle(window, qtbot, patience)
    kernel = window.workspace.legal_kernel(group)
    assert kernel is not None
    return kernel


def advice(window: Window, group: str = "softmax_0") -> str:
    """The group's advice as it is shown."""
    text = window.workspace.recipe(group)
    assert text is not None
    return text


def play(window: Window, qtbot: object, path: str, speed: int = 1000) -> TimingController:
    """Replays a file and waits until its first samples are there."""
    timing = window.wiring.timing
    before = timing.player
    timing.replay(path)
    qtbot.waitUntil(lambda: timing.player not in (None, before), timeout=PATIENCE)  # type: ignore[attr-defined]
    assert timing.player is not None
    timing.player.set_speed(speed)
    return timing
