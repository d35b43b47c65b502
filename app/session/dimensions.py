"""Numbers by name, as the command line and the window take them: "batch=8"."""

from __future__ import annotations

import re

from engine.support.errors import BadInput


def dimensions_of(bindings: list[str]) -> dict[str, int]:
    """--dim batch=8 --dim sequence=128 as a mapping; 0 is a number that the data of a graph may decide."""
    return numbers_of(bindings, "--dim", "batch=8", least=0)


def words_of(bindings: list[str], option: str, example: str) -> dict[str, str]:
    """NAME=WORD as a mapping; BadInput, which names the option, for anything else."""
    for binding in bindings:
        if not re.fullmatch(r"\w+=\w+", binding):
            raise BadInput("command line", f"{option} {binding}", "is not NAME=WORD", f"for example {option} {example}")
    return dict(binding.split("=") for binding in bindings)


def numbers_of(bindings: list[str], option: str, example: str, least: int = 1) -> dict[str, int]:
    """NAME=VALUE, each a whole number, as a mapping; BadInput, which names the option, for anything else."""
    found: dict[str, int] = {}
    for binding in bindings:
        matched = re.fullmatch(r"([^=]+)=(0|[1-9][0-9]{0,18})", binding)
        if matched is None or int(matched[2]) < least:
            reason = f"is not NAME=VALUE with a whole number from {least} on"
            raise BadInput("command line", f"{option} {binding}", reason, f"for example {option} {example}")
        found[matched[1].strip()] = int(matched[2])
    return found
