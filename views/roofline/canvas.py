"""The roofline: plots side by side on equal axes, a point for each kernel, its ghost at the baseline."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nlargest
from math import ceil, floor, log10, sqrt
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QKeyEvent

from views.format import amount, figure
from views.plots.frame import NONE, PlotFrame
from views.plots.mark_style import AROUND, MarkStyle, TextStyle
from views.plots.scale import AxisScale
from views.plots.writing import Cells
from views.roofline.nodes import OriginPoints, Point, Roofline
from views.theme import face

if TYPE_CHECKING:
    from views.plots.chart import Chart
    from views.plots.plot import Keys, Plot

DOT, GHOST = 4.2, 3.0
NAMED = 4
"""Names are written to so many of the dearest kernels, where they find room."""
NOTHING_PREDICTED = "No kernel has a predicted time"
NOTHING_MEASURED = "Nothing measured. F9 measures it, Ctrl+F9 replays a run"
TERA = 1e12
GUTTER = 0.4
"""Decades left of the axis for kernels without operations."""
SLOPE = 0.62
"""Where on the slope the memory's rate is written."""
SLOPE_SPOTS = 100
"""Spots of the slope that names keep free."""
STEPS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1, Qt.Key.Key_Down: -1, Qt.Key.Key_Up: 1}


@dataclass(frozen=True, slots=True)
class RooflineRange:
    """FLOP per byte and TFLOP/s at the ends of the axes, which all plots share."""

    left: float
    right: float
    bottom: float
    top: float
    gutter: float
    """Where kernels without operations stand; NaN where there are none."""

    def spots(self, points: tuple[Point, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of all points the intensity, the rate, and the rate at the baseline: NaN where it is the same or none."""
        x = np.array([point.intensity or self.gutter for point in points], float)
        y = np.array([point.height for point in points], float) / TERA
        ghosts = np.array([point.ghost or np.nan for point in points], float) / TERA
        return x, y, np.where(ghosts == y, np.nan, ghosts)


class RooflineCanvas(PlotFrame):
    """Points are pointed at, clicked, and walked through with the arrow keys."""

    group_selected = Signal(str)
    pointed = Signal(str)
    """The group under the pointer, or "" ."""
    region_selected = Signal(tuple)
    """The groups with a point in a region that was drawn."""

    def __init__(self) -> None:
        super().__init__("Roofline")
        self.setMinimumHeight(140)
        self.selected = ""
        self.roofline: Roofline | None = None
        self.groups: list[str] = []
        """A key of a point is its group's place here."""
        self.log = {"x", "y"}

    @property
    def hovered_group(self) -> str:
        """The group under the pointer, or "" ."""
        return self.groups[self.hovered] if self.hovered != NONE else ""

    def show_roofline(self, roofline: Roofline) -> None:
        """Replaces all points."""
        self.roofline = roofline
        self.groups = list(dict.fromkeys(point.group for side in roofline.sides for point in side.points))
        self.hovered = NONE
        self.refresh()

    def show_selection(self, group: str) -> None:
        """Marks a group's points."""
        self.selected = group
        self.refresh()

    def has_data(self) -> bool:
        """Whether there are roofs."""
        return self.roofline is not None

    def draw(self, chart: Chart) -> None:
        """One plot after the other."""
        assert self.roofline is not None
        ends = range_of(self.roofline)
        for column, side in enumerate(self.roofline.sides):
            self._draw_side(chart.plot(0, column), side, ends, column == 0)
        for _, column in list(chart.plots):
            if column >= len(self.roofline.sides):
                chart.drop(0, column)

    def pick(self, keys: Keys) -> int:
        """Of points on one spot the selected one's successor."""
        same = sorted(keys.tolist(), key=lambda key: self.groups[key])
        names = [self.groups[key] for key in same]
        return int(same[(names.index(self.selected) + 1) % len(same)] if self.selected in names else same[0])

    def choose(self, keys: Keys) -> None:
        """Selects the kernel that was clicked, everywhere."""
        if len(keys):
            self.group_selected.emit(self.groups[self.pick(keys)])

    def keep(self, plot: Plot, region: QRectF) -> None:
        """Selects the kernels in a region."""
        found, (x, y) = plot.targets, (plot.targets.x, plot.targets.y)
        inside = (x >= region.left()) & (x <= region.right()) & (y >= region.top()) & (y <= region.bottom())
        if inside.any():
            self.region_selected.emit(tuple(self.groups[key] for key in found.keys[inside]))

    def describe(self, key: int) -> str:
        """The kernel's name."""
        points = (point for side in self.roofline.sides for point in side.points) if self.roofline else ()
        return next((point.title for point in points if point.group == self.groups[key]), "")

    def point_at(self, key: int) -> None:
        """Names the kernel under the pointer."""
        if key != self.hovered:
            super().point_at(key)
            self.refresh()
            self.pointed.emit(self.hovered_group)

    def table(self) -> tuple[tuple[str, ...], Cells]:
        """All points."""
        heads = ("origin", "group", "FLOP per byte", "FLOP per second", "at the baseline", "roof", "microseconds")
        return heads, (
            (side.origin, each.group, each.intensity, each.height, each.ghost, each.roof, each.microseconds)
            for side in (self.roofline.sides if self.roofline else ())
            for each in side.points
        )

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left and right walk by intensity, up and down by rate; Home and End go to the ends."""
        target = self._neighbour(Qt.Key(event.key()))
        if target is None:
            super().keyPressEvent(event)
        elif target != self.selected:
            self.group_selected.emit(target)

    def _neighbour(self, key: Qt.Key) -> str | None:
        # The kernels of the first plot that has any are all that the others have.
        sides = self.roofline.sides if self.roofline else ()
        points = next((side.points for side in sides if side.points), ())
        if not points or key not in (*STEPS, Qt.Key.Key_Home, Qt.Key.Key_End):
            return None
        groups = [point.group for point in in_order(points, by_height=key in (Qt.Key.Key_Up, Qt.Key.Key_Down))]
        if key == Qt.Key.Key_Home or self.selected not in groups:
            return groups[0]
        if key == Qt.Key.Key_End:
            return groups[-1]
        return groups[min(max(groups.index(self.selected) + STEPS[key], 0), len(groups) - 1)]

    def _draw_side(self, plot: Plot, side: OriginPoints, ends: RooflineRange, first: bool) -> None:
        """Head, roofs and points of one origin."""
        missing = f", {side.missing} without a time" if side.missing and side.points else ""
        plot.show_title(side.origin.capitalize(), side.note + missing)
        low = ends.left if np.isnan(ends.gutter) else ends.gutter / 10 ** (GUTTER / 2)
        x = AxisScale("FLOP per byte", low, ends.right, tick=_tick)
        plot.show_axes(x, AxisScale("TFLOP/s", ends.bottom, ends.top, tick=_tick, inset=0.06), self.logs)
        if not first:
            above = plot.chart.plot()
            plot.box.setXLink(above.box)
            plot.box.setYLink(above.box)
        self._draw_roofs(plot, ends, low)
        if not side.points:
            text = NOTHING_PREDICTED if side.origin == "predicted" else NOTHING_MEASURED
            middle = sqrt(low * ends.right), sqrt(ends.bottom * ends.top)  # of logarithmic axes
            lines = text.replace(". ", ".\n").replace(", ", ",\n")
            plot.text("nothing", *middle, lines, TextStyle("text-3", (0.5, 0.5), plate=True))
            plot.aim(np.empty(0), np.empty(0), np.empty(0, np.int64))
            self._name_roofs(plot, ends, [_name_box(_spot(plot, *middle), lines, (0.5, 0.5))], np.empty((0, 2)))
            return
        x_all, y_all, ghosts = ends.spots(side.points)
        place = {group: number for number, group in enumerate(self.groups)}
        keys = np.array([place[point.group] for point in side.points], np.int64)
        moved = np.isfinite(ghosts)
        stems = np.stack([ghosts[moved], y_all[moved]], 1).ravel()
        plot.line("stems", np.repeat(x_all[moved], 2), stems, "edge", 1.0, pairs=True)
        plot.marks("ghosts", x_all, ghosts, MarkStyle("edge", side.origin, GHOST, back="panel"))
        plot.marks("points", x_all, y_all, MarkStyle("text", side.origin, DOT, back="panel"))
        for name, group, token in (("hovered", self.hovered_group, "text"), ("selected", self.selected, "accent")):
            here = keys == place.get(group, NONE)
            style = MarkStyle(token, side.origin, DOT, back="panel", above=True)
            plot.marks(name, x_all[here], y_all[here], style)
            if group == self.hovered_group or self.hasFocus():
                ring = MarkStyle("accent", AROUND, DOT + 4, above=True)
                plot.marks(f"{name} ring", x_all[here], y_all[here], ring)
        plot.aim(x_all, y_all, keys)
        spots = plot.on_page(plot.values("bottom", x_all), plot.values("left", y_all))
        self._draw_names(plot, side.points, x_all, y_all, self._name_roofs(plot, ends, [], spots))

    def _draw_roofs(self, plot: Plot, ends: RooflineRange, low: float) -> None:
        """The slope of the memory up to each ceiling; the lower ceilings go on as thin lines."""
        assert self.roofline is not None
        rate, ceilings = self.roofline.bandwidth / TERA, self.roofline.ceilings
        foot, highest = self.roofline.left * rate, ceilings[-1][1] / TERA
        x = np.array([low, self.roofline.left, highest / rate, ends.right])
        plot.line("roof", x, np.array([foot, foot, highest, highest]), "text-3", 1.4)
        for name, ceiling in ceilings:
            height = ceiling / TERA
            plot.line(f"roof {name}", np.array([height / rate, ends.right]), np.full(2, height), "edge", 1.0)

    def _name_roofs(
        self, plot: Plot, ends: RooflineRange, taken: list[QRectF], marks: np.ndarray
    ) -> list[QRectF]:
        """Writes names over the ends of the ceilings, else under them, else left of where the slope meets them, and the
        memory's rate over its slope; none that has no room.

        taken: where other words stand; what is returned has these names, too.  marks: where points stand.
        """
        assert self.roofline is not None
        rate, highest = self.roofline.bandwidth / TERA, self.roofline.ceilings[-1][1] / TERA
        at = (highest / rate) ** SLOPE * self.roofline.left ** (1 - SLOPE)
        ceilings = reversed(self.roofline.ceilings)
        wanted = [
            (((ends.right, OVER), (ends.right, UNDER), (ceiling / TERA / rate, BEFORE)), ceiling / TERA, name)
            for name, ceiling in ceilings
        ]
        slope = np.geomspace(self.roofline.left, highest / rate, SLOPE_SPOTS)
        across = plot.on_page(plot.values("bottom", slope), plot.values("left", slope * rate))
        kept_free = np.concatenate([marks, across])
        # The highest ceiling first: it is the one that the slope leads to.
        for places, y, name in [*wanted, (((at, OVER),), at * rate, amount(self.roofline.bandwidth, "B/s"))]:
            boxes = [(x, anchor, _name_box(_spot(plot, x, y), name, anchor)) for x, anchor in places]
            free = next((found for found in boxes if _has_room(plot, found[2], taken, kept_free)), None)
            if free is not None:
                plot.text(f"roof name {name}", free[0], y, name, TextStyle("text-3", free[1], under=True))
                taken = [*taken, free[2]]
        return taken

    def _draw_names(
        self, plot: Plot, points: tuple[Point, ...], x: np.ndarray, y: np.ndarray, taken: list[QRectF]
    ) -> None:
        """Names of what is selected and pointed at, and of what is dear where no other mark or name stands.

        taken: where the names of the roofs stand.
        """
        spots = plot.on_page(plot.values("bottom", x), plot.values("left", y))
        area = plot.box.sceneBoundingRect()
        meant = (self.selected, self.hovered_group)
        first = [number for number, point in enumerate(points) if point.group in meant]
        dear = nlargest(NAMED, range(len(points)), key=lambda number: points[number].share)
        for number in dict.fromkeys([*first, *dear]):
            point, others = points[number], np.delete(spots, number, axis=0)
            aside = BESIDE_MARK / _name_box(spots[number], point.title, (0, 0)).width()
            anchors = ((-aside, 0.5), (1 + aside, 0.5), (0.5, -0.4), (0.5, 1.4))
            boxes = [(anchor, _name_box(spots[number], point.title, anchor)) for anchor in anchors]
            covered = [_count_covered(box, others, taken, area) for _, box in boxes]
            least = int(np.argmin(covered))
            if covered[least] == 0 or number in first:
                strong = point.group == self.selected
                token = "accent" if strong else "text-2"
                at = (float(x[number]), float(y[number]))
                plot.text(f"name {number}", *at, point.title, TextStyle(token, boxes[least][0], strong))
                taken.append(boxes[least][1])


BESIDE_MARK = 8
"""Pixels between a point and its name, which stands at its right, else at its left, below or above it."""
MARGIN = 4.0
"""Pixels around words."""
OVER, UNDER, BEFORE = (1.0, 1.0), (1.0, 0.0), (1.12, 0.9)
"""Names that end at their place, above and below it, and that end before it."""


def _spot(plot: Plot, x: float, y: float) -> np.ndarray:
    """The place on the page of an intensity and a rate."""
    (spot,) = plot.on_page(plot.values("bottom", np.array([x])), plot.values("left", np.array([y])))
    return np.asarray(spot)


def _name_box(spot: np.ndarray, text: str, anchor: tuple[float, float]) -> QRectF:
    """Where words would stand on the page."""
    size = QFontMetricsF(face(10.5)).size(0, text)
    width, height = size.width() + 2 * MARGIN, size.height() + 2 * MARGIN
    return QRectF(float(spot[0]) - anchor[0] * width, float(spot[1]) - anchor[1] * height, width, height)


def _has_room(plot: Plot, box: QRectF, taken: list[QRectF], spots: np.ndarray) -> bool:
    """Whether words would stand on no others and on no spot, and be seen whole; who has zoomed finds what lies
    outside."""
    area = plot.box.sceneBoundingRect().adjusted(-1, -1, 1, 1)  # names end where the axes do
    low, high = (box.left(), box.top()), (box.right(), box.bottom())
    is_free = not any(map(box.intersects, taken)) and not ((spots > low) & (spots < high)).all(axis=1).any()
    return bool(is_free) and (plot.chart.is_held or area.contains(box))


def _count_covered(box: QRectF, spots: np.ndarray, taken: list[QRectF], area: QRectF) -> int:
    """How many marks and names a name would hide; out of the picture, more than any."""
    low, high = (box.left() - DOT, box.top() - DOT), (box.right() + DOT, box.bottom() + DOT)
    marks = int(((spots > low) & (spots < high)).all(axis=1).sum())
    return marks + sum(box.intersects(other) for other in taken) + (0 if area.contains(box) else 1 << 20)


def range_of(roofline: Roofline) -> RooflineRange:
    """Whole decades around all points, ghosts and the ridge of the highest roof."""
    points = [point for side in roofline.sides for point in side.points]
    ridge = roofline.ceilings[-1][1] / roofline.bandwidth
    heights = [height for point in points for height in (point.height, point.ghost) if height]
    heights += [roofline.ceilings[-1][1], roofline.bandwidth * roofline.left]
    right = max(10.0 ** ceil(log10(max([ridge * 3, *(point.intensity for point in points)]))), roofline.left * 10)
    bottom, top = 10.0 ** floor(log10(min(heights))), 10.0 ** ceil(log10(max(heights)) + 0.05)
    gutter = roofline.left / 10**GUTTER if any(not point.intensity for point in points) else float("nan")
    return RooflineRange(roofline.left, right, bottom / TERA, top / TERA, gutter)


def in_order(points: tuple[Point, ...], by_height: bool) -> list[Point]:
    """Points as the arrow keys walk through them."""
    if by_height:
        return sorted(points, key=lambda point: (point.height, point.group))
    return sorted(points, key=lambda point: (point.intensity, point.height, point.group))


def _tick(value: float) -> str:
    """A power of ten as the axes write it: "0.01", "1,000"."""
    return figure(value) if value >= 1000 or value < 0.001 else f"{value:g}"
