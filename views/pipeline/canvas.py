"""The pipeline's chart under pointer and keyboard: select a tile, and everything that happens to it lights up."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, QSizeF, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QPaintEvent
from PySide6.QtWidgets import QMenu, QSizePolicy

from engine.documents.pipeline import ROWS, BarDoc, ChartDoc
from views.format import figure
from views.pipeline.geometry import ChartGeometry, ChartMark
from views.pipeline.painting import TITLES, ChartPainter, ChartState
from views.pipeline.zoom import ZoomedChart
from views.plots.writing import png_of, save_as, svg_of
from views.themed import Themed
from views.themed_painter import ThemedPainter

Keys = Qt.Key
STEPS = {Keys.Key_Right: 1, Keys.Key_Left: -1}
ENDS = {Keys.Key_Home: 0, Keys.Key_End: -1}
ROWS_BY = {Keys.Key_Down: 1, Keys.Key_Up: -1}


class PipelineCanvas(ZoomedChart, Themed):
    """Paints one chart; `lines_selected` carries the lines of the CUDA text behind what was selected."""

    lines_selected = Signal(tuple)
    selected = Signal(str)
    """What is selected, in words."""
    trace_requested = Signal()
    """The chart is to be written as a trace."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Pipeline chart")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(260)
        self._doc: ChartDoc | None = None
        self._place: ChartMark | None = None

    @property
    def place(self) -> ChartMark | None:
        """What is selected."""
        return self._place

    def show_chart(self, doc: ChartDoc) -> None:
        """Replaces the chart; a selected tile that there still is stays selected."""
        same = self._doc is not None and self._doc.group == doc.group
        self._doc = doc
        kept = self._place if same and self._place is not None and self._bars(self._place) else None
        self.span = self.span if same else None
        self.lay_out()
        self._place = kept
        self._describe()

    def sizeHint(self) -> QSize:
        """As tall as its rows."""
        return QSize(640, round(self.plan.height) if self.plan else 240)

    def select(self, place: ChartMark | None) -> None:
        """Selects a tile or a bar, and says which lines it is made of."""
        self._place = place
        bars = self._bars(place)
        lines = tuple(sorted({line for bar in bars for line in bar.lines}))
        self._reveal(bars)
        self._describe()
        self.lines_selected.emit(lines)
        self.selected.emit(self.accessibleDescription())
        self.update()

    @property
    def tiles(self) -> list[int]:
        """The numbers of the tiles that are drawn."""
        used = [bar.tile for bar in self._doc.bars if bar.row == "compute"] if self._doc else []
        return sorted({tile for tile in used if tile is not None})

    def select_tile(self, tile: int) -> bool:
        """Selects a tile by its number; whether it is drawn."""
        is_drawn = tile in self.tiles
        if is_drawn:
            self.select(ChartMark("compute", tile, tile))
        return is_drawn

    def show_line(self, line: int) -> None:
        """Selects the first bar that a line of the CUDA text makes, for the step that is selected."""
        if self._doc is None:
            return
        found = [bar for bar in self._doc.bars if line in bar.lines]
        near = [bar for bar in found if self._place is not None and bar.step == self._place.step]
        if found:
            self._place = _place((near or found)[0])
            self._describe()
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Everything anew: a chart has some hundred bars."""
        if self.theme is None:
            return
        painter = ThemedPainter(self, self.theme)
        painter.area(QRectF(self.rect()), "panel")
        if self.plan is not None:
            ChartPainter(painter, self.plan, ChartState(self._place, None)).paint()
            self.paint_pointer(painter)

    def click(self, at: QPointF) -> None:
        """Selects the tile under the pointer."""
        if self.plan is None:
            return
        bar, flight = self.plan.bar_at(at), self.plan.flight_at(at)
        if bar is not None:
            self.select(_place(bar))
        else:
            self.select(ChartMark("compute", flight.tile, flight.tile) if flight else None)

    def make_menu(self) -> QMenu:
        """What can be done with the chart."""
        menu = QMenu(self)
        menu.addAction("Show everything\t0", lambda: self.show_span(None))
        menu.addSeparator()
        title = self.accessibleName()
        menu.addAction("Save as PNG…", lambda: save_as(self, title, "png", lambda: png_of(self)))
        menu.addAction("Save as SVG…", lambda: save_as(self, title, "svg", lambda: svg_of(self)))
        menu.addAction("Export Trace (Perfetto)…", self.trace_requested.emit)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        return menu

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """By its key or the right button."""
        if self.plan is not None:
            by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
            at = self.mapToGlobal(QPoint(self.width() // 3, self.height() // 3)) if by_key else event.globalPos()
            self.make_menu().popup(at)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left and Right go through the tiles, Up and Down through the rows, Escape selects nothing."""
        key = Qt.Key(event.key())
        if self._doc is None or not self._doc.bars:
            super().keyPressEvent(event)
        elif key in STEPS:
            self._go(STEPS[key])
        elif key in ENDS:
            tiles = self.tiles
            self.select(ChartMark("compute", tiles[ENDS[key]], tiles[ENDS[key]]))
        elif key in ROWS_BY:
            self._change_row(ROWS_BY[key])
        elif key == Keys.Key_Escape and self._place is not None:
            self.select(None)
        else:
            super().keyPressEvent(event)

    def _go(self, by: int) -> None:
        tiles = self.tiles
        now = self._place.tile if self._place else None
        number = tiles.index(now) + by if now is not None and now in tiles else 0
        tile = tiles[min(max(number, 0), len(tiles) - 1)]
        self.select(ChartMark(self._place.row if self._place else "compute", tile, tile))

    def _change_row(self, by: int) -> None:
        row = self._place.row if self._place else "compute"
        number = min(max(ROWS.index(row) + by, 0), len(ROWS) - 1)
        chosen = self._place.tile if self._place else None
        tile = self.tiles[0] if chosen is None else chosen
        self.select(ChartMark(ROWS[number], tile, tile if ROWS[number] != "store" else None))

    def _bars(self, place: ChartMark | None) -> list[BarDoc]:
        """The bars of a selection: of its row, or all of a tile's where the row has none of it."""
        if place is None or self._doc is None:
            return []
        if place.row == "store":
            return [bar for bar in self._doc.bars if bar.row == "store"]
        own = [bar for bar in self._doc.bars if bar.tile == place.tile and bar.row == place.row]
        if own:
            return own
        alike = [bar for bar in self._doc.bars if (bar.row, bar.step) == (place.row, place.step)]
        return alike or [bar for bar in self._doc.bars if place.tile is not None and bar.tile == place.tile]

    def lay_out(self) -> None:
        """Lays the chart out for the present width."""
        drawn = self._doc is not None and self._doc.bars
        self.plan = ChartGeometry(self._doc, QSizeF(self.size()), self.span) if self._doc and drawn else None
        self.setFixedHeight(round(self.plan.height) if self.plan else 120)
        self.update()

    def tip_at(self, at: QPointF) -> str:
        """What a bar or a flight is."""
        if self.plan is None:
            return ""
        bar, flight = self.plan.bar_at(at), self.plan.flight_at(at)
        if bar is not None:
            return describe(bar)
        if flight is not None:
            slack = flight.read - flight.arrived
            return f"Tile {flight.tile} in stage {flight.stage}, there {figure(slack)} cycles before it is used"
        return ""

    def _reveal(self, bars: list[BarDoc]) -> None:
        """Moves the span that is seen to what is selected, where none of it is in sight."""
        if self.plan is None or not bars or any(self.plan.is_seen(bar.start, bar.end) for bar in bars):
            return
        half = (self.plan.high - self.plan.low) / 2
        self.show_span((bars[0].start - half, bars[0].start + half))

    def _describe(self) -> None:
        bars = self._bars(self._place)
        self.setAccessibleDescription("; ".join(describe(bar) for bar in bars[:4]) if bars else "Nothing is selected")


def describe(bar: BarDoc) -> str:
    """A bar in words."""
    cycles = f"{figure(bar.end - bar.start)} cycles"
    if bar.kind == "stall":
        return f"Stall: {cycles} waiting for {'memory' if bar.tile is None else f'tile {bar.tile}'}"
    if bar.kind == "shared":
        return f"{cycles} in which the units serve other blocks"
    text = f"{TITLES[bar.row]}, {cycles}"
    if bar.tile is not None and bar.stage is not None:
        text = f"{TITLES[bar.row]}: tile {bar.tile}, stage {bar.stage}, {cycles}"
    return f"{text}. {bar.because}" if bar.because else text


def _place(bar: BarDoc) -> ChartMark:
    return ChartMark(bar.row, bar.step, bar.tile)
