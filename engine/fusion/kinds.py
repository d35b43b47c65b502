"""Kinds of kernels that fusion plans: each is one value here, with the answers to all that fusion asks of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """How the statements of one kernel share its loops."""

    name: str
    """What groups, documents and saved files call it."""
    is_elementwise: bool = False
    """Every thread computes elements by itself."""
    is_product: bool = False
    """Tiles of matrix products are the main loop."""
    takes_reductions: bool = False
    """A row reduction of its results may join the kernel."""
    keeps_rows: bool = False
    """Threads keep their elements of a row in registers from one loop over it to the next."""
    hands_over: bool = False
    """Statements have loops of their own within a block, which hands values over in shared memory."""
    has_parts: bool = False
    """Statements form parts that no value connects, each with blocks of its own."""
    meets_as_grid: bool = False
    """All its blocks meet between parts, which hand values over in global memory."""
    is_pattern: bool = False
    """A known pattern of operators, called by the kind's name in place of theirs."""
    goes_by_axis: bool = False
    """Not settled yet: a row or a column reduction, by the layout of what is reduced."""
    combines_warps: bool = False
    """Several warps contribute to one result, which they combine in shared memory."""


ELEMENTWISE = Kind("element-wise", is_elementwise=True)
LAYOUT = Kind("layout", is_elementwise=True)
REDUCTION = Kind("reduction", keeps_rows=True, goes_by_axis=True)
ROW_REDUCTION = Kind("row reduction", keeps_rows=True)
COLUMN_REDUCTION = Kind("column reduction", keeps_rows=True, combines_warps=True)
"""What a reduction is called once it is known along which axis its reads are contiguous."""
CONTRACTION = Kind("contraction", is_product=True, takes_reductions=True)
ATTENTION = Kind("attention", is_product=True, is_pattern=True)
CHAINED = Kind("chained products", is_product=True)
"""Two products in a row: a block has whole rows of the first one's results, and the second weighs with what it makes of
them."""
STITCHED = Kind("stitched", hands_over=True)
PACKED = Kind("packed", has_parts=True)
RECURRENCE = Kind("recurrence", meets_as_grid=True)
"""Steps that each need all of what the one before made."""
