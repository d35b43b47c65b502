"""Frozen dataclasses as plain data and back: the form that crosses processes and files.

Numbers, text, booleans and None stay what they are; tuples become lists, mappings and dataclasses become objects;
numbers that JSON cannot hold become the texts "inf", "-inf" and "nan".  Reading back is driven by the annotations.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import lru_cache
from typing import Any, ForwardRef, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from engine.errors import BadInput

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]

_MAX_DEPTH = 100
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}

T = TypeVar("T")


def to_json(value: object) -> Plain:
    """Plain data for `json.dumps`.  TypeError for a value of no documented kind: that is a mistake in the program."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [to_json(item) for item in value]
    if is_dataclass(value):
        return {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
    raise TypeError(f"{type(value).__name__} is not plain data")


def from_json(kind: type[T], data: object) -> T:
    """A value of `kind` (a dataclass, or a type that its fields may have) from plain data.

    BadInput names the place ("groups.softmax_0[1].author") of a missing or unknown key or of a value of a wrong type.
    """
    return cast(T, _read(kind, data, "", 0))


def _read(kind: Any, data: object, where: str, depth: int) -> object:
    if depth > _MAX_DEPTH:
        raise BadInput("data", where.split(".")[0] or "value", f"is nested deeper than {_MAX_DEPTH}")
    origin = get_origin(kind)
    if isinstance(kind, str | ForwardRef):
        return _plain(data, where, depth)
    if origin in (Union, types.UnionType):
        return _read_union(get_args(kind), data, where, depth)
    if origin is tuple:
        return _read_tuple(get_args(kind), data, where, depth)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        item = get_args(kind)[1]
        content = _expect(data, dict, "an object", where)
        return {str(key): _read(item, value, _join(where, str(key)), depth + 1) for key, value in content.items()}
    if is_dataclass(kind):
        return _read_dataclass(cast(type, kind), data, where, depth)
    return _read_scalar(kind, data, where)


def _read_scalar(kind: Any, data: object, where: str) -> object:
    if kind is float:
        if isinstance(data, str) and data in _SPECIAL:
            return _SPECIAL[data]
        if isinstance(data, bool) or not isinstance(data, int | float):
            raise _wrong(data, "a number", where)
        return float(data)
    if kind is int:
        if isinstance(data, bool):
            raise _wrong(data, "a whole number", where)
        return _expect(data, int, "a whole number", where)
    if kind is bool:
        return _expect(data, bool, "true or false", where)
    if kind is str:
        return _expect(data, str, "text", where)
    if kind is type(None) or kind is None:
        return _expect(data, type(None), "null", where)
    raise TypeError(f"{where or 'value'}: {kind} is not read from plain data")


def _read_union(options: tuple[Any, ...], data: object, where: str, depth: int) -> object:
    """The option that fits the data's own type; of several options the first that reads it."""
    if data is None and type(None) in options:
        return None
    for option in options:
        if option is type(data):
            return data
    failure: BadInput | None = None
    for option in options:
        if option is not type(None):
            try:
                return _read(option, data, where, depth)
            except BadInput as error:
                failure = error
    assert failure is not None, "a union has an option besides None"
    raise failure


def _read_tuple(items: tuple[Any, ...], data: object, where: str, depth: int) -> tuple[object, ...]:
    content = _expect(data, list, "a list", where)
    if len(items) == 2 and items[1] is Ellipsis:
        return tuple(_read(items[0], value, f"{where}[{k}]", depth + 1) for k, value in enumerate(content))
    if len(content) != len(items):
        raise BadInput("data", where or "value", f"holds {len(content)} values instead of {len(items)}")
    pairs = zip(items, content, strict=True)
    return tuple(_read(item, value, f"{where}[{k}]", depth + 1) for k, (item, value) in enumerate(pairs))


def _read_dataclass(kind: type, data: object, where: str, depth: int) -> object:
    content = _expect(data, dict, "an object", where)
    known = _fields(kind)
    for key in content:
        if key not in known:
            raise BadInput("data", _join(where, str(key)), "is unknown", f"{kind.__name__} has {', '.join(known)}")
    values = {}
    for name, (hint, field) in known.items():
        if name in content:
            values[name] = _read(hint, content[name], _join(where, name), depth + 1)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise BadInput("data", _join(where, name), "is missing")
    return kind(**values)


@lru_cache(maxsize=256)
def _fields(kind: type) -> dict[str, tuple[Any, Field[Any]]]:
    hints = get_type_hints(kind)
    return {f.name: (hints[f.name], f) for f in fields(kind)}


def _plain(data: object, where: str, depth: int) -> object:
    """A value inside a type that names itself: numbers, text, and tuples of those."""
    if isinstance(data, bool | int | float | str):
        return data
    content = _expect(data, list, "a number, text or a list", where)
    if depth > _MAX_DEPTH:
        raise BadInput("data", where.split(".")[0], f"is nested deeper than {_MAX_DEPTH}")
    return tuple(_plain(item, f"{where}[{k}]", depth + 1) for k, item in enumerate(content))


def _expect(data: object, kind: type[T], what: str, where: str) -> T:
    if not isinstance(data, kind):
        raise _wrong(data, what, where)
    return data


def _wrong(data: object, what: str, where: str) -> BadInput:
    if isinstance(data, dict):
        shown = "an object"
    elif isinstance(data, list):
        shown = "a list"
    else:
        shown = "null" if data is None else repr(data)
    return BadInput("data", where or "value", f"must be {what}, not {shown[:60]}")


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
