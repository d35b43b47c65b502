"""The arguments of a request to the worker: plain data that may be anything, read as values of a type."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter
from typing import Any, TypeVar

from engine.support.errors import BadInput
from engine.support.serialization import from_json

Value = TypeVar("Value")
Arguments = Mapping[str, Any]


def read_argument(
    arguments: Arguments, name: str, kind: type[Value], default: Any = Parameter.empty
) -> Value | Any:  # fmt: skip
    """An argument as a value of `kind`; `default` where it is left out or null.  BadInput names the argument."""
    value = arguments.get(name)
    if value is None and default is not Parameter.empty:
        return default
    if name not in arguments:
        raise BadInput("service", f"argument {name}", "it is missing from the request")
    try:
        return from_json(kind, value)
    except BadInput as misfit:
        raise BadInput("service", f"argument {name}", misfit.reason, misfit.hint) from misfit


def read_text(arguments: Arguments, name: str) -> str:
    """An argument that has to be text."""
    return read_argument(arguments, name, str)
