"""Roofline and tuning progress as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from engine.documents.report import CurveDoc
from views.format import duration, figure, plural
from views.report.markup import Markup, tag
from views.roofline.nodes import OriginPoints, Point, Roofline

WIDTH, HEIGHT = 560.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 16.0, 14.0, 40.0
NAMED = 6
"""Kernels with their names beside their points."""
TERA = 1e12


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear or logarithmic map from values to pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        value, low, high = (log10(each) if self.log else each for each in (value, self.low, self.high))
        return self.start + (value - low) / ((high - low) or 1.0) * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """Decades, or about four round values."""
        if self.log:
            first, last = round(log10(self.low)), round(log10(self.high))
            step = max(1, ceil((last - first) / 7))
            return [10.0**power for power in range(first, last + 1, step)]
        rough = (self.high - self.low) / 4 or 1.0
        size = 10.0 ** floor(log10(rough))
        step_size = next(size * each for each in (1, 2, 5, 10) if size * each >= rough * 0.999)
        return [step_size * n for n in range(ceil(self.low / step_size), floor(self.high / step_size) + 1)]


def decades(values: Iterable[float]) -> tuple[float, float]:
    """Whole powers of ten around positive values."""
    known = list(values)
    low, high = floor(log10(min(known)) + 1e-9), ceil(log10(max(known)) - 1e-9)
    return 10.0**low, 10.0 ** max(high, low + 1)


def roofline_plot(plot: Roofline, side: OriginPoints) -> Markup:
    """The kernels of one origin under the roofs of the GPU: hollow points are predicted, filled ones measured."""
    highest = plot.ceilings[-1][1]
    working = [point for point in side.points if point.intensity]
    ridge = highest / plot.bandwidth
    across = Scale(*decades([plot.left, ridge * 3, *(p.intensity for p in working)]), LEFT, WIDTH - RIGHT, log=True)
    heights = [highest * 1.05, plot.bandwidth * plot.left, *(point.height for point in side.points)]
    up = Scale(*decades(heights), HEIGHT - BOTTOM, TOP, log=True)
    parts = list(_axes(across, up, "operations per byte", "TFLOP/s", TERA))
    for name, ceiling in plot.ceilings:
        start = max(across.low, up.low / plot.bandwidth)
        corner = ceiling / plot.bandwidth
        points = [(start, start * plot.bandwidth), (corner, ceiling), (across.high, ceiling)]
        parts.append(tag("polyline", points=_points(points, across, up), class_="roof"))
        parts.append(tag("text", name, x=WIDTH - RIGHT - 4, y=up(ceiling) - 5, class_="dim end"))
    kind = "dot" if side.origin == "predicted" else "dot filled"
    named = {point.group for point in sorted(side.points, key=lambda each: -each.share)[:NAMED]}
    taken: list[float] = []
    for point in sorted(side.points, key=lambda each: each.height):
        parts += _kernel_dot(point, across, up, kind, point.group in named, taken)
    return _svg(parts, f"Roofline, {side.origin}")


def _kernel_dot(
    point: Point, across: Scale, up: Scale, kind: str, named: bool, taken: list[float]
) -> Iterator[Markup]:
    x, y = across(point.intensity or across.low), up(point.height)
    title = f"{point.title}: {duration(point.microseconds)}"
    yield tag("g", tag("title", title), tag("circle", cx=x, cy=y, r=4.0, class_=kind))
    if named and all(abs(y - other) > 11 for other in taken):
        taken.append(y)
        right = x < WIDTH * 0.7
        yield tag("text", point.group, x=x + (8 if right else -8), y=y + 4, class_="small" if right else "small end")


def progress_plot(curve: CurveDoc, origin: str) -> Markup:
    """Every trial of a group as a dot, and the best so far as a line."""
    times = curve.times
    across = Scale(0.0, float(max(number for number, _ in times)), LEFT, WIDTH - RIGHT)
    best, steps = times[0][1], [(float(times[0][0]), times[0][1])]
    for number, time in times:
        if time < best:
            steps += [(float(number), best), (float(number), time)]
            best = time
    steps.append((across.high, best))
    # Trials that are many times slower would press all others onto the axis.
    ordered = sorted(time for _, time in times)
    limit = max(ordered[int(0.9 * (len(ordered) - 1))] * 1.1, best * 1.5)
    up = Scale(0.0, limit, HEIGHT - BOTTOM, TOP)
    parts = list(_axes(across, up, "trial", "µs", 1.0))
    kind = "dot" if origin == "predicted" else "dot filled"
    for number, time in times:
        if time <= limit:
            parts.append(tag("circle", cx=across(number), cy=up(time), r=2.5, class_=kind))
        else:
            parts.append(tag("path", d=f"M{across(number) - 3:g},{TOP + 5:g} l3,-5 l3,5 z", class_=kind))
    drawn = [(x, min(y, limit)) for x, y in steps]
    parts.append(tag("polyline", points=_points(drawn, across, up), class_="best"))
    return _svg(parts, f"{curve.group}: {plural(curve.attempts, 'trial')}, best {duration(curve.best)}")


def _points(values: Sequence[tuple[float, float]], across: Scale, up: Scale) -> str:
    return " ".join(f"{across(x):g},{up(y):g}" for x, y in values)


def _axes(across: Scale, up: Scale, below: str, beside: str, unit: float) -> Iterator[Markup]:
    for tick in across.ticks:
        x = across(tick)
        yield tag("line", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM, class_="grid")
        yield tag("text", figure(tick), x=x, y=HEIGHT - BOTTOM + 15, class_="dim middle")
    for tick in up.ticks:
        y = up(tick)
        yield tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid")
        yield tag("text", figure(tick / unit) if tick / unit >= 0.0005 else f"{tick / unit:.0e}", x=LEFT - 6, y=y + 4,
                  class_="dim end")  # fmt: skip
    middle = (TOP + HEIGHT - BOTTOM) / 2
    yield tag("text", below, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, class_="dim middle")
    yield tag("text", beside, x=14.0, y=middle, transform=f"rotate(-90 14 {middle:g})", class_="dim middle")


def _svg(parts: Iterable[Markup], title: str) -> Markup:
    return tag("svg", tag("title", title), parts, class_="plot", role="img", viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
               width=WIDTH, height=HEIGHT)  # fmt: skip
