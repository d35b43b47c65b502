"""Values as JSON and back, by their annotations: documents and recipes need no code of their own.

Dataclasses become objects, tuples arrays, mappings objects.  `from_json` checks every field: a missing, unknown or
wrongly typed one is a BadInput that names its place ("groups.softmax_0[1].author").
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

from engine.errors import BadInput

T = TypeVar("T")


def to_json(value: object) -> Any:
    """Plain data that `json.dumps` accepts; TypeError for what no document may hold."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case tuple() | list():
            return [to_json(item) for item in value]
        case Mapping():
            return {str(key): to_json(item) for key, item in value.items()}
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    raise TypeError(f"{type(value).__name__} is no plain data")


def from_json(kind: type[T], data: object, place: str = "") -> T:
    """The value of type `kind` that `to_json` made `data` from; BadInput where `data` is none."""
    return typing.cast(T, _read(kind, data, place))


def _read(kind: Any, data: object, place: str) -> Any:
    if is_dataclass(kind):
        return _read_fields(kind, data, place)
    if isinstance(kind, typing.ForwardRef):
        # Only `recipe.Value` refers to itself, and what it may hold needs no more than lists made tuples.
        return _frozen(data)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _read_union(arguments, data, place)
    if origin is tuple:
        return _read_tuple(arguments, data, place)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(data, dict):
            raise _misfit(place, "an object", data)
        return {key: _read(arguments[1], item, f"{place}.{key}") for key, item in data.items()}
    return _read_scalar(kind, data, place)


def _read_fields(kind: Any, data: object, place: str) -> Any:
    if not isinstance(data, dict):
        raise _misfit(place, f"an object ({kind.__name__})", data)
    hints, known = _hints(kind), {field.name: field for field in fields(kind)}
    unknown = [name for name in data if name not in known]
    if unknown:
        raise BadInput("text", _joined(place, unknown[0]), f"{kind.__name__} has no such field")
    values = {}
    for name, field in known.items():
        if name in data:
            values[name] = _read(hints[name], data[name], _joined(place, name))
        elif field.default is MISSING and field.default_factory is MISSING:
            raise BadInput("text", _joined(place, name), "this field is missing")
    return kind(**values)


def _read_union(arguments: tuple[Any, ...], data: object, place: str) -> Any:
    """The first member that fits, scalars of exactly the right type before others."""
    for member in arguments:
        if data is None and member is types.NoneType:
            return None
        if type(data) is member:
            return data
    for member in arguments:
        if is_dataclass(member) and isinstance(data, dict):
            return _read_fields(member, data, place)
        if typing.get_origin(member) is tuple and isinstance(data, list):
            return _read_tuple(typing.get_args(member), data, place)
    raise _misfit(place, " or ".join(str(getattr(member, "__name__", member)) for member in arguments), data)


def _read_tuple(arguments: tuple[Any, ...], data: object, place: str) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise _misfit(place, "a list", data)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_read(arguments[0], item, f"{place}[{n}]") for n, item in enumerate(data))
    if len(arguments) != len(data):
        raise _misfit(place, f"a list of {len(arguments)}", data)
    return tuple(_read(kind, item, f"{place}[{n}]") for n, (kind, item) in enumerate(zip(arguments, data, strict=True)))


def _read_scalar(kind: Any, data: object, place: str) -> Any:
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if type(data) is not kind:
        raise _misfit(place, kind.__name__, data)
    return data


def _frozen(data: object) -> object:
    return tuple(_frozen(item) for item in data) if isinstance(data, list) else data


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _joined(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _misfit(place: str, wanted: str, data: object) -> BadInput:
    shown = repr(data)
    shown = shown if len(shown) <= 40 else shown[:37] + "..."
    return BadInput("text", place or "the document", f"{shown} stands where {wanted} belongs")
