"""Arguments of the library's verbs: each has to be what its parameter is annotated as, before anything is done with it.

What is in a list or a mapping is for the verb to judge, which knows what it is for.
"""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, get_annotations, signature
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin

from engine.support.errors import BadInput

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Exports = Callable[[str], Any]
"""The value of a name that the library exports; AttributeError where it exports none."""


def with_checked_arguments(
    verb: Callable[Parameters, Result], name: str, exports: Exports
) -> Callable[Parameters, Result]:
    """A verb of the library that raises BadInput for an argument of another type than its parameter is annotated as.

    A whole number of another library, as NumPy's are, becomes an int, and the text of a path that has to be one a Path.
    """
    called = signature(verb)
    kinds = parameter_kinds(verb, exports)

    @wraps(verb)
    def run(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        try:
            bound = called.bind(*arguments, **named)
        except TypeError:  # one is missing or unknown, as Python says by the verb's name
            return verb(*arguments, **named)
        for parameter, value in bound.arguments.items():
            where = f"{name}, {parameter}"
            if called.parameters[parameter].kind is Parameter.VAR_POSITIONAL:
                bound.arguments[parameter] = tuple(_fit(kinds[parameter], one, name, where) for one in value)
            else:
                bound.arguments[parameter] = _fit(kinds[parameter], value, name, where)
        return verb(*bound.args, **bound.kwargs)

    run.__module__, run.__qualname__ = "engine", name  # where a process that is sent it finds it
    return run


def parameter_kinds(verb: Callable[..., Any], exports: Exports) -> dict[str, Any]:
    """Parameter -> what it is annotated as.  Names that its module imports for the type checker alone are exported."""
    module = vars(sys.modules[verb.__module__])

    class AnnotatedNames(dict[str, Any]):
        def __missing__(self, name: str) -> Any:
            if name in module or hasattr(builtins, name):
                raise KeyError(name)
            return exports(name)

    def parameters_alone() -> None:
        """Stands for the verb without its result, whose type nobody asks for and may take long to import."""

    parameters_alone.__annotations__ = {name: kind for name, kind in verb.__annotations__.items() if name != "return"}
    found = get_annotations(parameters_alone, globals=module, locals=AnnotatedNames(), eval_str=True)
    return {name: found.get(name, Any) for name in signature(verb).parameters}


def _fit(kind: Any, value: Any, verb: str, where: str) -> Any:
    """The argument as its parameter takes it; BadInput where that cannot be."""
    choices = _choices(kind)
    if Path in choices and isinstance(value, str | Path) and "\0" in str(value):
        raise BadInput(verb, where, "holds a zero byte, as no file name does", "")
    if any(_is_one(choice, value) for choice in choices):
        return value
    if int in choices and isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if Path in choices and isinstance(value, str):
        return Path(value)
    wanted = " or ".join(map(_title, choices))
    found = "None" if value is None else f"of type {_title(type(value))}"
    raise BadInput(verb, where, f"is {found}, not {wanted}", f"help(engine.{verb}) says what it takes")


def _choices(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _is_one(kind: Any, value: Any) -> bool:
    plain = get_origin(kind) or kind
    if plain is Any or getattr(plain, "_is_protocol", False):
        return True
    if plain in (int, float) and isinstance(value, bool):
        return False
    if plain is float:
        return isinstance(value, Real)
    if plain is Sequence and isinstance(value, str):  # one name, where several are asked for
        return False
    return isinstance(value, plain)


def _title(kind: Any) -> str:
    plain = get_origin(kind) or kind
    return "None" if plain is type(None) else str(getattr(plain, "__name__", plain))
