"""The tutorial's walk in ten lines, typed literally: keys and pointer of the X server, step after step.

Texts, keys and figures are read from the tutorial, so that one of both sides cannot change alone.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.session.client import ROOT
from tests.xcb.desk import WORKER, Desk
from tests.xcb.keys import click, hold, let_go, point, wait_for
from views.schedule.view import DECISIONS, SPACE
from views.space.geometry import ACROSS, DOWN

PAGE = (ROOT / "resources/docs/tutorial.md").read_text(encoding="utf-8")
WALK = PAGE.partition("## A walk in ten lines")[2].partition("\n## ")[0]
STEPS = {int(number): text for number, text in re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |^\S|\Z)", WALK, re.M | re.S)}
GROUP = "softmax_0"


def said(step: int, pattern: str) -> str:
    """What the tutorial says in a step where a pattern has its first group."""
    found = re.search(pattern, STEPS[step])
    assert found is not None, f"step {step} does not say {pattern}: {STEPS[step]}"
    return found[1]


def test_readme_has_ten_steps() -> None:
    assert list(STEPS) == list(range(1, 11))


def test_the_walk_typed_literally(start: Callable[..., Desk], tmp_path: Path) -> None:
    desk = start(ROOT / said(1, r"`loomscope open (\S+)`"))
    look_at_the_softmax(desk)
    ask_why_it_is_so(desk)
    force_a_bad_order(desk)
    force_a_good_one(desk)
    take_a_move(desk)
    see_the_gain_and_check(desk)
    drag_an_interchange(desk)
    compare_and_branch(desk)
    save_it(start, desk, tmp_path)


def look_at_the_softmax(desk: Desk) -> None:
    window = desk.window
    desk.press(said(1, r"then (Alt\+\d)").lower())
    desk.answered()
    assert window.wiring.group == GROUP, "the only group is selected"
    named = said(1, r"\+\d: ([^.]+) of a softmax").split(", ")
    assert named == ["code", "schedule", "constraints", "moves", "history"]
    panels = window.panels.by_name()
    assert [name for name in named if panels[name].visibleRegion().isEmpty()] == []
    assert "__global__" in window.panels.code.text.toPlainText()


def ask_why_it_is_so(desk: Desk) -> None:
    assert said(2, r"\*(\w+)\* is the solver's table") == DECISIONS.capitalize()
    desk.tab("schedule", DECISIONS)
    model = desk.window.panels.schedule.decisions.model
    rows = [model.cells(line) for line in range(model.rowCount())]
    parallel, sequential = said(2, r"\*(\w)\* is parallel in every"), said(2, r"\*(\w)\* is sequential in loops that")
    outer, inner = list(rows[0])[-2:]
    assert all("parallel" in str(row[outer]) for row in rows if row["iterator"] == parallel)
    states = {row["statement"]: str(row[inner]) for row in rows if row["iterator"] == sequential}
    found = [name for name, state in states.items() if "sequential" in state]
    assert found == ["S0", "S1", "S2"], "S1 shares its loop with the sum"


def force_a_bad_order(desk: Desk) -> None:
    window = desk.window
    code = window.panels.code.text.toPlainText()
    QGuiApplication.clipboard().setText(said(3, r"paste `([^`]+)`"))
    click(window.panels.by_name()[said(3, r"into \*(\w+)\*").lower()].tabs[said(3, r"\*, \*(\w+)\*")])
    assert wait_for(lambda: window.commands.focus.focused == "constraints"), "a tab that is clicked on has the keyboard"
    desk.press("ctrl+v")
    desk.answered()
    kernel = window.workspace.kernel(GROUP)
    assert kernel is not None and not kernel.legal
    assert said(4, r"verdict is \*(\w+)\*") in {entry.outcome for entry in kernel.entries}
    assert window.panels.code.text.toPlainText() == code, "of the last legal advice"
    tree = window.panels.constraints.tree
    titles = {tree.rows.row_at(tree.rows.index_of(key)).title: key for key in tree.rows}
    links = next(title for title in titles if title.startswith(said(4, r"\*(Show instances)\*")))
    tree.scrollTo(tree.rows.index_of(titles[links]))
    desk.press("Home")
    while tree.currentIndex() != tree.rows.index_of(titles[links]):
        desk.press("Down")
    desk.press("Return")
    desk.answered()
    space = window.panels.schedule.space
    assert not space.canvas.visibleRegion().isEmpty(), "drawn"
    written, read = (said(4, rf"(S\d\(\S+, \S+\)) {verb} ") for verb in ("writes y_exp,", "reads it"))
    assert f"Drawn: {written}" in space.verdict.drawn.text() and read[:2] in space.verdict.sentence.text()


def force_a_good_one(desk: Desk) -> None:
    window, name = desk.window, said(5, r"one: \*([^*]+)\* was tried")
    before = window.workspace.recipe(GROUP)
    click(next(button for button in window.panels.schedule.space.verdict.buttons if button.text() == name))
    assert wait_for(lambda: window.workspace.recipe(GROUP) != before)
    desk.answered()
    kernel, good = window.workspace.kernel(GROUP), window.workspace.recipe(GROUP)
    assert kernel is not None and kernel.legal
    assert {each.outcome for each in kernel.entries} == {said(5, r"click, (\w+)")}
    back, forward = said(5, r"(Ctrl\+Z) goes back"), said(5, r"(Ctrl\+Y) forward")
    default = window.workspace.histories[GROUP].steps[0].text
    for keys, text in ((back, default), (forward, good)):  # what is not legal is no step of the history
        desk.press(keys.lower())
        desk.answered()
        assert window.workspace.recipe(GROUP) == text


def take_a_move(desk: Desk) -> None:
    table, title = desk.window.panels.moves.table, said(6, r"on \*([^*]+)\*")
    desk.panel("moves")
    for _ in table.rows:
        if table.currentIndex().isValid() and table.rows.row_at(table.currentIndex()).title.startswith(f"{title}: "):
            break
        desk.press("Down")
    assert table.rows.row_at(table.currentIndex()).title.startswith(f"{title}: ")
    before = desk.window.workspace.recipe(GROUP)
    desk.press(said(6, r"(Return) on"))
    assert wait_for(lambda: desk.window.workspace.recipe(GROUP) != before, WORKER)
    desk.answered()


def see_the_gain_and_check(desk: Desk) -> None:
    window = desk.window
    figures = " ".join(window.panels.history.summary.texts())
    then, now, gain = (said(7, pattern) for pattern in (r"([\d.]+) µs become", r"become ([\d.]+)", r"▼ ([\d.]+) %"))
    history = window.workspace.histories[GROUP]
    times = [f"{step.time.microseconds:.1f}" for step in (history.steps[history.baseline], history.step) if step.time]
    assert times == [then, now]
    assert gain in figures, figures
    assert "predicted" in figures.lower(), figures
    desk.press(said(7, r"(F8) runs"))
    desk.answered()
    assert wait_for(lambda: history.step.checked is not None, WORKER)
    assert history.step.checked is not None and history.step.checked.status == "pass"
    assert said(7, r"adds \*(\w+)\*") in " ".join(window.panels.history.summary.texts())


def drag_an_interchange(desk: Desk) -> None:
    window = desk.window
    click(window.panels.schedule.tabs[SPACE])
    desk.answered()
    assert SPACE.capitalize() == said(8, r"of the \*([^*]+)\*")
    canvas, before = window.panels.schedule.space.canvas, window.workspace.recipe(GROUP)
    point(canvas)
    plan = canvas.plan
    assert plan is not None
    names = [plan.doc.axes[axis].name for axis in (ACROSS, DOWN)]
    assert names == [said(8, r"the \*(\w)\* of"), said(8, r"onto \*(\w)\*")]
    start, end = (plan.label_box(axis).center() for axis in (ACROSS, DOWN))
    point(canvas, start.toPoint())
    hold()
    for part in (0.3, 0.7, 1.0):
        point(canvas, (start + (end - start) * part).toPoint())
        QTest.qWait(20)
    desk.answered()
    assert wait_for(lambda: "break" in canvas.accessibleDescription().lower()), canvas.accessibleDescription()
    let_go()
    desk.answered()
    assert window.workspace.recipe(GROUP) == before, "drawn, not applied"
    assert "violated" in window.panels.schedule.space.verdict.title.text()
    click(window.panels.schedule.space.verdict.buttons[-1])
    desk.answered()


def compare_and_branch(desk: Desk) -> None:
    window, compare = desk.window, desk.window.diff.window
    history = window.workspace.histories[GROUP]
    desk.press(said(9, r"^(D) puts").lower())
    assert wait_for(lambda: QApplication.activeWindow() is compare, WORKER)
    desk.answered()
    view = window.diff.view
    assert "line" in view.count.text()
    assert [view.a.currentIndex(), view.b.currentIndex()] == [history.baseline, history.current]
    assert said(9, r"baseline: (.*?)\.") == "entries, schedule, code, figures"
    assert {"Code", "Schedule", "Entries"} == set(view.texts) and view.figures.rows.rowCount()
    desk.press("Escape")
    assert wait_for(lambda: QApplication.activeWindow() is window)
    last, steps = history.current, len(history.steps)
    desk.press(said(9, r"after (Ctrl\+Z)").lower())
    desk.answered()
    desk.panel("moves")
    desk.press("Home", "Down", "Return")  # the first is the step that was taken back
    desk.answered()
    history = window.workspace.histories[GROUP]
    assert len(history.steps) == steps + 1 and history.steps[last].parent == history.step.parent, "a branch"


def save_it(start: Callable[..., Desk], desk: Desk, folder: Path) -> None:
    window, edited = desk.window, desk.window.workspace.recipe(GROUP)
    # As a crash now would leave it: a process that is gone holds no lock.
    shutil.copytree(folder / "journals", folder / "crashed", ignore=shutil.ignore_patterns("*.lock"))
    saved = folder / f"walk{said(10, r'a `(.loom)` file')}"
    desk.press(said(10, r"^(Ctrl\+S)").lower())
    desk.dialog()
    desk.file(saved)
    assert wait_for(saved.is_file, WORKER)
    desk.press(said(10, r"(Ctrl\+Shift\+P)").lower())
    assert wait_for(window.commands.palette.isVisible)
    desk.press("Escape")
    assert wait_for(lambda: not window.commands.palette.isVisible())
    desk.press(said(10, r"(F1) the keys"))
    assert wait_for(window.commands.shortcuts.isVisible)
    desk.press("Escape")
    window.close()
    recovered = start(None, "crashed")
    notice = recovered.window.notice
    assert wait_for(lambda: "Recover" in notice.buttons), notice.buttons  # the journals are looked at on a thread
    click(notice.buttons["Recover"])
    assert wait_for(lambda: recovered.window.workspace.recipe(GROUP) == edited, WORKER)
    recovered.answered()
