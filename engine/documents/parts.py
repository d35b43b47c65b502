"""Long lists of a document in parts: parsing JSON cannot be interrupted, and megabytes of it would stall a window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_args, get_type_hints

from engine.support.serialization import from_columns, from_json, to_columns, to_json

Item = TypeVar("Item")
Send = Callable[[str, Any], None]
"""Sends one event with its value."""
PART = 1000
"""Items of one of a result's lists on one line, at most."""


def without_long_lists(result: Any, send: Send) -> Any:
    """Send all but the last part of a document's long lists ahead; the rest of the document as plain data.

    The window decodes the first parts while later ones are made.
    """
    if not is_dataclass(result):
        return to_json(result)
    left: dict[str, Any] = {}
    for field in fields(result):
        items = getattr(result, field.name)
        left[field.name] = to_json(send_ahead(send, field.name, items) if isinstance(items, tuple) else items)
    return left


def send_ahead(send: Send, key: str, items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Send all but the last part of a list; the items of the last part.

    Documents go in columns: the names of their fields, in every one, take longer to write and to read than the rest.
    """
    last = max(len(items) - 1, 0) // PART * PART
    for start in range(0, last, PART):
        part = items[start : start + PART]
        kind = type(part[0])
        data = {"columns": to_columns(kind, part)} if is_dataclass(kind) else {"items": to_json(part)}
        send("part", {"key": key, **data})
    return items[last:]


def read_part(kind: type, part: dict[str, Any]) -> tuple[str, tuple[Any, ...]]:
    """The field of a document of `kind` that a part belongs to, and its items.  KeyError or BadInput for no part."""
    key = part["key"]
    field = get_type_hints(kind)[key]
    if "items" in part:
        return key, from_json(field, part["items"])
    return key, from_columns(get_args(field)[0], part["columns"])
