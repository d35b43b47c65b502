"""The module of a network that an operator was exported from."""

from __future__ import annotations

from collections.abc import Iterable

MAX_SCOPE = 512
"""Characters of a module's path that are kept."""


def scope_of(name: str, metadata: Iterable[tuple[str, str]]) -> str:
    """The innermost module: from the dynamo exporter's `namespace`, else from a path-like node name, else ""."""
    for key, value in metadata:
        if key == "namespace":
            return _without_root(_innermost(value))
    if "/" in name:
        return _without_root(".".join(part for part in name.split("/")[:-1] if part))
    return ""


def _innermost(namespace: str) -> str:
    """`namespace` is "PATH: CLASS/PATH: CLASS/.../NODE: OPERATOR"; the last PATH before the node is the module's."""
    paths = [part.partition(": ")[0].strip() for part in namespace.split("/")[:-1]]
    return next((path for path in reversed(paths) if path), "")


def _without_root(path: str) -> str:
    """Exporters wrap the network in a module called `model`, which says nothing."""
    return "" if path == "model" else path.removeprefix("model.")[:MAX_SCOPE]
