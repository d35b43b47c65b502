"""The lanes at which conditions hold, as a range: a loop over it needs no condition, and reads memory as it lies.

    2 * lane + m >= 1  and  lane + k <= 55     ->     from = (1 - m + 1) / 2,  to = 55 - k + 1
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.cpu.text import Text
from engine.tensor.index import Index
from engine.tile.nodes.expressions import condition_text, index_text
from engine.tile.source import Line


@dataclass(frozen=True, slots=True)
class LaneRange:
    """Names of variables: the first lane at which all conditions hold, and the one after the last."""

    begin: str
    end: str


def declare_range(
    text: Text, conditions: Iterable[Index], lane: str, count: str, extents: dict[str, int], link: Line
) -> LaneRange | None:
    """Declare the range of a loop of `count` lanes in which conditions (>= 0) hold; None where a condition has the lane
    in a division.  Conditions that always hold are left out."""
    low, high, outside = ["0"], [count], []
    for condition in dict.fromkeys(conditions):
        if condition.bounds(extents)[0] >= 0:
            continue
        step = condition.coefficient(lane)
        rest = Index.sum(((a, c) for a, c in condition.terms if a != lane), condition.constant)
        if lane in rest.iterators():
            return None
        if step == 0:
            outside.append(condition_text(condition))
        elif step > 0:
            low.append(f"({index_text(rest * -1 + (step - 1))}) / {step}" if step > 1 else index_text(rest * -1))
        else:
            ends = f"({index_text(rest)}) / {-step}" if step < -1 else index_text(rest)
            high.append(f"({index_text(rest)} < 0 ? 0 : {ends} + 1)")
    begin, end = text.name("begin"), text.name("end_of_lanes")
    with_outside = f"!({' && '.join(outside)}) ? {count} : " if outside else ""
    text.add(f"const int {begin} = {with_outside}fn_min({_extreme('>', low)}, int({count}));", link)
    text.add(f"const int {end} = {_extreme('<', high)};", link)
    return LaneRange(begin, end)


def _extreme(sign: str, values: list[str]) -> str:
    """The largest (smallest) of some numbers in C++."""
    found = f"int({values[0]})"
    for value in values[1:]:
        name = "fn_max" if sign == ">" else "fn_min"
        found = f"{name}(int({value}), {found})"
    return found
