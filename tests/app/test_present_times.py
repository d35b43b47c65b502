"""One time of a kernel, whoever tells it: after edits, the best of a search, a split, undo and redo."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel

from app.session.client import COMMAND
from app.session.fusion_constraints import FUSION
from app.shell.window import Window
from engine.documents.exploration import SPLIT, FusionEdit
from engine.records.nodes import FINISHED
from tests.app.driving import select
from tests.app.test_fusion import NODES, SHAPES, settled
from tests.app.tuning_runs import attached, resting, write_run
from tests.fusion.test_plan import model
from views.format import duration
from views.rows import TreeRow


@pytest.fixture
def window(make: Callable[..., Window], qtbot: object, tmp_path: Path) -> Window:
    made = make(command=COMMAND)
    made.workspace.start()
    made.open_file(str(model(tmp_path, NODES, SHAPES, "y")))
    settled(made, qtbot)
    return made


def rows(window: Window) -> Iterator[TreeRow]:
    """All rows of the outline as they are shown."""
    shown = window.panels.outline.tree.rows
    yield from (shown.row_at(shown.index_of(key)) for key in shown)


def said(window: Window) -> set[str]:
    """Every word of the explanation."""
    return {label.text() for label in window.panels.explain.findChildren(QLabel)}


def check_all(window: Window, qtbot: object, selected: str = "") -> float:
    """Every place that tells a time or a share against the engine's own answers; the total."""
    workspace, panels = window.workspace, window.panels
    opened = workspace.model
    assert opened is not None
    times = {}
    for group in opened.groups:
        times[group.name] = select(window, qtbot, group.name).time.microseconds
        settled(window, qtbot)
        assert duration(times[group.name]) in said(window), f"Explain of {group.name}"
        assert panels.timing._headline.text().endswith(f" {duration(times[group.name])}")
        predicted = workspace.histories[group.name].step.predicted
        assert predicted is not None and predicted.microseconds == times[group.name]
    total = sum(times[group.name] * group.instances for group in opened.groups)
    look, kernels = panels.graph.scene.look, panels.timing.kernels.rows
    for group in opened.groups:
        share, item = times[group.name] * group.instances / total, kernels.row_at(kernels.index_of(group.name)).value
        for shown in (group, look.groups[group.name], item.group):
            assert shown.share == pytest.approx(share) and shown.time.microseconds == times[group.name]
        assert item.predicted.microseconds == look.predicted[group.name].microseconds == times[group.name]
        mine = [row.value for row in rows(window) if row.value.group == group.name]
        assert sum(each.share for each in mine) == pytest.approx(share)
        assert sum(each.microseconds for each in mine) == pytest.approx(times[group.name] * group.instances)
        for limit, is_found in ((share * 99, True), (share * 101, False)):
            found = window.panels.outline._index.find(f"time>{limit:.6f}%")
            assert (group.name in found.groups) is is_found
    whole = next(rows(window)).value
    assert whole.microseconds == pytest.approx(total) and whole.share == pytest.approx(1.0)
    workspace.bus.select_group("")
    assert opened.total is not None and opened.total.microseconds == pytest.approx(total)
    assert duration(opened.total.microseconds) in said(window)
    if FUSION in workspace.histories:
        assert workspace.histories[FUSION].step.predicted == opened.total
    workspace.bus.select_group(selected)
    settled(window, qtbot)
    return total


def act(window: Window, qtbot: object, name: str) -> None:
    window.action(name).trigger()
    settled(window, qtbot)


@pytest.mark.slow(sentinel=True)
def test_every_place_tells_the_same_time(window: Window, qtbot: object, tmp_path: Path) -> None:
    group = next(each.name for each in window.workspace.model.groups if "n1" in _operators(window, each.name))
    totals = [check_all(window, qtbot, group)]

    text = window.workspace.recipe(group)
    assert text is not None
    edited = re.sub(r"mark block \d+", "mark block 2", text)
    assert edited != text
    window.workspace.edit(group, edited)
    settled(window, qtbot)
    totals.append(check_all(window, qtbot, group))
    act(window, qtbot, "undo")
    totals.append(check_all(window, qtbot, group))
    act(window, qtbot, "redo")
    totals.append(check_all(window, qtbot, group))
    act(window, qtbot, "undo")
    assert totals[0] == totals[2] != totals[1] == totals[3]

    write_run(tmp_path / "night.db", window, group, (49.0, 45.0, None, 47.0), FINISHED).store.close()
    attached(window, qtbot, tmp_path / "night.db", 4)
    act(window, qtbot, "tune-best")
    resting(window, qtbot)
    assert "mark block 2" in window.workspace.histories[group].step.text
    totals.append(check_all(window, qtbot, group))

    window.wiring.fusion_edits.carry_out(FusionEdit(SPLIT, ("n1", "n2")))
    settled(window, qtbot)
    assert len(window.workspace.model.groups) == 4
    totals.append(check_all(window, qtbot))
    window.workspace.bus.select_group("")
    act(window, qtbot, "undo")
    totals.append(check_all(window, qtbot, group))
    assert totals[4] == totals[6] == totals[1] and len({totals[0], totals[4], totals[5]}) == 3


@pytest.mark.slow(sentinel=True)
def test_on_another_machine_the_present_advice_is_timed_again(window: Window, qtbot: object) -> None:
    """Nobody has to select a group that was edited for its time to be that of the edit."""
    workspace = window.workspace
    group = next(each.name for each in workspace.model.groups if "n1" in _operators(window, each.name))
    edited = re.sub(r"mark block \d+", "mark block 2", select(window, qtbot, group).recipe)
    workspace.edit(group, edited)
    settled(window, qtbot)
    workspace.bus.select_group("")
    window.commands._open_for("a100", {}, {})
    settled(window, qtbot)
    assert workspace.model.target == "a100" and workspace.histories[group].step.text == edited
    shown = next(each for each in workspace.model.groups if each.name == group).time
    assert shown is not None and shown == workspace.known_kernel(group, edited).time
    check_all(window, qtbot)


def _operators(window: Window, group: str) -> tuple[str, ...]:
    return next(node.operators for node in window.workspace.model.nodes if node.group == group)
