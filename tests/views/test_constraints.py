"""The constraint panel says of a schedule whether it is legal, and which family made its kernel."""

from __future__ import annotations

from functools import cache

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage

import engine
from engine.documents.model import EntryDoc, KernelDoc
from engine.present.model import kernel_doc, refused_doc
from tests.explore.groups import advised, group_of
from views.constraints.rows import rows_of
from views.constraints.tree import ConstraintTreeView
from views.constraints.view import ConstraintsView
from views.theme import load_theme

SOFTMAX = "softmax_96x512"
LINES = {
    "own": "all @ i: mark block 2",
    "general": "required S0 @ innermost: terms (S0, i, 1)",
    "not taken": "required S0 @ innermost: mark lane 4096",
    "illegal": "required all @ innermost: cut S3 | S0 S1 S2",
}


@cache
def document(name: str) -> KernelDoc:
    group = group_of(SOFTMAX)
    recipe = advised(group, f"advice user\n  {LINES[name]}\n")
    try:
        return kernel_doc(engine.compile(group, recipe))
    except engine.Conflict as conflict:
        return refused_doc(group, recipe, conflict)


@pytest.mark.parametrize(
    ("name", "legal", "kernel"),
    [
        ("own", "Legal", "Reduction kernel"),
        ("general", "Legal", "General kernel. Reduction does not fit: S0 runs over i + j"),
        ("not taken", "Legal", "No kernel: lane 1024: this kernel takes a power of two up to 1024"),
        ("illegal", "Not legal", "No kernel: required entries cannot hold"),
    ],
)
def test_legality_and_kernel_are_two_columns(qtbot: object, name: str, legal: str, kernel: str) -> None:
    view = ConstraintsView()
    qtbot.addWidget(view)  # type: ignore[attr-defined]
    view.show_kernel(document(name), document(name).recipe)
    assert view.kernel_state.legal.text() == legal
    assert view.kernel_state.kernel.text().startswith(kernel)
    assert legal in view.kernel_state.accessibleDescription()


def test_the_two_columns_stand_beside_each_other(qtbot: object) -> None:
    view = ConstraintsView()
    qtbot.addWidget(view)  # type: ignore[attr-defined]
    view.show_kernel(document("general"), document("general").recipe)
    view.resize(400, 300)
    view.show()
    legal, kernel = view.kernel_state.legal.geometry(), view.kernel_state.kernel.geometry()
    assert legal.width() > 0 and legal.right() < kernel.left()


def entries(*texts: str) -> list[EntryDoc]:
    return [EntryDoc((0, n), "user", ("S0",), "i", text, "", False, "off " not in f"{text} ", "honoured", "", "")
            for n, text in enumerate(texts)]  # fmt: skip


def test_the_keyboard_stays_at_the_entry_that_was_edited(qtbot: object) -> None:
    """It went to the first entry of the statement, and the next Delete removed that one."""
    tree = ConstraintTreeView()
    qtbot.addWidget(tree)  # type: ignore[attr-defined]
    asked: list[EntryDoc] = []
    tree.removal_requested.connect(asked.append)

    def show(*texts: str) -> None:
        tree.show_rows(rows_of(entries(*texts)))
        tree.mark(key for key in tree.rows if key.startswith("user:"))

    def remove() -> str:
        qtbot.keyClick(tree, Qt.Key.Key_Delete)  # type: ignore[attr-defined]
        return asked[-1].text

    show("S0 @ i: mark tile 2", "S0 @ i: mark warp 4", "S0 @ i: mark stages 4")
    box = tree.visualRect(tree.rows.index_of("user:0.1:S0 @ i: mark warp 4"))
    qtbot.mouseClick(tree.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(40, box.center().y()))  # type: ignore[attr-defined]
    show("S0 @ i: mark tile 2", "off S0 @ i: mark warp 4", "S0 @ i: mark stages 4")
    assert remove() == "off S0 @ i: mark warp 4"
    show("S0 @ i: mark tile 2", "S0 @ i: mark stages 4")
    assert remove() == "S0 @ i: mark stages 4"
    show("S0 @ i: mark tile 2", "S0 @ i: mark stages 3")
    assert remove() == "S0 @ i: mark stages 3"
    show("S0 @ i: mark tile 2")
    assert remove() == "S0 @ i: mark tile 2"


def test_one_sees_at_which_of_the_marked_entries_the_keyboard_is(qtbot: object) -> None:
    tree = ConstraintTreeView()
    qtbot.addWidget(tree)  # type: ignore[attr-defined]
    tree.set_theme(load_theme("dark"))
    tree.resize(420, 200)
    tree.show_rows(rows_of(entries("S0 @ i: mark tile 2", "S0 @ i: mark warp 4")))
    tree.mark(key for key in tree.rows if key.startswith("user:"))
    tree.show()
    qtbot.waitExposed(tree)  # type: ignore[attr-defined]
    tree.activateWindow()
    tree.setFocus()
    qtbot.waitUntil(tree.hasFocus)  # type: ignore[attr-defined]

    def picture() -> list[QImage]:
        keys = [key for key in tree.rows if key.startswith("user:")]
        grabbed = tree.viewport().grab().toImage()
        strips = (tree.visualRect(tree.rows.index_of(key)).adjusted(200, 0, -160, 0) for key in keys)
        return [grabbed.copy(strip) for strip in strips]

    first, second = picture()
    qtbot.keyClick(tree, Qt.Key.Key_Down)  # type: ignore[attr-defined]
    assert first != second and picture() == [second, first]
