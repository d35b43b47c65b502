"""Values of which there are very many: frozen dataclasses to the type checker, three times as quick to make."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from dataclasses import dataclass as value
    from functools import cached_property
else:
    from dataclasses import dataclass

    def value(*, frozen: bool, slots: bool = False):
        """A decorator as `dataclass`.  Only mypy finds an assignment to a field: to stop it at run time, too, costs the
        constructor of a frozen dataclass a call for each."""
        assert frozen
        return dataclass(slots=slots, unsafe_hash=True)

    class cached_property:
        """As `functools.cached_property`, which before Python 3.12 locks all values of a class while it finds one."""

        def __init__(self, find):
            self._find, self.__doc__ = find, find.__doc__

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            found = instance.__dict__[self._name] = self._find(instance)
            return found


Owner = TypeVar("Owner")
Rest = ParamSpec("Rest")
Found = TypeVar("Found")


def kept_with(find: Callable[Concatenate[Owner, Rest], Found]) -> Callable[Concatenate[Owner, Rest], Found]:
    """A function of an immutable value without slots, and of others that can be hashed, whose results the value keeps:
    several stages ask for them one after the other.
    """
    name = f"{find.__module__}.{find.__qualname__}"

    @wraps(find)
    def recall(owner: Owner, /, *rest: Rest.args, **named: Rest.kwargs) -> Found:
        kept = owner.__dict__.setdefault(name, {})
        key = (*rest, *named.items())
        if key not in kept:
            kept[key] = find(owner, *rest, **named)
        result: Found = kept[key]
        return result

    return recall


__all__ = ["cached_property", "kept_with", "value"]
