"""Loops changed by hand in the real window: interchange, skew, tile and cut; code, verdict, family and check follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QApplication, QLabel, QMenu

from app.session.client import COMMAND
from app.shell.window import Window
from engine.documents.model import KernelDoc, ScheduleDoc
from tests.app.driving import PATIENCE, advice
from tests.app.test_real_editing import explored
from tests.support.jacobi import jacobi_1d, jacobi_2d
from tests.support.make_models import Model
from views.schedule.loops import loops_of
from views.schedule.view import SPACE, TREE

SOLVED = 120_000
"""Milliseconds: the stencils of forty sweeps on a machine that does other things, too."""
MODELS = Path(__file__).parents[2] / "resources" / "models"


@pytest.fixture
def opened(make: Callable[..., Window], qtbot: object) -> Callable[[Path, str], Window]:
    """Opens a model in the Schedule perspective, with a group of it selected."""

    def open_model(path: Path, group: str) -> Window:
        window = make(command=COMMAND)
        window.workspace.start()
        window.open_file(str(path))
        workspace = window.workspace
        qtbot.waitUntil(lambda: workspace.model is not None, timeout=SOLVED)  # type: ignore[attr-defined]
        window.set_perspective("Schedule")
        name = group or workspace.model.groups[0].name  # type: ignore[union-attr]
        workspace.bus.select_group(name)
        qtbot.waitUntil(lambda: workspace.legal_kernel(name) is not None, timeout=SOLVED)  # type: ignore[attr-defined]
        window.panels.schedule.select_tab(TREE)
        return window

    return open_model


def choose(window: Window, qtbot: object, loop: str, *titles: str) -> KernelDoc:
    """Picks from a loop's menu, and waits for the kernel."""
    before = window.workspace.recipe(window.wiring.group)
    pick(window, loop, *titles)
    return answered(window, qtbot, before)


def pick(window: Window, loop: str, *titles: str) -> None:
    """Opens the context menu of a loop's row by the keyboard, and triggers what stands under some titles."""
    tree = window.panels.schedule.tree
    rows = [tree.rows.row_at(tree.rows.index_of(key)) for key in tree.rows]
    row = next(row for row in rows if loop in (row.value.dimension, row.value.kind))
    tree.setCurrentIndex(tree.rows.index_of(row.key))
    at = QPoint(20, 20)
    QApplication.sendEvent(
        tree.viewport(), QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, at, tree.mapToGlobal(at))
    )
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    for title in titles:
        action = next(each for each in menu.actions() if each.text() == title)
        if action.menu() is None:
            menu.close()
            action.trigger()
        else:
            menu = action.menu()


def answered(window: Window, qtbot: object, before: str | None) -> KernelDoc:
    """Waits until the advice is another one and its kernel is known; what the panels explore meanwhile may go on."""
    workspace, group = window.workspace, window.wiring.group

    def is_known() -> bool:
        return workspace.recipe(group) != before and workspace.kernel(group) is not None

    qtbot.waitUntil(is_known, timeout=SOLVED)  # type: ignore[attr-defined]
    kernel = workspace.kernel(group)
    assert kernel is not None
    return kernel


def kernel_line(window: Window) -> str:
    """What stands above the constraint tree about the kernel."""
    return window.panels.constraints.kernel_state.accessibleDescription()


def walk(node: ScheduleDoc) -> Iterator[ScheduleDoc]:
    """A row of the schedule tree and all below it."""
    yield node
    for child in node.children:
        yield from walk(child)


def check_passes(window: Window, qtbot: object) -> bool:
    """F8: the kernel runs on the CPU against the reference."""
    group = window.wiring.group
    window.action("check").trigger()
    qtbot.waitUntil(lambda: window.workspace.check(group) is not None, timeout=SOLVED)  # type: ignore[attr-defined]
    found = window.workspace.check(group)
    return found is not None and found.status == "pass"


def undone(window: Window, qtbot: object, before: str) -> None:
    """Ctrl+Z until the advice is as before."""
    while window.workspace.recipe(window.wiring.group) != before:
        assert window.action("undo").isEnabled()
        window.action("undo").trigger()
        explored(window, qtbot)


@pytest.mark.slow(sentinel=True)
def test_a_softmax_skewed_tiled_and_cut_from_the_tree(opened: Callable[..., Window], qtbot: object) -> None:
    window = opened(MODELS / "softmax_96x512.onnx", "softmax_0")
    code, before = window.panels.code.text, advice(window)
    plain = code.toPlainText()
    assert kernel_line(window) == "Legal. Reduction kernel"

    kernel = choose(window, qtbot, "j", "Skew by", "i")
    assert kernel.has_kernel and kernel.family == "general" and code.toPlainText() != plain
    assert "Reduction does not fit: S0 runs over i + j in dimension j of 607" in kernel_line(window)
    tree = window.panels.schedule.tree
    titles = [tree.rows.row_at(tree.rows.index_of(key)).title for key in tree.rows]
    assert any(title.startswith("j = 0 … 606 (i + j)  S0") for title in titles), titles
    assert check_passes(window, qtbot)
    undone(window, qtbot, before)
    assert code.toPlainText() == plain and kernel_line(window) == "Legal. Reduction kernel"

    kernel = choose(window, qtbot, "i", "Tile by", "8")
    assert kernel.has_kernel and kernel.schedule.children[0].dimension == "i_tile"
    assert "Reduction does not fit" in kernel_line(window)
    assert check_passes(window, qtbot)
    kernel = choose(window, qtbot, "i", "Distribute", "Before S3")
    parts = kernel.schedule.children[0].children[0].children
    assert kernel.has_kernel and [part.dimension for part in parts] == ["i", "i"]
    assert check_passes(window, qtbot)
    undone(window, qtbot, before)

    form = window.panels.constraints.form
    form.statements.setCurrentText("all")
    form.dimension.setCurrentText("j")
    form.field.setCurrentText("terms")
    form.value.setText("((i, 2), (j, 1))")
    qtbot.keyClick(form.value, Qt.Key.Key_Return)  # type: ignore[attr-defined]
    assert answered(window, qtbot, before).family == "general"
    titles = [tree.rows.row_at(tree.rows.index_of(key)).title for key in tree.rows]
    assert any(title.startswith("j = 0 … 701 (2*i + j)  S0") for title in titles), titles
    undone(window, qtbot, before)

    pick(window, "i", "Interchange with", "j")
    space = window.panels.schedule.space
    qtbot.waitUntil(lambda: space.chip.text() == "tried, not applied", timeout=PATIENCE)  # type: ignore[attr-defined]
    assert window.panels.schedule.tab == SPACE and "2 of 4 dependences" in space.verdict.title.text()
    assert advice(window) == before, "the sums forbid it: the order is drawn and not applied"


@pytest.mark.slow
def test_a_product_interchanged_tiled_and_skewed_from_the_tree(opened: Callable[..., Window], qtbot: object) -> None:
    window = opened(MODELS / "bert_tiny.onnx", "matmul_2")
    before = advice(window, "matmul_2")
    kernel = choose(window, qtbot, "i", "Interchange with", "j")
    assert kernel.family == "gemm" and kernel.schedule.children[0].dimension == "j"
    assert kernel_line(window) == "Legal. Gemm kernel"
    undone(window, qtbot, before)
    kernel = choose(window, qtbot, "j", "Skew by", "i")
    assert kernel.family == "general" and "Gemm does not fit: S0 runs over i + j" in kernel_line(window)
    assert check_passes(window, qtbot)
    undone(window, qtbot, before)
    kernel = choose(window, qtbot, "k", "Tile by", "16")
    assert kernel.family == "general" and "ask for slices" in kernel_line(window)
    assert [each for each in loops_of(kernel.schedule) if each.startswith("k")] == ["k_tile", "k"]
    assert check_passes(window, qtbot)
    undone(window, qtbot, before)


@pytest.mark.slow
def test_a_cut_of_attention_is_two_launches(opened: Callable[..., Window], qtbot: object) -> None:
    window = opened(MODELS / "bert_tiny.onnx", "attention_0")
    outer = window.panels.schedule.tree.rows.row_at(window.panels.schedule.tree.rows.index(0, 0)).value.children[0]
    kernel = choose(window, qtbot, outer.dimension, "Distribute", "Before S1")
    assert kernel.family == "general" and len(kernel.launches) == 2
    assert "General kernel, 2 launches. Attention does not fit" in kernel_line(window)
    assert "2 launches" in window.panels.schedule.legality.text()
    chips = [each.text() for each in window.panels.code.findChildren(QLabel) if " then " in each.text()]
    assert chips == [" then ".join(f"{one.blocks:,} x {one.threads}" for one in kernel.launches)]
    assert all(f"{one.entry}(" in window.panels.code.text.toPlainText() for one in kernel.launches)
    assert check_passes(window, qtbot)


@pytest.mark.slow(sentinel=True)
@pytest.mark.parametrize(
    ("make_model", "sweeps", "factor"),
    [
        pytest.param(jacobi_1d, 4, 8, id="1d"),
        pytest.param(jacobi_2d, 4, 8, id="2d", marks=pytest.mark.slow),
        pytest.param(jacobi_1d, 40, 16, id="1d-mini", marks=pytest.mark.slow),
        pytest.param(jacobi_2d, 40, 8, id="2d-mini", marks=pytest.mark.slow),
    ],
)
def test_sweeps_of_a_stencil_are_skewed_and_tiled_over_time(
    opened: Callable[..., Window],
    qtbot: object,
    tmp_path: Path,
    make_model: Callable[[int], Model],
    sweeps: int,
    factor: int,
) -> None:
    model = make_model(sweeps)
    model.save(tmp_path)
    window = opened(tmp_path / f"{model.name}.onnx", "")
    kernel = choose(window, qtbot, "sequence", "Fuse Loops with Shifts")
    shared = next(loop for loop in walk(kernel.schedule) if loop.kind == "band")
    own = {one.name for one in kernel.statements if one.iterators}  # the two ends are copied without a loop
    assert kernel.has_kernel and set(shared.statements) == own, "sweeps share a loop, each behind the one before"
    assert shared.rows
    kernel = choose(window, qtbot, shared.dimension, "Tile by", str(factor))
    tile = next(loop for loop in walk(kernel.schedule) if loop.dimension == f"{shared.dimension}_tile")
    assert kernel.has_kernel and tile.statements == shared.statements
    kernel = choose(window, qtbot, shared.dimension, "Distribute", "Between All Statements")
    tile = next(loop for loop in walk(kernel.schedule) if loop.dimension == f"{shared.dimension}_tile")
    assert kernel.has_kernel and tile.children[0].kind == "sequence", "a tile runs all sweeps in turn"
    assert "General kernel" in kernel_line(window)
    assert check_passes(window, qtbot)
