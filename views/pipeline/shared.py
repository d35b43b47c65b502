"""A block's shared memory: its buffers with their stages against the limit, and where the chunks of one lie."""

from __future__ import annotations

from PySide6.QtCore import QLineF, QRectF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.documents.pipeline import ChartDoc, SharedDoc
from engine.documents.units import kib
from views.rows import draw_text, text_width
from views.theme import Theme, code_face, face, semibold
from views.themed import Themed

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
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), self.theme.colour("panel"))
        doc = self._doc
        if doc is None or not doc.shared:
            painter.setFont(face(11))
            painter.setPen(self.theme.colour("text-3"))
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, NOTHING)
            return
        self._paint_stages(painter, self.theme, doc)
        self._paint_used(painter, self.theme, doc)
        self._paint_table(painter, self.theme, doc.shared[self._number])

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

    def _paint_stages(self, painter: QPainter, theme: Theme, doc: ChartDoc) -> None:
        """One segment for each stage of each buffer, in the order of their bytes."""
        painter.setFont(face(11))
        painter.setPen(theme.colour("text"))
        for top, text in ((SEGMENTS, f"{doc.loop} loop"), (AFTER, f"after {doc.loop}")) if doc.loop else ():
            draw_text(painter, QRectF(MARGIN, top, SIDE - MARGIN, STRIP), text)
        free = QRectF(SIDE, AFTER, self.width() - SIDE - MARGIN, STRIP)
        painter.setPen(QPen(theme.colour("line"), 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(free.adjusted(0.5, 0.5, -0.5, -0.5), 3, 3)
        if all(buffer.in_loop for buffer in doc.shared):
            painter.setPen(theme.colour("text-3"))
            painter.drawText(free, Qt.AlignmentFlag.AlignCenter, "free")
        for number, (buffer, box) in enumerate(zip(doc.shared, self._boxes(), strict=True)):
            width = box.width() / buffer.stages
            for stage in range(buffer.stages):
                segment = QRectF(box.left() + stage * width + 0.5, box.top() + 0.5, width - 2, box.height() - 1)
                chosen = stage == self._stage and buffer.in_loop
                outline = "accent" if chosen else "text-2" if number == self._number else "edge"
                painter.setPen(QPen(theme.colour(outline), 1.6 if chosen else 1))
                painter.setBrush(theme.colour("accent-bg" if chosen else "raised"))
                painter.drawRoundedRect(segment, 3, 3)
                painter.setPen(theme.colour("accent" if chosen else "text"))
                painter.setFont(code_face(10))
                names = (f"{buffer.array}[{stage}]", f"{buffer.array[:1]}{stage}", f"{stage}")
                for text in names if buffer.in_loop else (f"{buffer.name} {_reuse(buffer, doc)}", buffer.name):
                    if text_width(painter, text) + 4 <= width:
                        painter.drawText(segment, Qt.AlignmentFlag.AlignCenter, text)
                        break

    def _paint_used(self, painter: QPainter, theme: Theme, doc: ChartDoc) -> None:
        """What is used of the limit, as a thin bar with its figures."""
        painter.setFont(face(11))
        painter.setPen(theme.colour("text-3"))
        draw_text(painter, QRectF(MARGIN, USED - 6, SIDE - MARGIN, 18), "of limit")
        track = QRectF(SIDE, USED, self.width() - SIDE - MARGIN, THIN)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.colour("raised"))
        painter.drawRoundedRect(track, 2, 2)
        part = doc.shared_bytes / max(doc.shared_limit, 1)
        painter.setBrush(theme.colour("worse" if part > 0.9 else "edge"))
        painter.drawRoundedRect(QRectF(track.left(), track.top(), track.width() * min(part, 1), THIN), 2, 2)

    def _paint_table(self, painter: QPainter, theme: Theme, buffer: SharedDoc) -> None:
        """Which chunk lies where, and what reading eight rows of one chunk costs."""
        painter.setPen(QPen(theme.colour("line"), 1))
        painter.drawLine(QLineF(0, TABLE - 26, self.width(), TABLE - 26))
        painter.setFont(semibold(11))
        painter.setPen(theme.colour("text"))
        title = f"{buffer.array}, stage 0" if buffer.in_loop else buffer.name
        draw_text(painter, QRectF(MARGIN, TABLE - 22, 130, 18), title)
        painter.setFont(face(10.5))
        painter.setPen(theme.colour("text-3"))
        left = MARGIN + text_width(painter, title) + 22
        note = "lines of 128 bytes; number = 16-byte chunk of its row" if buffer.chunks else buffer.swizzle
        draw_text(painter, QRectF(left, TABLE - 22, self.width() - left - MARGIN, 18), note)
        if not buffer.chunks:
            return
        together = _together(buffer)
        for line, chunks in enumerate(buffer.chunks):
            top = TABLE + line * self._pitch
            painter.setFont(face(10.5))
            painter.setPen(theme.colour("text-3"))
            rows = sorted(set(buffer.rows[line]))
            name = f"{rows[0]}" if len(rows) == 1 else f"{rows[0]}–{rows[-1]}"
            draw_text(painter, QRectF(MARGIN, top, SIDE - MARGIN - 8, self._pitch - GAP), name, right=True)
            for place, chunk in enumerate(chunks):
                self._paint_cell(painter, theme, (line, place), chunk, (line, place) in together)
        self._paint_banks(painter, theme)
        self._paint_passes(painter, theme, buffer)

    def _paint_cell(
        self, painter: QPainter, theme: Theme, at: tuple[int, int], chunk: int, read: bool
    ) -> None:
        box = QRectF(SIDE + at[1] * (CELL + 2), TABLE + at[0] * self._pitch, CELL, self._pitch - GAP)
        painter.setBrush(theme.colour("accent-bg") if read else Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(theme.colour("accent" if read else "line"), 1.4 if read else 1))
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 2, 2)
        painter.setFont(code_face(10))
        painter.setPen(theme.colour("accent" if read else "text-2"))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, f"{chunk}")

    def _paint_banks(self, painter: QPainter, theme: Theme) -> None:
        y = TABLE + PLACES * self._pitch + 2
        painter.setFont(face(10.5))
        painter.setPen(theme.colour("text-3"))
        draw_text(painter, QRectF(MARGIN, y, SIDE - MARGIN - 8, 16), "bank", right=True)
        for place in range(PLACES):
            box = QRectF(SIDE + place * (CELL + 2), y, CELL, 16)
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, f"{place * 4}")

    def _paint_passes(self, painter: QPainter, theme: Theme, buffer: SharedDoc) -> None:
        """In words, where there is room beside the table."""
        left = SIDE + PLACES * (CELL + 2) + 16
        room = self.width() - left - MARGIN
        if room < 90:
            return
        lost = buffer.passes_unpermuted - buffer.passes
        texts = (
            ("text", True, "8 rows of chunk 0"),
            ("text-2", False, _passes(buffer.passes)),
            ("", False, ""),
            ("text", True, "No swizzle"),
            ("worse" if lost else "text-2", False, f"{'▲ ' if lost else ''}{_passes(buffer.passes_unpermuted)}"),
        )
        for number, (token, strong, text) in enumerate(texts):
            if text:
                painter.setFont(semibold(11) if strong else face(11))
                painter.setPen(theme.colour(token))
                draw_text(painter, QRectF(left, TABLE + number * 18, room, 18), text)


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
