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


ELEMENTWISE = Kind("element-wise", is_elementwise=True)
LAYOUT = Kind("layout", is_elementwise=True)
REDUCTION = Kind("reduction", keeps_rows=True)
ROW_REDUCTION, COLUMN_REDUCTION = (Kind(f"{where} reduction", keeps_rows=True) for where in ("row", "column"))
"""What a reduction is called once it is known along which axis its reads are contiguous."""
CONTRACTION = Kind("contraction", is_product=True, takes_reductions=True)
ATTENTION = Kind("attention", is_product=True)
STITCHED = Kind("stitched", hands_over=True)
PACKED = Kind("packed", has_parts=True)
