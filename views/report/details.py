"""The part of a report about one group: explanation, schedule, entries with their verdicts, code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.documents.model import KernelDoc, ScheduleDoc
from engine.documents.report import GroupReport
from engine.documents.units import kib
from views.code.spans import Span, spans
from views.format import duration, figure, origin_of, percent, plural, published_line
from views.report.markup import Child, Markup, join, tag
from views.report.sections import section, table

LEAD = 3
"""Groups whose details are unfolded."""


def details_section(details: tuple[GroupReport, ...], links: Mapping[str, str], total: int) -> Markup:
    """Schedules, entries and code of the groups that the report tells more about."""
    left = total - len(details)
    note = f"Of {plural(left, 'more group')} only the figures are told; --details N tells of more." if left else None
    parts = [_group(detail, links[detail.group.name], place < LEAD) for place, detail in enumerate(details)]
    return section("Schedules and code", "details", tag("p", note, class_="dim") if note else None, parts)


def _group(detail: GroupReport, link: str, unfolded: bool) -> Markup:
    group, kernel, anchor = detail.group, detail.kernel, link.removeprefix("#")
    time = f"{duration(group.time.microseconds)}, {percent(group.share)}" if group.time else "no time"
    summary = tag("summary", group.name, tag("span", f"  {group.title}, {time}", class_="dim"))
    if kernel is None:
        return tag("details", summary, tag("p", f"There is no kernel: {detail.refusal}"), id=anchor, open=unfolded)
    refused = tag("p", f"The kernel is refused: {kernel.refused}", class_="wrong") if kernel.refused else None
    others = [tag("p", f"Another kernel takes {published_line(one)}") for one in group.published]
    return tag(
        "details", summary, tag("p", group.because), *others, refused, _facts(kernel),
        tag("h3", "Schedule"), tag("ul", _tree(kernel.schedule, anchor), class_="tree"),
        _entries(kernel), _terms(kernel), _code(kernel, anchor), id=anchor, open=unfolded,
    )  # fmt: skip


def _facts(kernel: KernelDoc) -> Markup:
    launches = "; ".join(
        f"{one.entry}: {one.blocks:,} × {one.threads} threads, {kib(one.shared_bytes)} shared"
        for one in kernel.launches
    )
    words = [f"{kernel.family} kernel" if kernel.family else "", launches]
    words += [f"{kernel.stages} stages" if kernel.stages > 1 else "", kernel.intrinsic]
    words.append(f"{duration(kernel.time.microseconds)} {origin_of(kernel.time)}" if kernel.has_kernel else "")
    return tag("p", " · ".join(filter(None, words)), class_="dim")


def _tree(node: ScheduleDoc, anchor: str) -> Markup:
    """A schedule tree as nested lists; a statement leads to its first line of code."""
    chips = [tag("span", chip, class_="chip") for chip in node.chips]
    text: Child = node.text
    if node.kind == "statement":
        name, _, rest = node.text.partition("  ")
        text = [tag("a", name, href=f"#{anchor}-{name}"), "  ", tag("code", rest)]
    parallel = tag("span", " parallel", class_="dim") if node.parallel else None
    inner = tag("ul", [_tree(child, anchor) for child in node.children]) if node.children else None
    return tag("li", tag("span", node.kind, class_="kind"), text, parallel, chips, inner)


def _entries(kernel: KernelDoc) -> Markup:
    """The constraint tree: every entry under its scenario, with who asked for it, why, and what came of it."""
    labels = {scenario.path: scenario for scenario in kernel.scenarios}
    scenarios = [
        f"{'.'.join(map(str, path))} {each.label or 'alternative'} of {each.author}: {each.outcome}"
        for path, each in labels.items()
    ]
    rows = [
        (
            entry.author, tag("code", entry.text), "yes" if entry.required else "", entry.because,
            tag("span", entry.outcome, class_="wrong" if entry.outcome == "infeasible" else None),
            ": ".join(filter(None, (entry.verdict, entry.witness))),
        )
        for entry in kernel.entries
    ]  # fmt: skip
    if not rows:
        return Markup("")
    columns = ("author", "entry", "required", "reason", "verdict", "because")
    listed = tag("p", "Scenarios: " + "; ".join(scenarios), class_="dim") if scenarios else None
    return join([tag("h3", "Recipe and verdicts"), listed, table(columns, rows)])


def _terms(kernel: KernelDoc) -> Markup:
    if not kernel.terms:
        return Markup("")
    rows = [(term.name, f"{figure(term.value)} {term.unit}", term.because) for term in kernel.terms]
    return join([tag("h3", f"Time, {kernel.time.origin}"), table(("term", "value>", "because"), rows)])


def _code(kernel: KernelDoc, anchor: str) -> Markup:
    if not kernel.cuda:
        return Markup("")
    lines = kernel.cuda.splitlines()
    summary = tag("summary", "CUDA", tag("span", f"  {plural(len(lines), 'line')}", class_="dim"))
    code = tag("div", tag("table", tag("tbody", _lines(kernel, lines, anchor))), class_="code")
    return tag("details", summary, code)


def _lines(kernel: KernelDoc, lines: list[str], anchor: str) -> Iterator[Markup]:
    """Every line with its number and the statements and dimensions that it belongs to.

    The first line of a statement carries the statement's anchor.
    """
    of_line = {each.line: each for each in kernel.lines}
    texts = {statement.name: statement.text for statement in kernel.statements}
    coloured = spans(kernel.cuda)
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        link = of_line.get(number)
        new = [name for name in link.statements if name not in seen] if link else []
        seen.update(new)
        names = " ".join((*link.statements, *link.dimensions)) if link else ""
        tip = "\n".join(texts[name] for name in link.statements if name in texts) if link else ""
        marks = [tag("span", id=f"{anchor}-{name}") for name in new]
        found = coloured[number - 1] if number <= len(coloured) else []
        yield tag(
            "tr", tag("td", marks, str(number), class_="no"), tag("td", names, class_="by", title=tip or None),
            tag("td", _colour_line(line, found)),
        )  # fmt: skip


def _colour_line(line: str, found: list[Span]) -> Markup:
    parts: list[Child] = []
    end = 0
    for start, length, token in found:
        parts += [line[end:start], tag("span", line[start : start + length], class_=token)]
        end = start + length
    return join([*parts, line[end:]])
