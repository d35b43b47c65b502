"""Text form of a group's advice: what the constraint panel edits.  Printing and parsing are exact inverses.

    advice map
      all @ i: mark block 1               # because the rows are independent
    advice user
      required S1, S2 @ innermost: pin j  # because rows are contiguous
      off S3 @ outermost: parallel true
      rewrite recompute S0 in S3          # because it is cheap
      either
        S0 @ i: split 4
      or
        S0 @ i: split 8

A name that is not a plain word is written as a JSON string; so is a reason that is not one plain line.  "any" stands
for no dimension.  A rewrite stands with its author's entries, never in an alternative.  A comment that does not begin
with "because" is dropped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from engine.recipe import (
    AUTHORS,
    ENTRY_FIELDS,
    NOT_INSIDE,
    RECOMPUTE,
    REWRITES,
    Advice,
    Entry,
    Scenario,
    Value,
    checked_entry,
)
from engine.scheduling.scan import Scanner, TextLine, lines_of
from engine.support.budgets import MAX_ADVICE_DEPTH
from engine.support.errors import BadInput


def to_text(advice: Sequence[Advice]) -> str:
    """All advice of a group, as text that `from_text` reads back to equal values."""
    lines: list[str] = []
    for one in advice:
        lines.append(f"advice {one.author}" + _label(one.scenario))
        lines += _scenario(one.scenario, "  ")
    return "".join(line + "\n" for line in lines)


def _scenario(scenario: Scenario, indent: str) -> list[str]:
    lines = [indent + str(entry) + _because(entry.because) for entry in scenario.entries]
    for number, alternative in enumerate(scenario.alternatives):
        lines.append(indent + ("or" if number else "either") + _label(alternative))
        lines += _scenario(alternative, indent + "  ")
    return lines


def _label(scenario: Scenario) -> str:
    return f" {json.dumps(scenario.label)}" if scenario.label else ""


def _because(text: str) -> str:
    if not text:
        return ""
    plain = text.isprintable() and text == text.strip() and not text.startswith('"')
    return "  # because " + (text if plain else json.dumps(text))


def from_text(text: str, source: str = "recipe") -> tuple[Advice, ...]:
    """Parse the text form.  BadInput names `source` and the line, says what was expected and how to write it."""
    lines = lines_of(text, source)
    result: list[Advice] = []
    while lines:
        head = lines[0]
        if head.indent or head.word() != "advice":
            raise head.error("expected “advice AUTHOR” at the start of the line", "entries stand indented below it")
        scan = head.scanner()
        scan.word()
        author = scan.word("an author")
        if author not in AUTHORS:
            raise head.error(f"no author is called {author!r}", f"authors are {', '.join(AUTHORS)}")
        label = scan.label()
        end = next((k for k, line in enumerate(lines) if k and not line.indent), len(lines))
        result.append(Advice(author, _parse_scenario(lines[1:end], label, 1)))
        lines = lines[end:]
    return tuple(result)


def _parse_scenario(lines: list[TextLine], label: str, depth: int) -> Scenario:
    """Entries at one indentation, then at most one either/or block."""
    if lines and depth > MAX_ADVICE_DEPTH:
        raise lines[0].error(f"alternatives are nested deeper than {MAX_ADVICE_DEPTH}")
    entries: list[Entry] = []
    alternatives: list[Scenario] = []
    position = 0
    while position < len(lines):
        line = lines[position]
        if line.indent != lines[0].indent:
            raise line.error("unexpected indentation", f"its neighbours stand at column {lines[0].indent + 1}")
        position += 1
        word = line.word()
        if word not in ("either", "or"):
            if alternatives:
                raise line.error("an entry after alternatives", "put it before “either”, or indent it into one of them")
            entries.append(_parse_entry(line))
            if depth > 1 and entries[-1].field == "rewrite":
                raise line.error(NOT_INSIDE, "write it before “either”, below “advice AUTHOR”")
            continue
        if (word == "or") != bool(alternatives):
            raise line.error(
                "“or” without “either” before it" if word == "or" else "a second “either”",
                "nest it in the alternatives of the first" if word == "either" else "",
            )
        scan = line.scanner()
        scan.word()
        inner = scan.label()
        end = position
        while end < len(lines) and lines[end].indent > line.indent:
            end += 1
        alternatives.append(_parse_scenario(lines[position:end], inner, depth + 1))
        position = end
    return Scenario(tuple(entries), tuple(alternatives), label)


def _parse_entry(line: TextLine) -> Entry:
    scan = line.scanner()
    required = enabled_off = False
    while scan.peek() in ("required", "off"):
        if scan.word() == "required":
            required = True
        else:
            enabled_off = True
    wish = _parse_rewrite(scan) if scan.peek() == "rewrite" else _parse_wish(scan)
    scan.end()
    try:
        return checked_entry(replace(wish, required=required, because=line.because(), enabled=not enabled_off))
    except BadInput as error:
        raise line.error(f"{error.subject} {error.reason}", error.hint) from None


def _parse_wish(scan: Scanner) -> Entry:
    """`STATEMENTS @ DIMENSION: FIELD VALUE`."""
    statements: tuple[str, ...] = ()
    if scan.peek() == "all":
        scan.word()
    else:
        statements = tuple(scan.names("a statement or “all”"))
    scan.expect("@", "write STATEMENTS @ DIMENSION: FIELD VALUE")
    dimension = _parse_dimension(scan)
    scan.expect(":", "a colon follows the dimension")
    field = scan.word("a field")
    if field == "rewrite":
        raise scan.line.error("a rewrite is about no dimension", "write “rewrite associative S2”")
    if field not in ENTRY_FIELDS:
        raise scan.line.error(f"no field is called {field!r}", f"fields are {', '.join(ENTRY_FIELDS)}")
    return Entry(statements, dimension, field, _parse_value(scan, field))


def _parse_rewrite(scan: Scanner) -> Entry:
    """`rewrite associative S2`, `rewrite online S2` or `rewrite recompute S0 in S3`."""
    scan.word()
    kind = scan.word("a rewrite")
    if kind not in REWRITES:
        raise scan.line.error(f"no rewrite is called {kind!r}", f"rewrites are {', '.join(REWRITES)}")
    statement = scan.name("a statement")
    value: tuple[Value, ...] = (kind,)
    if kind == RECOMPUTE:
        scan.expect("in", "write recompute PRODUCER in READER")
        value = (kind, scan.name("the statement that reads it"))
    return Entry((statement,), "", "rewrite", value)


def _parse_dimension(scan: Scanner) -> str:
    word = scan.peek()
    if word == "any":
        scan.word()
        return ""
    if word == "after":
        scan.word()
        return f"after {scan.name('a dimension after “after”')}"
    found = scan.name("a dimension")
    return f"{found} {scan.word()}" if found == "depth" and scan.peek().isdigit() else found


def _parse_value(scan: Scanner, field: str) -> Value:
    if field in ("pin", "equal"):
        return tuple(scan.names("a name"))
    if field == "cut":
        return tuple(scan.parts())
    if field == "mark":
        return (scan.name("the name of a mark"), scan.value())
    return scan.value()
