"""A long listing: only what is in sight is painted, marks and keys go by lines."""

from __future__ import annotations

import time

import pytest
from PySide6.QtCore import QPoint, Qt

from engine.documents.pipeline import ListingDoc
from tests.app.fake_documents import kernel
from views.code.editor import CodeText
from views.code.spans import Span, assembly_spans
from views.code.view import CUDA, PTX, SASS, CodeView
from views.theme import load_theme

LONG = "\n".join(f"\tadd.s32 %r{n}, 1;" for n in range(100_000))


def coloured_as_assembly(line: int, text: str) -> list[Span]:
    return assembly_spans(text)


def test_a_hundred_thousand_lines_stand_at_once(qtbot: object) -> None:
    listing = CodeText("Listing")
    listing.set_theme(load_theme("dark"))
    listing.resize(400, 600)
    listing.show()
    started = time.process_time()
    listing.show_text(LONG, {}, coloured_as_assembly)
    listing.grab()
    shown = time.process_time()
    assert shown - started < 0.8, "painting every line takes many times as long"
    listing.mark(range(1_000, 9_000))
    listing.grab()
    assert time.process_time() - shown < 0.15
    assert len(listing.lines) == 100_000 and listing.lines[0].startswith("    add")
    assert listing.verticalScrollBar().value() > 900  # what is marked came into sight


def test_clicks_and_keys_choose_lines(qtbot: object) -> None:
    listing = CodeText("Listing")
    listing.resize(400, 300)
    listing.show_text(LONG, {3: "96"}, coloured_as_assembly)
    chosen: list[int] = []
    listing.line_selected.connect(chosen.append)
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_End, Qt.Key.Key_Home, Qt.Key.Key_Up):
        qtbot.keyClick(listing, key)  # type: ignore[attr-defined]
    assert chosen == [2, 3, 100_000, 1, 1]
    qtbot.mouseClick(listing.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(200, 1))  # type: ignore[attr-defined]
    assert chosen[-1] == 1 and listing.accessibleDescription().startswith("Line 1: add.s32")


def test_a_listing_stands_for_its_lines_of_the_cuda_text(qtbot: object) -> None:
    view = CodeView()
    shown = kernel("softmax_0")
    view.show_kernel(shown)
    heard: list[int] = []
    view.line_selected.connect(heard.append)
    view.mark((2,))
    view.select_tab(PTX)
    assert view.listing.lines == ["PTX is on its way…"]
    assert not view.copy_button.isEnabled() and not view._chips._note.text(), "that is no PTX"
    view.show_listing(ListingDoc("softmax_0", "", PTX, "sm_80", "a\nb\nc", ((1, 2), (3, 2), (2, 4))))
    assert view.listing.lines == ["a", "b", "c"] and view.listing.marked == {1, 3}
    assert view.copy_button.isEnabled() and view._chips._note.text() == "3 lines", "of the text in front"
    qtbot.keyClick(view.listing, Qt.Key.Key_Down)  # type: ignore[attr-defined]
    assert heard == [4] and view.text.marked == {4} and view.listing.marked == {2}
    view.select_tab(SASS)
    view.show_listing(ListingDoc("softmax_0", "", SASS, "sm_80", "", (), "nvdisasm is missing"))
    assert view.listing.lines == ["nvdisasm is missing"] and view.mix.isHidden()
    view.show_listing(ListingDoc("softmax_0", "", SASS, "sm_80", "EXIT", (), "", ("1 instructions: 1 control",)))
    assert view.mix.text() == "1 instructions: 1 control" and not view.mix.isHidden()
    view.select_tab(CUDA)
    assert view.pages.currentWidget() is view.text and view.mix.isHidden()


@pytest.mark.parametrize(
    ("line", "coloured"),
    [
        (".visible .entry softmax(", {".visible": "keyword", ".entry": "keyword"}),
        (".reg .f32 \t%f<3>;", {".reg": "keyword", ".f32": "type", "3": "number"}),
        ("mov.u32 %r1, %tid.x;  // threads", {"mov.u32": "keyword", "// threads": "text-3"}),
        ("@%p1 bra $L__BB0_2;", {"@%p1 bra": "keyword"}),
        ("$L__BB0_2:", {"$L__BB0_2:": "type"}),
        ("add.s32 %r2, %r1, -16;", {"add.s32": "keyword", "-16": "number"}),
        ("ld.global.nc.f32 %f1, [%rd1+4];", {"ld.global.nc.f32": "keyword", "4": "number"}),
        (
            " /*0010*/  IMAD.MOV.U32 R1, RZ, c[0x0][0x28] ;",
            {"/*0010*/": "text-3", "IMAD.MOV.U32": "keyword", "0x28": "number"},
        ),
    ],
)
def test_instructions_directives_and_numbers_of_a_listing_are_coloured(line: str, coloured: dict[str, str]) -> None:
    found = {line[start : start + length].strip(): token for start, length, token in assembly_spans(line)}
    assert coloured.items() <= found.items()
    assert not {"%r1", "%tid", "R1", "RZ"} & found.keys()
