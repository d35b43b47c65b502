"""Images are stored with their channels last inside a plan, where convolutions gain by it.

    x[n, c, y, x]     ->     x[n, y, x, c]

A window then reads neighbouring channels: whole vectors, whatever its stride and its padding.  Tensors that somebody
else than a kernel reads or writes, the graph's inputs and outputs among them, stay as they are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from engine.fusion.operator_folding import Folded
from engine.fusion.shape import is_contraction
from engine.graph.convolution_weights import CONVOLUTIONS
from engine.graph.nodes import Constant, OperatorGraph
from engine.support.grouping import UnionFind
from engine.target.hardware import VECTOR_BYTES
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Array, Iterator, Statement, TensorProgram
from engine.tensor.rewrite import looked_up, plain_iterator, rewrite_reads

FEWEST_AXES = 3
"""Of an image: batch, channels, one spatial axis."""
CHANNELS = 1
"""Axis of an image's channels."""
SINGLE_BYTES = 4
"""Of the elements that single copies serve best: half as many bytes are as many copies, and each a longer way."""
OF_MEANS = 8
"""What a mean of planes loses for each byte, next to what a product gains: its terms lie apart where channels are last,
and few blocks share them."""


def store_channels_last(folded: Folded, graph: OperatorGraph) -> Folded:
    """The program with those images stored channels last whose convolutions gain more than others lose, and with
    weights to match, where the graph has them as constants.
    """
    program, names = folded.program, {op.name for op in graph.operators if op.kind in CONVOLUTIONS}
    convolutions = [s for s in program.statements if s.operator in names] if names else []
    if not convolutions:
        return folded
    images = _Images(program)
    for statement in filter(is_contraction, convolutions):
        images.vote(statement)
    chosen = images.choice()
    if not chosen:
        return folded
    orders = {name: _last(len(program.arrays[name].shape)) for name in chosen}
    weights = {
        array: graph.constants[graph.channels_last[array]]
        for s in convolutions if not chosen.isdisjoint(s.sources) for array in s.sources if array in graph.channels_last
    }  # fmt: skip
    return replace(folded, program=_reorder(program, orders, weights, graph), orders=orders)


def _last(rank: int) -> tuple[int, ...]:
    """The order of axes that has the channels last."""
    return (0, *range(CHANNELS + 1, rank), CHANNELS)


class _Images:
    """The arrays of a program that may be stored otherwise, and what convolutions and others want of them."""

    def __init__(self, program: TensorProgram) -> None:
        self._program = program
        written = {s.write.array for s in program.statements}
        fixed = {*program.inputs, *program.outputs}
        looked = {array for s in program.statements for array in looked_up(s)}
        self._free = {name for name in written - fixed - looked if _is_image(program.arrays[name])}
        self._alike = UnionFind(self._free)
        """Arrays that element-wise statements, poolings and depthwise convolutions tie to each other."""
        self._gains: Counter[str] = Counter()
        """Bytes that are moved in whole vectors with channels last, less those that no longer are."""
        for statement in program.statements:
            if not is_contraction(statement):
                self._join(statement)

    def _join(self, statement: Statement) -> None:
        """Arrays of one arrangement are stored alike; those that stay as they are are read or written across."""
        channel = self._channel(statement.write)
        tied = [a for a in (statement.write, *statement.reads()) if channel.terms and self._channel(a) == channel]
        free = [access.array for access in tied if access.array in self._free]
        for name in free:
            self._alike.union(free[0], name)
        for access in tied if free else ():
            if access.array not in self._free:
                self._gains[free[0]] -= 2 * self._program.arrays[access.array].bytes
        for access in statement.reads():
            if access.array in self._free and self._is_of_planes(statement, access):
                self._gains[access.array] -= OF_MEANS * self._program.arrays[access.array].bytes

    @staticmethod
    def _is_of_planes(statement: Statement, access: Access) -> bool:
        """Whether a statement reduces whole planes of an image."""
        spatial = {name for index in access.indices[CHANNELS + 1 :] for name in index.iterators()}
        return bool(spatial) and spatial <= {i.name for i in statement.reduced}

    def _channel(self, access: Access) -> Index:
        """Which channel of an image is read or written, wherever a part of them begins; 0 where the array is none."""
        is_image = _is_image(self._program.arrays[access.array])
        return replace(access.indices[CHANNELS], constant=0) if is_image else Index()

    def vote(self, convolution: Statement) -> None:
        """A convolution reads its image, and writes its result, in whole vectors where channels are last."""
        reduced = {i.name for i in convolution.reduced}
        images = [a for a in convolution.reads() if _sums_channels(a, self._program.arrays, reduced)]
        for access in (convolution.write, *images):
            array = self._program.arrays[access.array]
            width = VECTOR_BYTES * array.elements // array.bytes
            own = [i for i in convolution.iterators if i.name in access.indices[CHANNELS].iterators()]
            if access.array in self._free and own and own[-1].extent % width == 0:
                narrow = (SINGLE_BYTES * array.elements // array.bytes) ** 2
                self._gains[access.array] += array.bytes * narrow * self._copies(access, convolution, width)

    @staticmethod
    def _copies(access: Access, convolution: Statement, width: int) -> int:
        """How often an element of an image is copied alone, about; 1 for one that is written."""
        if access is convolution.write:
            return 1
        spatial = access.indices[CHANNELS + 1 :]
        if all(plain_iterator(index) for index in spatial if index.terms):  # a product of planes, in whole vectors
            points = math.prod(convolution.extents[name] for index in spatial for name in index.iterators())
            return 0 if points % width == 0 else 1
        return 1 + sum(len(index.iterators()) > 1 for index in spatial)

    def choice(self) -> frozenset[str]:
        """The arrays to store channels last."""
        together: Counter[str] = Counter()
        for name, gain in self._gains.items():
            together[self._alike[name]] += gain
        return frozenset(name for name in self._free if together[self._alike[name]] > 0)


def _is_image(array: Array) -> bool:
    """Whether an array has channels and somewhere to slide along."""
    shape = array.shape
    return len(shape) >= FEWEST_AXES and shape[CHANNELS] > 1 and math.prod(shape[CHANNELS + 1 :]) > 1


def _sums_channels(access: Access, arrays: Mapping[str, Array], reduced: set[str]) -> bool:
    """Whether a convolution's factor is its image: whose batches are no part of the sum, whose channels are."""
    if not _is_image(arrays[access.array]) or not reduced.isdisjoint(access.indices[0].iterators()):
        return False
    return not reduced.isdisjoint(access.indices[CHANNELS].iterators())


def _reorder(
    program: TensorProgram, orders: Mapping[str, tuple[int, ...]], weights: Mapping[str, Constant], graph: OperatorGraph
) -> TensorProgram:
    """The program over arrays in other orders.  weights: those of convolutions whose image is among them."""
    arrays = dict(program.arrays)
    for name, order in orders.items():
        arrays[name] = replace(arrays[name], shape=tuple(arrays[name].shape[axis] for axis in order))
    taken = [constant.tensor for constant in weights.values()]
    arrays |= {name: Array(name, graph.tensors[name].shape, graph.tensors[name].dtype) for name in taken}
    statements = [_in_order(s, orders, weights) for s in program.statements]
    inputs, constants = (*program.inputs, *taken), (*program.constants, *taken)
    return replace(program, arrays=arrays, inputs=inputs, constants=constants).restrict(statements, program.outputs)


def _in_order(
    statement: Statement, orders: Mapping[str, tuple[int, ...]], weights: Mapping[str, Constant]
) -> Statement:
    """The statement over arrays in other orders, its loops in the order of what it writes and of what it sums."""
    if orders.keys().isdisjoint(statement.arrays):
        return statement
    constants = {} if orders.keys().isdisjoint(statement.sources) else weights

    def own(access: Access) -> Access:
        constant = constants.get(access.array)
        order = constant.order if constant else orders.get(access.array)
        if order is None:
            return access
        name = constant.tensor if constant else access.array
        return replace(access, array=name, indices=tuple(access.indices[axis] for axis in order))

    made = replace(rewrite_reads(statement, own), write=own(statement.write))
    widest = max(made.reads(), key=lambda access: len(access.indices), default=made.write)
    ordered = (*_by_place(made.parallel, made.write.indices), *_by_place(made.reduced, widest.indices))
    reduction = made.reduction
    if reduction is not None:
        reduction = replace(reduction, iterators=tuple(i.name for i in ordered if i.name in reduction.iterators))
    return replace(made, iterators=ordered, reduction=reduction)


def _by_place(iterators: Iterable[Iterator], indices: Sequence[Index]) -> list[Iterator]:
    """Iterators in the order in which indices name them; those that none names stay in front."""
    place = {name: at for at, index in reversed(list(enumerate(indices))) for name in index.iterators()}
    return sorted(iterators, key=lambda i: place.get(i.name, -1))
