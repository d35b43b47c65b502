"""The real window and worker on kernels for this machine's CPU: chosen, shown, measured, drawn under its roofs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QSettings

from app.session.client import COMMAND
from app.session.current_times import measured_times
from app.shell.window import Window
from engine.target.host_cpu import host_cpu
from tests.app.driving import select, settle
from tests.support.commands import SOFTMAX
from tests.support.needs import needs_compiler
from views.code.view import CUDA, PTX, SASS

pytestmark = needs_compiler


@pytest.fixture
def window(make: Callable[..., Window]) -> Window:
    """The real window, opened for this CPU."""
    QSettings().setValue("target", "cpu")
    made = make(command=COMMAND)
    made.workspace.start()
    return made


@pytest.mark.slow(sentinel=True)
def test_what_is_said_of_kernels_for_a_cpu_is_of_this_machine(window: Window, qtbot: object) -> None:
    window.open_file(SOFTMAX)
    settle(window, qtbot)
    code, chip = window.panels.code, window.menu.device
    assert code.tabs[CUDA].text() == "C++" and code.tabs[PTX].isHidden() and code.tabs[SASS].isHidden()
    assert host_cpu().title in chip.text() and "not measured" not in chip.toolTip()
    window.set_perspective("Tune")
    settle(window, qtbot)
    runner = window.panels.run.runner
    assert "measured" in [runner.itemText(k) for k in range(runner.count())]


@pytest.mark.slow(sentinel=True)
def test_a_kernel_is_measured_on_this_cpu(window: Window, qtbot: object) -> None:
    window.open_file(SOFTMAX)
    settle(window, qtbot)
    model = window.workspace.model
    assert model is not None and model.target == "cpu"
    (group,) = model.groups
    select(window, qtbot, group.name)
    kernel = window.workspace.kernel(group.name)
    assert kernel is not None and "#pragma omp simd" in kernel.cuda
    window.action("time").trigger()
    settle(window, qtbot)
    time = measured_times(window.workspace.histories)[group.name]
    assert time.origin == "measured" and time.device == host_cpu().title and len(time.samples) >= 30
    window.action("roofline").trigger()
    settle(window, qtbot)
    assert not window.workspace.problems
