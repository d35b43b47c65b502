"""Element-wise kernels that read an array across the direction in which they write: a square tile in shared memory.

    y[i,j] = x[j,i]     a 32 x 32 tile of x is read along its rows, and written along the rows of y
The tile's rows are one element longer than 32, so that its columns lie in 32 different banks.
"""

from __future__ import annotations

import math

from engine.codegen.block import evaluate_block
from engine.codegen.elementwise import bind_members, place
from engine.codegen.emit import Emitter, at
from engine.codegen.marks import Marks
from engine.codegen.nest import Nest, without_loops
from engine.codegen.nodes import Line
from engine.codegen.tile import Barrier, Buffer, Load, Slot, Store, TileProgram
from engine.fuse.nodes import FusionGroup
from engine.schedule.nodes import Member
from engine.tensor.access import position, stride
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Literal, Statement, TensorProgram
from engine.tensor.rewrite import plain_iterator, rewrite_reads

TILE = 32
ROWS = 8
"""Rows of a tile that a block of 32 x 8 threads handles at once."""


def transposed_read(program: TensorProgram, nest: Nest) -> tuple[Statement, Access, Member] | None:
    """A read that is contiguous along another dimension than the last one, with that dimension."""
    if len(nest.outer) < 2:
        return None
    last = nest.outer[-1]
    for statement in nest.statements:
        for access in statement.reads():
            if access.array not in program.inputs or access.guards or any(i.elements() for i in access.indices):
                continue
            where = position(access, program.arrays)
            along = plain_iterator(last.rows[statement.name])
            if along is None or stride(where, along) in (0, 1, None):
                continue
            for member in nest.outer[:-1]:
                name = plain_iterator(member.rows[statement.name])
                if name is not None and stride(where, name) == 1:
                    return statement, access, member
    return None


def lower_transpose(group: FusionGroup, nest: Nest, marks: Marks) -> TileProgram:
    """One kernel with one shared tile for the transposed read; every other read is direct."""
    without_loops(nest, nest.statements)
    marks.number("tile", TILE, lambda asked: TILE, f"tiles of {TILE} x {TILE}")
    program, last = group.program, nest.outer[-1]
    found = transposed_read(program, nest)
    assert found is not None
    reader, access, across = found
    others = tuple(m for m in nest.outer if m not in (last, across))
    tiles = (-(-across.extent // TILE), -(-last.extent // TILE))
    emitter = Emitter(program, math.prod(m.extent for m in others) * math.prod(tiles), TILE * ROWS)
    names = tuple(m.name for m in nest.outer)
    link = Line((reader.name,), names)
    block, thread = Index.of("block"), Index.of("thread")
    lane = emitter.bind("lane", thread.mod(TILE, emitter.extents), link)
    warp = emitter.bind("warp", thread.floordiv(TILE, emitter.extents), link)
    tile_across = emitter.bind("tile_across", block.floordiv(tiles[1], emitter.extents).mod(tiles[0], emitter.extents))
    tile_last = emitter.bind("tile_last", block.mod(tiles[1], emitter.extents), link)
    flat = block.floordiv(math.prod(tiles), emitter.extents)
    batch = bind_members(emitter, others, flat, tuple(m.extent for m in others)) if others else {}

    tile = f"{access.array}_tile"
    dtype = program.arrays[access.array].dtype
    emitter.buffers[tile] = Buffer(tile, dtype, (TILE * (TILE + 1),), "shared")
    with emitter.loop("step", TILE // ROWS, link) as step:
        row = emitter.bind("row", step * ROWS + warp, link)
        variables = batch | {
            across.name: emitter.bind(f"{across.name}_read", tile_across * TILE + lane, link),
            last.name: emitter.bind(f"{last.name}_read", tile_last * TILE + row, link),
        }
        inside = _inside(emitter, variables, (across, last), link)
        source = emitter.position(access, place(reader, nest.outer, variables), link)
        held = emitter.register(f"{access.array}_element", dtype)
        emitter.read_from.add(access.array)
        emitter.add(Load(Slot(held), access.array, source, 1, inside, Literal(0, dtype), link))
        emitter.add(Store(tile, row * (TILE + 1) + lane, Slot(held), 1, None, link))
    emitter.add(Barrier(link))
    with emitter.loop("step", TILE // ROWS, link) as step:
        row = emitter.bind("row", step * ROWS + warp, link)
        variables = batch | {
            across.name: emitter.bind(across.name, tile_across * TILE + row, link),
            last.name: emitter.bind(last.name, tile_last * TILE + lane, link),
        }
        inside = _inside(emitter, variables, (across, last), link)
        turned = emitter.register(f"{access.array}_turned", dtype)
        emitter.add(Load(Slot(turned), tile, lane * (TILE + 1) + row, 1, None, None, at(reader, *names)))
        _evaluate(emitter, nest, variables, access, turned, inside)
    return emitter.finish(
        group,
        constants={"TILE": TILE, "ACROSS": across.extent, "ALONG": last.extent},
        assertions=((f"THREADS == TILE * {ROWS}", "a thread moves every eighth row of the tile"),),
        placements={
            s.name: "register: the same thread makes and writes it" for s in program.statements if s is not reader
        }
        | {reader.name: f"shared memory: {access.array} is read along {across.name} and written along {last.name}"},
    )


def _inside(emitter: Emitter, variables: dict[str, Index], members: tuple[Member, ...], link: Line) -> str | None:
    return emitter.mask(
        emitter.fresh("inside"), [Index((), m.extent - 1) - variables[m.name] for m in members], link
    )


def _evaluate(
    emitter: Emitter, nest: Nest, variables: dict[str, Index], access: Access, turned: str, inside: str | None
) -> None:
    """All statements at one element; the transposed read comes from the tile."""
    emitter.masked = frozenset(i.name for s in nest.statements for i in s.iterators)
    replaced = [_with_tile(s, access, turned) for s in nest.statements]
    evaluate_block(
        emitter,
        replaced,
        lambda s: place(s, nest.outer, variables),
        {turned: Access(turned, ())},
        mask=inside,
        store_mask=inside,
        stored=frozenset(emitter.program.outputs),
        dimensions=tuple(m.name for m in nest.outer),
    )


def _with_tile(statement: Statement, access: Access, turned: str) -> Statement:
    return rewrite_reads(statement, lambda read: Access(turned, ()) if read == access else read)
