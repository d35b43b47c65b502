"""Frozen dataclasses to plain data and back: the form that crosses processes and files.

Numbers, text, booleans and None stay what they are; tuples become lists, mappings and dataclasses become objects;
numbers that JSON cannot hold become the texts "inf", "-inf" and "nan".  Reading back is driven by the annotations: each
type gets a reader, put together once, for documents hold a hundred thousand values.  Many dataclasses of one kind cross
as columns: a list of values for each field.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from itertools import repeat, starmap
from operator import attrgetter
from typing import Any, ForwardRef, NoReturn, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from engine.support.budgets import MAX_JSON_DEPTH
from engine.support.errors import BadInput

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]
Reader = Callable[[Any, int], Any]
"""Reads plain data at a nesting depth; raises _Misfit where it does not fit."""

_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}

_EXACT = frozenset((str, int, bool))
"""Types that are read as they are: asked about where they stand, they cost no call for each value."""
_UNCHANGED = (str, int, types.NoneType)
"""Types that need no conversion; a bool is an int."""

T = TypeVar("T")


class _Misfit(Exception):
    """Data that does not fit its type.  Each enclosing reader appends its key to `place` while the exception passes."""

    def __init__(self, reason: str, hint: str = "", place: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.place: list[str] = [] if place is None else [place]
        """From the innermost part to the outermost."""
        self.is_too_deep = False


def to_json(value: object) -> Plain:
    """Plain data for `json.dumps`.  TypeError for any other type: a mistake in the program."""
    if isinstance(value, _UNCHANGED):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, tuple):  # before what costs more to ask
        return [item if type(item) in _EXACT else to_json(item) for item in value]
    if is_dataclass(value):
        names, values = _fields_of(cast(Any, type(value)))
        found = zip(names, values(value), strict=True)
        return {name: item if type(item) in _EXACT else to_json(item) for name, item in found}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [to_json(item) for item in value]
    raise TypeError(f"{type(value).__name__} is not plain data")


def fields_to_json(value: object) -> dict[str, Any]:
    """A dataclass as a dictionary, for a document that adds further keys."""
    return cast(dict[str, Any], to_json(value))


def to_columns(kind: type, items: Iterable[object]) -> dict[str, Any]:
    """Plain data of many dataclasses of one kind: field -> its values, as `json.dumps` takes them."""
    names, values = _fields_of(kind)
    columns = zip(*map(values, items), strict=True)
    plain = _plain_fields(kind)
    return {
        name: column if name in plain else list(map(to_json, column))
        for name, column in zip(names, columns, strict=False)
    }


def from_columns(kind: type[T], data: object) -> tuple[T, ...]:
    """The dataclasses whose `to_columns` these are.  BadInput names the column and the place in it."""
    try:
        return _read_columns(cast(Any, kind), data)
    except _Misfit as misfit:
        where = "".join(reversed(misfit.place)).removeprefix(".")
        raise BadInput("data", where or "value", misfit.reason, misfit.hint) from None


def _read_columns(kind: type, data: object) -> tuple[Any, ...]:
    _check(data, dict, "an object", 0)
    given, names = cast(dict[str, Any], data), _fields_of(kind)[0]
    if not given:
        return ()
    if set(given) != set(names):
        raise _Misfit(f"must have the columns {', '.join(names)}")
    hints = get_type_hints(kind)
    columns = []
    for name in names:
        try:
            columns.append(_list_reader(hints[name])(given[name], 0))
        except _Misfit as misfit:
            misfit.place.append(f".{name}")
            raise
    if len(set(map(len, columns))) > 1:
        raise _Misfit("has columns of different lengths")
    return tuple(starmap(kind, zip(*columns, strict=True)))


def from_json(kind: type[T], data: object) -> T:
    """A value of `kind` (a dataclass, or a type that its fields may have) from plain data.

    BadInput names the place ("groups.softmax_0[1].author") of a missing or unknown key or of a value of a wrong type.
    """
    try:
        return cast(T, _reader(cast(Any, kind))(data, 0))
    except _Misfit as misfit:
        where = "".join(reversed(misfit.place)).removeprefix(".")
        subject = where.split(".")[0] if misfit.is_too_deep else where
        raise BadInput("data", subject or "value", misfit.reason, misfit.hint) from None


@lru_cache(maxsize=256)
def _fields_of(kind: type) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """The names of a dataclass's fields, and their values."""
    names = tuple(field.name for field in fields(kind))
    return names, attrgetter(*names) if len(names) > 1 else lambda value: tuple([getattr(value, n) for n in names])


@lru_cache(maxsize=256)
def _plain_fields(kind: type) -> frozenset[str]:
    """The fields of a dataclass that `json.dumps` takes as they are: text, whole numbers, and tuples of them."""
    return frozenset(name for name, hint in get_type_hints(kind).items() if _is_plain(hint))


def _is_plain(hint: Any) -> bool:
    if get_origin(hint) is tuple:
        return all(item is Ellipsis or _is_plain(item) for item in get_args(hint))
    return hint in _EXACT


@lru_cache(maxsize=1024)
def _reader(kind: Any) -> Reader:
    """The reader of one type."""
    origin = get_origin(kind)
    if isinstance(kind, str | ForwardRef):
        return _plain
    if origin in (Union, types.UnionType):
        return _union_reader(get_args(kind))
    if origin is tuple:
        items = get_args(kind)
        return _list_reader(items[0]) if len(items) == 2 and items[1] is Ellipsis else _tuple_reader(items)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_reader(get_args(kind)[1])
    if origin is Sequence:
        return _list_reader(get_args(kind)[0])
    if is_dataclass(kind):
        return _dataclass_reader(cast(type, kind))
    if kind in _SCALARS:
        return _SCALARS[kind]
    raise TypeError(f"{kind} is not read from plain data")


def _number(data: Any, depth: int) -> float:
    if isinstance(data, str) and data in _SPECIAL:
        return _SPECIAL[data]
    if isinstance(data, bool) or not isinstance(data, int | float):
        _refuse(data, "a number")
    try:
        return float(data)
    except OverflowError:
        _refuse(data, "a number below 1.8e308")


def _exact_reader(kind: type, what: str) -> Reader:
    """Reader of exactly one type: a bool is no whole number."""
    return lambda data, depth: data if type(data) is kind else _refuse(data, what)


_SCALARS: Mapping[Any, Reader] = {
    float: _number,
    int: _exact_reader(int, "a whole number"),
    bool: _exact_reader(bool, "true or false"),
    str: _exact_reader(str, "text"),
    types.NoneType: _exact_reader(types.NoneType, "null"),
}


def _union_reader(options: tuple[Any, ...]) -> Reader:
    """Reader of a union: the option of the data's own type, else the first that accepts it."""
    own = {option for option in options if isinstance(option, type)}
    others = tuple(option for option in options if option is not type(None))

    def read(data: Any, depth: int) -> Any:
        if data is None and type(None) in options:
            return None
        if type(data) in own:
            return data
        failure: _Misfit | None = None
        for option in others:
            try:
                return _reader(option)(data, depth)
            except _Misfit as misfit:
                failure = misfit
        assert failure is not None, "a union has an option besides None"
        raise failure

    return read


def _list_reader(item: Any) -> Reader:
    read_item = _reader_later(item)

    def read(data: Any, depth: int) -> tuple[Any, ...]:
        if item in _EXACT and type(data) is list and depth <= MAX_JSON_DEPTH and {item}.issuperset(map(type, data)):
            return tuple(data)
        return _read_items(data, repeat(read_item), depth)

    return read


def _read_items(data: Any, readers: Iterable[Reader], depth: int) -> tuple[Any, ...]:
    """The items of a list, each read by the reader in its place."""
    _check(data, list, "a list", depth)
    found: list[Any] = []
    try:
        for value, read_item in zip(data, readers, strict=False):
            found.append(read_item(value, depth + 1))
    except _Misfit as misfit:
        misfit.place.append(f"[{len(found)}]")
        raise
    return tuple(found)


def _tuple_reader(items: tuple[Any, ...]) -> Reader:
    readers = [_reader_later(item) for item in items]

    def read(data: Any, depth: int) -> tuple[Any, ...]:
        _check(data, list, "a list", depth)
        if len(data) != len(readers):
            raise _Misfit(f"holds {len(data)} values instead of {len(readers)}")
        return _read_items(data, readers, depth)

    return read


def _mapping_reader(item: Any) -> Reader:
    read_item = _reader_later(item)

    def read(data: Any, depth: int) -> dict[str, Any]:
        _check(data, dict, "an object", depth)
        found: dict[str, Any] = {}
        for key, value in data.items():
            try:
                found[str(key)] = read_item(value, depth + 1)
            except _Misfit as misfit:
                misfit.place.append(f".{key}")
                raise
        return found

    return read


def _dataclass_reader(kind: type) -> Reader:
    hints = get_type_hints(kind)
    readers = {field.name: _reader_later(hints[field.name]) for field in fields(kind)}
    exact = {name: hints[name] for name in readers if hints[name] in _EXACT}
    needed = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]

    def read(data: Any, depth: int) -> Any:
        _check(data, dict, "an object", depth)
        values: dict[str, Any] = {}
        name = ""
        try:
            for name, value in data.items():
                values[name] = value if type(value) is exact.get(name) else readers[name](value, depth + 1)
        except KeyError:
            raise _Misfit("is unknown", f"{kind.__name__} has {', '.join(readers)}", f".{name}") from None
        except _Misfit as misfit:
            misfit.place.append(f".{name}")
            raise
        for name in needed:
            if name not in values:
                raise _Misfit("is missing", place=f".{name}")
        return kind(**values)

    return read


def _reader_later(kind: Any) -> Reader:
    """The reader of a recursive type, looked up when it is first used."""
    if not is_dataclass(kind):
        return _reader(kind)

    def read(data: Any, depth: int) -> Any:
        return _reader(cast(Any, kind))(data, depth)

    return read


def _plain(data: Any, depth: int) -> object:
    """Reader inside a recursive type: numbers, text, and tuples of those."""
    if isinstance(data, bool | int | float | str):
        return data
    _check(data, list, "a number, text or a list", depth)
    return tuple(_plain(item, depth + 1) for item in data)


def _check(data: Any, kind: type, what: str, depth: int) -> None:
    if depth > MAX_JSON_DEPTH:
        misfit = _Misfit(f"is nested deeper than {MAX_JSON_DEPTH}")
        misfit.is_too_deep = True
        raise misfit
    if not isinstance(data, kind):
        _refuse(data, what)


def _refuse(data: object, what: str) -> NoReturn:
    if isinstance(data, dict):
        shown = "an object"
    elif isinstance(data, list):
        shown = "a list"
    else:
        shown = "null" if data is None else repr(data)
    raise _Misfit(f"must be {what}, not {shown[:60]}")
