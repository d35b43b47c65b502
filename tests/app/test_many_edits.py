"""10,000 edits of one document: each is taken back in its order, made again, kept in the journal, and stays quick."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest
from PySide6.QtCore import QObject, Signal

from app.session import kernel_answers
from app.session.client import Arguments, Pending
from app.session.document import Document
from app.session.fusion_edits import FusionEdits
from app.session.recovery import read_journal
from app.session.undo_stack import LIMIT, UndoStack
from app.session.workspace import Workspace
from tests.app import fake_documents
from views.overview import overview

BUDGET = 0.1
"""Seconds of processor time that the last edits may take each, with 10,000 steps before them."""


class Answering(QObject):
    """A client that answers for kernels at once, of this process."""

    respawned, failed = Signal(), Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def request(self, verb: str, arguments: Arguments, title: str, pending: Pending) -> int:
        if verb == "open":
            pending.on_result(overview(fake_documents.model()))
        else:
            self.asked += 1
            pending.on_result(fake_documents.kernel(arguments["group"], arguments["recipe"]))
        return self.asked


@pytest.mark.parametrize("edits", [300, pytest.param(10_000, marks=pytest.mark.slow(sentinel=False))])
def test_every_edit_is_taken_back_in_its_order_and_made_again(
    edits: int, qapp: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_answers, "KEPT", 50)
    client = Answering()
    workspace = Workspace(client, "h200")  # type: ignore[arg-type]
    stack, document = UndoStack(workspace, FusionEdits(workspace)), Document(workspace, tmp_path)
    said: list[str] = []
    stack.acted.connect(said.append)
    workspace.open("a.onnx")
    assert workspace.model is not None
    groups = [group.name for group in workspace.model.groups[:3]]
    for group in groups:
        workspace.want(group)
    starts = {group: workspace.recipe(group) for group in groups}
    order, seconds = [groups[number * number % 3] for number in range(edits)], []
    for number, group in enumerate(order):
        begin = process_time()
        workspace.edit(group, f"{starts[group]}advice user\n  S0 @ i: mark block {number + 1}\n")
        seconds.append(process_time() - begin)
    texts = {group: workspace.recipe(group) for group in groups}
    assert sum(seconds[-100:]) / 100 < BUDGET
    assert edits <= LIMIT and not any("forgotten" in line for line in said)
    assert all(len(workspace._answers._texts[group]) <= 50 for group in groups), "kernels are not all kept"
    kept = read_journal(document._journal.path)
    assert kept is not None and kept.edits == edits
    for group in reversed(order):
        step = workspace.histories[group].step
        assert step.predicted is not None, "its time is known, though its kernel may have been forgotten"
        before = workspace.histories[group].steps[step.parent].text
        stack.undo("")
        assert workspace.recipe(group) == before
    assert {group: workspace.recipe(group) for group in groups} == starts and not stack.can_undo("")
    for group in order:
        number = workspace.histories[group].next_step
        stack.redo("")
        assert workspace.histories[group].current == number, "in the order in which they were made"
    assert {group: workspace.recipe(group) for group in groups} == texts and not stack.can_redo("")
    document.close()
