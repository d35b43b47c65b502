"""A report as one HTML file that needs nothing beside it: no script, no network."""

from __future__ import annotations

from engine.documents.report import ReportDoc
from views.report.details import details_section
from views.report.markup import Markup, tag
from views.report.sections import (
    checks_section,
    edits_section,
    graph_section,
    heading,
    kernels_section,
    machine_section,
    plots_section,
)
from views.report.style import report_style
from views.roofline.nodes import Roofline

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing is loaded and nothing runs, whatever a name in the model looks like."""


def report_page(report: ReportDoc, roofline: Roofline) -> str:
    """The whole file."""
    number = {group.name: place for place, group in enumerate(report.model.groups)}
    told = {detail.group.name for detail in report.details}
    links = {name: f"#{'k' if name in told else 'r'}{place}" for name, place in number.items()}
    parts = (
        ("Graph", "graph", graph_section(report.model, links)),
        ("Kernels", "kernels", kernels_section(report, links)),
        ("Edits", "edits", edits_section(report, links)),
        ("Plots", "plots", plots_section(roofline, report.searches)),
        ("Checks", "checks", checks_section(report.details)),
        ("Schedules and code", "details", details_section(report.details, links, len(number))),
        ("Machine and versions", "machine", machine_section(report)),
    )
    links_to_parts = [tag("a", title, href=f"#{anchor}") for title, anchor, content in parts if content]
    head = tag(
        "head", tag("meta", charset="utf-8"), tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content="Loomscope"), tag("title", f"{report.title} — Loomscope report"),
        tag("style", Markup(report_style())),
    )  # fmt: skip
    body = tag("body", heading(report), tag("nav", links_to_parts), tag("main", [part for *_, part in parts]))
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"
