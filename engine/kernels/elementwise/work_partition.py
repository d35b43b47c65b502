"""How the elements of an element-wise kernel are shared out to blocks and threads.

    block 1 @ i of [i < 4096, j < 768]    ->    a block takes the 768 elements of one row
    block 4096 @ j                        ->    a block takes 4096 neighbouring elements, over the ends of rows
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.kernels.marks import Marks, up_to
from engine.scheduling.nodes import Member
from engine.target.hardware import MAX_THREADS

THREADS = 256
"""Threads of a block where no mark asks for another number."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one block does: `steps` times `threads` times the elements that a thread owns, `elements` in all."""

    elements: int
    threads: int
    steps: int
    blocks: int


def share_elements(members: Sequence[Member], marks: Marks, each: int) -> Share:
    """The launch that `thread` and `block` marks ask for; without them 256 threads with one portion each.

    members: the dimensions whose points are the elements, outermost first.  each: elements that a thread owns at
    a time.
    """
    total = math.prod(m.extent for m in members)
    threads = marks.number("thread", THREADS, up_to(MAX_THREADS), f"at most {MAX_THREADS}")
    together = threads * each
    most = -(-total // together) * together

    def inside(member: Member) -> int:
        position = next(k for k, m in enumerate(members) if m is member)
        return math.prod(m.extent for m in members[position + 1 :])

    def whole_portions(asked: int) -> int:
        return -(-min(asked, most) // each) * each

    needs = f"whole portions of {each}, at most {most} elements"
    elements = marks.number("block", together, whole_portions, needs, elements=inside)
    return Share(elements, threads, -(-elements // together), -(-total // elements))
