"""Numbers by name, as the command line and the window take them: "batch=8"."""

from __future__ import annotations

import re

from engine.graph.nodes import SizeRange
from engine.support.errors import BadInput


def dimensions_of(bindings: list[str]) -> dict[str, int]:
    """--dim batch=8 --dim sequence=128 as a mapping; 0 is a number that the data of a graph may decide."""
    return numbers_of(bindings, "--dim", "batch=8", least=0)


def range_of(bindings: list[str]) -> tuple[list[str], tuple[str, int, int] | None]:
    """The bindings of one size each, and the one of a range, NAME=LOW..HIGH, with its largest size among the others.

    BadInput for more than one range, for one that is none, and for a size of the same dimension.
    """
    ranges = [matched for one in bindings if (matched := re.fullmatch(r"([^=]+)=([0-9]{1,9})\.\.([0-9]{1,9})", one))]
    if len(ranges) > 1:
        raise BadInput("command line", f"--dim {ranges[1][0]}", "is a second range", "give the others one size")
    if not ranges:
        return bindings, None
    name, low, high = ranges[0][1].strip(), int(ranges[0][2]), int(ranges[0][3])
    SizeRange(name, low, high)  # raises
    for one in bindings:
        if one != ranges[0][0] and one.partition("=")[0].strip() == name:
            raise BadInput("command line", f"--dim {one}", f"is a second size of {name}", "give it a size or a range")
    return [f"{name}={high}" if one == ranges[0][0] else one for one in bindings], (name, low, high)


def words_of(bindings: list[str], option: str, example: str) -> dict[str, str]:
    """NAME=WORD as a mapping; BadInput, which names the option, for anything else."""
    for binding in bindings:
        if not re.fullmatch(r"\w+=\w+", binding):
            raise BadInput("command line", f"{option} {binding}", "is not NAME=WORD", f"for example {option} {example}")
    return dict(binding.split("=") for binding in bindings)


def numbers_of(bindings: list[str], option: str, example: str, least: int = 1) -> dict[str, int]:
    """NAME=VALUE, each a whole number and no name twice, as a mapping; else BadInput, which names the option."""
    found: dict[str, int] = {}
    for binding in bindings:
        matched = re.fullmatch(r"([^=]+)=(0|[1-9][0-9]{0,18})", binding)
        if matched is None or int(matched[2]) < least:
            reason = f"is not NAME=VALUE with a whole number from {least} on"
            raise BadInput("command line", f"{option} {binding}", reason, f"for example {option} {example}")
        name = matched[1].strip()
        if name in found:
            raise BadInput("command line", f"{option} {binding}", f"is a second number for {name}", "give it one")
        found[name] = int(matched[2])
    return found
