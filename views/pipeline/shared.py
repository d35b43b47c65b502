"""A block's shared memory: its buffers with their stages against the limit, and where the chunks of one lie."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.documents.pipeline import ChartDoc, SharedDoc
from engine.documents.units import kib
from views.theme import code_face, face, semibold
from views.themed import Themed
from views.themed_painter import RIGHT, ThemedPainter

NOTHING = "This kernel uses no shared memory"
SIDE, MARGIN = 60.0, 12.0
SEGMENTS, AFTER, USED = 10.0, 44.0, 80.0
"""Where the strips of stages, of what is used after the loop, and of what is used of the limit begin."""
STRIP, THIN = 28.0, 6.0
TABLE = 122.0
CELL, GAP, PITCH, WIDEST = 28.0, 3.0, 21.0, 30.0
"""Width of a chunk, the gap between rows of the table, and their pitch: the least, and where there is room."""
PLACES = 8


class SharedMap(QWidget, Themed):
    """Paints the map; a click or the arrow keys choose the buffer whose chunks are shown."""

    buffer_selected = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Shared memory")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(260, round(TABLE + PLACES * PITCH + 44))
        self._doc: ChartDoc | None = None
        self._number = 0
        self._stage = -1

    def show_chart(self, doc: ChartDoc) -> None:
        """Replaces the map."""
        self._doc = doc
        self._number = min(self._number, max(len(doc.shared) - 1, 0))
        self._describe()

    def show_stage(self, stage: int) -> None:
        """Marks a stage of every buffer; -1 marks none."""
        self._stage = stage
        self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Chooses the buffer under the pointer."""
        for number, box in enumerate(self._boxes()):
            if box.contains(event.position()):
                self._choose(number)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left and Right choose the buffer."""
        by = {Qt.Key.Key_Right: 1, Qt.Key.Key_Left: -1}.get(Qt.Key(event.key()))
        if by is None or self._doc is None or not self._doc.shared:
            super().keyPressEvent(event)
            return
        self._choose(min(max(self._number + by, 0), len(self._doc.shared) - 1))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Strips, scale, table."""
        if self.theme is None:
            return
        painter, doc = ThemedPainter(self, self.theme), self._doc
        painter.area(QRectF(self.rect()), "panel")
        if doc is None or not doc.shared:
            painter.word(QRectF(self.rect()), NOTHING, "text-3", face(11))
            return
        self._paint_stages(painter, doc)
        self._paint_used(painter, doc)
        self._paint_table(painter, doc.shared[self._number])

    def _choose(self, number: int) -> None:
        self._number = number
        self._describe()
        if self._doc is not None:
            self.buffer_selected.emit(self._doc.shared[number].name)

    def _describe(self) -> None:
        doc = self._doc
        self.setAccessibleDescription(NOTHING if doc is not None else "")
        if doc is not None and doc.shared:
            buffer = doc.shared[self._number]
            share = f"{kib(doc.shared_bytes)} of {kib(doc.shared_limit)} per block"
            passes = f", {buffer.passes} of {buffer.passes_unpermuted} passes" if buffer.passes else ""
            self.setAccessibleDescription(f"{share}; {buffer.name}: {buffer.stages} stages, {buffer.swizzle}{passes}")
        self.update()

    def _scale(self) -> float:
        """Pixels of a byte: what is used fills the width."""
        assert self._doc is not None
        return (self.width() - SIDE - MARGIN) / max(self._doc.shared_bytes, 1)

    @property
    def _pitch(self) -> float:
        """From one row of the table to the next: tall windows have taller rows."""
        return min(max((self.height() - TABLE - 34) // PLACES, PITCH), WIDEST)

    def _boxes(self) -> list[QRectF]:
        if self._doc is None:
            return []
        scale = self._scale()
        tops = {True: SEGMENTS, False: AFTER}
        return [QRectF(SIDE + b.offset * scale, tops[b.in_loop], b.size * scale, STRIP) for b in self._doc.shared]

    def _paint_stages(self, painter: ThemedPainter, doc: ChartDoc) -> None:
        """One segment for each stage of each buffer, in the order of their bytes."""
        for top, text in ((SEGMENTS, f"{doc.loop} loop"), (AFTER, f"after {doc.loop}")) if doc.loop else ():
            painter.text(QRectF(MARGIN, top, SIDE - MARGIN, STRIP), text, font=face(11))
        free = QRectF(SIDE, AFTER, self.width() - SIDE - MARGIN, STRIP)
        painter.box(free, "line", radius=3)
        if all(buffer.in_loop for buffer in doc.shared):
            painter.word(free, "free", "text-3", face(11))
        for number, (buffer, box) in enumerate(zip(doc.shared, self._boxes(), strict=True)):
            width = box.width() / buffer.stages
            for stage in range(buffer.stages):
                segment = QRectF(box.left() + stage * width + 0.5, box.top() + 0.5, width - 2, box.height() - 1)
                is_chosen = stage == self._stage and buffer.in_loop
                line = "accent" if is_chosen else "text-2" if number == self._number else "edge"
                back = "accent-bg" if is_chosen else "raised"
                painter.ink(line, back, 1.6 if is_chosen else 1).drawRoundedRect(segment, 3, 3)
                names = (f"{buffer.array}[{stage}]", f"{buffer.array[:1]}{stage}", f"{stage}")
                texts = names if buffer.in_loop else (f"{buffer.name} {_reuse(buffer, doc)}", buffer.name)
                painter.fits(segment, texts, "accent" if is_chosen else "text", code_face(10), 2)

    def _paint_used(self, painter: ThemedPainter, doc: ChartDoc) -> None:
        """What is used of the limit, as a thin bar."""
        painter.text(QRectF(MARGIN, USED - 6, SIDE - MARGIN, 18), "of limit", "text-3", face(11))
        track = QRectF(SIDE, USED, self.width() - SIDE - MARGIN, THIN)
        part = doc.shared_bytes / max(doc.shared_limit, 1)
        painter.box(track, fill="raised", radius=2)
        track.setWidth(track.width() * min(part, 1))
        painter.box(track, fill="worse" if part > 0.9 else "edge", radius=2)

    def _paint_table(self, painter: ThemedPainter, buffer: SharedDoc) -> None:
        """Which chunk lies where, and what reading eight rows of one chunk costs."""
        painter.line((0, TABLE - 26), (self.width(), TABLE - 26))
        head = QRectF(MARGIN, TABLE - 22, self.width() - 2 * MARGIN, 18)
        title = f"{buffer.array}, stage 0" if buffer.in_loop else buffer.name
        after = painter.text(head, title, font=semibold(11)) + 22
        note = "lines of 128 bytes; number = 16-byte chunk of its row" if buffer.chunks else buffer.swizzle
        painter.text(head.adjusted(after, 0, 0, 0), note, "text-3", face(10.5))
        together, height = _together(buffer), self._pitch - GAP
        for line, chunks in enumerate(buffer.chunks):
            top, rows = TABLE + line * self._pitch, sorted(set(buffer.rows[line]))
            name = f"{rows[0]}" if len(rows) == 1 else f"{rows[0]}–{rows[-1]}"
            painter.text(QRectF(MARGIN, top, SIDE - MARGIN - 8, height), name, "text-3", face(10.5), RIGHT)
            for place, chunk in enumerate(chunks):
                read, box = (line, place) in together, QRectF(SIDE + place * (CELL + 2), top, CELL, height)
                outline, width = ("accent", 1.4) if read else ("line", 1)
                painter.box(box, outline, "accent-bg" if read else "", 2, width)
                painter.word(box, f"{chunk}", "accent" if read else "text-2", code_face(10))
        if buffer.chunks:
            self._paint_banks(painter)
            self._paint_passes(painter, buffer)

    def _paint_banks(self, painter: ThemedPainter) -> None:
        y = TABLE + PLACES * self._pitch + 2
        painter.text(QRectF(MARGIN, y, SIDE - MARGIN - 8, 16), "bank", "text-3", face(10.5), RIGHT)
        for place in range(PLACES):
            painter.word(QRectF(SIDE + place * (CELL + 2), y, CELL, 16), f"{place * 4}", "text-3", face(10.5))

    def _paint_passes(self, painter: ThemedPainter, buffer: SharedDoc) -> None:
        """In words, where there is room beside the table."""
        left = SIDE + PLACES * (CELL + 2) + 16
        room, lost = self.width() - left - MARGIN, buffer.passes_unpermuted - buffer.passes
        texts = (
            ("text", "8 rows of chunk 0"), ("text-2", _passes(buffer.passes)), ("", ""), ("text", "No swizzle"),
            ("worse" if lost else "text-2", f"{'▲ ' if lost else ''}{_passes(buffer.passes_unpermuted)}"),
        )  # fmt: skip
        for number, (token, text) in enumerate(texts if room >= 90 else ()):
            if text:
                font = semibold(11) if token == "text" else face(11)
                painter.text(QRectF(left, TABLE + number * 18, room, 18), text, token, font)


def _reuse(buffer: SharedDoc, doc: ChartDoc) -> str:
    """Which buffers of the loop share their bytes with one that lies outside it."""
    end = buffer.offset + buffer.size
    shared = [b for b in doc.shared if b.in_loop and b.offset < end and buffer.offset < b.offset + b.size]
    return f"over {' and '.join(b.array for b in shared)}" if shared else "not reused"


def _together(buffer: SharedDoc) -> set[tuple[int, int]]:
    """Places of chunk 0 of the first eight rows: what one matrix load reads at once."""
    return {
        (line, place)
        for line, (chunks, rows) in enumerate(zip(buffer.chunks, buffer.rows, strict=True))
        for place, (chunk, row) in enumerate(zip(chunks, rows, strict=True))
        if chunk == 0 and row < PLACES
    }


def _passes(number: int) -> str:
    return "1 pass, no conflict" if number == 1 else f"{number} passes over the banks"
