"""HTML and SVG from nested calls; text is escaped unless it is markup that this module made.

File names, operator names and remarks come from files that anybody may have written, so a string is text by default.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

VOID = frozenset({"meta", "br", "line", "path", "polyline", "circle", "rect"})
"""Elements that have no content here."""


UNWANTED = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | Iterable["Child"] | None


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """An element.  An attribute that is None or False is left out; `class_` is `class`, `stroke_width` is
    `stroke-width`."""
    given = "".join(_attribute(key, value) for key, value in attributes.items() if value is not None)
    if name in VOID:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def join(children: Child) -> Markup:
    """Markup and escaped text one after the other."""
    if children is None:
        return Markup("")
    if isinstance(children, Markup):
        return children
    if isinstance(children, str):
        return Markup(escape(printable(children)))
    return Markup("".join(map(join, children)))


def printable(text: str) -> str:
    """Text with a sign in place of what no markup may hold (control characters, halves of surrogate pairs), and of
    marks that turn the direction of writing, by which a name could pass for another."""
    return text if text.isprintable() else UNWANTED.sub("\N{REPLACEMENT CHARACTER}", text)


def _attribute(key: str, value: str | float | bool | None) -> str:
    if value is False:
        return ""
    text = key if value is True else printable(f"{value:g}" if isinstance(value, float) else str(value))
    return f' {key.rstrip("_").replace("_", "-")}="{escape(text)}"'
