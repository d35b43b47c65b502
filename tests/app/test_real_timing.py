"""The whole way of a sample: the real window, worker and measuring process, over a stand-in for PyCUDA.

The stand-in's "kernel" copies its first buffer to its second: right for a model that copies, wrong for another.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from app.session.client import COMMAND
from app.session.current_times import measured_times
from app.shell.window import Window
from engine.execution.emulate.build import host_compiler
from tests.app.driving import select, settle

STAND_IN = Path(__file__).parents[1] / "execution" / "stand_in"


def model(folder: Path, kind: str, *inputs: str) -> str:
    """A model of one operator."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 96]) for name in "xy")
    graph = helper.make_graph([helper.make_node(kind, inputs, ["y"])], kind, [x], [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path = folder / f"{kind}.onnx"
    onnx.save(made, str(path))
    return str(path)


@pytest.fixture
def window(make: Callable[..., Window], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Window:
    """The real window on a machine that seems to have a GPU."""
    compiler = host_compiler()
    if compiler is None:
        pytest.skip("this machine has no C++ compiler: the stand-in for the driver's library cannot be built")
    source, library = STAND_IN / "driver_library.c", tmp_path / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-x", "c", "-shared", "-fPIC", "-o", str(library), str(source)], check=True, timeout=60)
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    made = make(command=COMMAND)
    made.workspace.start()
    return made


def measured(window: Window, qtbot: object, path: str) -> str:
    """Opens a model and measures its only group, whose name is the answer."""
    window.open_file(path)
    settle(window, qtbot)
    assert window.workspace.model is not None
    (group,) = window.workspace.model.groups
    select(window, qtbot, group.name)
    window.action("time").trigger()
    settle(window, qtbot)
    window.wiring.timing.show()
    return group.name


@pytest.mark.slow(sentinel=True)
def test_samples_and_clock_come_from_the_measuring_process(window: Window, qtbot: object, tmp_path: Path) -> None:
    group = measured(window, qtbot, model(tmp_path, "Max", "x", "x"))  # the greater of x and x is a copy of x
    assert not window.workspace.problems
    page, time = window.panels.timing.live, measured_times(window.workspace.histories)[group]
    assert time.origin == "measured" and time.device == "stand-in" and time.rounds == 10
    assert page.plot.samples == time.samples and len(time.samples) == 50
    assert "1965 MHz, 41 °C" in page.plot.accessibleDescription()
    said = "\n".join(page.headline.texts())
    assert "measured" in said and "stand-in ·" in said and "date unknown" not in said
    window.action("pin-samples").trigger()
    window.action("time").trigger()
    settle(window, qtbot)
    window.wiring.timing.show()
    assert "against pinned samples" in "\n".join(page.headline.texts())


@pytest.mark.slow(sentinel=True)
def test_a_kernel_with_a_wrong_result_gets_no_time(window: Window, qtbot: object, tmp_path: Path) -> None:
    group = measured(window, qtbot, model(tmp_path, "Abs", "x"))  # a copy of x is not its size
    page = window.panels.timing.live
    assert group not in measured_times(window.workspace.histories) and group not in window.wiring.timing.runs
    assert page.pages.currentWidget() is page.refused
    assert "wrong result: y is off by" in page.refused.text.text()
