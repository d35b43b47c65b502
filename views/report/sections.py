"""The parts of a report about a whole model, each as markup; a part that has nothing to tell is empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from engine.documents.model import GroupDoc, ModelDoc, Time
from engine.documents.report import EditDoc, GroupReport, ReportDoc, SearchDoc
from views.format import amount, duration, moment, origin_of, percent, plural
from views.report.graph import graph_picture
from views.report.markup import Child, Markup, tag
from views.report.plots import progress_plot, roofline_plot
from views.roofline.nodes import OriginPoints, Roofline

SHOWN = 40
"""Rows of a table that are in sight; the rest is folded."""


def table(columns: Sequence[str], rows: Iterable[Sequence[Child]], ids: Sequence[str] = ()) -> Markup:
    """A table; numbers stand in columns whose names end with ">".  Rows after the first `SHOWN` are folded."""
    numbers = [name.endswith(">") for name in columns]
    head = tag("thead", tag("tr", [
        tag("th", name.removesuffix(">"), class_="n" if number else None, scope="col")
        for name, number in zip(columns, numbers, strict=True)
    ]))  # fmt: skip
    made = [
        tag("tr", [tag("td", cell, class_="n" if number else None) for cell, number in zip(row, numbers, strict=True)],
            id=ids[place] if place < len(ids) else None)
        for place, row in enumerate(rows)
    ]  # fmt: skip
    first, rest = made[:SHOWN], made[SHOWN:]
    whole = tag("div", tag("table", head, tag("tbody", first)), class_="scroll")
    if not rest:
        return whole
    folded = tag("details", tag("summary", f"{len(rest):,} more"), tag("table", head, tag("tbody", rest)))
    return Markup(whole + folded)


def section(title: str, anchor: str, *content: Child) -> Markup:
    """A part with its heading; nothing where it has no content."""
    return tag("section", tag("h2", title), content, id=anchor) if any(content) else Markup("")


def gain_text(part: float | None) -> Child:
    """A saved part of a time with its sign and colour; a change too small to show has none."""
    if part is None:
        return ""
    if abs(part) < 0.0005:
        return "± 0.0 %"
    return tag("span", f"{'▼' if part > 0 else '▲'} {abs(part):.1%}".replace("%", " %"),
               class_="better" if part > 0 else "worse")  # fmt: skip


def heading(report: ReportDoc) -> Markup:
    """The title with the figures that count most."""
    model = report.model
    sizes = ", ".join(f"{name}={size}" for name, size in report.dimensions)
    facts = [f"for {model.target.upper()}", sizes, f"made {moment(report.made)}"]
    return tag(
        "header", tag("h1", report.title),
        tag("p", " · ".join(filter(None, facts)), class_="dim"),
        tag("div", [tag("div", tag("b", value), tag("span", what)) for value, what in _figures(report)],
            class_="figures"),
    )  # fmt: skip


def _figures(report: ReportDoc) -> Iterator[tuple[Child, str]]:
    model = report.model
    if model.total:
        yield duration(model.total.microseconds), origin_of(model.total)
    if report.baseline and model.total and report.baseline.microseconds:
        part = 1 - model.total.microseconds / report.baseline.microseconds
        yield gain_text(part), f"gained by edits, from {duration(report.baseline.microseconds)} {model.total.origin}"
    yield f"{len(model.nodes):,}", f"{_noun(len(model.nodes), 'kernel')} of {plural(len(model.groups), 'group')}"
    yield f"{len(model.operators):,}", _noun(len(model.operators), "operator")
    yield amount(sum(group.bytes * group.instances for group in model.groups)), "moved at least, all kernels"


def _noun(count: int, noun: str) -> str:
    return plural(count, noun).partition(" ")[2]


def graph_section(model: ModelDoc, links: Mapping[str, str]) -> Markup:
    """The picture of the graph."""
    if not model.nodes:
        return Markup("")
    note = "Boxes are kernels; the bar is the predicted time of one launch against that of the slowest. Equal layers "
    return section("Graph", "graph", tag("p", note + "are drawn once.", class_="dim"), graph_picture(model, links))


def kernels_section(report: ReportDoc, links: Mapping[str, str]) -> Markup:
    """Every group with its time, the dearest first, and what has no kernel."""
    model = report.model
    groups = sorted(model.groups, key=lambda group: (-group.share, group.name))
    number = {group.name: place for place, group in enumerate(model.groups)}
    columns = ("group", "what", "shape", "times>", "each>", "all>", "share>", "limited by", "moves>", "operations>")
    rows = table(columns, (_kernel_row(group, links) for group in groups), [f"r{number[g.name]}" for g in groups])
    origins = dict.fromkeys(origin_of(group.time) for group in groups if group.time)
    origin = f"Times are {', '.join(origins)}." if origins else "No group has a time."
    on_host = table(("operator", "what the host does"), model.host) if model.host else None
    left_out = table(("operator", "why it has no kernel"), model.unsupported) if model.unsupported else None
    return section(
        "Kernels", "kernels", tag("p", origin, class_="dim"), rows,
        [tag("h3", "On the host"), on_host] if on_host else None,
        [tag("h3", "Without a kernel"), left_out] if left_out else None,
    )  # fmt: skip


def _kernel_row(group: GroupDoc, links: Mapping[str, str]) -> tuple[Child, ...]:
    link = links.get(group.name, "")
    name: Child = tag("a", group.name, href=link) if link.startswith("#k") else group.name
    each, whole, share = "no time", "", ""
    if group.time:
        each, whole = duration(group.time.microseconds), duration(group.time.microseconds * group.instances)
        share = percent(group.share)
    figures = amount(group.bytes), amount(group.flops, "FLOP") if group.flops else ""
    return name, group.title, group.shape, f"{group.instances:,}", each, whole, share, group.bound, *figures


def edits_section(report: ReportDoc, links: Mapping[str, str]) -> Markup:
    """What was edited, step by step, with what every step gains against the first."""
    parts: list[Child] = []
    if report.fusion:
        parts += [tag("h3", "Groups"), edits_table(report.fusion)]
    for detail in report.details:
        if detail.edits:
            name = tag("a", detail.group.name, href=links[detail.group.name])
            parts += [tag("h3", name, f"  {detail.group.title}"), edits_table(detail.edits)]
    return section("Edits", "edits", parts)


def edits_table(edits: Sequence[EditDoc]) -> Markup:
    """Steps of one history."""
    measured = any(edit.measured for edit in edits)
    checked, noted = any(edit.checked for edit in edits), any(edit.note for edit in edits)
    columns = ["step", "what changed", "predicted>", "gain>"]
    columns += ["measured>"] * measured + ["checked"] * checked + ["note"] * noted
    rows = []
    for edit in edits:
        lines = [tag("div", tag("code", line)) for line in edit.entries]
        row: list[Child] = [edit.title, lines, _time(edit.time), gain_text(edit.gain)]
        row += [_measured_text(edit.measured)] * measured + [edit.checked] * checked + [edit.note] * noted
        rows.append(row)
    return table(columns, rows)


def _time(time: Time | None) -> str:
    return duration(time.microseconds) if time else ""


def _measured_text(time: Time | None) -> str:
    return f"{duration(time.microseconds)} ({origin_of(time)})" if time else ""


def checks_section(details: Sequence[GroupReport]) -> Markup:
    """What was run on the CPU, how much of it, and in which orders."""
    rows = []
    for detail in details:
        check = detail.check
        if check is None:
            continue
        status = tag("span", check.status, class_="wrong" if check.status == "fail" else None)
        ran = check.blocks_total > 0
        rows.append((
            detail.group.name, status, f"{check.max_error:.2g}" if ran else "", f"{check.tolerance:.2g}" if ran else "",
            f"{check.blocks_run:,} of {check.blocks_total:,}" if ran else "",
            f"{check.elements_compared:,}" if ran else "", ", ".join(check.orders),
            check.message or check.tolerance_because,
        ))  # fmt: skip
    if not rows:
        return Markup("")
    note = (
        "The CUDA text of these kernels was run on the CPU in the named orders of threads and copies, with bounds, "
        "races and initialisation checked, and compared with an independent implementation. Errors are relative."
    )
    columns = ("group", "status", "error>", "tolerance>", "blocks run>", "compared>", "orders", "message or tolerance")
    return section("Checks", "checks", tag("p", note, class_="dim"), table(columns, rows))


def plots_section(roofline: Roofline, searches: Sequence[SearchDoc]) -> Markup:
    """The roofline of every origin that has points, and the curves of the searches."""
    sides = [side for side in roofline.sides if side.points]
    figures: list[Child] = [
        tag("figure", tag("figcaption", _roofline_caption(side)), roofline_plot(roofline, side)) for side in sides
    ]
    for search in searches:
        for curve in search.curves:
            failed = f", {curve.failed:,} failed" if curve.failed else ""
            caption = (
                f"Search of {curve.group}, {search.origin}: {plural(curve.attempts, 'trial')}{failed}, best "
                f"{duration(curve.best)}; run {search.number} by {search.method}, {search.state}"
            )
            figures.append(tag("figure", tag("figcaption", caption), progress_plot(curve, search.origin)))
    return section("Plots", "plots", tag("div", figures, class_="plots") if figures else None)


def _roofline_caption(side: OriginPoints) -> str:
    idle = sum(not point.intensity for point in side.points)
    note = f"; at the left edge {plural(idle, 'kernel')} without arithmetic" if idle else ""
    return f"Roofline, {side.origin}: {side.note}{note}"


def machine_section(report: ReportDoc) -> Markup:
    """What the report was made with, and of what."""
    rows = [("model", report.model.path), ("SHA-256", report.sha256), ("target", report.model.target)]
    rows += [("records", search.records) for search in report.searches]
    known = [(name, value) for name, value in (*rows, *report.machine) if value]
    return section("Machine and versions", "machine", table(("what", "value"), known))
