"""What `loomscope mappings` prints."""

from __future__ import annotations

from collections import Counter
from typing import Any

import engine
from app.cli import output
from app.cli.compile_job import CompileJob
from engine.documents.mappings import CHECKED, WRONG, MappingDoc, MappingsDoc
from views.format import plural

SHOWN = 5
"""Mappings of one intrinsic that a table shows."""


def mappings(job: CompileJob, check: bool, every: bool, json: bool) -> bool:
    """Mappings of each group; whether no kernel of them is wrong."""
    recipe = job.recipe
    groups = output.track(job.groups, len(job.groups), "mapping")
    found = [engine.mappings(group, recipe, emulate=check) for group in groups]
    if json:
        output.document(groups=list(map(_row, found)))
    for one in () if json else found:
        _show(one, every)
    return not any(mapping.state == WRONG for one in found for mapping in one.mappings)


def _row(found: MappingsDoc) -> dict[str, Any]:
    """A group for the document; of each mapping also "kernel": pass, fail, compiled or why there is none."""
    row = output.row_about_group(found)
    for mapping, one in zip(row["mappings"], found.mappings, strict=True):
        mapping["kernel"] = {CHECKED: "pass", WRONG: f"fail: {one.why_not}"}.get(one.state, one.why_not or one.state)
    return row


def _show(found: MappingsDoc, every: bool) -> None:
    """A table of the mappings, and a line for each intrinsic that has none."""
    title = f"{found.group}  {found.product}" + (f"  ({found.because})" if found.because else "")
    count = Counter(mapping.intrinsic for mapping in found.mappings)
    shown: list[MappingDoc] = []
    for name in count:
        listed = [mapping for mapping in found.mappings if mapping.intrinsic == name]
        shown += listed if every else listed[:SHOWN]
    output.say(title)
    if shown:
        columns = ("intrinsic", "axes", "loops around", "calls>", "padding>", "state", "why not")
        output.table("", columns, map(_cells, shown))
    if len(shown) < len(found.mappings):
        totals = ", ".join(f"{plural(number, 'mapping')} to {name}" for name, number in count.items())
        output.say(f"{totals}; all of them with --all")
    reasons: dict[str, list[str]] = {}
    for refused in found.refused:
        reasons.setdefault(refused.because, []).append(refused.intrinsic)
    for because, names in reasons.items():
        output.say(f"none to {', '.join(names)}: {because}")
    output.say("")


def _cells(m: MappingDoc) -> tuple[str, ...]:
    return m.intrinsic, m.binding, " ".join(m.outer), f"{m.calls:,}", f"{m.padding:.1%}", m.state, m.why_not
