"""Saving, opening and recovering what a window holds."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.session.history import History
from app.session.recovery import find_orphans, journal_folder, read_journal
from app.shell.render import render
from app.shell.window import Window
from tests.app.driving import COMMAND, MODEL, PATIENCE, select, settle
from tests.app.dropping import dragged, file_data

GROUP = "softmax_0"
BESIDE = Path(__file__).with_name("crashing.py")


def done(window: Window, qtbot: object) -> None:
    """Waits for files and for the worker, twice: one may ask the other."""
    for _ in range(2):
        qtbot.waitUntil(lambda: window.document.is_idle, timeout=PATIENCE)  # type: ignore[attr-defined]
        settle(window, qtbot)


def edit(window: Window, qtbot: object, before: str, after: str) -> None:
    text = window.workspace.recipe(GROUP)
    assert text is not None and before in text
    window.workspace.edit(GROUP, text.replace(before, after))
    settle(window, qtbot)


def edited(window: Window, qtbot: object) -> History:
    """Two steps, a branch, a remark and a baseline."""
    select(window, qtbot)
    edit(window, qtbot, "block 8", "block 4")
    edit(window, qtbot, "vector 8", "vector 4")
    window.action("undo").trigger()
    edit(window, qtbot, "stages 2", "stages 3")
    window.workspace.note(GROUP, 2, "half the width")
    window.workspace.pin(GROUP, 1)
    return window.workspace.histories[GROUP]


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A model file that is really there; the made-up worker reads no more than its name."""
    (tmp_path / "work").mkdir()
    file = tmp_path / "work" / MODEL
    file.write_bytes(b"weights")
    return str(file)


def opened(make: Callable[..., Window], qtbot: object, path: str) -> Window:
    window = make()
    window.open_file(path)
    done(window, qtbot)
    return window


@pytest.mark.slow(sentinel=True)
def test_a_workspace_is_saved_and_opened_with_everything(
    make: Callable[..., Window], qtbot: object, model: str
) -> None:
    window = opened(make, qtbot, model)
    history = edited(window, qtbot)
    window.action("check").trigger()
    settle(window, qtbot)
    window.set_perspective("Schedule")
    window.colour_by.setCurrentIndex(1)
    window.workspace.bus.select_statements(("S1",))
    assert window.windowTitle() == f"{MODEL}* — Loomscope" and window.document.is_modified
    loom = str(Path(model).with_name("mine.loom"))
    window.document.save(loom)
    done(window, qtbot)
    assert window.windowTitle() == "mine.loom — Loomscope" and not window.document.is_modified
    assert json.loads(Path(loom).read_text())["model"]["path"] == MODEL
    assert loom in window.files.recent()

    again = opened(make, qtbot, loom)
    assert again.workspace.opened.path == model and not again.workspace.problems
    assert again.workspace.histories[GROUP].trail() == history.trail()
    assert again.workspace.histories[GROUP].steps[3].checked is not None
    assert again.workspace.bus.selection == window.workspace.bus.selection
    assert again.perspective == "Schedule" and again.colour_by.currentIndex() == 1
    assert again.windowTitle() == "mine.loom — Loomscope", "opening changes nothing"
    assert again.workspace.kernel(GROUP) is not None, "the selected group is compiled as it was left"
    again.action("undo").trigger()
    assert again.windowTitle() == "mine.loom* — Loomscope"
    again.action("redo").trigger()
    assert again.windowTitle() == "mine.loom — Loomscope"


@pytest.mark.slow(sentinel=True)
def test_a_workspace_is_drawn_without_a_display(
    make: Callable[..., Window], qtbot: object, model: str, tmp_path: Path
) -> None:
    window = opened(make, qtbot, model)
    edited(window, qtbot)
    loom = str(Path(model).with_name("mine.loom"))
    window.document.save(loom)
    done(window, qtbot)
    render(loom, tmp_path / "drawn.png", command=COMMAND)
    assert (tmp_path / "drawn.png").is_file() and not list(journal_folder().glob("*")), "drawing leaves nothing"


def test_saving_again_asks_nothing(make: Callable[..., Window], qtbot: object, model: str) -> None:
    window = opened(make, qtbot, model)
    edited(window, qtbot)
    loom = Path(model).with_name("mine.loom")
    window.document.save(str(loom))
    done(window, qtbot)
    before = loom.read_bytes()
    edit(window, qtbot, "stages 3", "stages 2")
    window.action("save").trigger()
    done(window, qtbot)
    assert loom.read_bytes() != before and not window.document.is_modified


@pytest.mark.slow(sentinel=True)
def test_a_dropped_workspace_opens(make: Callable[..., Window], qtbot: object, model: str) -> None:
    window = opened(make, qtbot, model)
    edited(window, qtbot)
    loom = str(Path(model).with_name("mine.loom"))
    window.document.save(loom)
    done(window, qtbot)
    other = make()
    dragged(other, file_data(loom))
    done(other, qtbot)
    assert other.document.path == loom and len(other.workspace.histories[GROUP].steps) == 4


def test_a_damaged_workspace_is_explained_and_changes_nothing(
    make: Callable[..., Window], qtbot: object, model: str
) -> None:
    window = opened(make, qtbot, model)
    history = edited(window, qtbot)
    loom = Path(model).with_name("mine.loom")
    window.document.save(str(loom))
    done(window, qtbot)
    whole = loom.read_text()
    newer = whole.replace('"version": 1', '"version": 9')
    for content, words in ((whole[: len(whole) // 2], "cut short"), (newer, "9")):
        bad = loom.with_name("bad.loom")
        bad.write_text(content)
        window.open_file(str(bad))
        done(window, qtbot)
        assert window.notice.has_news
        assert window.notice.title.text() == "bad.loom" and words in window.notice.detail.text()
        assert window.workspace.problems[-1][1].subject == "bad.loom"
        assert window.workspace.histories[GROUP] is history and window.document.path == str(loom)
        assert bad.read_text() == content
        window.notice.close_button.click()
        assert not window.notice.has_news


@pytest.mark.slow(sentinel=True)
def test_another_model_of_the_same_name_is_a_warning(make: Callable[..., Window], qtbot: object, model: str) -> None:
    window = opened(make, qtbot, model)
    edited(window, qtbot)
    loom = str(Path(model).with_name("mine.loom"))
    window.document.save(loom)
    done(window, qtbot)
    Path(model).write_bytes(b"other weights")
    again = opened(make, qtbot, loom)
    (problem,) = [problem for _, problem in again.workspace.problems]
    assert problem.severity == "warning" and problem.subject == MODEL and "mine.loom" in problem.reason
    assert len(again.workspace.histories[GROUP].steps) == 4


@pytest.mark.slow(sentinel=True)
def test_groups_that_the_model_has_no_more_keep_their_history(
    make: Callable[..., Window], qtbot: object, model: str
) -> None:
    window = opened(make, qtbot, model)
    edited(window, qtbot)
    loom = Path(model).with_name("mine.loom")
    window.document.save(str(loom))
    done(window, qtbot)
    data = json.loads(loom.read_text())
    data["groups"]["gone_7"] = data["groups"][GROUP]
    loom.write_text(json.dumps(data))
    again = opened(make, qtbot, str(loom))
    assert [problem.subject for _, problem in again.workspace.problems] == ["gone_7"]
    again.document.save(str(loom))
    done(again, qtbot)
    assert json.loads(loom.read_text())["groups"]["gone_7"] == data["groups"]["gone_7"]


def test_a_missing_model_is_asked_for(make: Callable[..., Window], qtbot: object, model: str, tmp_path: Path) -> None:
    window = opened(make, qtbot, model)
    edited(window, qtbot)
    loom = str(Path(model).with_name("mine.loom"))
    window.document.save(loom)
    done(window, qtbot)
    elsewhere = tmp_path / "elsewhere.onnx"
    shutil.move(model, elsewhere)
    again = make()
    again.open_file(loom)
    done(again, qtbot)
    assert again.workspace.model is None
    assert again.notice.title.text() == MODEL and model in again.notice.detail.text()
    assert list(again.notice.buttons) == ["Find the model…"]
    again.document.open_loom(loom, str(elsewhere))  # what its dialog does
    done(again, qtbot)
    assert again.workspace.opened.path == str(elsewhere) and len(again.workspace.histories[GROUP].steps) == 4
    assert not [problem for _, problem in again.workspace.problems if problem.severity == "warning"], "the same content"


def crashed(journals: Path, model: str, edits: int) -> None:
    """A window of another process that is killed after its last edit."""
    process = subprocess.Popen(
        [sys.executable, str(BESIDE), str(journals), model, str(edits)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


@pytest.mark.slow(sentinel=True)
def test_edits_survive_a_kill(make: Callable[..., Window], qtbot: object, model: str) -> None:
    journals = journal_folder()
    crashed(journals, model, 3)
    (file,) = journals.glob("*.journal")
    with file.open("a") as torn:
        torn.write('{"group": "softmax_0", "steps": [[4, {"text": "adv')  # the write that the end cut off
    window = make()
    window.document.look_for_orphans()
    done(window, qtbot)
    assert window.notice.title.text() == f"Recover 3 edits of {MODEL}?"
    assert window.workspace.model is None, "nothing is opened before it is asked for"
    window.notice.buttons["Recover"].click()
    done(window, qtbot)
    history = window.workspace.histories[GROUP]
    assert [step.parent for step in history.steps] == [-1, 0, 1, 2] and history.current == 3
    assert "block 11" in history.text and history.steps[3].title == "Block 10 → 11 at i"
    assert all(step.predicted is not None for step in history.steps)
    assert window.document.is_modified and not window.notice.has_news
    assert window.workspace.bus.selection.group == GROUP, "where the last edit was made"
    assert not file.exists(), "it lives on in this window's journal"
    (own,) = journals.glob("*.journal")
    left = read_journal(own)
    assert left is not None and left.edits == 3 and left.content.groups[GROUP] == history.trail()


@pytest.mark.slow(sentinel=True)
def test_what_is_discarded_is_gone(make: Callable[..., Window], qtbot: object, model: str) -> None:
    crashed(journal_folder(), model, 1)
    window = make()
    window.document.look_for_orphans()
    done(window, qtbot)
    assert window.notice.title.text() == f"Recover 1 edit of {MODEL}?"
    window.notice.buttons["Discard"].click()
    assert not list(journal_folder().glob("*.journal")) and not window.notice.has_news


@pytest.mark.slow(sentinel=True)
def test_windows_leave_each_others_journals_alone(make: Callable[..., Window], qtbot: object, model: str) -> None:
    one, two = opened(make, qtbot, model), opened(make, qtbot, model)
    assert not list(journal_folder().glob("*")), "without an edit there is no journal"
    for window, block in ((one, "block 4"), (two, "block 2")):
        select(window, qtbot)
        edit(window, qtbot, "block 8", block)
    assert len(list(journal_folder().glob("*.journal"))) == 2
    three = make()
    three.document.look_for_orphans()
    done(three, qtbot)
    assert not three.notice.has_news, "both are still in use"
    one.close()
    three.document.look_for_orphans()
    done(three, qtbot)
    assert three.notice.title.text() == f"Recover 1 edit of {MODEL}?", "closed without saving"
    four = make()
    four.document.look_for_orphans()
    done(four, qtbot)
    assert not four.notice.has_news, "another window is asking about it"
    three.notice.buttons["Recover"].click()
    done(three, qtbot)
    assert "block 4" in three.workspace.histories[GROUP].text


def test_a_saved_window_leaves_nothing_behind(make: Callable[..., Window], qtbot: object, model: str) -> None:
    window = opened(make, qtbot, model)
    edited(window, qtbot)
    assert len(list(journal_folder().glob("*.journal"))) == 1
    window.document.save(str(Path(model).with_name("mine.loom")))
    done(window, qtbot)
    assert not list(journal_folder().glob("*.journal"))
    edit(window, qtbot, "stages 3", "stages 2")
    (file,) = journal_folder().glob("*.journal")
    left = read_journal(file)
    assert left is not None and left.edits == 1 and Path(left.loom).name == "mine.loom"


def test_unsaved_edits_are_offered_when_another_file_is_opened(
    make: Callable[..., Window], qtbot: object, model: str
) -> None:
    window = opened(make, qtbot, model)
    edited(window, qtbot)
    other = Path(model).with_name("other.onnx")
    other.write_bytes(b"x")
    window.open_file(str(other))
    done(window, qtbot)
    assert GROUP not in window.workspace.histories
    assert window.notice.title.text() == f"Recover 3 edits of {MODEL}?"
    window.notice.buttons["Recover"].click()
    done(window, qtbot)
    assert window.workspace.opened.path == model and len(window.workspace.histories[GROUP].steps) == 4


def test_a_journal_follows_every_change(make: Callable[..., Window], qtbot: object, model: str) -> None:
    window = opened(make, qtbot, model)
    history = edited(window, qtbot)
    (file,) = journal_folder().glob("*.journal")
    edit(window, qtbot, "stages 3", "nonsense")
    for act in (
        lambda: window.action("undo").trigger(),
        lambda: window.workspace.go(GROUP, 0),
        lambda: window.workspace.note(GROUP, 0, "first"),
        lambda: window.action("redo").trigger(),
        lambda: window.action("check").trigger(),
    ):
        act()
        settle(window, qtbot)
        left = read_journal(file)
        assert left is not None and left.content.groups[GROUP] == history.trail()
    assert History.of(left.content.groups[GROUP]).current == history.current


def test_a_journal_that_cannot_be_written_is_told(make: Callable[..., Window], qtbot: object, model: str) -> None:
    window = opened(make, qtbot, model)
    select(window, qtbot)
    journal_folder().parent.mkdir(parents=True)
    journal_folder().write_text("a file where the folder should be")
    edit(window, qtbot, "block 8", "block 4")
    assert [problem.severity for _, problem in window.workspace.problems] == ["warning"]
    assert window.workspace.histories[GROUP].current == 1, "the edit is made all the same"


def test_what_is_no_journal_is_left_alone(tmp_path: Path) -> None:
    for name, content in (("a", b""), ("b", b"\xff\xfe"), ("c", b'{"loom": ""}\n'), ("d", b"[]\n")):
        (tmp_path / f"{name}.journal").write_bytes(content)
    assert find_orphans(tmp_path) == [] and find_orphans(tmp_path / "nowhere") == []
    assert len(list(tmp_path.glob("*.journal"))) == 4
