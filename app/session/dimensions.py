"""Sizes of symbolic dimensions, as the command line and the window take them: "batch=8"."""

from __future__ import annotations

import re

from engine.support.errors import BadInput


def dimensions_of(bindings: list[str], option: str = "--dim", example: str = "batch=8") -> dict[str, int]:
    """--dim batch=8 --dim sequence=128 as a mapping; BadInput, which names the option, for anything else."""
    found: dict[str, int] = {}
    for binding in bindings:
        matched = re.fullmatch(r"([^=]+)=([1-9][0-9]{0,18})", binding)
        if matched is None:
            reason = "is not NAME=VALUE with a whole number above 0"
            raise BadInput("command line", f"{option} {binding}", reason, f"for example {option} {example}")
        found[matched[1].strip()] = int(matched[2])
    return found
