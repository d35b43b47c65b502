"""Which 32-byte sectors the 32 lanes of one warp touch at each access, before and after."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from PySide6.QtCore import QRectF, Signal
from PySide6.QtWidgets import QPushButton, QWidget

from engine.documents.exploration import BANK_BYTES, BANKS, SECTOR, LanesDoc, WarpDoc
from views.answer import AnswerPage
from views.format import plural
from views.panel import bar, label
from views.rows import RowState, RowView, TreeRow
from views.theme import code_face, face, semibold
from views.themed import Themed
from views.themed_painter import RIGHT, ThemedPainter

HEIGHT = 58
SIDE = 168
"""Pixels of the column that names an access."""
WIDEST_BOX = 26.0
EMPTY = "Runs one block on the CPU and records what the first warp touches, access by access"


@dataclass(frozen=True, slots=True)
class AccessPair:
    """One access under the baseline's advice and under the present one; None where it has no counterpart."""

    before: LanesDoc | None
    after: LanesDoc | None
    compared: bool
    """Whether there is a baseline to compare with at all."""

    @property
    def lanes(self) -> LanesDoc:
        """The one that names the row."""
        lanes = self.after or self.before
        assert lanes is not None
        return lanes


def address_rows(after: WarpDoc, before: WarpDoc | None) -> tuple[TreeRow, ...]:
    """The accesses of both, paired by kind and array in the order in which they come."""
    waiting = list(before.lanes) if before else []
    pairs: list[AccessPair] = []
    for lanes in after.lanes:
        old = next((each for each in waiting if (each.kind, each.array) == (lanes.kind, lanes.array)), None)
        if old is not None:
            waiting.remove(old)
        pairs.append(AccessPair(old, lanes, before is not None))
    pairs += [AccessPair(old, None, True) for old in waiting]
    return tuple(TreeRow(f"{number}", describe(pair), pair, (), HEIGHT) for number, pair in enumerate(pairs))


def describe(access: AccessPair) -> str:
    """An access in words, for screen readers and tool tips."""
    lanes = access.lanes
    parts = [f"Line {lanes.line}: {lanes.kind} of {lanes.array}, {plural(lanes.width, 'byte')} a lane"]
    for name, each in (("before", access.before), ("now", access.after)):
        if each is not None:
            parts.append(f"{name} {count(each)}, ideal {each.ideal}")
    return "; ".join(parts)


def count(lanes: LanesDoc) -> str:
    """ "16 sectors", or "2 passes" over shared memory's banks."""
    return f"{lanes.sectors} pass{'' if lanes.sectors == 1 else 'es'}" if is_shared(lanes) else sectors(lanes.sectors)


def sectors(number: int) -> str:
    """ "1 sector", "16 sectors"."""
    return plural(number, "sector")


def is_shared(lanes: LanesDoc) -> bool:
    """Whether an access goes to shared memory."""
    return lanes.kind.startswith("shared")


class AddressesPage(AnswerPage):
    """Asked for by a button, because the emulator has to run; `line_selected` carries the line of a clicked row."""

    asked = Signal()
    line_selected = Signal(int)

    def __init__(self) -> None:
        super().__init__(EMPTY)
        strip, layout = bar("subheader", 36)
        self.button = QPushButton("Run one block")
        self.button.setProperty("role", "small")
        self.button.setToolTip(EMPTY)
        self.button.clicked.connect(self.asked)
        self.note = label("", "small-hint")
        self.note.setMinimumWidth(10)
        layout.addWidget(self.button)
        layout.addWidget(self.note, 1)
        self.heads = _Heads()
        self.table = RowView("Addresses of one warp", _paint, 0)
        self.table.chevrons = False
        self.table.row_selected.connect(self._select)
        self.pages.addWidget(self.table)
        for widget in (strip, self.heads):
            self.column.addWidget(widget)
        self.column.addWidget(self.pages, 1)
        self._shown: tuple[WarpDoc, WarpDoc | None] | None = None

    def show_addresses(self, after: WarpDoc, before: WarpDoc | None) -> None:
        """Shows a warp under the present advice, beside the same under the baseline's where that is known."""
        self.show_body()
        self.heads.show_columns(before is not None)
        self.note.setText(f"first warp of block {after.block}, counted by the emulator")
        if (after, before) != self._shown:
            self._shown = (after, before)
            self.table.show_rows(address_rows(after, before))

    def show_nothing(self, sentence: str = "") -> None:
        """Nothing has been counted under this advice."""
        self._shown = None
        self.note.setText("")
        self.heads.hide()
        super().show_nothing(sentence)

    def show_loading(self, loading: bool) -> None:
        """A block is running."""
        self.progress.setVisible(loading)
        self.button.setEnabled(not loading)

    def _select(self, row: TreeRow) -> None:
        self.table.mark((row.key,))
        if isinstance(row.value, AccessPair) and row.value.after is not None:
            self.line_selected.emit(row.value.after.line)


class _Heads(QWidget, Themed):
    """Names of the columns, and the scale of the lanes."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(26)
        self._compared = False
        self.hide()

    def show_columns(self, compared: bool) -> None:
        """One column of strips, or two."""
        self._compared = compared
        self.show()
        self.update()

    def paintEvent(self, event: object) -> None:
        """Heads at the left of their columns; the scale from lane 0 to lane 31 at the right."""
        if self.theme is None:
            return
        painter, box = ThemedPainter(self, self.theme), QRectF(self.rect())
        heads = ("Baseline", "Now") if self._compared else ("Now",)
        places = [(12.0, "Access"), *zip((c.x() for c in _columns(box, self._compared)), heads, strict=True)]
        right = box.right() - 12
        for left, text in places:
            painter.text(QRectF(left, 0, 60, box.height()), text, "text-3", face(11))
        for end, text in ((right, "lane 31"), (right - 114, "lane 0")):
            painter.text(QRectF(end - 60, 0, 60, box.height()), text, "text-3", face(11), RIGHT)
        for lane in range(32):
            painter.area(QRectF(right - 110 + lane * 2, 9, 2, 8), self.theme.cost_colour(lane / 31))
        painter.area(QRectF(0, box.height() - 1, box.width(), 1), "line")


def _columns(box: QRectF, compared: bool) -> list[QRectF]:
    left, right = box.x() + SIDE, box.right() - 12
    if not compared:
        return [QRectF(left, box.y(), right - left, box.height())]
    width = (right - left - 16) / 2
    return [QRectF(left + k * (width + 16), box.y(), width, box.height()) for k in range(2)]


def _paint(painter: ThemedPainter, row: TreeRow, state: RowState) -> None:
    access, box = row.value, state.box
    assert isinstance(access, AccessPair)
    lanes = access.lanes
    painter.text(QRectF(12, box.y() + 8, SIDE - 24, 18), lanes.array, font=code_face())
    painter.text(QRectF(12, box.y() + 26, SIDE - 20, 18), f"line {lanes.line}, {lanes.kind}", "text-3", face(11))
    sides = (access.before, access.after) if access.compared else (access.after,)
    for side, column in zip(sides, _columns(box, access.compared), strict=True):
        if side is None:
            painter.text(column, "no such access", "text-3", face(11))
        else:
            _paint_count(painter, QRectF(column.x(), box.y() + 4, column.width(), 18), side)
            strip = QRectF(column.x(), box.y() + 26, column.width(), 22)
            (_paint_banks if is_shared(side) else _paint_sectors)(painter, strip, side)
    painter.area(QRectF(box.x(), box.bottom() - 1, box.width(), 1), "line")


def _paint_count(painter: ThemedPainter, box: QRectF, lanes: LanesDoc) -> None:
    """What is touched against the least; more than that is amber with its factor."""
    more = lanes.ideal > 0 and lanes.sectors > lanes.ideal
    rest = f"▲ {lanes.sectors / lanes.ideal:.3g} × ideal {lanes.ideal}" if more else f"ideal {lanes.ideal}"
    after = painter.text(box, count(lanes), font=semibold(11)) + 8
    painter.text(
        box.adjusted(after, 0, 0, 0), f"{rest}, {lanes.width} B a lane", "worse" if more else "text-3", face(11)
    )


def _paint_sectors(painter: ThemedPainter, strip: QRectF, lanes: LanesDoc) -> None:
    """A box for each sector in the order of addresses, a gap where some lie between, a tick for each lane."""
    touched = sorted({address // SECTOR for address in lanes.addresses if address >= 0})
    gaps = sum(b - a > 1 for a, b in pairwise(touched))
    width = min((strip.width() - gaps * 3) / max(len(touched), 1), WIDEST_BOX)
    left, place = strip.x(), {}
    for number, sector in enumerate(touched):
        left += 3 if number and sector - touched[number - 1] > 1 else 0
        place[sector] = left
        _paint_slot(painter, QRectF(left, strip.y(), width, strip.height()))
        left += width
    tick = min(max(width * lanes.width / SECTOR - 0.6, 1.0), width)
    for lane, address in enumerate(lanes.addresses):
        if address >= 0:
            x = place[address // SECTOR] + width * (address % SECTOR) / SECTOR
            inside = QRectF(x + 0.3, strip.y() + 3, tick, strip.height() - 6)
            painter.area(inside, painter.theme.cost_colour(lane / 31))


def _paint_banks(painter: ThemedPainter, strip: QRectF, lanes: LanesDoc) -> None:
    """The 32 banks of shared memory; lanes that need different words of one bank stand above each other."""
    width = min(strip.width() / BANKS, WIDEST_BOX)
    for bank in range(BANKS):
        _paint_slot(painter, QRectF(strip.x() + bank * width, strip.y(), width, strip.height()))
    words = _words_by_bank(lanes)
    height = (strip.height() - 4) / max(map(len, words.values()), default=1)
    for bank, wanted in words.items():
        for level, lane in enumerate(wanted.values()):
            top = strip.bottom() - 2 - (level + 1) * height
            inside = QRectF(strip.x() + bank * width + 1, top + 0.3, max(width - 2, 1.0), max(height - 0.6, 0.6))
            painter.area(inside, painter.theme.cost_colour(lane / 31))


def _paint_slot(painter: ThemedPainter, box: QRectF) -> None:
    """A sector or a bank, before anybody touched it."""
    painter.ink("edge", "raised", 0.8).drawRect(box)


def _words_by_bank(lanes: LanesDoc) -> dict[int, dict[int, int]]:
    """Bank -> word -> the first lane that needs it."""
    found: dict[int, dict[int, int]] = {}
    for lane, address in enumerate(lanes.addresses):
        for word in range(address // BANK_BYTES, -(-(address + lanes.width) // BANK_BYTES)) if address >= 0 else ():
            found.setdefault(word % BANKS, {}).setdefault(word, lane)
    return found
