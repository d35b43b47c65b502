"""The constraint panel says of a schedule whether it is legal, and which family made its kernel."""

from __future__ import annotations

from functools import cache

import pytest

import engine
from engine.documents.model import KernelDoc
from engine.present.model import kernel_doc, refused_doc
from tests.explore.groups import advised, group_of
from views.constraints.view import ConstraintsView

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
