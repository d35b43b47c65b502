"""Kernels around products, alike under every policy: a matrix product or convolution with its element-wise epilogue.

    MatMul, Add, Mul, Softmax, MatMul   ->   [MatMul Add Mul] Softmax [MatMul]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.fusion.crop_arrays import writes_block
from engine.fusion.group_signature import ShapeCache, in_names_of, likeness
from engine.fusion.group_times import GroupTimes
from engine.fusion.legality import row_bytes
from engine.fusion.shape import ONE_BLOCK, Shape, common_shape, is_contraction, is_of_codes, summed_factors
from engine.fusion.stitched import FEW_VECTORS, MOST_VECTORS, fewest_vectors, stitched_shape
from engine.fusion.stitching.dataflow import Flow
from engine.fusion.stitching.kernel_graph import joins_of
from engine.fusion.stitching.nodes import Fixed
from engine.fusion.stitching.shared_memory import stitched_limit
from engine.support.values import value
from engine.tensor.nodes import Access, Array, Statement, without_casts

MOST_STEPS = 8
"""One after the other that a product with a vector does to a factor."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """One product with what its kernel takes in."""

    statements: tuple[Statement, ...]
    shape: Shape


@value(frozen=True, slots=True)
class _Grown:
    """A kernel that grows: its loop space gets the names of its own statements when it has all of them."""

    steps: tuple[int, ...]
    statements: tuple[Statement, ...]
    shape: Shape
    names: tuple[str, ...]
    """Of its statements in `shape`."""

    def anchor(self) -> Anchor:
        """What has grown."""
        return Anchor(self.statements, in_names_of(self.statements, self.names, self.shape))


def is_product(statement: Statement) -> bool:
    """A sum of products of elements of two arrays: what libraries have kernels for, depth-wise convolutions included.

    Squares and weighted means of computed values are none: they are memory-bound reductions.
    """
    if is_contraction(statement):
        return True
    factors = summed_factors(statement)
    if factors is None:
        return False
    left, right = (without_casts(factor) for factor in factors)
    return isinstance(left, Access) and isinstance(right, Access) and left.array != right.array


def anchors(flow: Flow, times: GroupTimes, fixed: Fixed) -> list[Anchor]:
    """Every product of a flow of single statements, grown by its epilogue, and by what is done to single factors.

    times: of groups of the flow's program.  fixed: operators that a person keeps out of one kernel.
    """
    growth = _Growth(flow, times, fixed)
    for n in sorted(range(len(flow.steps)), key=flow.order.__getitem__):
        step = flow.steps[n]
        if step.closed:
            continue
        if any(map(is_product, step.statements)):
            growth.start(n)
        elif all(s.reduction is None for s in step.statements):
            growth.take_in(n)
    return [product.anchor() for product in growth.products.values()]


class _Growth:
    """Kernels of the products of one flow while they grow, in the order of data flow."""

    def __init__(self, flow: Flow, times: GroupTimes, fixed: Fixed) -> None:
        self._flow, self._fixed, self._joins = flow, fixed, joins_of(flow)
        self._shapes, self._shared_limit, self._times = ShapeCache(), stitched_limit(times.target), times
        self._home: dict[int, int] = {}
        """Step -> the product whose kernel it is in."""
        self.products: dict[int, _Grown] = {}

    def start(self, anchor: int) -> None:
        """A product with what is done to its factors alone, such as a cast, where no memory-bound kernel is near."""
        flow, home = self._flow, self._home
        home[anchor] = anchor
        product = self._kernel((anchor,))
        assert product is not None, anchor
        # The factors of a tiled product are copied as they stand, but for one step; a product with a vector computes
        # them where it reads them, such as weights of codes.
        longest = 1 if any(map(is_contraction, flow.steps[anchor].statements)) else MOST_STEPS
        for n in flow.producers[anchor]:
            chain = self._chain(n, anchor, longest)
            grown = self._kernel((*chain, *product.steps)) if chain else None
            # A prologue must not cost the product its tiles: no other kind of kernel is as fast.
            if grown is None or grown.shape.kind != product.shape.kind:
                continue
            if self._pays(product, chain, grown):
                product = grown
                home.update(dict.fromkeys(chain, anchor))
        self.products[anchor] = product
        if len(product.steps) > 1:
            self._joins.join(self._numbers(product.steps))

    def _pays(self, product: _Grown, chain: tuple[int, ...], grown: _Grown) -> bool:
        """Whether a product is faster with what is done to a factor.  Always, but for codes: every block takes those of
        its tiles apart again, which may cost more than a kernel that does so once."""
        made = self._flow.statements(chain)
        if not grown.shape.kind.is_product or not any(is_of_codes(s.expression) for s in made):
            return True
        alone = self._kernel(chain)
        if alone is None:
            return True
        whole, *parts = (one.anchor() for one in (grown, product, alone))
        saving = self._times.saving((whole.statements, whole.shape), ((p.statements, p.shape) for p in parts))
        return saving.pays

    def _chain(self, n: int, reader: int, longest: int) -> tuple[int, ...]:
        """A step that only `reader` reads, behind those steps that only serve it; empty where others are in between."""
        flow, home = self._flow, self._home
        step = flow.steps[n]
        if longest < 1 or n in home or step.closed or flow.consumers[n] != (reader,):
            return ()
        before: tuple[int, ...] = ()
        for p in flow.producers[n]:
            if p in home or flow.steps[p].closed:
                continue
            chain = self._chain(p, n, longest - 1)
            if not chain or any(s.reduction is not None for s in flow.steps[p].statements):
                return ()
            before += chain
        return (*before, n)

    def take_in(self, n: int) -> None:
        """Put an element-wise step into the kernel of a product that it reads from, the one handing over most first."""
        flow, home = self._flow, self._home
        arrays = flow.program.arrays

        def handed_bytes(anchor: int) -> int:
            return sum(arrays[a].bytes for p in flow.producers[n] if home.get(p) == anchor for a in flow.steps[p].made)

        ranked = list({home[p] for p in flow.producers[n] if p in home})
        if len(ranked) > 1:  # most steps read one product: nothing to count
            ranked.sort(key=lambda anchor: (-handed_bytes(anchor), flow.order[anchor]))
        for anchor in ranked:
            steps = (*self.products[anchor].steps, n)
            if self._is_kept_apart(steps):
                continue
            grown = self._kernel(steps)
            if grown is None or not self._is_worth_its_tiles(self.products[anchor], n, grown):
                continue
            # The steps of a product are joined already: one of them stands for all.
            if self._joins.join(self._numbers((anchor, n))):
                self.products[anchor] = grown
                home[n] = anchor
                return

    def _is_worth_its_tiles(self, product: _Grown, n: int, grown: _Grown) -> bool:
        """Whether a kernel that makes a product without tiles, as a step asks for, is no slower than two."""
        if not (product.shape.kind.is_product and grown.shape.kind.hands_over):
            return True
        anchors = [s for s in product.statements if is_contraction(s)]
        alone = self._kernel((n,))
        if alone is None or all(fewest_vectors(s) <= FEW_VECTORS for s in anchors):
            return True
        whole, *parts = (one.anchor() for one in (grown, product, alone))
        saving = self._times.saving((whole.statements, whole.shape), ((p.statements, p.shape) for p in parts))
        return saving.pays

    def _numbers(self, steps: Sequence[int]) -> tuple[int, ...]:
        """The steps among those of `joins_of`."""
        return tuple(self._flow.order[n] for n in steps)

    def _is_kept_apart(self, steps: Sequence[int]) -> bool:
        """Whether a person keeps some operators of these steps out of one kernel."""
        if not self._fixed.apart:
            return False
        return bool(self._fixed.why_apart({s.operator for s in self._flow.statements(steps)}))

    def _kernel(self, steps: tuple[int, ...]) -> _Grown | None:
        """Steps with their common loop space; None where they have none."""
        program, statements = self._flow.program, self._flow.statements(steps)
        kept = program.needed_outside(statements)

        def find() -> Shape | str:
            return _shape(statements, kept, program.arrays, self._shared_limit)

        names, shape = self._shapes.first(likeness(statements, kept), statements, find)
        return None if isinstance(shape, str) else _Grown(steps, statements, shape, names)


def _shape(
    statements: Sequence[Statement], kept: frozenset[str], arrays: Mapping[str, Array], shared_limit: int
) -> Shape | str:
    """The loop space of a product with what its kernel takes in: its own, or that of blocks which own single results.

    Such blocks have results that lie apart, as the gates of a recurrent cell do, and hand them to many elements.
    """
    shape = common_shape(statements, kept)
    if isinstance(shape, Shape):
        return shape
    stitched = stitched_shape(statements, kept, MOST_VECTORS)
    if isinstance(stitched, str) or not all(s.covers or writes_block(s, arrays) for s in statements):
        return shape  # scattered parts of an array would make kernels of their own of equal steps
    own = [s for s in statements if s.name not in stitched.inlined]
    rows = stitched.row_points
    if max(s.points for s in own) > rows * ONE_BLOCK:
        return shape
    return stitched if sum(row_bytes(stitched, own, arrays).values()) <= shared_limit else shape
