"""How the flattened elements of an element-wise kernel are shared out to blocks, threads and vectors.

    block 1 @ i of [i < 4096, j < 768]    ->    a block takes the 768 elements of one row
    block 4096 @ j                        ->    a block takes 4096 neighbouring elements, over the ends of rows
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.codegen.nest import Nest
from engine.codegen.width import Width
from engine.schedule.nodes import Mark, Member

THREADS = 256
"""Threads of a block where no mark asks for another number."""
MAX_THREADS = 1024


@dataclass(frozen=True, slots=True)
class Share:
    """Work of one block: `steps` times `threads` vectors, up to `elements` elements."""

    elements: int
    threads: int
    steps: int
    blocks: int
    notes: Mapping[tuple[int, ...], str]
    """Marks that the launch does not follow as given, and what it does instead."""


def share_elements(nest: Nest, width: Width) -> Share:
    """The launch that the `block` and `thread` marks ask for; without them 256 threads with a vector each."""
    total = math.prod(m.extent for m in nest.outer)
    thread = nest.chosen("thread")
    threads = min(int(thread[1].value), MAX_THREADS) if thread else THREADS
    block = nest.chosen("block")
    notes = dict(_unheard(nest, threads))
    elements = threads * width.elements
    if block:
        asked = min(_elements(nest, *block), total)
        elements = -(-asked // width.elements) * width.elements
        if elements != asked:
            notes[block[1].path] = f"a block takes {elements} elements: whole vectors of {width.elements}"
    return Share(
        elements=elements,
        threads=threads,
        steps=-(-elements // (threads * width.elements)),
        blocks=-(-total // elements),
        notes=notes,
    )


def _elements(nest: Nest, member: Member, mark: Mark) -> int:
    """Elements of a block that takes so many neighbouring values of a dimension, counted through the outer ones."""
    inner = nest.outer[nest.outer.index(member) + 1 :]
    return int(mark.value) * math.prod(m.extent for m in inner)


def _unheard(nest: Nest, threads: int) -> Iterator[tuple[tuple[int, ...], str]]:
    """Notes for marks that ask for something else than what was chosen."""
    for _, mark in nest.marks("thread"):
        if mark.value != threads:
            limit = f", the most there can be is {MAX_THREADS}" if int(mark.value) > MAX_THREADS else ""
            yield mark.path, f"a block has {threads} threads{limit}"
    block = nest.chosen("block")
    for member, mark in nest.marks("block"):
        if block is not None and _elements(nest, member, mark) != _elements(nest, *block):
            yield mark.path, f"the block of {block[1].author} comes first: {block[1].value} of {block[0].name}"
