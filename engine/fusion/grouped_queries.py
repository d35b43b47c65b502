"""Grouped queries: heads of queries that share a head of keys and values are rows of one tile, so that a block copies
each tile of keys once for all of them.

    s[h, q, k] = sum(r) Q[h, q, r] * K[h / 8, k, r]    ->    s[g, u, q, k] = sum(r) Q[8 g + u, q, r] * K[g, k, r]

A single query of each head then fills a tile with its group, where it alone would leave 15 of 16 rows empty.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from engine.fusion.attention import Attention, Finder
from engine.fusion.axis_splitting import Splits, digits, inner_of, quotient, split
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Array, Statement, TensorProgram
from engine.tensor.rewrite import rewrite_reads


def group_queries(
    found: Attention, statements: Sequence[Statement], axes: Mapping[tuple[str, str], int],
    arrays: Mapping[str, Array], outside: Collection[str],
) -> Iterator[tuple[Splits, Attention, tuple[Statement, ...]]]:
    """The ways to make heads that share their keys and values rows: the loops that are cut, then the attention and its
    statements as they are with that.

    statements: nothing is inlined into them any more.  axes: (statement, iterator) -> the axis that it walks.  outside:
    arrays that others read.  Raises Unsupported where the statements are no attention any more.
    """
    scores = next(s for s in statements if s.name == found.scores.name)
    for iterator, shared_by in dict.fromkeys(_divisions(scores, [i.name for i in found.batch])):
        heads = axes[scores.name, iterator]
        splits = {(s.name, i.name): shared_by for s in statements for i in s.iterators if axes[s.name, i.name] == heads}
        own = {name: arrays[name] for s in statements for name in s.arrays}
        cut = TensorProgram("", own, tuple(split(s, splits) for s in statements), (), tuple(outside))
        program = with_axis_of_each_loop(cut)
        after = Finder(program).find(program.statement(found.values.name))
        of_values = next(name for statement, name in splits if statement == found.values.name)
        if after is not None and _is_shared(after, inner_of(iterator), inner_of(of_values)):
            yield splits, after, program.statements


def _divisions(scores: Statement, batch: Collection[str]) -> Iterator[tuple[str, int]]:
    """(iterator of heads, how many share a head of what is read), as the scores read their factors."""
    for index in (index for access in scores.reads() for index in access.indices):
        for atom in index.atoms():
            name, shared_by = quotient(Index.of(atom)) or ("", 1)
            if name in batch and scores.extents[name] % shared_by == 0:
                yield name, shared_by


def _is_shared(found: Attention, member: str, of_values: str) -> bool:
    """Whether neither keys nor values move with the loop over the heads of a group, which walks queries.

    member: that loop of the scores.  of_values: the same loop of the second product.
    """
    is_row = member in [i.name for i in found.queries]
    moved = (i for a in found.values.reads() if a.array != found.weights for i in a.indices)
    return is_row and not any(of_values in index.iterators() for index in moved)


def with_axis_of_each_loop(program: TensorProgram) -> TensorProgram:
    """The program with two axes in place of one that two loops walk, in the arrays that nobody outside sees.

    s[8 * g + u, q] = ..;  t[8 * g + u, q] = s[8 * g + u, q] * 2    ->    s[g, u, q] = ..;  t[g, u, q] = s[g, u, q] * 2
    """
    inner = _inner_loops(program)

    def own(access: Access) -> Access:
        found: list[Index] = []
        for axis, index in enumerate(access.indices):
            if (access.array, axis) in inner:  # the outer loop has the larger factor
                found += [Index.of(atom) for atom, _ in sorted(index.terms, key=lambda term: -term[1])]
            else:
                found.append(index)
        return replace(access, indices=tuple(found))

    def cut(array: Array) -> Array:
        shape: list[int] = []
        for axis, size in enumerate(array.shape):
            by = inner.get((array.name, axis))
            shape += [size // by, by] if by else [size]
        return replace(array, shape=tuple(shape))

    return replace(
        program,
        arrays={name: cut(array) for name, array in program.arrays.items()},
        statements=tuple(replace(rewrite_reads(s, own), write=own(s.write)) for s in program.statements),
    )


def _inner_loops(program: TensorProgram) -> dict[tuple[str, int], int]:
    """(array, axis) -> points of the inner loop, of axes that every access walks by two loops alike."""
    private = {s.write.array for s in program.statements} - {*program.outputs, *program.inputs}
    walked: dict[tuple[str, int], set[int]] = {}
    for statement in program.statements:
        for access in (statement.write, *statement.reads()):
            for axis, index in enumerate(access.indices) if access.array in private else ():
                walked.setdefault((access.array, axis), set()).add(_inner_loop(index, statement.extents))
    return {place: min(sizes) for place, sizes in walked.items() if len(sizes) == 1 and min(sizes)}


def _inner_loop(index: Index, extents: Mapping[str, int]) -> int:
    """Points of the inner of the two loops that an index consists of; 0 for other indices."""
    places = sorted((place, name) for name, place in digits(index, extents).items())
    if len(places) != 2 or len(index.terms) != 2 or index.constant:
        return 0
    (one, inner), (by, _) = places
    return by if one == 1 and by == extents[inner] else 0
