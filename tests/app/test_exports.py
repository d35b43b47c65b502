"""What the window gives out: the same files as the command line, tables with the figures shown, pictures of panels."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PySide6.QtWidgets import QFileDialog, QMenu, QPushButton

from app.shell.actions import EXPORTS
from app.shell.exports import VERBS
from app.shell.panels import PANELS
from app.shell.render import PictureOptions, render
from app.shell.window import Window
from engine.explore.chrome_trace import trace_document
from engine.support.errors import BadInput
from tests.app.driving import LONG, advice, open_with_worker, select, settle
from tests.support.commands import SOFTMAX, document
from views.schedule.view import PIPELINE

GROUP = "softmax_0"
EDIT = "advice user\n  S0, S2 @ innermost: mark lane 64  # because wider rows\n"


@pytest.fixture
def edited(make: Callable[..., Window], qtbot: object) -> Window:
    """The softmax with one edit, which no file holds."""
    window = open_with_worker(make, qtbot, SOFTMAX)
    select(window, qtbot, GROUP, LONG)
    window.workspace.edit(GROUP, advice(window, GROUP) + EDIT)
    settle(window, qtbot, LONG)
    assert len(window.workspace.histories[GROUP].steps) == 2
    return window


def write(window: Window, qtbot: object, action: str, out: Path) -> None:
    window.exports.write(action, str(out))
    assert window.exports.is_busy and window.action("cancel").isEnabled()
    qtbot.waitUntil(lambda: not window.exports.is_busy, timeout=LONG)  # type: ignore[attr-defined]
    assert not window.workspace.problems, window.workspace.problems


@pytest.mark.slow(sentinel=True)
def test_a_report_and_sources_tell_the_edits_that_no_file_holds(
    edited: Window, qtbot: object, tmp_path: Path
) -> None:
    write(edited, qtbot, "export-report", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "because wider rows" in text and "softmax_96x512.loom" in text
    write(edited, qtbot, "export-torch", tmp_path / "kernels")
    kernel = edited.workspace.legal_kernel(GROUP)
    assert kernel is not None
    manifest = json.loads((tmp_path / "kernels" / "manifest.json").read_text(encoding="utf-8"))
    source = tmp_path / "kernels" / manifest["kernels"][0]["file"]
    assert source.read_text(encoding="utf-8") == kernel.cuda
    assert edited.document.is_modified, "what is exported is not saved"


@pytest.mark.slow(sentinel=True)
def test_what_cannot_be_written_is_told_and_leaves_nothing(edited: Window, qtbot: object, tmp_path: Path) -> None:
    edited.exports.write("export-report", str(tmp_path / "no" / "report.html"))
    qtbot.waitUntil(lambda: bool(edited.workspace.problems), timeout=LONG)  # type: ignore[attr-defined]
    ((_, problem),) = edited.workspace.problems
    assert problem.stage == "export" and "no folder" in problem.reason
    edited.exports.write("export-report", str(tmp_path / "report.html"))
    edited.action("cancel").trigger()
    assert not edited.exports.is_busy and not (tmp_path / "report.html").exists()


@pytest.mark.slow(sentinel=True)
def test_tables_hold_the_figures_of_predict(edited: Window, qtbot: object, tmp_path: Path) -> None:
    steps = []
    edited.exports.state_changed.connect(lambda: steps.append(edited.exports.job))
    edited.exports.write_tables(str(tmp_path))
    qtbot.waitUntil(lambda: not edited.exports.is_busy, timeout=LONG)  # type: ignore[attr-defined]
    assert [job.done for job in steps if job and job.total] == list(range(len(PANELS)))
    assert "Wrote" in edited.status.currentMessage() and not edited.workspace.problems
    written = {path.name for path in tmp_path.glob("*.csv")}
    assert {"timing-kernels-with-their-times.csv", "outline-outline-tree.csv"} <= written
    text = (tmp_path / "timing-kernels-with-their-times.csv").read_text(encoding="utf-8")
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    model = edited.workspace.model
    assert model is not None and model.total is not None
    assert row["group"] == GROUP and float(row["predicted µs"]) == model.total.microseconds
    assert float(row["predicted µs"]) < document("predict", SOFTMAX)["microseconds"], "the time of the edit"


@pytest.mark.slow(sentinel=True)
def test_tables_that_are_stopped_or_refused_end_the_job(edited: Window, qtbot: object, tmp_path: Path) -> None:
    edited.exports.write_tables(str(tmp_path))
    cancel_button(edited, qtbot).click()
    qtbot.wait(100)  # type: ignore[attr-defined]
    assert not edited.exports.is_busy and not list(tmp_path.glob("*.csv"))
    edited.exports.write_tables(str(tmp_path / "no"))
    qtbot.waitUntil(lambda: not edited.exports.is_busy, timeout=LONG)  # type: ignore[attr-defined]
    ((_, problem),) = edited.workspace.problems
    assert problem.stage == "export"


def cancel_button(window: Window, qtbot: object) -> QPushButton:
    """That of the only job, once Qt has deleted those of jobs that are done."""

    def buttons() -> list[QPushButton]:
        return [each for each in window.panels.jobs.findChildren(QPushButton) if each.text() == "Cancel"]

    qtbot.waitUntil(lambda: len(buttons()) == 1, timeout=LONG)  # type: ignore[attr-defined]
    return buttons()[0]


@pytest.mark.slow(sentinel=True)
def test_an_export_is_a_job_that_tells_how_far_it_is_and_can_be_stopped(
    edited: Window, qtbot: object, tmp_path: Path
) -> None:
    steps = []
    edited.exports.state_changed.connect(lambda: steps.append(edited.exports.job))
    write(edited, qtbot, "export-cuda", tmp_path / "kernels")
    assert [(job.text, job.done, job.total) for job in steps if job and job.total] == [
        ("generating", 0, 1), ("generating", 1, 1),
    ]  # fmt: skip
    edited.exports.write("export-report", str(tmp_path / "report.html"))
    assert edited.status.jobs.text() == "Jobs 1"
    cancel_button(edited, qtbot).click()
    assert not edited.exports.is_busy and edited.status.jobs.text() == "Jobs 0"
    assert edited.workspace.client.process_id, "the worker goes on"
    assert not (tmp_path / "report.html").exists() and not edited.workspace.problems


@pytest.mark.slow(sentinel=True)
def test_every_panel_has_a_picture_in_both_formats(edited: Window, tmp_path: Path) -> None:
    for info in PANELS:
        edited.docks[info.name].show()
        for suffix in (".svg", ".png"):
            edited.exports.write_picture(info.name, str(tmp_path / f"{info.name}{suffix}"))
        assert (tmp_path / f"{info.name}.png").read_bytes().startswith(b"\x89PNG")
        root = ElementTree.parse(tmp_path / f"{info.name}.svg").getroot()
        words = " ".join(filter(None, (each.text for each in root.iter() if each.tag.endswith("text"))))
        assert words.strip(), info.name
    assert not edited.workspace.problems


@pytest.mark.slow(sentinel=True)
def test_a_trace_is_that_of_predict(edited: Window, qtbot: object, tmp_path: Path) -> None:
    """One function writes both; the window's is the chart that it shows."""
    assert not edited.action("export-trace").isEnabled(), "no chart is known yet"
    edited.action("pipeline").trigger()
    edited.panels.schedule.select_tab(PIPELINE)
    qtbot.waitUntil(edited.action("export-trace").isEnabled, timeout=LONG)  # type: ignore[attr-defined]
    edited.action("export-trace").trigger()
    dialog = next(each for each in edited.findChildren(QFileDialog) if each.isVisible())
    dialog.fileSelected.emit(str(tmp_path / "window.json"))
    dialog.reject()
    shown = json.loads((tmp_path / "window.json").read_text(encoding="utf-8"))
    chart = edited.panels.schedule.pipeline.chart
    assert chart is not None and shown == json.loads(json.dumps(trace_document(chart)))
    edited.workspace.bus.select_group("")
    assert not edited.action("export-trace").isEnabled()


@pytest.mark.slow(sentinel=True)
def test_actions_ask_where_and_stand_in_one_menu(edited: Window, qtbot: object) -> None:
    for name in (*VERBS, "export-tables", PANELS[0].picture_action, "compare-model"):
        edited.action(name).trigger()
        dialogs = [each for each in edited.findChildren(QFileDialog) if each.isVisible()]
        assert len(dialogs) == 1, name
        dialogs[0].reject()
        qtbot.waitUntil(lambda: not edited.findChildren(QFileDialog), timeout=LONG)  # type: ignore[attr-defined]
    titles = {menu.title(): menu for menu in edited.findChildren(QMenu)}
    listed = [action.text() for action in titles["&Export"].actions() if not action.isSeparator()]
    assert listed == [*(edited.action(name).text() for name in EXPORTS if name), "P&icture"]
    assert len(titles["P&icture"].actions()) == len(PANELS)


@pytest.mark.slow(sentinel=True)
def test_render_writes_vectors_and_refuses_other_formats(tmp_path: Path) -> None:
    render(SOFTMAX, tmp_path / "code.svg", PictureOptions(panel="code"))
    texts = [each.text for each in ElementTree.parse(tmp_path / "code.svg").iter() if each.tag.endswith("text")]
    assert any("__global__" in (text or "") for text in texts)
    with pytest.raises(BadInput, match="no picture"):
        render(SOFTMAX, tmp_path / "code.pdf", PictureOptions(panel="code"))
