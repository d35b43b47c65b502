"""Figures as text: at most three significant digits, the unit after a space."""

from __future__ import annotations

from datetime import datetime

from engine.documents.model import KernelDoc, PublishedTime, Time


def figure(value: float) -> str:
    """Three significant digits without an exponent: 34.2, 307, 1,755, 0.0123."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 999.5:
        return f"{value:,.0f}"
    digits = 0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3
    return f"{value:.{digits}f}"


def duration(microseconds: float) -> str:
    """A time: "9.8 µs", "2.42 ms", "1.20 s"."""
    if 1 <= microseconds < 99.95:
        return f"{microseconds:.1f} µs"
    for limit, factor, unit in ((1e3, 1.0, "µs"), (1e6, 1e3, "ms")):
        if microseconds < limit * 0.9995:
            return f"{figure(microseconds / factor)} {unit}"
    return f"{figure(microseconds / 1e6)} s"


def amount(number: float, unit: str = "B") -> str:
    """A count with a decimal prefix: "101 MB", "50.3 MFLOP", "512 B"."""
    for limit, factor, prefix in (
        (1e3, 1.0, ""),
        (1e6, 1e3, "k"),
        (1e9, 1e6, "M"),
        (1e12, 1e9, "G"),
        (1e15, 1e12, "T"),
    ):
        if number < limit * 0.9995:
            shown = f"{number:.0f}" if factor == 1 else figure(number / factor)  # nothing has a part of a byte
            return f"{shown} {prefix}{unit}"
    return f"{number:.3g} {unit}"


def with_unit(value: float, unit: str) -> str:
    """A figure of a whole model: a time ("µs"), bytes ("B") or a count ("")."""
    return duration(value) if unit == "µs" else amount(value) if unit == "B" else f"{value:,.0f}"


def percent(part: float) -> str:
    """A part of one: "12.6 %", "100 %", "2,727 %"; "< 0.1 %" instead of a zero that is none."""
    if 0 < part < 0.0005:
        return "< 0.1 %"
    return f"{part * 100:,.0f} %" if part > 0.9995 else f"{part * 100:.1f} %"


def published_line(time: PublishedTime) -> str:
    """What somebody else measured of their kernel: "21.3 µs by cuBLAS on H100, published in TABLE"."""
    return f"{duration(time.microseconds)} by {time.who} on {time.device}, published in {time.source}"


def made_by(kernel: KernelDoc) -> str:
    """The family and its launches: "general kernel, 2 launches"."""
    launches = f", {len(kernel.launches)} launches" if len(kernel.launches) > 1 else ""
    return f"{kernel.family or 'no'} kernel{launches}"


def compact_shape(shape: str) -> str:
    """A shape without its type and blanks, for tight places: "96 x 512 x 512 float32" gives "96×512×512"."""
    words = [word for word in shape.replace("×", "x").split() if word != "x"]
    sizes = [word for word in words if word[0].isdigit() or "x" in word]
    return "×".join("×".join(word.split("x")) for word in sizes) if sizes else shape


def plural(count: int, noun: str) -> str:
    """ "1 group", "4 statements"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def moment(date: str) -> str:
    """A date for people: "2026-11-18T09:12:00+00:00" gives "18 Nov 2026 09:12"; what is no such date stays as it is."""
    try:
        return f"{datetime.fromisoformat(date):%-d %b %Y %H:%M}"
    except ValueError:
        return date


def origin_of(time: Time) -> str:
    """Where a time comes from: "predicted, uncalibrated"."""
    return f"{time.origin}, {time.note}" if time.note else time.origin
